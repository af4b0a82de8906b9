"""The parts that know Spark. The modules of this package itself say which Spark it is, and how it is configured; ``daemon`` is
named in settings of Spark."""
