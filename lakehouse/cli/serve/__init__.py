"""`lakehouse airflow`."""
