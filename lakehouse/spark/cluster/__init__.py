"""A cluster as Spark's master: how its executors reach the driver, and what their Python needs to have."""
