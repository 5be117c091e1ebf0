"""The lake on Delta: the only package that imports pyspark, and the readers that do without it."""
