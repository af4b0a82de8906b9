"""Former name of :mod:`sparkcep.spark.stream.frames.ranks`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.stream.frames import ranks

sys.modules[__name__] = ranks
