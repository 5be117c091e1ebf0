"""The lake without a JVM: its folders, who may write, the logs of its tables, and reads by DuckDB."""
