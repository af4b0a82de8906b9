"""The pages about sparkcep.why: their programs print the answers below them, and their pictures are the product's."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from sparkcep.draw.timeline import svg  # noqa: E402
from tests.docs.why_pages import DOCS, programs, run  # noqa: E402
from tests.selection import one_in  # noqa: E402

PROGRAMS = list(programs())


@pytest.mark.parametrize("program", one_in(12, PROGRAMS), ids=lambda program: f"{program.page}-{program.number}")
def test_programs_print_their_answers(spark, program):
    printed, why = run(spark, program.program)
    assert printed == program.answer
    if program.picture:
        assert (DOCS / program.picture).read_text(encoding="utf-8") == svg(why.timelines[0])


def test_the_page_about_causes_has_six_with_pictures():
    text = (DOCS / "no_match.md").read_text(encoding="utf-8")
    pictures = [program.picture for program in PROGRAMS if program.page == "no_match"]
    assert len(pictures) == len(set(pictures)) == text.count("\n## ") == 6 and all(pictures)


def test_both_pages_have_programs():
    assert [program.page for program in PROGRAMS].count("why") >= 2
