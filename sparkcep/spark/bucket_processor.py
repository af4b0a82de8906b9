"""Former name of :mod:`sparkcep.spark.stream.frames.processor`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.stream.frames import processor

sys.modules[__name__] = processor
