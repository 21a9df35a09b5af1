"""How fast rounds go, beside other ways of computing the same rounds."""
