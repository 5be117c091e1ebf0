"""The demonstration: a year of real flights as three Kafka topics, an application over them, and pictures.

``independent_fold`` is a separate program: it shares no code with the lakehouse, recomputes every table from the
topics and compares.
"""
