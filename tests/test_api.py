"""The package as a user meets it first: its names, and what it says to arguments of another kind."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from types import SimpleNamespace

import pandas as pd
import pytest

import sparkcep
from sparkcep.clause.parser import parse_clause
from sparkcep.cli import main
from sparkcep.errors import ClauseError


def test_names_can_be_completed():
    assert {"enable", "explain", "lineage", "match_recognize", "plot", "report", "rewrite", "transpile"} <= set(dir(sparkcep))
    assert all(getattr(sparkcep, name) is not None for name in sparkcep.__all__)


def test_types_are_told():
    assert files("sparkcep").joinpath("py.typed").is_file()


def test_the_command_alone_prints_its_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    assert "run statements over Parquet, CSV or JSON paths" in said.out and said.err == ""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sparkcep.explain(5), "takes the text of a statement, not int"),
        (lambda: sparkcep.enable(SimpleNamespace(getOrCreate=None)), r"end the builder with \.getOrCreate\(\)"),
        (lambda: sparkcep.enable("local"), "needs a Spark session, not str"),
        (lambda: sparkcep.match_recognize(pd.DataFrame(), clause="PATTERN (A)"), r"spark\.createDataFrame\(frame\)"),
    ],
)
def test_arguments_of_another_kind(call, said):
    with pytest.raises(TypeError, match=said):
        call()


def test_the_text_of_a_clause_has_no_keyword():
    with pytest.raises(ClauseError, match=r"leave MATCH_RECOGNIZE \( \) out"):
        parse_clause("MATCH_RECOGNIZE (ORDER BY ts PATTERN (A))")


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
import sparkcep
from sparkcep.cli import main

assert sparkcep.rewrite("SELECT 1") == "SELECT 1"
try:
    sparkcep.match_recognize
except ImportError as error:
    print(error)
sys.exit(main(["run", "-e", "SELECT 1"]))
"""


def test_without_spark_it_says_what_to_install():
    """As on a platform that has a Spark of its own, in an environment beside that."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_SPARK], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "pip install 'sparkcep[spark]'" in done.stdout and done.stderr == f"error: {done.stdout}"
