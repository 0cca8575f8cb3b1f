"""Copying on Spark: layouts and slices, the copy loop, the driver. The only room that imports pyspark."""
