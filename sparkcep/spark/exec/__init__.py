"""Batch queries in Spark: runs a plan over Spark's rows, and returns output rows, metrics and samples."""
