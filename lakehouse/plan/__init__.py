"""Declarations as frozen values, the checks that refuse one that can't be kept, and the model that runs one."""
