"""Kafka: topics and their offsets, reading, producing, publishing; the embedded broker."""
