"""The lake on Spark: the only package that imports pyspark."""
