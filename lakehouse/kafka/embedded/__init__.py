"""The embedded broker: a real Kafka of one node, as a child process of this machine."""
