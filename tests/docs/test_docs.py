"""The examples of the documentation run and give what stands below them; its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparkcep import explain, rewrite
from sparkcep.clause.tokens import split_statements
from sparkcep.cli import cli
from sparkcep.errors import ClauseError
from sparkcep.tools.fmt import format_sql
from tests.docs.test_sql_examples import table_text
from tests.selection import one_in

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("tour", "reference_standard", "reference_selection", "reference_automaton", "reference_approx", "reference_ranking", "reference_settings", "coming_from", "troubleshooting", "budget", "automata", "use", "cookbook"))]
_EXAMPLE = re.compile(r"```sql\n((?:(?!```).)*?)```\n\s*```(text|error)\n(.*?)```", re.S)
README = (ROOT / "README.md").read_text(encoding="utf-8")


BLOCKS = [(found[1], found[2]) for found in re.finditer(r"```(\w+)\n(.*?)```", README, re.S)]
(_, FAILED_LOGINS), (_, LOGINS_FOUND), (_, TRY_IT), (_, TRIED), (_, V_SHAPE), (_, SHAPES_FOUND), (_, WINDOWS) = BLOCKS[:7]
LOGINS = re.search(r"VALUES.*?AS logins\(.*?\)", TRY_IT, re.S)[0]
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
_RAISED = re.compile(r'(?:error|_fail|error_at|ClauseError|MatchRuntimeError)\([^)]*?"([A-Z_]+)"', re.S)

EXAMPLES = [
    pytest.param(*m.groups(), id=f"{page.stem}-{i}")
    for page in PAGES
    for i, m in enumerate(_EXAMPLE.finditer(page.read_text(encoding="utf-8")))
]


@pytest.fixture(scope="module")
def views(spark):
    """The views the pages speak of: those of two examples."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW logins AS SELECT * FROM {LOGINS}")
    for name in ("v_shape", "reluctant"):
        spark.sql(split_statements((ROOT / "sql_examples" / f"{name}.sql").read_text(encoding="utf-8"))[0])
    return spark


def cells(table: str) -> list[list[str]]:
    """The cells of a table as ``show`` prints it, line by line."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]


def aligned(table: str) -> bool:
    """Whether a table is as ``show`` prints it."""
    lines = table.splitlines()
    return lines[0] == lines[2] == lines[-1] and re.fullmatch(r"(\+-*)+\+", lines[0]) is not None and {len(line) for line in lines} == {len(lines[0])}


@pytest.mark.parametrize(("sql", "kind", "expected"), one_in(24, EXAMPLES, wider=4))
def test_example(views, sql, kind, expected):
    if kind == "text":
        assert aligned(expected)
        assert sorted(table_text(views.sql(sql)).splitlines()) == sorted("\t".join(row) for row in cells(expected))
        return
    error_class, place = expected.split()
    with pytest.raises(ClauseError) as caught:
        views.sql(sql)
    assert (caught.value.error_class, f"{caught.value.line}:{caught.value.column}") == (error_class, place)


RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
_RECIPE = re.compile(r"\n## [^\n]+\n\n(?P<problem>[^\n]+)\n\n```sql\n(?P<rows>CREATE.*?);\n```\n\n```sql\n(?P<statement>.*?)```\n\n```text\n(?P<found>.*?)```\n\n!\[[^]]+\]\((?P<picture>\w+\.svg)\)", re.S)


@pytest.mark.parametrize("page", one_in(6, RECIPES), ids=lambda page: page.stem)
def test_recipes_give_what_they_show(spark, page):
    """Each has its rows, a statement in the layout of ``fmt``, its result and its picture."""
    text = page.read_text(encoding="utf-8")
    recipes = list(_RECIPE.finditer(text))
    assert len(recipes) == text.count("\n## ") and len(recipes) >= 2
    for recipe in recipes:
        rows, statement, found, picture = recipe.group("rows", "statement", "found", "picture")
        spark.sql(rows)
        assert aligned(found) and sorted(cells(spark.sql(statement)._jdf.showString(100, 100, False))) == sorted(cells(found))
        assert (page.parent / picture).read_text(encoding="utf-8") == explain(statement, "svg")
        assert format_sql(statement) == statement


def test_there_are_thirteen_recipes_and_the_failed_logins_come_first():
    assert sum(page.read_text(encoding="utf-8").count("\n## ") for page in RECIPES) >= 13
    nav = (ROOT / ".mkdocs.yml").read_text(encoding="utf-8")
    assert re.search(r"recipes/(\w+)\.md", nav)[1] == "security"
    assert "## Failed logins" in (ROOT / "docs" / "recipes" / "security.md").read_text(encoding="utf-8").split("\n\n")[2]


def test_the_readme_compares_like_with_like(views):
    """Its window functions find what its clause finds, and the pictures are those of its clauses."""
    found, windows = (sorted(table_text(views.sql(sql)).splitlines()) for sql in (V_SHAPE, WINDOWS))
    assert found == windows == sorted("\t".join(row) for row in cells(SHAPES_FOUND))
    for name, statement in (("failed_logins", FAILED_LOGINS), ("v_shape", V_SHAPE)):
        assert (ROOT / "docs" / f"{name}.svg").read_text(encoding="utf-8") == explain(statement, "svg")


def test_the_readmes_figures_are_those_of_the_benchmark():
    rows = re.findall(r"\n\| (V pattern|three steps[^|]*|five letters[^|]*) \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|", (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    figures = {name.partition(",")[0]: f"{float(ratio):.1f} times" for name, ratio in rows[:3]}
    said = " ".join(README.split())
    for name, about in (("V pattern", "this query takes {} as long"), ("three steps", "rows in between takes {}"), ("five letters", "two errors takes {}")):
        assert about.format(figures[name]) in said


def test_the_minutes_of_the_tests_are_the_same_everywhere():
    minutes = re.search(r"The tests take about (\w+) minutes on two cores", README)[1]
    assert f"about {minutes} minutes" in (ROOT / "tests" / "README.md").read_text(encoding="utf-8")


def test_what_the_readme_lets_you_try(spark, capsys):
    exec(compile(TRY_IT, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == TRIED.strip() == LOGINS_FOUND.strip()
    assert FAILED_LOGINS.split() == re.search(r'"""(.*?)"""', TRY_IT, re.S)[1].replace(LOGINS, "logins").split()


def test_the_tours_programs_run(views, capsys):
    """They open the session, make the view of the other examples and apply the clause to a DataFrame."""
    text = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(programs) == 3
    ticks = sorted(views.table("ticks").collect())
    views.sql("DROP VIEW ticks")
    made: dict = {}
    for program in programs:
        exec(compile(program, "tour.md", "exec"), made)
    assert capsys.readouterr().out.strip() == re.search(r"rises\.show\(\)\n```\n\n```text\n(.*?)```", text, re.S)[1].strip()
    assert sorted(views.table("ticks").collect()) == ticks


def test_the_pages_have_examples():
    assert len(EXAMPLES) >= 20
    assert {p.id.rpartition("-")[0] for p in EXAMPLES} == {page.stem for page in PAGES}


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


LANGUAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
_CITED = re.compile(r"LANGUAGE sections? ((?:\d+(?:, | and )?)+)")


def test_cited_sections_of_the_language_are_there():
    sections = set(re.findall(r"^## (\d+)\. ", LANGUAGE, re.M))
    cited = set()
    for path in [*(ROOT / "sparkcep").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        for numbers in _CITED.findall(path.read_text(encoding="utf-8")):
            cited |= set(re.findall(r"\d+", numbers))
    assert {"1", "4", "5", "9"} <= cited <= sections


@pytest.mark.parametrize(
    ("clause", "error_class"),
    [
        ("PATTERN (A ~(B D) C) WINDOW 9 APPROX 1 DEFINE A AS x = 1, B AS x > A.x, C AS x = 3, D AS x = 4", "NEGATION"),
        ("AUTOMATON (STATE a FINAL ARC FROM a TO a ARCS FROM active)", "AUTOMATON"),
    ],
)
def test_what_the_language_promises_and_is_not_there_yet(clause, error_class):
    """What is built must leave the list at the head of docs/language.md."""
    measures = "" if "MEASURES" in clause else "MEASURES A.x AS x "
    define = "" if "DEFINE" in clause else " DEFINE A AS x = 1, B AS x = 2, C AS x = 3"
    with pytest.raises(ClauseError) as caught:
        rewrite(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts {measures}{clause}{define})")
    assert caught.value.error_class == f"SPARKCEP.{error_class}"


def test_every_error_class_is_in_the_reference():
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "sparkcep").rglob("*.py"))
    raised = set(_RAISED.findall(source))
    listed = set(re.findall(r"\| `SPARKCEP\.([A-Z_]+)` \|", (ROOT / "docs" / "reference_settings.md").read_text(encoding="utf-8")))
    assert {"PATTERN_TOO_COMPLEX", "UNKNOWN_VARIABLE"} <= raised <= listed


def test_every_function_is_in_the_table_of_all():
    from sparkcep.plan import scope
    from sparkcep.plan.split import measures
    from sparkcep.spark.exec.table_function import GRAPH_FUNCTIONS

    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+)\(", page.partition("## All measures and functions\n")[2]))
    families = (scope.NAVIGATIONS, scope.OF_MATCHES, scope.RANKED, scope.SLIDING, scope.ENDINGS, measures.APPROXIMATE, measures.LIFETIMES, measures.CHANGED, GRAPH_FUNCTIONS)
    assert {name for family in families for name in family} | {scope.PRIOR, "CLASSIFIER", "MATCH_NUMBER"} == listed


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"], ids=lambda p: p.name)
def test_anchors_are_headings(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        headings = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+)$", text, re.M)}
        assert anchor in headings, (target, anchor)


def test_pages_install_from_a_checkout():
    """The package is on no index yet."""
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        if page.stem not in ("errors", "CHANGELOG"):
            assert not re.search(r"pip install '?sparkcep", page.read_text(encoding="utf-8")), page.name


def test_the_settings_page_names_both_forms_of_a_setting():
    """Spark drops keys that begin with another word than spark."""
    page = (ROOT / "docs" / "reference_settings.md").read_text(encoding="utf-8")
    assert "--conf spark.sparkcep.maxSteps" in page and "drop keys that begin otherwise" in page


def test_an_engine_that_transpile_reads_has_a_column_or_a_section():
    page = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")
    for engine in ("Oracle", "Trino", "Snowflake", "Flink SQL", "Databricks", "DuckDB"):
        assert f"| {engine} |" in page


def test_the_home_page_shows_what_the_readme_shows():
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"```\w+\n(.*?)```", home, re.S) == [FAILED_LOGINS, LOGINS_FOUND]
    assert re.findall(r"!\[[^]]+\]\((\w+\.svg)\)", home) == ["failed_logins.svg", "plot.svg"] and all((ROOT / "docs" / name).exists() for name in ("failed_logins.svg", "plot.svg"))


# README -> the commands that it shows in a line
COMMANDS = [text.removeprefix("sparkcep ") for text in re.findall(r"`(sparkcep [a-z][^`]*)`", README)]


def test_the_readmes_commands_are_commands():
    assert len(COMMANDS) >= 7
    for text in COMMANDS:
        assert cli._parser().parse_args(text.split()).command == text.split()[0]


@pytest.mark.process
def test_the_readmes_commands_run(tmp_path):
    """Those over files, with the README's falls and rises in them."""
    (tmp_path / "query.sql").write_text(V_SHAPE)
    view = split_statements((ROOT / "sql_examples" / "v_shape.sql").read_text(encoding="utf-8"))[0]
    rows = re.findall(r"\('(\w+)', (\d+), (\d+)\)", view)
    (tmp_path / "ticks.csv").write_text("symbol,day,price\n" + "".join(",".join(row) + "\n" for row in rows))
    for text in COMMANDS:
        if "query.sql" in text:
            done = subprocess.run([sys.executable, "-m", "sparkcep", *text.split()], cwd=tmp_path, capture_output=True, text=True, check=True)
            assert sorted(cells(done.stdout)) == sorted(cells(SHAPES_FOUND)) if text.startswith("run") else "MATCH_RECOGNIZE" in done.stdout, done.stdout
