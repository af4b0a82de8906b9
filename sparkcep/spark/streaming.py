"""Former name of :mod:`sparkcep.spark.stream.jvm_operator`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.stream import jvm_operator

sys.modules[__name__] = jvm_operator
