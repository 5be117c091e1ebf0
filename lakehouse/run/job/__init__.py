"""An application, running: ingest, silver, publishing and upkeep in one process."""
