"""The DAGs of an application, made from its manifest. See docs/airflow-dags.md.

manifest, requests, commands: standard library only. The others import airflow.sdk and the standard provider.
"""
