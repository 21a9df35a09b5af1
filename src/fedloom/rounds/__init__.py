"""One round as a program: who answers, with which random numbers, and what is traced."""
