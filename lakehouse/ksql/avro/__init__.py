"""Columns of streams and tables out of a registry's schemas that are pinned in files beside the statements."""
