"""A table at any moment of its past, and rows made anew from bronze."""
