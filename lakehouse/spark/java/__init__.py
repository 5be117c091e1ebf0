"""Calls of Java's own methods in a Spark expression: as in ksqlDB, Java computes ksqlDB's functions."""
