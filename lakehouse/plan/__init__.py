"""Declarations as frozen values, and the checks that refuse one that can't be kept."""
