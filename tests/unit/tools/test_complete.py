"""Completion: what is proposed at a place is what the clause's reader takes there, over all clauses of the case corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcep.clause import parser
from sparkcep.clause.expressions import Cursor
from sparkcep.clause.tokens import END, OP, WORD, tokenize
from sparkcep.errors import ClauseError
from sparkcep.plan.scope import AGGREGATES, MATCH_FUNCTIONS
from sparkcep.sql.rewrite.occurrences import Statement
from sparkcep.tools.complete import Proposal, complete
from tests.cases.sql_case_files import read_case_file
from tests.selection import first

BEGIN = "SELECT * FROM ticks MATCH_RECOGNIZE ("
COLUMNS = {"ticks": ["symbol", "ts", "price", "unit price"], "(SELECT 1 AS one)": ["one"]}


def proposed(marked: str) -> list[str]:
    """What is proposed at the sign ! of a statement."""
    at = marked.index("!")
    return [p.text for p in complete(marked.replace("!", "", 1), at, lambda table: COLUMNS.get(table, []), lambda: ["ticks", "trades"])]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("SELECT * FROM !", ["ticks", "trades"]),
        ("SELECT * FROM tr!", ["trades"]),
        ("SELECT * FROM ticks M!", ["MATCH_RECOGNIZE"]),
        ("SELECT 1; SELECT * FROM (SELECT 1 FROM ticks) t mat!", ["MATCH_RECOGNIZE"]),
        ("SELECT * FROM ticks WHERE m!", []),
        (BEGIN + "PART!", ["PARTITION BY"]),
        (BEGIN + "ORDER BY ts AFTER !", ["MATCH SKIP"]),
        (BEGIN + "ORDER BY ts AUTOM!", ["AUTOMATON"]),  # BY ROWS may follow, or the parenthesis
        (BEGIN + "ORDER BY ts ALL !", ["ROWS PER MATCH"]),
        (BEGIN + "ORDER BY ts ALL ROWS PER MATCH SHOW !", ["EMPTY MATCHES", "UNFINISHED MATCHES", "TIMEOUT MATCHES"]),
        (BEGIN + "ORDER BY ts ONE ROW PER MATCH SHOW !", ["UNFINISHED MATCHES", "TIMEOUT MATCHES"]),
        (BEGIN + "ORDER BY ts EVENT SELECTION SKIP TILL !", ["NEXT MATCH", "ANY MATCH"]),
        (BEGIN + "MEASURES A.!", COLUMNS["ticks"][:3] + ["`unit price`"]),
        (BEGIN + "MEASURES LAST(pri!", ["price", "PRIOR("]),
        ("SELECT * FROM (SELECT 1 AS one) MATCH_RECOGNIZE (ORDER BY o!", ["one"]),
        (BEGIN + "MEASURES FIRST(!) PATTERN (UP DOWN+) DEFINE UP AS price > 1)", None),
        (BEGIN + "PATTERN (UP D!", []),
        (BEGIN + "PATTERN (UP | PERMUTE(DOWN, `my var`) ((A B) WITHIN 5 ROWS)) DEFINE !", ["UP", "DOWN", "`my var`", "A", "B"]),
        (BEGIN + "PATTERN (A B) SUBSET U = (A, B) DEFINE A AS price > 1, B AS U.!", COLUMNS["ticks"][:3] + ["`unit price`"]),
        (BEGIN + "AFTER MATCH SKIP TO FIRST ! PATTERN (A B))", ["A", "B"]),
        (BEGIN + "PATTERN (A) APPROX 1 BUDGET INTERVAL '5' SECONDS PER !", ["ROW", "PARTITION", "BATCH"]),
        (BEGIN + "PATTERN (A) APPROX 1 BUDGET 5 CHECKS USING HISTORY h REFI!", ["REFILL"]),
        (BEGIN + "PATTERN (A) APPROX 1 BUDGET 5 CHECKS USING HISTORY t!", ["ticks", "trades"]),
        (BEGIN + "AUTOMATON (REGISTER n BIGINT = 0, m INT STATE one START, two FINAL ARC FROM !", ["one", "two"]),
        (BEGIN + "AUTOMATON (REGISTER n BIGINT = 0, m INT STATE one START, two FINAL ARC FROM one TO two SET !", ["n", "m"]),
        (BEGIN + "AUTOMATON (REGISTER n BIG!", ["BIGINT"]),
        (BEGIN + "PATTERN (A) DEFINE A AS symbol = 'pr!", []),
        (BEGIN + "PATTERN (A) -- PART!", []),
        (BEGIN + "PATTERN (A) WINDOW 1!", []),
        (BEGIN + "PATTERN (A) DEFINE A AS price > 1) W!", ["WHEN", "WHERE", "WINDOW", "WITH"]),
    ],
)  # fmt: skip
def test_what_is_proposed(marked, expected):
    found = proposed(marked)
    if expected is None:
        assert found[:6] == ["symbol", "ts", "price", "`unit price`", "UP", "DOWN"] and "LAST(" in found
    else:
        assert found == expected


M = "MATCH_RECOGNIZE (ORDER BY ts MEASURES 1 AS n PATTERN (A))"
OF_TICKS = ["symbol", "ts", "price", "`unit price`"]
NAMED = {"ticks": COLUMNS["ticks"], "trades": ["id", "amount"], f"ticks {M}": ["n"], f"ticks t {M}": ["n"], "(SELECT 1 AS one)": ["one"], "range(5)": ["id"], "db.`my t`": ["x"]}


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("SELECT ! FROM ticks", OF_TICKS),
        ("SELECT symbol, p! FROM ticks", ["price", "PARTITION", "percentile(", "pmod("]),
        ("SELECT max(pr!) AS m FROM ticks, trades", ["price"]),
        ("SELECT ! FROM ticks t JOIN trades AS r ON t.id = r.id", [*OF_TICKS, "id", "amount"]),
        ("SELECT t.! FROM ticks t JOIN trades AS r ON t.id = r.id", OF_TICKS),
        ("SELECT * FROM ticks t JOIN trades r ON t.ts = r.!", ["id", "amount"]),
        ("SELECT * FROM ticks t JOIN trades r ON !", [*OF_TICKS, "id", "amount"]),
        (f"SELECT ! FROM ticks {M}", ["n"]),
        (f"SELECT * FROM ticks {M} WHERE !", ["n"]),
        (f"SELECT m.! FROM ticks t {M} AS m, trades", ["n"]),
        (f"SELECT t.! FROM ticks t {M} AS m", []),
        (f"SELECT n, count(*) FROM ticks {M} GROUP BY n ORDER BY !", ["n"]),
        ("SELECT * FROM (SELECT 1 AS one) WHERE !", ["one"]),
        ("SELECT * FROM ticks WHERE symbol IN (SELECT ! FROM trades)", ["id", "amount", *OF_TICKS]),
        ("SELECT * FROM (SELECT ! FROM trades) t, ticks", ["id", "amount"]),
        ("SELECT 1 FROM ticks UNION SELECT ! FROM trades", ["id", "amount"]),
        ("SELECT 1 FROM ticks; SELECT ! FROM trades; SELECT 2 FROM range(5)", ["id", "amount"]),
        ("WITH w AS (SELECT 1 AS one) SELECT ! FROM w", ["one"]),
        ("WITH w AS (SELECT 1 AS one), v AS (SELECT 2) SELECT * FROM !", ["w", "v", "ticks", "trades"]),
        ("SELECT * FROM range(5), !", ["ticks", "trades"]),
        ("SELECT * FROM ticks WHERE price > ! AND", OF_TICKS),
        ("SELECT * FROM ticks WHERE price !", []),
        ("SELECT * FROM ticks WHERE price > 'x", []),
        ("SELECT r.! FROM range(5) r", ["id"]),
        ("SELECT ! FROM db.`my t` WHERE 'open'", ["x"]),
        ("INSERT INTO !", ["ticks", "trades"]),
        ("UPDATE ticks SET !", []),
    ],
)
def test_what_is_proposed_around_clauses(marked, expected):
    marked = marked if "!" in marked else marked + "!"
    at = marked.index("!")
    found = complete(marked.replace("!", "", 1), at, lambda table: NAMED.get(table, []), lambda: ["ticks", "trades"], lambda: ["pmod", "percentile", "sum"])
    assert sorted(p.text for p in found) == sorted(expected)


def test_a_part_that_is_there_is_not_proposed_again():
    found = proposed(BEGIN + "ORDER BY ts MEASURES 1 AS a PATTERN (A) WINDOW 5 !")
    assert "APPROX" in found and "DEFINE" in found
    assert not {"PATTERN", "AUTOMATON", "WINDOW", "MEASURES"} & {*found}


def test_where_a_proposal_stands():
    assert complete(BEGIN + "ord", columns=None) == [Proposal("ORDER BY", "keyword", len(BEGIN))]


def test_keys_are_made_of_columns_alone():
    found = proposed(BEGIN + "PARTITION BY ! MEASURES A.price AS p PATTERN (A))")
    assert found[:2] == ["symbol", "ts"] and not {"A", "LAST(", "sum("} & {*found}


def test_every_function_is_proposed():
    found = proposed(BEGIN + "MEASURES ! PATTERN (A))")
    assert {f"{name.lower()}(" for name in AGGREGATES} <= {*found} and {f"{name}(" for name in MATCH_FUNCTIONS - AGGREGATES} <= {*found}


class Recording(Cursor):
    """Notes the words of the language that the reader takes, by the index of their first token."""

    def __init__(self, text, tokens):
        super().__init__(text, tokens)
        self.taken: dict[int, str] = {}

    def take_word(self, *words):
        at = self.i
        if taken := super().take_word(*words):
            self.taken[at] = words[0]
        return taken


def corpus():
    for path in sorted((Path(__file__).resolve().parents[2] / "cases").rglob("*.test")):
        for case in read_case_file(path).cases:
            if not case.read:
                yield case.statements[-1]


@pytest.mark.parametrize("step", first([120, 37, 7], 0, wider=1))
def test_every_word_that_the_reader_takes_is_proposed_before_it(step):
    """At each word of clauses of the corpus, with and without its first letter typed."""
    looked, clauses = 0, 0
    for number, text in enumerate(dict.fromkeys(corpus())):
        if number % step:
            continue
        try:
            found = list(Statement(text).clauses())
        except ClauseError:
            continue
        tokens = tokenize(text)
        for _, word, close in found[:1]:
            inside = tokens[word + 2 : close]
            cursor = Recording(text, [*inside, tokens[close]._replace(kind=END)])
            try:
                parser._ClauseParser(cursor).parse()
            except ClauseError:
                continue
            clauses += 1
            for at, taken in cursor.taken.items():
                token = inside[at]
                assert token.kind == WORD and (at == 0 or inside[at - 1].kind != OP or inside[at - 1].text != ".")
                behind = complete(text, token.start)
                begun = complete(text, token.start + 1)
                for proposals in (behind, begun):
                    assert any(p.kind == "keyword" and p.text.split()[0] == taken for p in proposals), (text[: token.start], taken)
                looked += 1
    assert clauses > 1_000 / step and looked > 10_000 / step
