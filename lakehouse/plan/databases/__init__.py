"""Change logs of databases, and snapshots of tables, as streams."""
