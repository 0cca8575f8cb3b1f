"""Copying on Spark: layouts, slices, the driver. Right here is what changes positions of a stopped connector."""
