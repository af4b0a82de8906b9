"""The statements that the differential test of planning reads in many forms: those of the SQL cases and of ``sql_examples``.

A statement that picks columns of one clause (``SELECT a, b FROM t MATCH_RECOGNIZE (...) WHERE ...``) is replaced by ``SELECT *`` of
that clause:
which columns are picked is the form's choice.
"""

from __future__ import annotations

import re
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from sparkcep.clause.tokens import OP, WORD, split_statements, tokenize
from sparkcep.tools.statements import clauses
from tests.cases.sql_case_files import read_case_file

TESTS = Path(__file__).resolve().parents[2]
EXAMPLES = TESTS.parent / "sql_examples"
PINNED = "statements/few_columns"  # the group whose statements every sample holds


@dataclass(frozen=True)
class Statement:
    """A query, with the statements to be run before it, and the settings and arguments it needs."""

    name: str
    text: str
    before: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    params: dict | list | None = None

    @property
    def number(self) -> int:
        """A number that spreads over all statements and is the same in each run."""
        return zlib.crc32(self.name.encode())

    @property
    def arguments(self) -> tuple:
        """What ``spark.sql`` takes behind the text."""
        return () if self.params is None else (self.params,)


@dataclass(frozen=True)
class Group:
    """Statements over the same views, as they are written. ``load`` defines the views; ``others`` are the statements that are no
    query, by name."""

    name: str
    load: Callable[[object], None]
    written: tuple[Statement, ...]
    others: tuple[str, ...] = ()

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The statements, those that pick columns read whole."""
        return tuple(map(whole, self.written))


@cache
def groups() -> tuple[Group, ...]:
    """A case file is a group, and so are the single examples, each paper's, and those of the demonstration."""
    found = [group for path in sorted((TESTS / "cases").glob("*/*.test")) if (group := _of_cases(path))]
    found.append(_of_examples())
    for folder, load in (("acep", _load_acep), ("cpr", _load_cpr), ("nycflights", _load_flights)):
        paths = sorted((EXAMPLES / folder).glob("*.sql"))
        found.append(Group(f"examples/{folder}", load, tuple(Statement(f"{folder}/{p.stem}", _only(p.read_text(encoding="utf-8"))) for p in paths)))
    return tuple(found)


def widened(statement: Statement) -> Statement | None:
    """The clause of a statement that picks columns of one clause, read whole; None where there is none, or it stands deeper."""
    if isinstance(statement.params, list):
        return None  # markers go by their position
    text = statement.text
    places = clauses(text)
    if len(places) != 1:
        return None
    depth, heads = 0, []
    for token in tokenize(text):
        if token.start >= places[0].word.start:
            break
        if token.kind == OP:
            depth += (token.text in "([") - (token.text in ")]")
        elif depth == 0 and token.kind == WORD and token.upper in ("SELECT", "FROM", "UNION", "INTERSECT", "EXCEPT", "LATERAL", "VALUES"):
            heads.append(token)
    if depth or [t.upper for t in heads] != ["SELECT", "FROM"]:
        return None
    whole = f"{text[: heads[0].start]}SELECT * {text[heads[1].start : places[0].end + 1]}"
    if re.sub(r"\s+", " ", whole) == re.sub(r"\s+", " ", text).strip():
        return None
    return replace(statement, text=whole)


def whole(statement: Statement) -> Statement:
    """The statement, read whole where it picks columns of one clause. Finding the clause takes a millisecond or two."""
    return widened(statement) or statement


def _is_query(text: str) -> bool:
    """By its first word: each process of tests asks this of all cases when it looks for tests."""
    word = re.search(r"[A-Za-z]\w*", re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.S))
    return word is not None and word[0].upper() in ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def _of_cases(path: Path) -> Group | None:
    file = read_case_file(path)
    name = f"{path.parent.name}/{path.stem}"
    found, others = [], []
    for case in file.cases:
        if case.error or case.fails:
            continue
        *before, text = case.statements
        if _is_query(text):
            found.append(Statement(f"{name}/{case.name}", text, tuple(before), case.settings, case.params))
        else:
            others.append(f"{name}/{case.name}")

    def load(spark) -> None:
        for statement in file.views:
            spark.sql(statement)

    return Group(name, load, tuple(found), tuple(others)) if found or others else None


def _only(text: str) -> str:
    (statement,) = split_statements(text)
    return statement


def _of_examples() -> Group:
    found = []
    for path in sorted(EXAMPLES.glob("*.sql")):
        *before, text = split_statements(path.read_text(encoding="utf-8"))
        found.append(Statement(f"examples/{path.stem}", text, tuple(before)))
    return Group("examples", lambda spark: None, tuple(found))


def _load_acep(spark) -> None:
    import pandas as pd

    from tests.support import acep_data

    tweets, _ = acep_data.tweets(120, ["S a b E S a w E S a g E S a u E".split(), "S G g E S G e E S G u E".split()], gap=20)
    vehicles, _ = acep_data.vehicles(120, [[(7, letter, None) for letter in word] for word in ("lpppppd", "zLzLzLzLzL")], gap=20)
    for view, columns in (("tweets", tweets), ("vehicles", vehicles)):
        spark.createDataFrame(pd.DataFrame(columns)).coalesce(1).createOrReplaceTempView(view)


def _load_cpr(spark) -> None:
    import pandas as pd

    from tests.support import cpr_data

    spark.createDataFrame(pd.DataFrame(cpr_data.readings(60, 3))).coalesce(1).createOrReplaceTempView("readings")
    spark.createDataFrame(pd.DataFrame(cpr_data.places(3))).coalesce(1).createOrReplaceTempView("motes")


def _load_flights(spark) -> None:
    """Some days of the demonstration's month."""
    from sparkcep.cli.demo import load

    load(spark, Path(tempfile.mkdtemp(prefix="planning_")), 1)
    for view, days in (("departures", "day < DATE'2013-01-04'"), ("hourly", "time_hour < TIMESTAMP_NTZ'2013-01-09'")):
        spark.table(view).where(days).createOrReplaceTempView(view)
