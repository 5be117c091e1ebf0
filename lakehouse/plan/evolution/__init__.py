"""A declaration that changes: how it is written down, what differs, and what that means for the table that exists."""
