"""``sparkcep lint``: each rule finds what it is for, at its place, and nothing beside it; comments and exit codes."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from random import Random

import pytest

from sparkcep.cli.cli import main
from sparkcep.cli.trial import preview
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.tools.findings import written
from sparkcep.tools.lint import RULES, Finding, lint
from sparkcep.tools.statements import clauses
from tests.docs.test_sql_examples import STATEMENT_FILES
from tests.grammar.generate import Generator, Mutator
from tests.selection import first

ROOT = Path(__file__).resolve().parents[3]
HEAD = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts "


def codes(clause: str) -> list[str]:
    """The rules, but ANY_ROW, that find something in a clause that is ordered."""
    return [f.code for f in lint(f"{HEAD}{clause})") if f.code != "ANY_ROW"]


def test_values_of_parameters_are_known_when_a_statement_runs():
    assert codes("MEASURES PREV(x, :back) AS p PATTERN (A B) WINDOW :length DEFINE A AS x > :low") == []
    assert codes("PATTERN (A B+?) WINDOW ? DEFINE A AS x > 1, B AS x > 2") == ["RELUCTANT_END"]


def test_a_window_ends_what_swallows_rows():
    (_, found) = lint(f"{HEAD}PATTERN (A X* B) WINDOW INTERVAL 1 HOUR DEFINE A AS x > 1, B AS x > 2)")
    assert found.code == "SWALLOWS_PARTITION" and "to the end of the window" in found.message


DEFINE = "DEFINE A AS x > 1, B AS x > 2, C AS x > 3"
ALL, NEXT = "EVENT SELECTION SKIP TILL ANY MATCH", "EVENT SELECTION SKIP TILL NEXT MATCH"

FOUND = {
    "NO_WINDOW": [
        f"PATTERN (A B+ C) {NEXT} {DEFINE}",
        f"PATTERN (A (B+) WITHIN INTERVAL 5 MINUTES C*) {NEXT} {DEFINE}",
        f"PATTERN (A B{{2,}}) {ALL} {DEFINE}",
    ],
    "RELUCTANT_END": [
        f"PATTERN (A B+?) {DEFINE}",
        f"PATTERN (A B*? C?) {DEFINE}",
        f"PATTERN (A (B C{{2,5}}? | C)) {DEFINE}",
        f"PATTERN ((A B??)+) {DEFINE}",
        f"PATTERN ({{- A B+? -}}) {DEFINE}",
        f"PATTERN (A B+?) WINDOW 5 ROWS {NEXT} {DEFINE}",
    ],
    "SWALLOWS_PARTITION": [
        "PATTERN (A X* B) DEFINE A AS x > 1, B AS x > 2",
        "PATTERN (A {- X+ -} B) DEFINE A AS x > 1, B AS x > 2",
        "PATTERN (A (X | A){2,} (C | B)) DEFINE A AS x > 1, B AS x > 2, C AS x > 3",
        "PATTERN ((X* A)+) DEFINE A AS x > 1",
    ],
    "MANY_MATCHES": [
        f"PATTERN (A+ B+) WINDOW 5 ROWS {ALL} {DEFINE}",
        f"PATTERN ((A+ B)*) WINDOW 5 ROWS {ALL} {DEFINE}",
        f"PATTERN (A+ B{{3,}}) WINDOW 5 ROWS EVENT SELECTION STRICT CONTIGUITY ALL MATCHES {DEFINE}",
    ],
    "ENDLESS_AUTOMATON": [
        "AUTOMATON (STATE z FINAL ARC FROM a TO b WHEN x > 1 STATE b IGNORE WHEN x > 2 ARC FROM b TO z)",
        "AUTOMATON (STATE z FINAL ARC FROM a TO b ARC FROM b TO c ARC FROM c TO B ARC FROM c TO z)",
    ],
    "UNREACHABLE_STATE": ["AUTOMATON (STATE a START, z FINAL ARC FROM a TO z ARC FROM lost TO z) WINDOW 5"],
    "NEVER_FIRST": [
        "PATTERN (A+) DEFINE A AS x > LAST(A.x,1)",
        "PATTERN (A+ B) DEFINE A AS y > 0 AND (abs(y) < 2) AND NOT (x <= 2 * FIRST(a.x,1) + 1)",
        "PATTERN (B A{2,}) DEFINE A AS CAST(LAST(A.x,2) AS BIGINT) BETWEEN 1 AND 5 OR LAST(A.y,1) IN (1,2)",
    ],
    "SELECTION_IN_PATTERN": [
        f"PATTERN (A SKIP TILL NEXT MATCH B) {DEFINE}",
        f"PATTERN (A till B) {DEFINE}",
    ],
    "OTHER_ENGINE": [
        f"MEASURES MATCH_SEQUENCE_NUMBER() AS n PATTERN (A) {DEFINE}",
        f"MEASURES LAST(match_rowtime()) AS n PATTERN (A) {DEFINE}",
        "PATTERN (A) DEFINE A AS x > 1 AND (y < average(y))",
    ],
    "QUOTED_NAME": [
        f'MEASURES "A".x AS n PATTERN (A) {DEFINE}',
        f', "day" MEASURES A.x AS n PATTERN (A) {DEFINE}',
        f'MEASURES LAST("x") AS n PATTERN (A) {DEFINE}',
        'PATTERN (A) DEFINE A AS y = 1 OR ("x" > 2)',
        'PATTERN (A) DEFINE A AS y = 1 OR 2 < "x"',
    ],
    "SKIP_TO_ITSELF": [
        f"AFTER MATCH SKIP TO FIRST A PATTERN (A B) {DEFINE}",
        f"AFTER MATCH SKIP TO A PATTERN (A B) {DEFINE}",
        f"AFTER MATCH SKIP TO LAST A PATTERN (A B*) {DEFINE}",
        f"AFTER MATCH SKIP TO FIRST A PATTERN (A+ B A) {DEFINE}",
        f"AFTER MATCH SKIP TO FIRST A PATTERN (A B) WINDOW 5 ROWS {NEXT} {DEFINE}",
        f"AFTER MATCH SKIP TO LAST U PATTERN (A ~B C) WINDOW 5 ROWS {NEXT} SUBSET U = (A, B) {DEFINE}",
        f"AFTER MATCH SKIP TO FIRST U PATTERN ((A | B) C) SUBSET U = (A, B) {DEFINE}",
    ],
    "UNFINISHED_EVERYWHERE": [
        "MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (S A) DEFINE A AS x > 1",
        "MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW TIMEOUT MATCHES PATTERN (A? S B) WINDOW 5 DEFINE A AS x > 1, B AS x > 2",
        "MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A? s S) WINDOW 5 DEFINE A AS x > 1",
    ],
    "UNFINISHED_UNMARKED": [
        f"MEASURES A.x AS n ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A B) {DEFINE}",
        f"ALL ROWS PER MATCH WITH UNMATCHED ROWS SHOW TIMEOUT MATCHES AS OF 9 PATTERN (A B) WINDOW 5 {DEFINE}",
    ],
    "NEVER_UNFINISHED": [f"MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A* B?) {DEFINE}"],
    "UNUSED_SUBSET": [f"MEASURES count(A.*) AS n PATTERN (A B) SUBSET U = (A, B) {DEFINE.replace(', C AS x > 3', '')}"],
}
NOT_FOUND = {
    "ENDLESS_AUTOMATON": [
        "AUTOMATON (STATE z FINAL ARC FROM a TO b ARC FROM b TO b ARC FROM b TO z) WINDOW 5",
        "AUTOMATON (STATE z FINAL ARC FROM a TO b ARC FROM b TO b ARC FROM b TO z) LIFETIME TO x + 1",
        "AUTOMATON (STATE z FINAL ARC FROM a TO b ARC FROM b TO z)",
    ],
    "UNREACHABLE_STATE": ["AUTOMATON (STATE z FINAL ARC FROM a TO b ARC FROM b TO z) WINDOW 5"],
    "NO_WINDOW": [
        f"PATTERN (A B+ C) WINDOW 50 ROWS {NEXT} {DEFINE}",
        f"PATTERN (A (B+) WITHIN INTERVAL 5 MINUTES C) {NEXT} {DEFINE}",
        f"PATTERN (A B C) {ALL} {DEFINE}",
        f"PATTERN (A ~(B+ C) D) {ALL} {DEFINE}",
        f"PATTERN (A B+ C) {DEFINE}",
    ],
    "RELUCTANT_END": [
        f"PATTERN (A B+? C) {DEFINE}",
        f"PATTERN (A B+? $) {DEFINE}",
        f"PATTERN ((A B+?){{2}}) {DEFINE}",
        f"PATTERN (A B{{2}}?) {DEFINE}",
        f"PATTERN (A B+) {DEFINE}",
        f"PATTERN (A B+?) WINDOW 5 ROWS {ALL} {DEFINE}",
    ],
    "SWALLOWS_PARTITION": [
        "PATTERN (A X*? B) DEFINE A AS x > 1, B AS x > 2",
        "PATTERN (A X{0,9} B) DEFINE A AS x > 1, B AS x > 2",
        "PATTERN (A X* $) DEFINE A AS x > 1",
        "PATTERN (A X*) DEFINE A AS x > 1",
        "PATTERN (A x* B) DEFINE A AS x > 1, B AS x > 2, X AS x < 7",
        f"PATTERN (A X* B) WINDOW 5 ROWS {NEXT} DEFINE A AS x > 1, B AS x > 2",
    ],
    "MANY_MATCHES": [
        f"PATTERN (A+ B{{1,3}}) WINDOW 5 ROWS {ALL} {DEFINE}",
        f"MEASURES MATCH_COUNT() AS n PATTERN (A+ B+) WINDOW 5 ROWS {ALL} {DEFINE}",
        f"AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B+) WINDOW 5 ROWS {ALL} {DEFINE}",
        f"PATTERN (A+ B+) WINDOW 5 ROWS {NEXT} {DEFINE}",
    ],
    "NEVER_FIRST": [
        "PATTERN (A+) DEFINE A AS x > LAST(A.x)",
        "PATTERN (A+) DEFINE A AS x > LAST(A.x,0)",
        "PATTERN (A+) DEFINE A AS x > PRIOR(LAST(A.x))",
        "PATTERN (A+) DEFINE A AS x > LAST(A.x,1) OR x > 5",
        "PATTERN (A+) DEFINE A AS x > coalesce(LAST(A.x,1),0)",
        "PATTERN (A+) DEFINE A AS x <=> LAST(A.x,1)",
        "PATTERN (A+) DEFINE A AS x NOT BETWEEN LAST(A.x,1) AND 5",
        "PATTERN (B A+) DEFINE A AS x > LAST(B.x,1)",
        "PATTERN (B A+) SUBSET U = (A, B) DEFINE A AS x > LAST(U.x,1)",
    ],
    "SELECTION_IN_PATTERN": [
        "PATTERN (A NEXT B) DEFINE A AS x > 1, NEXT AS x > 2",
        f"PATTERN (A B) {NEXT} WINDOW 5 ROWS {DEFINE}",
    ],
    "OTHER_ENGINE": [f"MEASURES MATCH_NUMBER() AS match_num, avg(A.average) AS n PATTERN (A) {DEFINE}"],
    "QUOTED_NAME": [
        f"""MEASURES LAST('x') AS n, `A`.x AS m, concat("x", LAST(x)) AS l PATTERN (A) {DEFINE}""",
        'PATTERN (A) DEFINE A AS x = "A" OR x IN ("B") OR x LIKE "C%"',
    ],
    "SKIP_TO_ITSELF": [
        f"AFTER MATCH SKIP TO FIRST B PATTERN (A B) {DEFINE}",
        f"AFTER MATCH SKIP TO LAST A PATTERN (A+ B) {DEFINE}",
        f"AFTER MATCH SKIP TO LAST A PATTERN (A B A) {DEFINE}",
        f"AFTER MATCH SKIP TO FIRST A PATTERN (B? A) {DEFINE}",
        f"AFTER MATCH SKIP TO FIRST A PATTERN ((A | B) C) {DEFINE}",
        f"AFTER MATCH SKIP TO FIRST A PATTERN (PERMUTE(A, B)) {DEFINE}",
        f"AFTER MATCH SKIP TO FIRST A PATTERN (A* | A B) {DEFINE}",
        f"AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) {DEFINE}",
    ],
    "UNFINISHED_EVERYWHERE": [
        f"MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A S) {DEFINE}",
        "MEASURES A.x AS n PATTERN (S A) DEFINE A AS x > 1",
        "MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A S+ s) WINDOW 5 DEFINE A AS x > 1",
    ],
    "UNFINISHED_UNMARKED": [
        f"MEASURES lower(match_status()) AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A B) {DEFINE}",
        f"MEASURES A.x AS n ONE ROW PER MATCH PATTERN (A B) {DEFINE}",
    ],
    "NEVER_UNFINISHED": [f"MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A* B) {DEFINE}"],
    "UNUSED_SUBSET": [
        "MEASURES count(u.*) AS n PATTERN (A B) SUBSET U = (A, B) DEFINE B AS x > 2",
        "PATTERN (A B) SUBSET U = (A, B) DEFINE B AS x > avg(U.x)",
        "AFTER MATCH SKIP TO LAST U PATTERN (A B) SUBSET U = (A, B) DEFINE B AS x > 2",
        "MEASURES classifier(U) AS c PATTERN (A B) SUBSET U = (A, B) DEFINE B AS x > 2",
    ],
}


def defined(clause: str) -> str:
    """``clause`` without definitions of variables that its pattern does not have."""
    if clause.startswith("AUTOMATON"):
        return clause
    pattern = clause.partition("PATTERN")[2].partition("DEFINE")[0]
    kept = [d for d in clause.partition("DEFINE ")[2].split(", ") if re.search(rf"\b{d.split()[0]}\b", pattern, re.I)]
    return f"{clause.partition('DEFINE ')[0]}DEFINE {', '.join(kept)}"


@pytest.mark.parametrize(("rule", "clause"), [(r, c) for r, all_of in FOUND.items() for c in all_of])
def test_a_rule_finds(rule, clause):
    assert rule in codes(defined(clause))


@pytest.mark.parametrize(("rule", "clause"), [(r, c) for r, all_of in NOT_FOUND.items() for c in all_of])
def test_a_rule_is_silent(rule, clause):
    found = codes(defined(clause))
    assert rule not in found and not any(c.startswith("SPARKCEP.") for c in found)


@pytest.mark.parametrize(("found", "clause"), [(found, c) for found in (True, False) for c in (FOUND if found else NOT_FOUND)["SKIP_TO_ITSELF"]])
def test_a_skip_to_itself_is_an_error_at_the_first_match(found, clause):
    """The engine over all texts of four letters is the judge: the rule speaks where the first match of each is the error."""
    pattern = clause.removesuffix(DEFINE)
    letters = sorted(set(re.findall(r"\b[ABC]\b", pattern)))
    goes_on = [_first_match_goes_on(pattern, rows) for rows in product(letters, repeat=4)]
    assert (not found) in goes_on and (not found or True not in goes_on)


def _first_match_goes_on(pattern: str, rows: tuple[str, ...]) -> bool | None:
    """Whether the first match of a clause over letters leads to another row than its first one. None: there is no match."""
    try:
        return True if preview(f"ORDER BY x MEASURES MATCH_NUMBER() AS n {pattern}", rows).matches else None
    except MatchRuntimeError as error:
        return error.error_class != "SPARKCEP.SKIP_TO_FIRST_ROW" or "of match 1," not in error.message


@pytest.mark.parametrize(("text", "place"), [
    ("SELECT * FROM t\n MATCH_RECOGNISE (ORDER BY x PATTERN (A B) DEFINE A AS x > 1)", (2, 2, "MATCH_RECOGNISE")),
    ("SELECT 1;\nSELECT * FROM t match recognize (ORDER BY x PATTERN (A B))", (2, 17, "match recognize")),
    ("SELECT * FROM t MATCH_RECOGNIZE ORDER BY x PATTERN (A B)", (1, 17, "MATCH_RECOGNIZE")),
])  # fmt: skip
def test_a_clause_that_is_not_begun(text, place):
    (found,) = lint(text)
    assert (found.severity, found.code) == ("error", "SPARKCEP.SYNTAX") and (found.line, found.column, found.fragment) == place
    assert lint("SELECT pattern(a) FROM t match_recogniser WHERE x IN (1)") == []


def test_misspelled_variables():
    text = f"{HEAD}\n MEASURES LAST({{}}.x) AS a PATTERN (STRT DOWN+) DEFINE DOWN AS x > 1)"
    (found,) = (f for f in lint(text.format("DONW")) if f.code == "MISSPELLED_VARIABLE")
    assert (found.severity, found.line, found.column, found.fragment) == ("warning", 2, 16, "DONW.x")
    assert found.message == "PATTERN does not have a variable DONW; did you mean DOWN?"
    for right in ("down", "Strt", "address"):  # a variable, another case, what is near none
        assert "MISSPELLED_VARIABLE" not in [f.code for f in lint(text.format(right))]
    aliased = text.replace(" MATCH", " AS donw MATCH", 1).format("DONW")
    assert "AS donw" in aliased and "MISSPELLED_VARIABLE" not in [f.code for f in lint(aliased)]


STREAMED = "SELECT * FROM {} MATCH_RECOGNIZE (PARTITION BY k ORDER BY x MEASURES MATCH_STATUS() AS st ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A B) DEFINE A AS x > 1, B AS x > 2) WHERE st {}"


def test_a_stream_without_open_matches():
    text = STREAMED.format("STREAM t WATERMARK x DELAY OF INTERVAL 5 SECONDS", "<> 'OPEN'")
    (found,) = lint(text)
    assert (found.code, found.severity, found.fragment, found.column) == ("OPEN_OVER_STREAM", "warning", "'OPEN'", text.index("'OPEN'") + 1)
    for source, condition in (("STREAM t", "= 'BROKEN'"), ("t", "= 'OPEN'"), ("stream", "= 'OPEN'"), ("stream AS s", "= 'OPEN'"), ("t AS stream", "= 'OPEN'")):
        assert lint(STREAMED.format(source, condition)) == [], source


def test_order():
    (found,) = lint("SELECT 1;\nSELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k PATTERN (A) DEFINE A AS x > 1)")
    assert (found.code, found.severity, found.line, found.column, found.fragment) == (
        "NO_ORDER",
        "warning",
        2,
        17,
        "MATCH_RECOGNIZE",
    )


def test_a_measure_with_the_name_of_a_key():
    clause = "FROM t MATCH_RECOGNIZE (PARTITION BY s, `k` ORDER BY x MEASURES LAST(x) AS {}, FIRST(x) AS y PATTERN (A) DEFINE A AS x > 1)"
    assert [(f.code, f.fragment) for f in lint("SELECT * " + clause.format("K"))] == [("TWO_OF_A_NAME", "K")]
    assert lint("SELECT * " + clause.format("z")) == []


def test_undefined_variables_are_told_once():
    found = [f for f in lint(f"{HEAD}\n PATTERN (strt A+ STRT | B)\nDEFINE A AS x > 1)")]
    assert [(f.code, f.severity, f.line, f.fragment) for f in found] == [
        ("ANY_ROW", "info", 2, "strt"),
        ("ANY_ROW", "info", 2, "B"),
    ]


def test_places_are_those_of_the_file():
    text = f"-- häßlich\nSELECT ';' AS a;\n\n  {HEAD}\n  PATTERN (A B+?)\n  DEFINE A AS x > 1, B AS x > 2);\nSELECT 2"
    (found,) = lint(text)
    assert (found.line, found.column, found.fragment) == (5, 14, "B+?")


def test_errors_of_each_statement():
    text = (
        "SELECT * FROM t MATCH_RECOGNIZE (PATERN (A));\n"
        f"{HEAD}PATTERN (A) DEFINE X AS x > 1);\n"
        f"{HEAD}PATTERN (A B+?) DEFINE A AS x > 1, B AS x > 2);\n"
        "SELECT * FROM match_recognize(TABLE(t), 'PARTITION BY k PATTERN (A) DEFINE X AS x > 1');\n"
    )
    found = lint(text)
    assert [(f.code, f.line) for f in found if f.severity == "error"] == [
        ("SPARKCEP.SYNTAX", 1), ("SPARKCEP.UNKNOWN_VARIABLE", 2), ("SPARKCEP.UNKNOWN_VARIABLE", 4),
    ]  # fmt: skip
    assert [(f.code, f.line) for f in found if f.severity != "error"] == [("RELUCTANT_END", 3)]
    assert [f.column for f in found if f.line == 4] == [text.splitlines()[3].index("X AS") + 1]
    assert [f.code for f in lint("SELECT 'x")] == ["SPARKCEP.UNTERMINATED_LITERAL"]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("SELECT 1, m.* FROM match_recognize(TABLE(t),\n 'PARTITION BY k\n PATTERN (A) DEFINE WRONG AS x > 1') m", "WRONG"),
        ("SELECT * FROM match_recognize(TABLE(t) PARTITION BY (k) ORDER BY (b), 'PATTERN (A) DEFINE WRONG AS x > 1')", "WRONG"),
        ("SELECT * FROM match_recognize(TABLE(t) PARTITION BY (k), 'PATTERN (A) DEFINE WRONG AS x = \\'1\\'')", "'PATTERN"),
        ("SELECT * FROM match_recognize(TABLE(t) PARTITION BY (1 +) ORDER BY (b), 'PATTERN (A)')", "'PATTERN"),
        (
            "SELECT * FROM match_recognize(TABLE(SELECT * FROM u MATCH_RECOGNIZE (PARTITION BY k PATTERN (A) DEFINE WRONG AS true)), "
            "'PARTITION BY k PATTERN (A)')",
            "WRONG",
        ),
    ],
)
def test_errors_inside_a_call_of_the_table_function(text, at):
    (found,) = (f for f in lint(text) if f.severity == "error")
    before = text[: text.index(at)]
    assert (found.line, found.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_ignore_comments():
    clause = "PATTERN (A B+?){} {}\n DEFINE A AS x > 1, B AS x > 2"
    both = f"{HEAD}{clause.format('', '')}) -- sparkcep: ignore RELUCTANT_END"
    assert [f.code for f in lint(both)] == ["RELUCTANT_END"]  # it stands in the next line
    assert lint(f"{HEAD}{clause.format('', '-- sparkcep: ignore RELUCTANT_END')})") == []
    assert lint(f"{HEAD}{clause.format('', '/* sparkcep: ignore NO_ORDER , RELUCTANT_END: as asked for */')})") == []
    assert lint(f"-- sparkcep: ignore RELUCTANT_END, because\n-- it is an example\n\n{HEAD}{clause.format('', '')})") == []
    # what a string says is no comment
    assert [
        f.code
        for f in lint(f"SELECT '-- sparkcep: ignore RELUCTANT_END'\nFROM t MATCH_RECOGNIZE (ORDER BY x {clause.format('', '')})")
    ]
    for comment, said in (("-- sparkcep: ignore NO_SUCH", "unknown rule NO_SUCH"), ("-- sparkcep: ignore", "name the rules")):
        (found,) = lint(f"{comment}\nSELECT 1")
        assert (found.code, found.severity) == ("IGNORE", "warning") and said in found.message


def test_errors_cannot_be_ignored():
    found = lint(f"-- sparkcep: ignore UNKNOWN_VARIABLE\n{HEAD}PATTERN (A) DEFINE X AS x > 1)")
    assert [f.code for f in found] == ["IGNORE", "SPARKCEP.UNKNOWN_VARIABLE"]


def test_examples_have_no_errors():
    for path in STATEMENT_FILES:
        assert [f for f in lint(path.read_text(encoding="utf-8")) if f.severity == "error"] == [], path


def test_each_rule_is_documented():
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([A-Z_]+)` \| (?:warning|info) \|", page, re.M) == list(RULES)


COLUMN = len(f"{HEAD}PATTERN (A ") + 1


class TestCommand:
    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "report.sql"
        path.write_text(f"{HEAD}PATTERN (A B+?) DEFINE A AS x > 1, B AS x > 2)")
        return path

    def test_text(self, file, capsys):
        assert main(["lint", str(file)]) == 1
        assert capsys.readouterr().out.startswith(f"{file}:1:{COLUMN}: warning RELUCTANT_END: nothing has to follow B+?")

    def test_json(self, file, capsys):
        assert main(["lint", "--format", "json", str(file)]) == 1
        (found,) = json.loads(capsys.readouterr().out)
        assert found["file"] == str(file) and (found["code"], found["line"], found["column"]) == ("RELUCTANT_END", 1, COLUMN)

    def test_exit_codes(self, file, capsys):
        file.write_text(f"{HEAD}PATTERN (A B) DEFINE B AS x > 2)")
        assert main(["lint", str(file)]) == 0  # an info only
        assert "info ANY_ROW" in capsys.readouterr().out
        file.write_text("SELECT 1")
        assert main(["lint", str(file), "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == []
        file.write_text(f"{HEAD}PATTERN (A) DEFINE X AS x > 2)")
        assert main(["lint", str(file)]) == 2
        assert main(["lint", str(file.with_name("nowhere.sql"))]) == 2


@pytest.mark.further
@pytest.mark.parametrize("seed", first([0, 1], wider=1))
def test_random_clauses(seed):
    """Valid or broken, every text is judged, and every place is one in it."""
    judged = 0
    for i in range(200):
        generator = Generator(Random(1000 * seed + i))
        pieces = generator.pieces("match_clause")
        clause = generator.layout(pieces) if i % 2 else Mutator(generator).text(pieces)
        text = f"SELECT 1;\nSELECT * FROM t MATCH_RECOGNIZE ({clause}\n) AS m"
        lines = text.split("\n")
        for f in lint(text):
            assert f.line <= len(lines) and f.column <= len(lines[f.line - 1]) + 1, (i, f, text)
        try:
            places = clauses(text)
        except ClauseError:
            continue
        # what these clauses mean is wrong as a rule, so that lint stops at the error: the rules must bear them all the same
        for place in places:
            for rule in RULES.values():
                for span, _ in rule.check(place.clause):
                    judged += 1
                    assert span is None or place.start <= span.start < span.end <= place.end
    assert judged > 100


def test_formats_of_findings():
    """GitHub's commands escape what ends their parts; SARIF has each rule once."""
    findings = [
        ("a,b:c.sql", Finding("SPARKCEP.SYNTAX", "error", 3, 7, "x", "50 % of\nit")), ("d.sql", Finding("no-window", "warning", 1, 1, "y", "unbounded")),
        ("d.sql", Finding("no-window", "warning", 9, 2, "y", "unbounded")),
    ]  # fmt: skip
    assert written(findings, "github").splitlines() == [
        "::error file=a%2Cb%3Ac.sql,line=3,col=7,title=SPARKCEP.SYNTAX::50 %25 of%0Ait",
        "::warning file=d.sql,line=1,col=1,title=no-window::unbounded",
        "::warning file=d.sql,line=9,col=2,title=no-window::unbounded",
    ]
    (run,) = json.loads(written(findings, "sarif"))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["SPARKCEP.SYNTAX", "no-window"]
    assert [(result["ruleId"], result["ruleIndex"], result["level"]) for result in run["results"]] == [
        ("SPARKCEP.SYNTAX", 0, "error"), ("no-window", 1, "warning"), ("no-window", 1, "warning"),
    ]  # fmt: skip
    assert run["results"][2]["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "d.sql"}, "region": {"startLine": 9, "startColumn": 2}}
    assert written(findings[1:], "text").splitlines()[0] == "d.sql:1:1: warning no-window: unbounded"
    assert written([], "github") == written([], "text") == ""
