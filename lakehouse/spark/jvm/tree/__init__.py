"""Trees of expressions: Catalyst's own, or trees that Spark gets as SQL text; and the calls of Java in them."""
