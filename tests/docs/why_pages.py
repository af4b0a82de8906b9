"""The programs, answers and pictures of the pages about ``sparkcep.why``.

``python -m tests.docs.why_pages --write`` runs the programs, and writes the answers and pictures that the product gives now.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import sparkcep
from sparkcep.draw.timeline import svg
from sparkcep.tracing.answers.answer import Why

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("why", "no_match")
_PROGRAM = re.compile(
    r"```python\n(?P<program>[^`]*?sparkcep\.why[^`]*?)```\n\n```text\n(?P<answer>[^`]*?)```(?:\n\n!\[[^]]+\]\((?P<picture>\w+\.svg)\))?"
)


class Program(NamedTuple):
    """A program of a page, the answer below it, and the name of its picture, "" without one."""

    page: str
    number: int
    program: str
    answer: str
    picture: str


def programs() -> Iterator[Program]:
    for page in PAGES:
        for i, found in enumerate(_PROGRAM.finditer((DOCS / f"{page}.md").read_text(encoding="utf-8"))):
            yield Program(page, i, found["program"], found["answer"], found["picture"] or "")


def run(spark: Any, program: str) -> tuple[str, Why]:
    """Runs a program. Returns the text that it prints, and its answer."""
    answers: list[Why] = []

    class Recorder:
        @staticmethod
        def why(*arguments: Any, **named: Any) -> Why:
            answers.append(sparkcep.why(*arguments, **named))
            return answers[-1]

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program.replace("import sparkcep\n", ""), "page", "exec"), {"spark": spark, "sparkcep": Recorder})
    return printed.getvalue(), answers[-1]


def write(spark: Any) -> None:
    for page in PAGES:
        path = DOCS / f"{page}.md"

        def renewed(found: re.Match[str]) -> str:
            printed, why = run(spark, found["program"])
            if found["picture"]:
                (DOCS / found["picture"]).write_text(svg(why.timelines[0]), encoding="utf-8")
            start, end = found.start("answer") - found.start(), found.end("answer") - found.start()
            return found[0][:start] + printed + found[0][end:]

        path.write_text(_PROGRAM.sub(renewed, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    from sparkcep.spark.session.local import start_spark

    session = start_spark("why_pages")
    write(session)
    session.stop()
