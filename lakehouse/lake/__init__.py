"""The lake without a JVM: where things lie, who may write, what the logs of its tables say, and reads by DuckDB."""
