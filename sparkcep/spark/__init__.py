"""The Spark integration. The modules of this package itself find the Spark version and configuration.

The setting ``spark.python.daemon.module`` refers to the module ``daemon`` by its name, so it stays here.
"""
