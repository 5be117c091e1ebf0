"""The fate of every offset that a table has taken in; and damage to tables: made for drills, and detected."""
