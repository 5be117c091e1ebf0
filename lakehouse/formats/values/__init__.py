"""How single values are written: JSON, plain text, Kafka Connect. Formats put them together to rows."""
