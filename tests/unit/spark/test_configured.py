"""Variables of a statement, as a session over Connect replaces them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from sparkcep.spark.configured import substituted  # noqa: E402

SETTINGS = {"low": "${hiveconf:least}", "least": "20", "a": "${b}", "b": "${a}"}


class Session:
    """A session over Connect with settings, and without a server."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.conf = self
        self.get = settings.get


Session.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(("text", "replaced"), [
    ("p > ${low} AND p < ${spark:least}", "p > 20 AND p < 20"),
    ("${nope}|${env:HOME}|${system:user.dir}", "|${env:HOME}|${system:user.dir}"),
    ("${a}", "${a}"),
    ("A{2,}", "A{2,}"),
])  # fmt: skip
def test_variables_over_connect(text, replaced):
    assert substituted(Session(SETTINGS), text) == replaced
    assert substituted(Session({**SETTINGS, "spark.sql.variable.substitute": "false"}), text) == text
