"""Former name of :mod:`sparkcep.spark.exec.table_function`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.exec import table_function

sys.modules[__name__] = table_function
