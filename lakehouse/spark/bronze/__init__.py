"""Kafka to bronze: ingest, ticks, gaps, and the interventions that have ticks of their own."""
