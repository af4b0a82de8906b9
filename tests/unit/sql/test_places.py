"""Where parts of a rewritten statement stand in what the user wrote (`sql/rewrite/places.py`); Spark's own errors:
tests/spark/errors/test_places.py."""

from __future__ import annotations

from threading import Thread
from uuid import uuid4

import pytest

from sparkcep.clause.tokens import WORD, tokenize
from sparkcep.settings import ALWAYS, DEFAULT, Settings
from sparkcep.spark.errors.reword import clause_error
from sparkcep.sql.rewrite import rewrite
from sparkcep.sql.rewrite.rewrite import known, rewritten_from, translated

CLAUSE = (
    "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts DESC MEASURES FIRST(A.x) + 1 AS first_x, sum(y) AS total, median(z) AS half ALL ROWS PER MATCH "
    "PATTERN (A B+) WINDOW INTERVAL '1' HOUR DEFINE A AS v = 7, B AS w < PREV(w) AND levenshtein(s, A.t) < 3 AND u > 0)"
)
WORDS = {"k", "ts", "x", "y", "z", "v", "w", "s", "t", "u", "levenshtein"}  # of the user's, in the clause
STATEMENTS = {
    "once": f"WITH q AS (SELECT 1 AS one)\nSELECT first_x + 2 FROM q, ticks {CLAUSE} WHERE total > 3",
    "over another": f"SELECT * FROM (SELECT *, x + 5 AS y FROM ticks\n{CLAUSE}) AS inside {CLAUSE.replace('x', 'x2')}",
    "two": f"SELECT * FROM ticks {CLAUSE} UNION ALL SELECT * FROM tocks {CLAUSE.replace('ts', 'tt')}",
    "as a function": "SELECT * FROM match_recognize(TABLE(SELECT * FROM ticks WHERE x > 0), '" + CLAUSE[17:-1].replace("'1'", "1") + "') WHERE total > 3",
}


@pytest.mark.parametrize("settings", [DEFAULT, Settings(prefilter=ALWAYS, slices=ALWAYS)], ids=["plain", "with a second read and slices"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_each_word_of_the_users_is_found(name, settings):
    statement = STATEMENTS[name].replace("INTERVAL 1 HOUR", "INTERVAL '1' HOUR") if name != "as a function" else STATEMENTS[name].replace("WINDOW INTERVAL 1 HOUR ", "")
    places = translated(statement, settings=settings, named_markers=False)
    assert places is not None and places.rewritten.count("match_recognize(") == (2 if name in ("over another", "two") else 1)
    found = set()
    for token in tokenize(places.rewritten)[:-1]:
        span = places.find(token.start, token.end)
        assert 0 <= span.start < span.end <= len(statement)
        if token.kind == WORD and token.text in WORDS:
            assert span.of(statement).split(".")[-1] == token.text, (token, span.of(statement))
            found.add(token.text)
    assert found == WORDS


def test_outside_of_clauses_offsets_map_exactly():
    places = translated(STATEMENTS["two"], settings=DEFAULT, named_markers=False)
    assert places is not None
    for text in ("UNION ALL SELECT", "SELECT * FROM (SELECT"):
        start = places.rewritten.index(text)
        assert places.find(start, start + 6).of(places.text) == text[:6]
    whole = places.find(0, len(places.rewritten))
    assert (whole.start, whole.end) == (0, len(places.text))


def test_a_variable_before_a_key_is_found_with_it():
    statement = "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY B.x ORDER BY A.y, b.z + 1 MEASURES count(*) AS n PATTERN (A B+))"
    places = translated(statement, settings=DEFAULT, named_markers=False)
    assert places is not None
    for name in ("B.x", "A.y", "b.z"):
        start = places.rewritten.index(name, places.rewritten.rindex("FROM (SELECT"))
        span = places.find(start, start + len(name))
        assert (span.start, span.end) == (statement.index(name), statement.index(name) + len(name))


def test_markers_are_counted_as_the_user_wrote_them():
    statement = "SELECT ?, * FROM ticks MATCH_RECOGNIZE (MEASURES LAST(x) + ? AS m PATTERN (A?) DEFINE A AS y > ?) WHERE m > ? + z"
    places = translated(statement, settings=DEFAULT, named_markers=True)
    assert places is not None and places.user == statement
    for word in ("x", "y", "z"):
        start = next(t.start for t in tokenize(places.rewritten) if t.text == word)
        assert places.find(start, start + 1).of(statement) == word
        assert places.find(start, start + 1).start == statement.index(word)
    assert places.find(len(places.rewritten) - 1, len(places.rewritten)).end == len(statement)


def test_names_of_the_rewriter_are_told_in_the_users_words():
    places = translated(f"SELECT * FROM ticks {CLAUSE}", settings=DEFAULT, named_markers=False)
    assert places is not None
    assert places.named('"__o0 DESC", "__p0", "(__l0 + 1)"') == '"ts DESC", "k", "(FIRST(A.x) + 1)"'
    assert translated("SELECT 1", settings=DEFAULT, named_markers=False) is None


def test_a_statement_is_found_while_others_are_rewritten():
    places = translated(f"SELECT * FROM ticks {CLAUSE}", settings=DEFAULT, named_markers=False)

    class Text(str):
        """The text, compared while another thread rewrites a statement."""

        def __eq__(self, other):
            other_thread = Thread(target=translated, args=(f"SELECT {uuid4().int} FROM ticks {CLAUSE}",), kwargs={"settings": DEFAULT, "named_markers": False})
            other_thread.start()
            other_thread.join()
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    translated(f"SELECT 1 FROM ticks {CLAUSE}", settings=DEFAULT, named_markers=False)  # this one is compared first
    assert rewritten_from(Text(places.rewritten)) is places


def test_a_statement_is_known_while_it_is_rewritten_again(monkeypatch):
    statement, found, threads = f"SELECT * FROM ticks {CLAUSE}", [], []

    class Recent(dict):
        """The recent statements, read by another thread between the removal and the insertion of one."""

        def __setitem__(self, sql, places):
            threads.append(Thread(target=lambda: found.append(known(sql))))
            threads[-1].start()
            threads[-1].join(0.01)
            super().__setitem__(sql, places)

    monkeypatch.setattr(rewrite, "_recent", Recent())
    for _ in range(2):
        places = translated(statement, settings=DEFAULT, named_markers=False)
        threads[-1].join()
        assert found[-1] is places


def test_a_worker_without_the_package_is_told_as_such():
    head = "Failed to analyze the Python user defined table function: Traceback (most recent call last):\n"
    lacking = clause_error(head + "  File \"worker.py\", line 1, in main\nModuleNotFoundError: No module named 'sparkcep'")
    assert lacking.error_class == "SPARKCEP.NOT_INSTALLED" and "sparkcep pack" in lacking.message
    inside = clause_error(head + "  File \"/x/sparkcep/kernels/jit/cache.py\", line 1, in f\nModuleNotFoundError: No module named 'numba'")
    assert "does not have numba" in inside.message
    daemon = clause_error("org.apache.spark.SparkException: EOFException occurred while reading the port number from sparkcep.spark.daemon's stdout.\n\tat org.apache")
    assert daemon.error_class == "SPARKCEP.NOT_INSTALLED" and "leave out spark.python.daemon.module" in daemon.message
    assert clause_error("EOFException occurred while reading the port number from pyspark.daemon's stdout.") is None
    assert clause_error(head + "  File \"/x/users.py\", line 1, in f\nModuleNotFoundError: No module named 'numba'") is None
