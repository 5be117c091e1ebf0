"""An engine that is kept: Spark's JVM outlives a command, and the next command takes it up, one at a time."""
