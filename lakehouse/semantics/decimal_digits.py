"""The digits that a decimal may have: as many as in Spark, Delta and Parquet."""

DECIMAL_DIGITS_MAX = 38
