"""Statements cut at semicolons are those that tokens give, over random texts without BEGIN ... END blocks."""

from __future__ import annotations

from random import Random

import pytest

from sparkcep.clause import tokens
from sparkcep.errors import ClauseError
from tests.selection import first

PIECES = [
    ";", ";", ";", " ", "\n", "SELECT a", "'a;b'", '"x;"', "`;`", "-- c;\n", "-- c", "/* ; */", "/* /* ; */ */", "/*+ HINT */", "r'\\'", "x'00'", "1.5", "a.b",
    "'it''s'", "'\\'", "(", ")", "::", "\r\n", "beginning", "-", "/", "*", "'", "`", "é", "\t",
]  # fmt: skip


def found(spans, text: str):
    try:
        return spans(text)
    except ClauseError as error:
        return error.error_class, error.line, error.column


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_statements_are_those_of_the_tokens(seed, monkeypatch):
    random, statements = Random(seed), 0
    for _ in range(1_500):
        text = "".join(random.choices(PIECES, k=random.randrange(14)))
        monkeypatch.setattr(tokens, "_BLOCK", _Never())
        by_semicolons = found(tokens.statement_spans, text)
        monkeypatch.setattr(tokens, "_BLOCK", _Always())
        assert by_semicolons == found(tokens.statement_spans, text), text
        statements += len(by_semicolons)
    assert statements > 1_000


class _Never:
    def search(self, text: str) -> bool:
        return False


class _Always:
    def search(self, text: str) -> bool:
        return True
