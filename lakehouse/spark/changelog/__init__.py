"""A table's changelog, per event and net, and as records for Kafka."""
