"""Former name of :mod:`sparkcep.engine.stream.key_buckets`, which older clients and drivers pickle."""

import sys

from sparkcep.engine.stream import key_buckets

sys.modules[__name__] = key_buckets
