"""`lakehouse sql`: statements from a file, a line, or the interactive shell."""
