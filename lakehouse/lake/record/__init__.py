"""Records of bronze, and those of a quarantine."""
