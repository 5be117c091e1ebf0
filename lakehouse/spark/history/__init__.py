"""A table at any moment of its past, and rows rebuilt from bronze."""
