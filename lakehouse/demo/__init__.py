"""The demonstration: a year of real flights as three Kafka topics, an application over them, and pictures.

``independent_fold`` is a program apart: it shares no code with the lakehouse, recomputes every table from the
topics and compares.
"""
