"""Records erased on request, everywhere in a lake, and searches that prove it."""
