"""Deployments: all tables that a change of logic touches, built beside the live ones and swapped in at one tick."""
