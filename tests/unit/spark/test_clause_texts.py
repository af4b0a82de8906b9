"""The text of a clause that the rewriter does not read, such as a parameter, is planned under the session's settings."""

from __future__ import annotations

import json

import pytest

T = pytest.importorskip("pyspark.sql.types")

import pyarrow as pa  # noqa: E402
from pyspark.sql.functions import AnalyzeArgument  # noqa: E402

from sparkcep.errors import ClauseError  # noqa: E402
from sparkcep.settings import Settings  # noqa: E402
from sparkcep.spark.exec import table_function  # noqa: E402
from sparkcep.spark.exec.table_function import MatchRecognize  # noqa: E402

COLUMNS = T.StructType([T.StructField("i", T.IntegerType()), T.StructField("a", T.StringType())])
ZONE, ANSI, STEPS = "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sparkcep.maxSteps"


def analysed(text, settings=None, application=None):
    """Analyses a call as the JVM extension passes it, or as Spark alone does without settings."""
    given = text if settings is None else json.dumps({"clause": text, "settings": settings, "application": application or {}})
    arguments = AnalyzeArgument(COLUMNS, None, True, False), AnalyzeArgument(T.StringType(), given, False, True)
    return MatchRecognize.analyze(*arguments)


def test_the_extension_passes_the_settings():
    cutting = "spark.sql.decimalOperations.allowPrecisionLoss"
    found = analysed("ORDER BY i MEASURES A.i AS m PATTERN (A)", {ZONE: "Europe/Berlin", ANSI: "false", cutting: "false"}, {STEPS: "7"})
    assert found.settled and not found.plan.precision_loss
    assert (found.plan.zone, found.plan.ansi, dict(found.plan.bounds)) == ("Europe/Berlin", False, {"max_steps": 7})
    with pytest.raises(ClauseError, match="the application allows at most 7"):
        analysed("ORDER BY i MEASURES A.i AS m PATTERN (A)", {STEPS: "8"}, {STEPS: "7"})


def test_double_quotes_follow_the_settings():
    text = 'ORDER BY "i" MEASURES count(*) AS m PATTERN (A) DEFINE A AS a = "a"'
    quoted = "spark.sql.ansi.doubleQuotedIdentifiers"
    assert {sql for _, sql in analysed(text, {quoted: "true"}).plan.inputs} == {"`i`"}
    assert {sql for _, sql in analysed(text, {quoted: "false"}).plan.inputs} == {'"i"'}
    with pytest.raises(ClauseError, match="may be a string or the column"):
        analysed(text)


@pytest.mark.parametrize(
    ("column", "zone"),
    [(pa.timestamp("us", "Europe/Berlin"), "Europe/Berlin"), (pa.list_(pa.struct([("x", pa.timestamp("us", "Asia/Tokyo"))])), "Asia/Tokyo"), (pa.timestamp("us"), "Asia/Seoul")],
)  # fmt: skip
def test_without_the_extension_a_task_knows_the_settings(monkeypatch, column, zone):
    found = analysed("ORDER BY i MEASURES A.i AS m PATTERN (A)")
    assert not found.settled
    monkeypatch.setattr(table_function, "_task_settings", lambda: Settings(ansi=False, precision_loss=False, zone="Asia/Seoul", max_steps=7))
    plan = table_function._settled(found.plan, pa.schema([("i", pa.int32()), ("x", column)]))
    assert (plan.zone, plan.ansi, plan.precision_loss, dict(plan.bounds)) == (zone, False, False, {"max_steps": 7})
