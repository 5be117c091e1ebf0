"""Calls of Java's own methods in a Spark expression: what ksqlDB computes with Java is computed with it here, too."""
