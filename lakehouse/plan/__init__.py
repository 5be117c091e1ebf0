"""Declarations as frozen values, and the checks that refuse an impossible one."""
