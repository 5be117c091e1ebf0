"""Kafka: the embedded broker, topics and their offsets, producing."""
