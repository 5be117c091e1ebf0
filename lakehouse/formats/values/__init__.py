"""Single values in JSON, plain text and Kafka Connect's JSON. Formats combine them to rows."""
