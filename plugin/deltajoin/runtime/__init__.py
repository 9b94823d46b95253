"""Inside Spark: pyspark, the standard library and `deltajoin.errors` only; shipped by --py-files."""
