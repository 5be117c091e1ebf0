"""Airflow on this machine: its home, its four processes under a supervisor, and the applications it knows.

Airflow itself is never imported: it lives in an environment of its own and is run as a program.
"""
