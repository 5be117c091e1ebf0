"""Running an application: ingest, silver, publishing and upkeep in one process."""
