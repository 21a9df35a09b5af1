"""Damaged files: whatever happens to a file, its reader says so in fedloom's own words.

`python -m verification.damage --count 2000` writes one good set of files of every kind, damages one
file at a time, and reads it as a user would. A reader fails where anything but a FedloomError comes
out, where the error does not name the file, and where a file with a checksum is taken although it
has changed. Each case is known by its kind and number, so that `--seed` and `--only` repeat it.
"""
