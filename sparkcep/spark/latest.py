"""Former name of :mod:`sparkcep.spark.stream.memory_sink`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.stream import memory_sink

sys.modules[__name__] = memory_sink
