"""Declarations as text, and changed declarations: the differences, and their meaning for the existing table."""
