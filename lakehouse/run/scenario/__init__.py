"""Scenarios: records in, tables and changelogs out, on the model and on Spark."""
