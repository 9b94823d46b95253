"""DeltaPlan -> Spark SQL -> job source."""
