"""What became of every offset; damage to tables: done on purpose, detected, and compared."""
