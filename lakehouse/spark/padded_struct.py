"""A struct of columns of which there may be none: Spark has no struct without a field."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_FILLER = "_"  # no column begins with it; without a name of its own Spark would call it col3, as a column may be called


def padded_struct(*columns: Column | str) -> Column:
    """Return a struct of the columns, with a further field that nobody reads."""
    return F.struct(*columns, F.lit(0).alias(_FILLER))
