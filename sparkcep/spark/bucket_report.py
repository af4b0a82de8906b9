"""Former name of :mod:`sparkcep.spark.report.bucket_report`, which older clients and drivers pickle."""

import sys

from sparkcep.spark.report import bucket_report

sys.modules[__name__] = bucket_report
