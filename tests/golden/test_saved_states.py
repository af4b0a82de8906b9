"""The state that a stream saves is that of the golden files, to the byte, and a stream resumes from their bytes; see
:mod:`tests.golden.saved_states`."""

from __future__ import annotations

import re
import struct
from collections import Counter
from pathlib import Path

import pytest

from sparkcep.engine.core import state_codec
from tests.golden import saved_states as saved

FILES = pytest.mark.parametrize("path", saved.files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
KINDS = {
    state_codec.LISTED, state_codec.WHOLE, state_codec.CHEAPEST, state_codec.EXPIRING, state_codec.BUDGETED, state_codec.IN_TURN, state_codec.POINTS, state_codec.PENDING, state_codec.EMITTED, state_codec.PUNCTUATED,
}  # fmt: skip
FOLDERS = {
    "adjacent", "selection", "early_emission", "conjunction", "match_count", "match_graph", "approximate", "proxies", "bundles", "automaton", "expiry", "arcs", "budget",
    "budget_history", "ranked_windows", "sequential_windows", "changes", "punctuations", "sessions", "buckets", "partitions", "unfinished",
}  # fmt: skip


@FILES
def test_bytes(path):
    text = path.read_text("utf-8")
    now = saved.whole(saved.head_of(text))
    assert saved.comparable(now, text) == saved.comparable(text, now), "if this is what the change is for: python -m tests.golden.saved_states --write"


@FILES
def test_a_stream_resumes_from_the_stored_bytes(path):
    text = path.read_text("utf-8")
    assert saved.resumed(text) == saved.sections_of(text)[saved.LATER]


def test_a_stream_resumes_from_the_state_of_an_older_version():
    """It has rows at which ways to one match tied, which are not saved any more."""
    text = (Path(__file__).parent / "older" / "states" / "budget_ties.txt").read_text("utf-8")
    assert saved.resumed(text).rstrip() == saved.sections_of(text)[saved.LATER].rstrip()


def test_there_are_three_clauses_of_every_kind():
    counts = Counter(path.parent.name for path in saved.files())
    assert counts.keys() == FOLDERS and min(counts.values()) >= 3


def test_the_bytes_have_every_kind_of_state():
    sections = (saved.sections_of(path.read_text("utf-8"))[saved.STATE] for path in saved.files())
    states = [data for section in sections for data in re.findall(r"^(?:key|bucket) .*, due .*\n((?:  .*\n?)+)", section, re.MULTILINE)]
    found = {struct.unpack_from("<HH", data, at + 4) for data in map(saved.undigits, states) for at in (match.start() for match in re.finditer(b"SCEP", data))}
    assert found == {(state_codec.FORMAT, kind) for kind in KINDS}


def test_digits_are_bytes():
    for data in (b"", b"\0", b"\0\0\0\0\1", bytes(300) + b"ab\0\0c" + bytes(3)):
        assert saved.undigits(saved.digits(data)) == data
