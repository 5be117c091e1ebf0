"""Airflow on this machine: its home, its four processes under a supervisor, and the applications it knows.

Nothing here imports Airflow: it lives in an environment of its own and runs as a program.
"""
