"""The forms of aggregates in Spark SQL: how each is computed, merged and shown."""
