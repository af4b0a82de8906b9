"""Golden EXPLAIN of clauses over a stream, under ``tests/golden/explain/<family>/<number>.txt``.

A file begins with its clause, up to a blank line; a comment above the clause sets ``sparkcep.stream.idleTimeout`` in microseconds.
The sections below it are the lines of EXPLAIN, the lines about the stream that the operator adds to Spark's plan, and the warnings
when a query starts. The families are those of :mod:`tests.property.stream.stream_cases`. ``test_explained_streams.py``
compares them.

To add a clause, write a file with the clause alone. After a deliberate change, renew the files by

    python -m tests.golden.explained_streams --write

and read the difference before it is committed.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.stream_rules import check_stream, warnings
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import Plan
from sparkcep.spark.session.pickled import streamer
from sparkcep.sql.explain.describe import describe
from tests.golden.golden_files import renew

FOLDER = Path(__file__).resolve().parent / "explain"
LEAST = 3  # clauses of a family
_IDLE = re.compile(r"^-- idleTimeout (\d+)\n")


def files() -> list[Path]:
    """The golden files, by name."""
    return sorted(FOLDER.glob("*/*.txt"))


def folder_of(family: str) -> str:
    """The folder of a family."""
    return re.sub(r"[^a-z0-9]+", "_", family.lower()).strip("_")


def head_of(text: str) -> str:
    """The clause at the head of a file, with its options."""
    return text.partition("\n\n")[0].strip()


def planned(head: str) -> Plan:
    """The plan of a clause over a stream."""
    idle = _IDLE.match(head)
    plan = replace(make_plan(parse_clause(_IDLE.sub("", head))), idle=int(idle[1]) if idle else 0)
    check_stream(plan)
    return plan


def whole(head: str) -> str:
    """The file of a clause."""
    plan = planned(head)
    stream = streamer(plan.to_json(), [], [], len(plan.order), [], {"limit": 0})
    about = "\n".join([stream["kept"].replace("; ", ";\n  "), stream["passed"]])
    sections = {"explain": describe(plan), "stream": about, "warnings": "\n".join(warnings(plan))}
    return head + "\n\n" + "\n\n".join(f"== {name} ==\n{section}" for name, section in sections.items() if section) + "\n"


if __name__ == "__main__":
    sys.exit(renew(files(), FOLDER, lambda text: whole(head_of(text)), "explanations", "--write" in sys.argv[1:]))
