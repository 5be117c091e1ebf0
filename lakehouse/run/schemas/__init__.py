"""Schemas of the registry for those who develop an application: pinned beside it, compared with it, written by."""
