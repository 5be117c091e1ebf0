"""Guards of expressions, as Spark SQL text: conditions under which a value is null, and replacements of calls."""
