"""What became of every offset, and damage: made on purpose, found, and compared."""
