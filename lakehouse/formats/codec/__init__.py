"""The formats, a file each: bytes to the row of a key or a value, and back. `codec.py` says what each does."""
