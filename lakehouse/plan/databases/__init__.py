"""Change logs of databases as streams."""
