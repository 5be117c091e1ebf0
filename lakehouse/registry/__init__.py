"""The schema registry: one embedded on this machine, and a client for any that speaks Confluent's REST interface."""
