"""Schemas of the registry for those who develop an application: pinned, compared, written by; records shown by them."""
