"""Streaming queries in Spark: checks a query and its checkpoint, and runs the work of a micro-batch."""
