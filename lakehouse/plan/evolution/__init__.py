"""A declaration as text, and a changed one: what differs, and what that means for the existing table."""
