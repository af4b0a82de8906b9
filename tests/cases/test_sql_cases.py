"""The SQL cases of ``tests/cases``: one test per case, all in one Spark session.

``sql_case_files`` describes the files. ``test_in_process.py`` runs most cases without Spark, so the default run takes each 256th of
these, and the wider run each fortieth. Of the other cases that start a job, the default run takes the first one of each twelfth
file, and of each file that has nothing else in the default run. The wider run takes a sixth of the rest.

The clause's own reader finds two thirds of the errors and needs no Spark. The default run takes all of these in this process, and
each 32nd of them in Spark too; the wider run takes each sixteenth. Of the other errors, the default run takes the first one of
such files, and the wider run takes the rest. In Spark, an error case also checks that no job was started.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import sparkcep
from sparkcep.errors import ClauseError
from tests.cases.error_messages import message
from tests.cases.sql_case_files import Case, CaseFile, CaseFileError, in_spark_alone, is_ordered, name_of, read_case_file
from tests.support.views import drop_views

FOLDER = Path(__file__).resolve().parent
FILES = sorted(FOLDER.glob("*/*.test"))


STEP, WIDER = 256, 40  # of the cases that also run without Spark, one is in the default run, and one in the wider run
ALONE = 6  # of so many others that start a job, one is in the wider run
FILES_ALONE = 12  # the default run takes the first job and the first error without one in one of so many files
IN_SPARK, IN_SPARK_WIDER = 32, 16  # of so many error cases that the reader finds, one is asked of Spark as well, by run


def starts_no_job(case: Case) -> bool:
    return case.error is not None and case.error.error_class is not None


def found_by_the_reader(case: Case) -> ClauseError | None:
    """The error of a case that the clause's reader finds, without Spark and its settings."""
    if not starts_no_job(case) or case.settings or case.params is not None or len(case.statements) > 1:
        return None
    try:
        sparkcep.rewrite(case.statements[-1])
    except ClauseError as error:
        return error
    except Exception:  # noqa: BLE001 - Spark's session says it, in the case's own test
        return None
    return None


def _kind(name: str, case: Case, alone: frozenset[str]) -> str:
    """Returns the part that answers a case: the clause's reader, Spark without a job, the engine in this process, or a job."""
    if found_by_the_reader(case):
        return "reader"
    if starts_no_job(case):
        return "no job"
    return "process" if case.asks_for_rows() and name not in alone else "job"


def _parameters():
    found = both = 0
    alone = in_spark_alone()
    for number, path in enumerate(FILES):
        file = read_case_file(path)
        names = [name_of(file, case) for case in file.cases]
        kinds = [_kind(name, case, alone) for name, case in zip(names, file.cases)]
        with_jobs = without = 0  # of those that only Spark answers
        for name, case, kind in zip(names, file.cases, kinds):
            marks = [pytest.mark.xfail(reason=case.fails, strict=True)] if case.fails else []
            if kind == "reader":
                marks += [] if found % IN_SPARK == 0 else [pytest.mark.slow] if found % IN_SPARK_WIDER else [pytest.mark.further]
                found += 1
            elif kind == "no job":
                quick = without == 0 and (number % FILES_ALONE == 0 or "process" not in kinds)
                marks += [] if quick else [pytest.mark.further]
                without += 1
            elif kind == "process":
                marks += [] if both % STEP == 0 else [pytest.mark.slow] if both % WIDER and both % (STEP // 4) else [pytest.mark.further]
                both += 1
            else:
                quick = with_jobs == 0 and (number % FILES_ALONE == 0 or not {"no job", "process"} & set(kinds))
                marks += [] if quick else [pytest.mark.slow] if with_jobs % ALONE else [pytest.mark.further]
                with_jobs += 1
            yield pytest.param(file, case, marks=marks, id=name)


def test_errors_that_the_reader_finds():
    found = 0
    for case in (case for path in FILES for case in read_case_file(path).cases):
        error = found_by_the_reader(case)
        found += error is not None
        if error is not None and case.error.whole is not None:
            assert error.over(case.statements[-1]) == case.error.whole, case.name
        elif error is not None:
            check_clause_error(error, case)
    assert found >= 515  # what it no longer finds is left to Spark, which half of the other cases are asked of


class Views:
    """The temporary views of one case file at a time."""

    def __init__(self, spark) -> None:
        self.spark = spark
        self.loaded: Path | None = None

    def load(self, file: CaseFile) -> None:
        if self.loaded != file.path:
            drop_views(self.spark)
            for stream in file.streams:
                stream.define(self.spark)
            for statement in file.views:
                self.spark.sql(statement)
            self.loaded = file.path


@pytest.fixture(scope="module")
def views(spark):
    return Views(spark)


@pytest.mark.parametrize(("file", "case"), _parameters())
def test_case(spark, views, file, case):
    views.load(file)
    before = {key: spark.conf.get(key, None) for key in case.settings}
    for key, value in case.settings.items():
        spark.conf.set(key, value)
    try:
        for statement in case.statements[:-1]:
            spark.sql(statement)
        check_case(spark, case)
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def check_case(spark, case: Case) -> None:
    statement = case.statements[-1]
    arguments = () if case.params is None else (case.params,)
    if case.error is not None and case.error.whole is not None:
        check_message(spark, case)
        return
    if starts_no_job(case):
        check_error(spark, case, statement, arguments)
        return
    frame = spark.sql(statement, *arguments)
    width = len(frame.columns)
    if case.columns is not None:
        assert frame.columns == case.columns
    if case.types is not None:
        assert [f.dataType.simpleString() for f in frame.schema.fields] == case.types
    # Names may repeat, so the columns are taken by position.
    plain = frame.toDF(*[f"c{i}" for i in range(width)])
    texts = plain.selectExpr(*[f"CAST(c{i} AS STRING) AS c{i}" for i in range(width)])
    if case.error is not None:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the text below decides
            texts.collect()
        assert case.error.text in str(caught.value)
        return
    found = [tuple(row) for row in texts.collect()]
    if case.contains:
        cells = [cell or "" for row in found for cell in row]
        for text in case.contains:
            assert any(text in cell for cell in cells), f"{text!r} is in none of {cells}"
    elif is_ordered(statement):
        assert found == case.rows
    elif Counter(found) != Counter(case.rows):
        # Both sides sorted, for a diff that can be read.
        assert _sorted(found) == _sorted(case.rows)


WORDED_BY = "4.3."  # the Spark whose own texts the corpus has; other versions word some of them in another way


def class_and_place(message: str) -> tuple[str, str]:
    """The error class, and the line of the statement with its mark."""
    return message.partition("]")[0], message.partition("\n\n== SQL")[2]


def check_message(spark, case: Case) -> None:
    """Whether this is the whole message, and whether a job ran before it only where the case says so."""
    context = spark.sparkContext
    context.setJobGroup(f"error case {case.name}", case.name)
    try:
        found = message(spark, case)
        jobs = context.statusTracker().getJobIdsForGroup(f"error case {case.name}")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    if spark.version.startswith(WORDED_BY) or case.error.whole.startswith("[SPARKCEP."):
        assert found == case.error.whole
    else:
        assert class_and_place(found) == class_and_place(case.error.whole)
    assert case.error.error_class is None or not list(jobs), "a job ran before the error"


def _sorted(rows):
    return sorted(rows, key=lambda row: [(cell is not None, cell or "") for cell in row])


def check_error(spark, case: Case, statement: str, arguments: tuple) -> None:
    context = spark.sparkContext
    context.setJobGroup(f"error case {case.name}", case.name)
    try:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - checked below
            spark.sql(statement, *arguments)
        jobs = context.statusTracker().getJobIdsForGroup(f"error case {case.name}")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert not list(jobs), "a job ran before the error"
    check_clause_error(caught.value, case)


def check_clause_error(error: Exception, case: Case) -> None:
    """Class, place and text of an error are those of the case."""
    expected = case.error
    if expected.error_class == "*":
        assert isinstance(error, ClauseError), f"not an error of ours: {error!r}"
    else:
        found = error.error_class if isinstance(error, ClauseError) else getattr(error, "getCondition", str)()
        short = (found or "").removeprefix("SPARKCEP.")
        assert short == expected.error_class or short.startswith(expected.error_class + "."), f"{error!r}"
    if isinstance(error, ClauseError):
        assert len(error.sqlstate) == 5
        assert error.message and error.fragment
        if expected.position is not None:
            assert (error.line, error.column) == expected.position, str(error)
    assert expected.text in str(error)


def test_there_are_cases():
    assert len(FILES) >= 20


GOOD_TABLE = "table t (a STRING, b INT)\nx | 1\n\n"
MALFORMED = [
    ("", "the file has no case"),
    ("something\n", "expected 'table', 'view', 'stream', 'case'"),
    ("table t a INT\n1\n", "expected 'table name"),
    ("table t (a)\n1\n", "expected 'column TYPE'"),
    ("table t (a INT, b INT)\n1\n", "2 columns but 1 cells"),
    ("table t (a INT, b INT)\n1 | \n", "an empty cell"),
    (GOOD_TABLE + GOOD_TABLE, "t is there twice"),
    ("view v\n\n", "view v has no query"),
    ("stream s a INT\n", "expected 'stream name"),
    ("case two words\nSELECT 1\n----\n1\n", "expected 'case name'"),
    ("case a\nSELECT 1\n----\n1\n\ncase a\nSELECT 1\n----\n1\n", "case a is there twice"),
    ("case a\nSELECT 1\n", "case a has no line ----"),
    ("case a\nSELECT 1\n\ncase b\nSELECT 1\n----\n1\n", "case a has no line ----"),
    ("case a\n----\n1\n", "case a has no statement"),
    ("case a\nSELECT 1\n----\n\n", "case a expects nothing"),
    ("case a\nSELECT 1\n----\ncolumns: x\n", "case a expects nothing"),
    ("case a\nSELECT 1\n----\n1 | 2\n1\n", "differ in width"),
    ("case a\nSELECT 1\n----\ncolumns: x, y\n1\n", "differ in width"),
    ("case a\nSELECT 1\n----\n1 | \n", "an empty cell"),
    ('case a\nSELECT 1\n----\n"x\n', "JSON string"),
    ("case a\nSELECT 1\n----\n1\nno rows\n", "'no rows' after a row"),
    ("case a\nSELECT 1\n----\nno rows\n1\n", "a row after 'no rows'"),
    ("case a\nSELECT 1\n----\ncontains x\n1\n", "a row after 'no rows' or 'contains'"),
    ("case a\nSELECT 1\n----\n1\ncontains x\n", "'contains' after a row"),
    ("case a\nSELECT 1\n----\nerror *\n1\n", "nothing may follow"),
    ("case a\nSELECT 1\n----\n1\nerror *\n", "stands alone"),
    ("case a\nSELECT 1\n----\nerror lower case\n", "expected 'error CLASS"),
    ("case a\nSELECT 1, 1\n----\nerror * at '1'\n", "not exactly once"),
    ("case a\nparams: {\nSELECT 1\n----\n1\n", "no Python literal"),
    ("case a\nparams: 3\nSELECT 1\n----\n1\n", "must be a dictionary or a list"),
    ("case a\nset: x\nSELECT 1\n----\n1\n", "expected 'set: key=value'"),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_files_are_rejected(tmp_path, text, message):
    path = tmp_path / "x.test"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CaseFileError) as caught:
        read_case_file(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")


def test_a_file_is_read(tmp_path):
    path = tmp_path / "x.test"
    text = """# a comment
table t (a STRING, b DECIMAL(4, 2), c MAP<STRING, INT>)
it's | 1.5 | map('x', 1)
NULL | NULL | NULL
'' | -1 | NULL

case one
params: {"low": 3}
set: spark.sql.ansi.enabled=false
fails: not built yet
SET x = 1;
SELECT *

FROM t ORDER BY a
----
columns: a, b
types: string, map<string,int>
x | {a -> 1, b -> 2}
'' | NULL
" | " | "NULL"

case two
SELECT 1
  FROM nothing
----
error SOME.CLASS at 'nothing' told
"""
    path.write_text(text, encoding="utf-8")
    file = read_case_file(path)
    assert file.views == [
        "CREATE OR REPLACE TEMPORARY VIEW t AS SELECT CAST(col1 AS STRING) AS a, CAST(col2 AS DECIMAL(4, 2)) AS b, "
        "CAST(col3 AS MAP<STRING, INT>) AS c FROM VALUES ('it\\'s', 1.5, map('x', 1)), (NULL, NULL, NULL), ('', -1, NULL)"
    ]
    one, two = file.cases
    assert one.fails == "not built yet" and two.fails is None
    assert one.params == {"low": 3} and one.settings == {"spark.sql.ansi.enabled": "false"}
    assert one.statements == ["SET x = 1", "SELECT *\n\nFROM t ORDER BY a"]
    assert one.columns == ["a", "b"] and one.types == ["string", "map<string,int>"]
    assert one.rows[:2] == [("x", "{a -> 1, b -> 2}"), ("", None)]
    assert one.line == 7 and one.error is None
    assert two.error.error_class == "SOME.CLASS"
    assert two.error.position == (2, 8) and two.error.text == "told"


@pytest.mark.parametrize(
    ("statement", "ordered"),
    [
        ("SELECT * FROM t ORDER BY 1", True),
        ("SELECT * FROM t order\n by 1", True),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i PATTERN (A))", False),
        ("SELECT 'ORDER BY', ')' FROM t -- ORDER BY", False),
        ("SELECT '(' FROM t /* ( */ ORDER BY 1", True),
    ],
)
def test_only_an_outer_order_counts(statement, ordered):
    assert is_ordered(statement) is ordered
