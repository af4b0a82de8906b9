"""``sparkcep fmt``: the same clause in one layout, no comment lost, nothing to do the second time."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.clause.tokens import tokenize
from sparkcep.cli.cli import main
from sparkcep.errors import ClauseError
from sparkcep.tools import fmt
from sparkcep.tools.fmt import WIDTH, format_sql
from sparkcep.tools.lint import lint
from sparkcep.tools.statements import clauses, comments
from tests.docs.test_sql_examples import STATEMENT_FILES
from tests.grammar.generate import Generator
from tests.selection import first, one_in

ROOT = Path(__file__).resolve().parents[3]
VALID, BATCHES = 800, 8

UNTIDY = """-- a report
SELECT  x FROM ticks match_recognize ( -- find
  partition by  symbol, upper( x )  order by ts desc nulls last
  -- the measures
  measures FIRST(A.price)   as p, -- first
     LAST(B.price) AS q   -- second
     , (SELECT  max(x) FROM  y) as r, cast(a as decimal(10,  2)) as z
  one row per match  after match skip to last B
  pattern ( (A|B  {2,3} ?)+ PERMUTE ( C , D ){- E -} ^ ~ F ( G H ) within interval  '5' minute $ )
  event selection skip till next match
  window 5 rows
  subset U=(A,B)
  define A as price>PREV(price) and
      -- own
      volume > 3, B as case when a then b
        else c end > 0
  -- the end
) as m where x in (1,  2);
"""
TIDY = """-- a report
SELECT  x FROM ticks match_recognize ( -- find
  PARTITION BY symbol, upper( x ) ORDER BY ts DESC NULLS LAST
  -- the measures
  MEASURES
    FIRST(A.price) AS p, -- first
    LAST(B.price) AS q, -- second
    (SELECT  max(x) FROM  y) AS r,
    cast(a as decimal(10,  2)) AS z
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO LAST B
  PATTERN ((A | B{2,3}?)+ PERMUTE(C, D) {- E -} ^ ~F (G H) WITHIN interval  '5' minute $)
  EVENT SELECTION SKIP TILL NEXT MATCH
  WINDOW 5 ROWS
  SUBSET U = (A, B)
  DEFINE
    A AS price>PREV(price) and
      -- own
      volume > 3,
    B AS case when a then b else c end > 0
  -- the end
) as m where x in (1,  2);
"""


def test_layout():
    assert format_sql(UNTIDY) == TIDY
    assert format_sql(TIDY) == TIDY


def comments_of(text: str) -> list[str]:
    tokens = tokenize(text)
    edges = [0, *(t.end for t in tokens)]
    return sorted(c.of(text).rstrip() for start, t in zip(edges, tokens) for c in comments(text, start, t.start))


@pytest.mark.further
@pytest.mark.parametrize("seed", first(range(0, VALID, VALID // BATCHES), wider=1))
def test_random_clauses(seed):
    for i in range(seed, seed + VALID // BATCHES):
        generator = Generator(Random(i))
        clause = generator.text("match_clause")
        before, after = "SELECT 1 -- x\n, * FROM  t\tMATCH_RECOGNIZE (", ") AS m  WHERE  true"
        try:
            parsed = parse_clause(clause)
        except ClauseError:
            continue  # what the grammar leaves to the reader of the clause
        if "match_recognize" in clause.lower():
            continue  # a function of this name would begin another clause
        out = format_sql(before + clause + "\n" + after)
        assert out.startswith(before) and out.endswith(after)
        inner = out[len(before) : -len(after)]
        assert parse_clause(inner) == parsed, (i, clause)
        assert comments_of(out) == comments_of(before + clause + "\n" + after), (i, clause)
        assert format_sql(out) == out, (i, clause)
        keys = [e.span.of(parsed.text) for e in parsed.partition_by]
        assert [e.span.of(inner) for e in parse_clause(inner).partition_by] == keys


@pytest.mark.slow  # it counts the clauses of the test above
def test_few_random_clauses_are_passed_over():
    read = 0
    for i in range(200):
        try:
            parse_clause(Generator(Random(i)).text("match_clause"))
            read += 1
        except ClauseError:
            pass
    assert read > 190


@pytest.mark.parametrize("path", one_in(4, STATEMENT_FILES), ids=lambda p: p.stem)
def test_examples(path):
    text = path.read_text(encoding="utf-8")
    out = format_sql(text)
    assert [p.clause for p in clauses(out)] == [p.clause for p in clauses(text)]
    assert comments_of(out) == comments_of(text) and format_sql(out) == out
    for place in clauses(out):
        lines = out[place.start : place.end].split("\n")[1:-1]
        assert all(len(line) <= WIDTH or "\n" not in line for line in lines)
        assert all(re.match(r"\s+\S", line) for line in lines)


def test_the_page_shows_what_the_command_writes():
    (shown,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "tools.md").read_text(encoding="utf-8"), re.S)
    assert format_sql(shown) == shown
    assert [f.code for f in lint(shown)] == ["ANY_ROW"]


TEMPLATES = "sql_examples/dbt/"  # of dbt: what is between their braces is no SQL


@pytest.mark.parametrize("path", [p for p in sorted(ROOT.glob("sql_examples/**/*.sql")) if TEMPLATES not in p.as_posix()], ids=lambda p: p.stem)
def test_examples_have_the_layout_that_the_command_gives(path):
    text = path.read_text(encoding="utf-8")
    assert format_sql(text) == text


def test_statements_of_the_pages_have_it_too():
    """Those with an error are left out: it is told at its line and column."""
    seen = 0
    for page in [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").glob("*.md")) if p.name != "errors.md")]:
        for shown, behind in re.findall(r"```sql\n((?:(?!```).)*)```\n(\s*```error)?", page.read_text(encoding="utf-8"), re.S):
            if not behind:
                assert format_sql(shown) == shown, page.name
                seen += bool(clauses(shown))
    assert seen > 60


def test_what_is_no_clause_stays():
    text = "SELECT match_recognize (a,  b) FROM match_recognize(TABLE( t ),  'pattern (A)'), x /* MATCH_RECOGNIZE ( */ WHERE 'MATCH_RECOGNIZE ('  = y"
    assert format_sql(text) == text


def test_several_clauses_and_indentation():
    text = "SELECT 1;\n  SELECT * FROM (SELECT * FROM a MATCH_RECOGNIZE(pattern\n(A)))\n\tMATCH_RECOGNIZE(pattern\n(B))"
    assert format_sql(text) == (
        "SELECT 1;\n  SELECT * FROM (SELECT * FROM a MATCH_RECOGNIZE(\n    PATTERN (A)\n  ))\n\tMATCH_RECOGNIZE(\n\t  PATTERN (B)\n\t)"
    )


def test_a_clause_over_a_clause_has_its_margin():
    once = format_sql("SELECT * FROM t MATCH_RECOGNIZE (\n  order by i measures i as n\n  pattern (A)) AS m MATCH_RECOGNIZE (\n pattern\n (B))")
    assert once.endswith("\n) AS m MATCH_RECOGNIZE (\n  PATTERN (B)\n)") and format_sql(once) == once


@pytest.mark.parametrize("comment", ["-- in C:\\data\\ ", "-- a\\\n ", "-- a\\\nb"])
def test_a_comment_that_ends_in_a_backslash_does_not_swallow_the_next_line(comment):
    once = format_sql(f"SELECT * FROM t MATCH_RECOGNIZE (\n  ORDER BY i {comment}\n measures i as n pattern (A))")
    assert once.endswith("\n  MEASURES i AS n\n  PATTERN (A)\n)") and format_sql(once) == once


def test_line_ends_are_those_of_the_file():
    text = "SELECT *\r\nFROM t MATCH_RECOGNIZE (order by x\r\n  -- note\r\n pattern (A))\r\n"
    assert format_sql(text) == "SELECT *\r\nFROM t MATCH_RECOGNIZE (\r\n  ORDER BY x\r\n  -- note\r\n  PATTERN (A)\r\n)\r\n"


def test_long_lists_are_broken_at_their_items():
    measures = ", ".join(f"LAST(A.column_number_{i}) AS c{i}" for i in range(6))
    out = format_sql(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {measures} PATTERN (A))")
    assert out.count("\n    LAST(") == 6


def test_line_breaks_behind_commas_stay():
    text = """SELECT * FROM t MATCH_RECOGNIZE (
  PARTITION BY a,
    b
  ORDER BY ts
  MEASURES
    FIRST(x) AS x1, LAST(x) AS x2,
    count(*) AS n
  PATTERN (A B)
  DEFINE A AS v > 1, B AS v > 2,
    C AS v > 3
)"""
    assert format_sql(text) == text
    assert format_sql(text.replace(",\n    C", "\n , C").replace("  MEASURES\n    FIRST", "  MEASURES\n FIRST")) == text
    measures = ", ".join(f"LAST(A.column_{i}) AS c{i}" for i in range(6))
    filled = format_sql(text.replace("count(*) AS n", measures))
    assert "\n    LAST(A.column_0)" in filled and filled.count("\n    LAST(") == 2 and max(map(len, filled.split("\n"))) <= WIDTH
    assert format_sql(filled) == filled


def test_comments_of_keys_stay_where_they_are():
    text = """SELECT * FROM t MATCH_RECOGNIZE (
  PARTITION BY a -- of the shop
  -- by time
  ORDER BY ts
  MEASURES FIRST(x) AS x1
  PATTERN (A)
)"""
    assert format_sql(text) == text
    assert format_sql(text.replace("  -- by time\n", "")) == text.replace("  -- by time\n", "")


@pytest.mark.parametrize("keys", ["PARTITION /* shop */\n  BY a ORDER BY ts", "PARTITION BY a ORDER BY ts\n DESC", "PARTITION -- shop\n BY a ORDER BY ts", "PARTITION BY a /* shop */,\n b ORDER BY ts"])
def test_keys_broken_elsewhere_are_formatted_at_once(keys):
    out = format_sql(f"SELECT * FROM t MATCH_RECOGNIZE (\n  {keys}\n  MEASURES FIRST(x) AS x1\n  PATTERN (A)\n)")
    assert format_sql(out) == out


def test_a_comment_behind_a_comma_does_not_join_the_line_comment_before_it():
    clause = "FROM t MATCH_RECOGNIZE (\n  ORDER BY i\n  MEASURES PREV(x) AS p\n    -- own\n    , {} NEXT(x) AS n\n  PATTERN (W+)\n)"
    for comment in ("/* c */", "-- d\n"):
        out = format_sql(clause.format(comment))
        assert f"    PREV(x) AS p,\n    -- own\n    {comment.strip()}\n    NEXT(x) AS n\n" in out and format_sql(out) == out


def test_a_clause_in_one_line_stays_in_it_where_it_fits():
    text = "SELECT * FROM (SELECT * FROM a MATCH_RECOGNIZE (PATTERN (A+) DEFINE A AS v > 1) WHERE v < 3)"
    assert format_sql(text.replace("DEFINE A  AS", "define A as")) == text
    long = text.replace("v < 3", " AND ".join(["v < 3"] * 20))
    assert format_sql(long).count("\n") == 3 and format_sql(text.replace("PATTERN", "-- all\nPATTERN")).count("\n") == 3


def test_a_result_that_is_not_the_same_is_never_given(monkeypatch):
    monkeypatch.setattr(fmt, "_between", lambda left, right: "")
    with pytest.raises(AssertionError, match="please report"):
        format_sql(UNTIDY)


class TestCommand:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "report.sql"
        path.write_text(UNTIDY)
        return path

    def test_it_writes_the_file(self, file, capsys):
        assert main(["fmt", str(file)]) == 0
        assert file.read_text() == TIDY and "formatted" in capsys.readouterr().out
        stamp = file.stat().st_mtime_ns
        assert main(["fmt", str(file)]) == 0
        assert file.stat().st_mtime_ns == stamp

    def test_check_and_diff_write_nothing(self, file, capsys):
        assert main(["fmt", "--check", str(file)]) == 1
        assert "would be formatted" in capsys.readouterr().out
        assert main(["fmt", "--diff", str(file)]) == 0
        out = capsys.readouterr().out
        assert f"--- {file}" in out and "\n+  PARTITION BY symbol, upper( x ) ORDER BY ts DESC NULLS LAST\n" in out
        assert main(["fmt", "--check", "--diff", str(file)]) == 1
        assert file.read_text() == UNTIDY
        file.write_text(TIDY)
        assert main(["fmt", "--check", "--diff", str(file)]) == 0

    def test_errors_leave_the_file(self, file, capsys):
        file.write_text("SELECT * FROM t MATCH_RECOGNIZE (\nPATERN (A))")
        other = file.with_name("good.sql")
        other.write_text(UNTIDY)
        assert main(["fmt", str(file), str(other)]) == 2
        said = capsys.readouterr().err
        assert "SPARKCEP.SYNTAX" in said and "line 2, column 1" in said and str(file) in said
        assert file.read_text().endswith("PATERN (A))") and other.read_text() == TIDY
        assert main(["fmt", str(file.with_name("nowhere.sql"))]) == 2
        assert "does not exist" in capsys.readouterr().err

    def test_files_that_are_no_text(self, file, capsys):
        file.write_bytes(b"SELECT '\xff'")
        for command in ("fmt", "lint"):
            assert main([command, str(file)]) == 2
            assert "is not UTF-8 text" in capsys.readouterr().err

    def test_standard_input(self, monkeypatch, capsys):
        import io

        monkeypatch.setattr("sys.stdin", io.StringIO(UNTIDY))
        assert main(["fmt", "-"]) == 0
        assert capsys.readouterr().out == TIDY


def test_automata_have_a_line_for_each_item():
    untidy = """SELECT * FROM t match_recognize (order by t automaton(register n decimal(4, 1)=0 state q START,z final -- ends
      ARC a from q to q on empty when n>1 set n=n+1 Arc from q to z emit( n as m )) window 5 )"""
    tidy = """SELECT * FROM t match_recognize (
  ORDER BY t
  AUTOMATON (
    REGISTER n decimal(4, 1) = 0
    STATE q START, z FINAL -- ends
    ARC a FROM q TO q ON EMPTY WHEN n>1 SET n = n+1
    ARC FROM q TO z EMIT (n AS m)
  )
  WINDOW 5
)"""
    assert format_sql(untidy) == tidy
    assert format_sql(tidy) == tidy
    by_rows = untidy.replace("automaton(", "automaton  by rows (").replace("n decimal(4, 1)", "n like( w+1 )").replace("Arc from q", "Arc b from q")
    told = tidy.replace("AUTOMATON (", "AUTOMATON BY ROWS (").replace("n decimal(4, 1)", "n LIKE (w+1)").replace("ARC FROM q", "ARC b FROM q")
    assert format_sql(by_rows) == told
    assert format_sql(told) == told
