"""What a person does with a federation: submit, follow, fetch, try."""
