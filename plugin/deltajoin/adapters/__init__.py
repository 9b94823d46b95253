"""The thin surfaces over the API: command line, Airflow, dbt."""
