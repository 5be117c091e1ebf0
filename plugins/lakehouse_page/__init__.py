"""The server of the page "Streams & Tables", and the page itself (`static`). Runs in Airflow's api-server."""
