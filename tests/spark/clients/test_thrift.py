"""The thrift server with the clause, read by beeline and by PyHive."""

from __future__ import annotations

import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
hive = pytest.importorskip("pyhive.hive")

from sparkcep.clause.tokens import split_statements  # noqa: E402
from sparkcep.spark.session.jar import find_spark_home  # noqa: E402
from tests.cases.error_messages import FILES as ERRORS  # noqa: E402
from tests.cases.error_messages import plain, wrong  # noqa: E402
from tests.cases.sql_case_files import read_case_file  # noqa: E402
from tests.docs.test_sql_examples import FILES  # noqa: E402
from tests.selection import part  # noqa: E402
from tests.spark.programs import as_hive_writes, environment, helpers, needs_javac, wait_until_gone  # noqa: E402

pytestmark = [needs_javac, pytest.mark.process]

MATCH = "MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.price AS p PATTERN (A) DEFINE A AS price > 10)"
BAD = MATCH.replace("DEFINE A", "DEFINE X")
FOUND = [("a", 15), ("b", 25)]


@pytest.fixture(scope="module")
def server(thrift_server):
    server = thrift_server()
    server.session().execute(
        "CREATE TABLE quotes USING parquet AS SELECT * FROM VALUES ('a', 1, 5), ('a', 2, 15), ('b', 1, 25) AS t(sym, ts, price)"
    )
    return server


@pytest.fixture
def cursor(server):
    return server.session()


def rows(cursor, statement: str) -> list[tuple]:
    cursor.execute(statement)
    return cursor.fetchall()


def failure(cursor, statement: str) -> tuple[str, str]:
    """SQLSTATE and message of the error that a statement ends in."""
    with pytest.raises(hive.OperationalError) as caught:
        cursor.execute(statement)
    status = caught.value.args[0].status
    return status.sqlState, status.errorMessage


@pytest.mark.parametrize("path", part(1, len(FILES), FILES), ids=[p.stem for p in FILES])
def test_example(cursor, path):
    for statement in split_statements(path.read_text(encoding="utf-8")):
        cursor.execute(statement)
    lines = [[d[0] for d in cursor.description], *([written(v) for v in row] for row in cursor.fetchall())]
    assert "".join("\t".join(line) + "\n" for line in lines) == as_hive_writes(path.with_suffix(".expected").read_text("utf-8"))


def written(value: object) -> str:
    return "NULL" if value is None else str(value).removesuffix(".000000")


def test_clause_table_function_and_view(server, cursor):
    assert rows(cursor, f"SELECT * FROM quotes {MATCH} ORDER BY sym") == FOUND
    text = MATCH.partition("(")[2][:-1]
    assert rows(cursor, f"SELECT * FROM match_recognize(TABLE(quotes), '{text}') ORDER BY sym") == FOUND
    assert rows(cursor, f"EXECUTE IMMEDIATE 'SELECT p FROM quotes {MATCH.replace('10', '?')}' USING 20") == [(25,)]
    cursor.execute(f"CREATE VIEW high AS SELECT * FROM quotes {MATCH}")
    assert rows(server.session(), "SELECT * FROM high ORDER BY sym") == FOUND


def test_parameters_of_the_client(cursor):
    cursor.execute(f"SELECT * FROM quotes {MATCH.replace('10', '%(low)s')}", {"low": 20})
    assert cursor.fetchall() == [("b", 25)]


def test_errors(cursor):
    state, message = failure(cursor, f"SELECT *\nFROM quotes {BAD}")
    column = f"FROM quotes {BAD}".index("DEFINE X") + 8
    assert state == "42K0E" and "[SPARKCEP.UNKNOWN_VARIABLE]" in message
    assert message.endswith(f"== SQL (line 2, position {column}) ==\nFROM quotes {BAD}\n{' ' * (column - 1)}^")
    wrong_type = MATCH.replace("PATTERN (A)", "PATTERN (A B)").replace("price > 10", "price > 10, B AS B.price > sum(A.sym)")
    state, message = failure(cursor, f"SELECT * FROM quotes {wrong_type}")
    assert state == "42K0E" and "[SPARKCEP.DATATYPE_MISMATCH] SUM needs a number, not string (line 1, column " in message
    assert "Traceback" not in message and message.endswith(" " * 20 + "^" * 20)
    state, message = failure(cursor, f"SELECT * FROM quotes {MATCH.replace('NIZE', 'NISE')}")
    assert state == "42601" and "did you mean MATCH_RECOGNIZE?" in message
    assert failure(cursor, f"SELECT * FROM nowhere {MATCH}")[0] == "42P01"
    assert rows(cursor, f"SELECT * FROM quotes {MATCH} ORDER BY sym") == FOUND


@pytest.mark.slow
def test_wrong_statements(server):
    """Each of the corpus has the whole message that ``spark.sql`` gives, if it is not raised while the statement runs: then it has
    its class, SQLSTATE and place."""
    run = []
    for path in ERRORS:
        file, cursor = read_case_file(path), server.session()
        if file.streams:
            continue  # a view of a stream is a data frame's
        for view in file.views:
            cursor.execute(view)
        for case in wrong(file):
            for key, value in case.settings.items():
                cursor.execute(f"SET {key}={value}")
            with pytest.raises(hive.OperationalError) as caught:
                cursor.execute(case.statements[-1])
                cursor.fetchall()
            for key in case.settings:
                cursor.execute(f"RESET {key}")
            said = plain(caught.value.args[0].status.errorMessage)
            assert case.error.whole.partition("]")[0] in said and "Traceback" not in said, (case.name, said)
            if case.error.whole not in said:
                run.append(case.name)
                line, column = re.search(r"line (\d+), column (\d+)", case.error.whole).groups()
                at = f"== SQL (line {line}, position {column}) ==" in said or f"(line {line}, column {column}" in said
                assert re.search(r"SQLSTATE: \w{5}", case.error.whole)[0] in said and (at or case.name == "create_table_twice_a_column"), (case.name, said)
    assert len(run) <= 20, run


@pytest.mark.slow
def test_sessions_side_by_side(server):
    def one(number: int) -> list[tuple]:
        mine = server.session()
        mine.execute(f"SET sparkcep.maxSteps={1000 + number}")
        mine.execute(f"CREATE TEMP VIEW mine AS SELECT id AS ts, id % 3 AS k, {number} * id AS price FROM range(300)")
        for _ in range(3):
            mine.execute(
                "SELECT k, n, low FROM mine MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES count(*) AS n, min(price) AS low "
                f"PATTERN (A+) DEFINE A AS price >= {number} * 150) ORDER BY k"
            )
            found = mine.fetchall()
        return found

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(one, range(1, 7)))
    assert results == [[(0, 50, n * 150), (1, 50, n * 151), (2, 50, n * 152)] for n in range(1, 7)]
    assert 1 <= len(helpers(server.process.pid)) <= 4


def test_beeline(server):
    done = subprocess.run(
        [
            *(Path(find_spark_home(), "bin", "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{server.port}", "-n", "someone"),
            *("--outputformat=tsv2", "--silent=true", "-e", f"SELECT * FROM quotes {MATCH} ORDER BY sym"),
            *("-e", f"SELECT * FROM quotes {BAD}"),
        ],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
    )
    assert "sym\tp\na\t15\nb\t25\n" in done.stdout
    assert done.returncode != 0 and "[SPARKCEP.UNKNOWN_VARIABLE]" in done.stderr and "state=42K0E" in done.stderr


def test_only_this_machine_can_connect(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # no packet is sent: this only asks which address would be the sender's
        except OSError:
            pytest.skip("this machine has no other address")
        address = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no other address")
    assert server.accepts("127.0.0.1") and not server.accepts(address)


def test_the_helper_ends_with_the_server(server):
    there = helpers(server.process.pid)
    server.stop()
    assert there and all(map(wait_until_gone, there))
