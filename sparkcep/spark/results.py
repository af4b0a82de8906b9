"""Former name of :mod:`sparkcep.spark.files.results`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.files import results

sys.modules[__name__] = results
