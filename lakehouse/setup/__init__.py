"""What lakehouse needs besides Python packages, and where it lies: jars from Maven, and Airflow's own environment."""
