"""Former name of :mod:`sparkcep.spark.session.rewrite_service`, under which jars of older versions start it."""

import runpy

if __name__ == "__main__":
    runpy.run_module("sparkcep.spark.session.rewrite_service", run_name="__main__")
