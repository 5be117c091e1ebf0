"""Kafka to bronze: ingest, ticks, gaps, and interventions, which have ticks of their own."""
