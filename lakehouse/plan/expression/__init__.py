"""Columns and their types, expressions over them, the checks of both, and the functions of users."""
