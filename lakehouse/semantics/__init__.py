"""The meaning of streams, tables and changelogs: plain Python, no Spark, milliseconds to test."""
