"""The command line, in process where no Spark is needed, and once for real."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

import sparkcep
from sparkcep import precompile
from sparkcep.cli import cli, launch
from sparkcep.cli.cli import _note, main

CLAUSE = "SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY day MEASURES count(*) AS n\nPATTERN (UP{2,}) DEFINE UP AS price > PREV(price))"


def test_rewrite_prints_plain_sql(capsys):
    assert main(["rewrite", "-e", f"SELECT 1; {CLAUSE}"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("SELECT 1;\n") and "match_recognize(TABLE(" in out


def test_a_semicolon_follows_a_line_comment_on_its_own_line(capsys):
    text = "SELECT 1 -- one\n; SELECT '--';\nSELECT 2 -- two"
    assert main(["rewrite", "-e", text]) == 0
    assert capsys.readouterr().out == "SELECT 1 -- one\n;\nSELECT '--'\n;\nSELECT 2 -- two\n;\n"


@pytest.mark.parametrize(("clause", "accepted"), [
    (CLAUSE, True),
    (CLAUSE.replace("price > PREV(price)", '"price" > PREV("price")'), True),
    (CLAUSE.replace("AS n", "AS n, 1 AS N"), True),
    (CLAUSE.replace("> PREV(price)", "> ${low}"), True),
    (CLAUSE.replace("DEFINE UP", 'DEFINE "UP"'), True),
    (CLAUSE.replace("DEFINE UP", "DEFINE NO"), False),
])  # fmt: skip
@pytest.mark.parametrize("command", ["run", "why", "report"])
def test_a_clause_that_settings_make_right_is_left_to_spark(command, clause, accepted, monkeypatch, capsys):
    def started(options, work):
        raise cli.UsageError("Spark starts")

    monkeypatch.setattr(cli, "_with_spark", started)
    assert main([command, "-e", f"SET spark.sql.ansi.doubleQuotedIdentifiers=true; {clause}"]) == 2
    assert ("Spark starts" in capsys.readouterr().err) == accepted


def test_the_byte_order_mark_of_a_file_is_not_part_of_its_statement(tmp_path, capsys):
    path = tmp_path / "a.sql"
    path.write_text(CLAUSE.replace("ORDER BY", "order by"), encoding="utf-8-sig")
    assert main(["rewrite", str(path)]) == main(["transpile", "--read", "trino", str(path)]) == 0
    assert "\ufeff" not in capsys.readouterr().out
    assert main(["fmt", str(path)]) == 0 and path.read_bytes().startswith(b"\xef\xbb\xbfSELECT") and b"ORDER BY" in path.read_bytes()


def test_explain_shows_program_and_split(capsys):
    assert main(["explain", "-e", CLAUSE]) == 0
    out = capsys.readouterr().out
    assert "RUN   UP{2,}" in out and "physical neighbours only" in out


def test_explain_names_a_statement_without_a_clause(capsys, tmp_path):
    path = tmp_path / "two.sql"
    path.write_text(f"CREATE OR REPLACE TEMPORARY VIEW t AS SELECT 1 AS x;\n{CLAUSE};\n")
    assert main(["explain", str(path)]) == 0
    first, second, *_ = capsys.readouterr().out.split("\n")
    assert first == "CREATE OR REPLACE TEMPORARY ...: no MATCH_RECOGNIZE clause: the statement goes to Spark unchanged"
    assert second == "== Clause 1 =="


def test_errors_point_at_their_place(capsys):
    assert main(["rewrite", "-e", CLAUSE.replace("DEFINE UP", "DEFINE NO")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "SPARKCEP.UNKNOWN_VARIABLE" in lines[0] and "line 2, column 25" in lines[0]
    assert lines[-2].index("NO") == lines[-1].index("^")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "give a file"),
        (["run", "nowhere.sql"], "the file nowhere.sql does not exist"),
        (["run", "SELECT * FROM t"], "the file SELECT * FROM t does not exist; write -e before a statement"),
        (["run", f"SELECT {'x' * 300} FROM t"], "does not exist; write -e before a statement"),
        (["lint", "x" * 300], "does not exist"),
        (["run", "-e", "SELECT 1", "--table", "x"], "NAME=PATH"),
        (["run", "-e", "SELECT 1", "--output", "x.txt"], "must end in"),
        (["run", "-e", "SELECT 1", "--output", "x.csv", "--format", "csv"], "--format csv only applies to printed results. The file name in --output x.csv selects"),
        (["run", "-e", "SELECT 1", "--stream", "t=x", "--watermark", "t.ts=1 second", "--format", "json"], "Write --format jsonl"),
    ],
)
def test_wrong_arguments_say_what_is_right(arguments, said, capsys):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_without_java_there_is_a_clear_message(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["run", "-e", "SELECT 1"]) == 3
    assert "Java 17" in capsys.readouterr().err


@pytest.mark.process
def test_the_doctor_runs_a_statement_and_names_what_is_missing(tmp_path):
    command = [sys.executable, "-m", "sparkcep", "doctor"]
    well = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert well.returncode == 0 and "FIX " not in well.stdout and "a statement runs" in well.stdout.replace("statement  ", "statement ")
    ill = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"JAVA_HOME": str(tmp_path)})
    assert ill.returncode == 2 and "FIX   Java" in ill.stdout and "Install a JDK" in ill.stdout


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"sparkcep {sparkcep.__version__}\n"


def test_output_that_is_not_read_to_its_end_is_no_traceback():
    many = ["-e", ";".join([CLAUSE] * 200)]  # more than a pipe holds
    command = subprocess.Popen([sys.executable, "-m", "sparkcep", "rewrite", *many], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command.stdout.read(10)
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait(60) == 141


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_is_one_line():
    many = ["-e", ";".join([CLAUSE] * 200)]  # more than a pipe holds
    # A shell's background jobs ignore the signal, and so do the processes that they start.
    heeded = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('sparkcep', run_name='__main__')"
    command = subprocess.Popen([sys.executable, "-c", heeded, "rewrite", *many], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command.stdout.read(10)
    command.send_signal(signal.SIGINT)
    assert command.stderr.read() == b"interrupted\n"
    assert command.wait(60) == -signal.SIGINT


@pytest.mark.slow  # tests/docs runs such a command of the README, tests/spark/files reads and writes Parquet
@pytest.mark.process
def test_run_over_files(tmp_path):
    pd.DataFrame({"day": range(1, 9), "price": [12, 17, 14, 11, 15, 20, 16, 19]}).to_parquet(tmp_path / "ticks.parquet")
    (tmp_path / "query.sql").write_text(f"-- runs\n{CLAUSE};\n")
    done = subprocess.run(
        [sys.executable, "-m", "sparkcep", "run", tmp_path / "query.sql", "--table", f"ticks={tmp_path}/ticks.parquet",
         "--output", tmp_path / "out.parquet"],
        capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert pd.read_parquet(tmp_path / "out.parquet")["n"].tolist() == [2]


FAILS = "SELECT * FROM VALUES (1, 5), (2, 3) AS ticks(day, price) MATCH_RECOGNIZE (ORDER BY day MEASURES count(*) AS n\nAFTER MATCH SKIP TO FIRST A PATTERN (A+) DEFINE A AS price > 0)"


def ran(*arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    """Runs a command. Its standard error lacks the line about kernels that are compiled."""
    done = subprocess.run([sys.executable, "-m", "sparkcep", *arguments], capture_output=True, text=True, timeout=300, **more)
    done.stderr = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith("sparkcep compiles the kernels"))
    return done


@pytest.mark.slow
@pytest.mark.process
def test_a_failure_at_run_time_is_told_once_and_alone():
    failed = ran("run", "-e", FAILS)
    lines = failed.stderr.splitlines()
    assert failed.returncode == 2 and failed.stdout == ""
    assert lines[0].startswith("error: [SPARKCEP.SKIP_TO_FIRST_ROW]") and lines[2].startswith("== SQL (line 2") and len(lines) == 5
    told = ran("run", "-e", FAILS, "--verbose").stderr
    assert "ERROR TaskSetManager: Task 0 in stage" in told and told.endswith(failed.stderr)


@pytest.mark.process
@pytest.mark.parametrize(("kind", "expected"), [("csv", "day,n\n3,2\n"), pytest.param("jsonl", '{"day":3,"n":2}\n', marks=pytest.mark.slow)])
def test_rows_for_other_programs_are_all_of_standard_output(kind, expected, tmp_path):
    (tmp_path / "t.csv").write_text("day,price\n1,12\n2,17\n3,18\n4,11\n")
    statement = CLAUSE.replace("MEASURES", "MEASURES LAST(day) AS day,")
    done = ran("run", "-", "--table", f"ticks={tmp_path}/t.csv", "--format", kind, input=f"CREATE TEMP VIEW v AS SELECT 1;{statement}")
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_only_what_a_statement_raises_too_is_left_out_of_the_log():
    text = (Path(sparkcep.__file__).parent / "spark" / "log4j2.properties").read_text()
    (repeated,) = re.findall(r"regex = (.*)", text)
    repeated = repeated.replace("\\\\", "\\")  # as Java reads properties
    for message in ("Exception in task 0.0 in stage 7.0 (TID 5)", "[queryId = ebcc9] [batchId = 0] Task 0 in stage 5.0 failed 1 times; aborting job", "Aborting task"):
        assert re.fullmatch(repeated, message)
    for message in ("Uncaught exception in thread Thread[main,5,main]", "Exception in task-result-getter", "Python worker exited", "Failed to remove broadcast 3"):
        assert not re.fullmatch(repeated, message)


def test_what_a_jvm_writes_is_passed_on():
    """Each line but what every start of Java says, also the last ones before the process ends."""
    program = (
        "import atexit, os, sys; from sparkcep.spark.session import jvm_log as jvm_output; import pyspark.java_gateway as gateway\n"
        "def launched(conf, popen_kwargs): os.write(popen_kwargs['stderr'], b'WARNING: Using incubator modules: x\\nPicked up JAVA_TOOL_OPTIONS: -Dx\\n' + b'ERROR Utils: no\\n' * 2000)\n"
        "gateway.launch_gateway = launched; jvm_output.launch(None, sys.argv[1] == 'verbose')\n"
    )
    for how, first in (("quiet", "ERROR Utils: no"), ("verbose", "WARNING: Using incubator modules: x")):
        done = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, timeout=60)
        lines = done.stderr.splitlines()
        assert lines[0] == first and lines[-2000:] == ["ERROR Utils: no"] * 2000, done.stderr[-500:]


@pytest.mark.parametrize(("raised", "said"), [("BrokenPipeError", ""), ("ValueError", "ValueError")])
def test_a_worker_whose_task_was_ended_says_nothing(raised, said):
    program = f"from sparkcep.spark.daemon import _until_hung_up\ndef work(*_): raise {raised}\n_until_hung_up(work)(None, False)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and (said in done.stderr if said else done.stderr == "")


@pytest.mark.parametrize(
    ("arguments", "said", "help"),
    [
        (["rnu", "x.sql"], "unknown command rnu; did you mean run?", "--help"),
        (["xyz"], "unknown command xyz; known names: shell, run,", "--help"),
        (["help", "rnu"], "unknown command rnu; did you mean run?", "help help"),
        (["--hepl"], "unknown option --hepl; did you mean --help?", "--help"),
        (["run", "x.sql", "--tabel", "t=t.csv"], "unknown option --tabel; did you mean --table?", "help run"),
        (["transpile", "--reed=trino", "x.sql"], "unknown option --reed; did you mean --read?", "help transpile"),
        (["run", "--zzz"], "unknown option --zzz\n", "help run"),
        (["run", "a.sql", "b.sql"], "unrecognized arguments: b.sql", "help run"),
        (["lint", "x.sql", "--format=jsno"], "unknown value jsno for --format; did you mean json?", "help lint"),
        (["completion", "bsh"], "unknown value bsh for shell; did you mean bash?", "help completion"),
        (["demo", "--month", "13"], "--month 13 is out of range; write --month 1-12", "help demo"),
        (["preview"], "the following arguments are required: pattern, rows", "help preview"),
    ],
)
def test_a_mistyped_argument_is_answered_with_what_was_meant(arguments, said, help, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr().err
    assert ended.value.code == 2 and told.startswith("error: ") and said in told and told.endswith(f"sparkcep {help} says more\n"), told


def test_an_engine_that_is_mistyped_is_answered_with_the_one_that_was_meant(capsys):
    assert main(["transpile", "--read", "trinno", "-e", "SELECT 1"]) == 2
    assert capsys.readouterr().err == "error: unknown value trinno for --read; did you mean trino?\n"


WARNED = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES count(*) AS n PATTERN (A B+?) DEFINE A AS x > 1, B AS x > 2)"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["lint", "good.sql"], 0),
        (["lint", "warned.sql"], 1),
        (["fmt", "--check", "good.sql"], 1),
        pytest.param(["test", "good.sql"], 1, marks=pytest.mark.further),
        (["lint", "wrong.sql"], 2),
        (["fmt", "--check", "broken.sql"], 2),
        (["test", "wrong.sql"], 2),
        (["explain", "wrong.sql"], 2),
        (["rewrite", "nowhere.sql"], 2),
    ],
)
def test_exit_codes(arguments, code, tmp_path, monkeypatch, capsys):
    """The codes 3, 130 (as the signal) and 141 have tests of their own in this file."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"good.sql": CLAUSE, "warned.sql": WARNED, "wrong.sql": CLAUSE.replace("DEFINE UP", "DEFINE NO"), "broken.sql": CLAUSE[:-1]}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).with_suffix(".cases").write_text("UP UP -> none\n")
    assert main(arguments) == code
    assert code == 0 or arguments[-1].removesuffix(".sql") in "".join(capsys.readouterr()) or arguments[0] == "explain"


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["rewrite", "-e", CLAUSE], "reading"),
        (["explain", "-e", CLAUSE], "reading"),
        (["transpile", "--read", "trino", "-e", CLAUSE], "transpiling"),
        (["lint", "good.sql"], "reading"),
        (["preview", "A B", "A B"], "matching"),
        (["test", "good.sql"], "testing good.sql"),
        (["compile"], "compiling one row per match"),
        (["jar"], "compiling the JVM extension"),
    ],
)
def test_a_command_that_may_take_long_shows_progress(arguments, about, tmp_path, monkeypatch):
    """Commands with Spark run their queries inside of ``_running``."""
    shown = []

    @contextmanager
    def waiting(about, progress=str):
        shown.append(about)
        yield

    monkeypatch.setattr(cli, "waiting", waiting)
    monkeypatch.setattr(precompile, "compile_all", lambda: iter([0.0] * len(precompile.CLAUSES)))
    monkeypatch.setattr(launch, "settings", lambda: {"spark.driver.extraClassPath": "a.jar"})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.sql").write_text(CLAUSE)
    (tmp_path / "good.cases").write_text("UP UP -> 1-2\n")
    assert main(arguments) == 0 and about in shown


def test_exit_codes_are_those_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "use.md").read_text("utf-8")
    codes = {int(code): text.replace("`", "") for code, text in re.findall(r"(?m)^\| (\d+) \| (.*) \|$", page)}
    assert codes == cli.EXIT_CODES


def test_texts_of_a_table_or_a_statement_move_no_cursor(capsys, tmp_path):
    (tmp_path / "a.sql").write_text("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i PATTERN (A \x1b[31m\u202e B)) DEFINE", encoding="utf-8")
    assert main(["rewrite", str(tmp_path / "a.sql")]) == 2
    _note("column \x1b]0;t\x07 is read as DATE")
    told = capsys.readouterr().err
    assert "== SQL" in told and "(A \ufffd[31m\ufffd B)" in told and "note: column \ufffd]0;t\ufffd is read" in told
    assert not set(told) & set("\x1b\x07\u202e")


def test_the_help_lists_every_command_once_by_subject(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    names = re.findall(r"(?m)^  ([a-z][\w-]*)  ", said)
    assert names == [name for group in cli.GROUPS.values() for name in group] and len(set(names)) == len(names) > 20
    assert all(f"\n{group}:\n" in said for group in cli.GROUPS) and all(re.search(rf"(?m)^  {code} ", said) for code in cli.EXIT_CODES)


@pytest.mark.parametrize("name", [name for names in cli.GROUPS.values() for name in names])
def test_each_command_has_examples_that_can_be_read(capsys, name):
    """``help COMMAND`` shows them; the parser takes each, up to pipes and redirections."""
    if name not in launch.PROGRAMS:
        with pytest.raises(SystemExit) as ended:
            main(["help", name])
        assert ended.value.code in (0, None) and cli.EXAMPLES[name][0] in capsys.readouterr().out
    for example in cli.EXAMPLES[name]:
        program, command, *rest = shlex.split(example.partition(" > ")[0].partition(" >> ")[0])
        assert program == "sparkcep" and cli._parser().parse_args([command, *rest]).command == name == command


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish", "powershell"])
def test_a_shell_can_complete(capsys, shell):
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert "transpile" in said and "watermark" in said and (shell != "zsh" or "_files" in said)


def test_errors_are_red_on_terminals_unless_no_color_is_set(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = "error: no\n\n== SQL ==\nSELECT 1 ^ 2\n       ^^^"
    assert cli._coloured(text) == "\033[31;1merror:\033[0m no\n\n== SQL ==\nSELECT 1 ^ 2\n\033[31;1m       ^^^\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli._coloured(text) == text
