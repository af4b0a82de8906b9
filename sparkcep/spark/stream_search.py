"""Former name of :mod:`sparkcep.spark.stream.frames.worker`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.stream.frames import worker

sys.modules[__name__] = worker
