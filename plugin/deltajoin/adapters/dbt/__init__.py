"""dbt: a plugin that gives dbt-spark's adapter the calls behind `materialized='delta_join'`."""
