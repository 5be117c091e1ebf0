"""A changed declaration: how it is written down, what differs, and what that means for the existing table."""
