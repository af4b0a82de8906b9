"""Redaction: texts of a statement show nothing that ``spark.sql.redaction.string.regex`` matches."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException  # noqa: E402

import sparkcep  # noqa: E402
from sparkcep.cli.shell import Shell  # noqa: E402
from sparkcep.draw.explain import FORMATS, explain  # noqa: E402
from sparkcep.notebook import jobs  # noqa: E402
from sparkcep.redaction import KEYS, REDACTED, Redaction  # noqa: E402
from sparkcep.settings import Settings  # noqa: E402
from sparkcep.spark.configured import settings_of  # noqa: E402

PATTERN = r"secret<?-\d"
CLAUSE = """MATCH_RECOGNIZE (ORDER BY i MEASURES LAST(B.i) AS b, length(concat(LAST(B.s), 'secret-1')) AS c
  PATTERN (A B+) DEFINE A AS s <> 'secret<-2', B AS v > PREV(v) AND PREV(s) <> 'secret-3')"""
STATEMENT = f"SELECT *, length('secret-4') FROM (SELECT id AS i, id AS v, CAST(id AS STRING) AS s FROM range(4)) {CLAUSE}"


@pytest.fixture
def session(spark):
    spark.conf.set(KEYS[0], PATTERN)
    yield spark
    spark.conf.unset(KEYS[0])


def leaks(text: str) -> list[str]:
    return re.findall(r"secret(?:<|&lt;)?-\d", text)


def test_texts_of_a_session(session):
    settings = settings_of(session)
    for format in FORMATS[:3]:
        assert leaks(explain(STATEMENT, format)) and not leaks(explain(STATEMENT, format, settings=settings))
    assert not leaks(sparkcep.report(session, STATEMENT))
    for how in ("EXTENDED", "FORMATTED"):
        assert not leaks(session.sql(f"EXPLAIN {how} {STATEMENT}").first()[0])
    assert [tuple(row) for row in session.sql(STATEMENT).collect()] == [(3, 9, 8)]


@pytest.mark.parametrize(("old", "new", "marked"), [
    ("v > PREV(v)", "v > 'secret-5' AND w > PREV(v)", "w"),  # Spark's error
    ("v > PREV(v)", "v > 'secret-5' AND CLASSIFIER(X) = 'A'", "X"),  # ours
    ("'secret-3'", "date_add('secret-3')", None),
])  # fmt: skip
def test_errors(session, old, new, marked):
    with pytest.raises(Exception) as caught:
        session.sql(STATEMENT.replace(old, new))
    text = str(caught.value)
    assert not leaks(text) and not leaks(caught.value.fragment) and REDACTED in text
    assert not any(leaks(context.fragment() + context.summary()) for context in caught.value.getQueryContext() or ())
    *_, line, mark = text.split("\n")
    assert marked is None or [c for c, m in zip(line, mark) if m == "^"] == [marked]


@pytest.mark.parametrize(("old", "new"), [
    ("v > PREV(v)", "v > 'secret-5' AND w > PREV(v)"), ("v > PREV(v)", "v > 'secret-5' AND CLASSIFIER(X) = 'A'"), ("A B+", "A B+ ('secret-5'"),
])  # fmt: skip
def test_errors_of_calls(session, old, new):
    frame = session.range(4).selectExpr("id AS i", "id AS v", "CAST(id AS STRING) AS s")
    statement = STATEMENT.replace(old, new)
    clause = CLAUSE.replace(old, new).partition("(")[2].rpartition(")")[0]
    calls = (
        lambda: sparkcep.why(session, statement), lambda: sparkcep.why(frame, clause=clause), lambda: sparkcep.report(session, statement),
        lambda: sparkcep.match_recognize(frame, clause=clause),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(PySparkException) as caught:
            call()
        assert REDACTED in str(caught.value) and not leaks(f"{caught.value} {caught.value.fragment}")


def test_errors_and_jobs_of_the_shell(session):
    said, described = [], []
    shell = Shell(session, said.append)
    for text in (":explain " + STATEMENT.replace("A B+", "A B+ ('secret-5'"), "SELECT 'secret-5;"):
        shell.answer(text)
    assert len(said) == 2 and all(REDACTED in text and not leaks(text) for text in said)
    jobs.run(session, lambda: described.append(session.sparkContext.getLocalProperty("spark.job.description")), STATEMENT, said.append)
    assert REDACTED in described[0] and not leaks(described[0]) and len(described[0]) <= 100


def test_a_pattern_that_python_cannot_read(session):
    session.conf.set(KEYS[0], r"\p{Alpha}+-[0-9]")
    said = []
    Shell(session, said.append).answer(STATEMENT.replace("A B+", "A B+ ('secret-5'"))
    assert REDACTED in said[0] and not leaks(said[0])


def test_a_misspelled_clause(session):
    with pytest.raises(PySparkException) as caught:
        session.sql(STATEMENT.replace("MATCH_RECOGNIZE", "MATCH_RECOGNISE"))
    assert REDACTED in str(caught.value) and not leaks(f"{caught.value} {caught.value.fragment}")


def test_patterns():
    assert Redaction("")("a") == "a" and Redaction("b+")("abbc") == f"a{REDACTED}c"
    assert Redaction(r"\p{Alpha}")("abc") == REDACTED  # Python cannot read it
    assert Redaction("[a-z&&[^x]]")("abc") == Redaction("k[0-9[a-f]]")("k7") == REDACTED  # Python reads these as other characters
    assert Redaction(r"[\[a&]+&&b")("x[&&by") == f"x{REDACTED}y"
    assert Redaction("c").of_error("m\nab cd\n   ^^") == f"m\nab {REDACTED}d\n   {'^' * (len(REDACTED) + 1)}"
    assert Redaction("b").of_error("m\n\tab cd\n\t   ^^") == f"m\n\ta{REDACTED} cd\n\t{' ' * (len(REDACTED) + 2)}^^"
    assert Redaction("b c").of_error("m\nab cd\n   ^^") == f"m\na{REDACTED}d"
    assert Settings.read({KEYS[1]: "x"}.get).redaction == Redaction("x")
