"""EXPLAIN of clauses over a stream is the text of the golden files; see :mod:`tests.golden.explained_streams`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.golden import explained_streams as explained
from tests.property.stream.stream_cases import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_explain(family):
    for path in sorted((explained.FOLDER / explained.folder_of(family)).glob("*.txt")):
        text = path.read_text("utf-8")
        assert explained.whole(explained.head_of(text)) == text, f"{path.name}; if this is what the change is for: python -m tests.golden.explained_streams --write"


def test_there_are_three_clauses_of_every_family():
    counts = Counter(path.parent.name for path in explained.files())
    assert counts.keys() == set(map(explained.folder_of, FAMILIES)) and min(counts.values()) >= explained.LEAST
