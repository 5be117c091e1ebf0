"""The needs of lakehouse besides Python packages, and their places: jars from Maven, Airflow's own environment."""
