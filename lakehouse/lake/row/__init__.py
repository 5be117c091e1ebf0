"""Rows of a table: what differs, since when, and which record set them."""
