"""How a batch of records is folded into the rows of a table, by the rules of `lakehouse.semantics`."""
