"""Inside Spark: pyspark, the standard library and `deltajoin.errors` only; --py-files ships it."""
