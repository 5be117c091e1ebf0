"""How the rules of `lakehouse.semantics` run on Spark, over the records of a batch."""
