"""What arrives: files in the folder ``data`` beside this one."""

from pathlib import Path

from pyspark import pipelines as dp

DATA = Path(__file__).resolve().parents[1] / "data"


@dp.table
def ticks():
    return spark.readStream.schema("symbol STRING, ts TIMESTAMP, price INT").json(str(DATA))  # noqa: F821, the pipeline brings it
