"""The listings of each stage are those of the golden files; see :mod:`tests.golden.stages`."""

from __future__ import annotations

import pytest

from tests.golden import stages as golden


@pytest.mark.parametrize("path", golden.files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_listing(path):
    text = path.read_text("utf-8")
    assert golden.whole(golden.clause_of(text)) == text, "if this is what the change is for: python -m tests.golden.stages --write"


def test_there_are_listings_of_every_group():
    assert {path.parent.name for path in golden.files()} == {
        "pattern", "output", "conditions", "selection", "conjunction", "approximate", "ranking",
    }
