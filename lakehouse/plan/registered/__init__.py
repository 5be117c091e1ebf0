"""The schemas of a registry, of whatever kind: those of writers, and those pinned in files."""
