"""The language server over texts that are being written: cut, or with pieces put in. It answers, and at places of the text."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from sparkcep.editor.catalog import Catalog
from sparkcep.editor.document import Document
from sparkcep.editor.fixes import fixes
from sparkcep.editor.hover import hover
from sparkcep.errors import ClauseError
from sparkcep.tools.complete import complete
from tests.docs.test_sql_examples import STATEMENT_FILES
from tests.selection import first

EXAMPLES = Path(__file__).resolve().parents[3] / "sql_examples"
TEXTS = [path.read_text("utf-8") for path in (*STATEMENT_FILES, *sorted(EXAMPLES.glob("dbt/**/*.sql")))]
PIECES = [
    "(",
    ")",
    "'",
    '"',
    "`",
    ";",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "--",
    "/*",
    "*/",
    "\r\n",
    "\u2028",
    "😀",
    "%%sql ",
    "# MAGIC ",
    "MATCH_RECOGNIZE (",
    "PATTERN (",
    ", ",
    " DEFINE ",
]
HEADS = ["", "", "%%sql\n", "# Databricks notebook source\n# MAGIC %sql\n", "-- Databricks notebook source\n"]


def broken(random: Random) -> str:
    text = random.choice(TEXTS)
    for _ in range(random.randrange(4)):
        at = random.randrange(len(text) + 1)
        if random.random() < 0.5:
            text = text[:at] + random.choice(PIECES) + text[at:]
        else:
            text = text[:at] + text[at + random.randrange(30) :]
    return random.choice(HEADS) + text


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_any_text_has_answers_at_its_places(seed):
    random, named, found, described = Random(seed), 0, 0, 0
    for _ in range(60):
        text = broken(random)
        document = Document(
            "file:///work/a.sql", text, random.choice(["sql", "python"]), random.choice(["utf-8", "utf-16"]), random.random() < 0.2
        )
        for place, finding in document.findings:
            assert 0 <= place.start <= place.end <= len(text)
            for fix in fixes(document, place, finding)[:1] if random.random() < 0.2 else ():
                assert 0 <= fix.place.start <= fix.place.end <= len(text)
            found += 1
        for section in document.sections:
            assert len(section.text) == section.end - section.start and len(document.read(section)) == len(section.text)
        for _ in range(10):
            at = random.randrange(len(text) + 1)
            assert document.lines.offset(*document.lines.position(at)) in (at, at - 1)
            at_name = document.name_at(at)
            if at_name is not None:
                statement, name, place = at_name
                assert place.start <= at <= place.end
                written = [
                    text[statement.start + span.start : statement.start + span.end].strip('`"').lower() for span in name.places
                ]
                assert set(written) == {name.text.lower()}, written
                named += 1
            about = hover(document, at)
            described += about is not None
            section = document.section_at(at)
            if section is not None:
                masked = document.masked(section)
                for proposal in complete(
                    document.read(section), at - section.start, lambda table, masked=masked: Catalog().columns(table, masked)
                ):
                    assert proposal.start <= at - section.start
        try:
            list(document.formatted())
        except ClauseError:
            assert any(finding.severity == "error" for _, finding in document.findings)
    assert named > 5 and found > 5 and described > 5
