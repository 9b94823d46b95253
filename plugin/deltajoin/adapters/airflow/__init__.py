"""Airflow: one operator that keeps one join table, and hangs each run's audit on the task.

Importing the operator needs Airflow alone; Spark, deltalake and sqlglot load when a task executes.
"""
