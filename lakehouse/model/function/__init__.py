"""Spark SQL's functions of JSON, of URLs and of formats of moments over Python values, for the model."""
