"""A declaration proposed for a topic, from a sample of its records."""
