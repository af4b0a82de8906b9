"""Former name of :mod:`sparkcep.spark.stream.micro_batch`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.stream import micro_batch

sys.modules[__name__] = micro_batch
