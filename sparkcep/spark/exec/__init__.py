"""A batch query in Spark. Spark's rows and a plan go in; output rows, metrics and samples come out."""
