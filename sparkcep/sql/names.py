"""Under which WITH a part of a statement can be read by itself."""

from __future__ import annotations

from sparkcep.sql.lexer import QUOTED, WORD, Token

_QUERIES = frozenset(["SELECT", "WITH", "FROM", "INSERT", "EXPLAIN", "CREATE"])


def runs_at_once(tokens: list[Token]) -> bool:
    """Whether a statement reads its tables when it is given, and not later: no view, function or script."""
    words = [t.upper for t in tokens if t.kind == WORD]
    first = next((t for t in tokens if t.text != "("), None)
    if first is None or first.upper not in _QUERIES:
        return False
    if words[0] == "EXPLAIN":
        words = words[1:]
    head = words[: words.index("AS")] if "AS" in words else words
    return words[0] != "CREATE" or ("TABLE" in head and "VIEW" not in head)


def definitions(tokens: list[Token], close: dict[int, int], offset: int) -> list[tuple[int, int]] | None:
    """(start, end) of the names that the statement's WITH defines before ``offset``; None where they cannot be told: WITH RECURSIVE, or a
    WITH of an inner query around that place."""
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for i, t in enumerate(tokens):
        if t.start >= offset:
            break
        if t.text == "(" and i in close:
            opened.append(i)
        elif t.text == ")" and opened:
            opened.pop()
        elif t.kind == WORD and t.upper == "WITH" and _defines(tokens, i):
            around = [o for o in opened if tokens[close[o]].start > offset]
            if not opened:
                listed = _listed(tokens, close, i)
                if listed is None:
                    return None
                found = [span for span in listed if span[1] <= offset]
            elif len(around) == len(opened):
                return None
    return found


def _defines(tokens: list[Token], i: int) -> bool:
    """Whether the WITH at ``i`` begins definitions."""
    name, after = tokens[i + 1], tokens[i + 2]
    return name.upper == "RECURSIVE" or (name.kind in (WORD, QUOTED) and (after.text == "(" or after.upper == "AS"))


def _listed(tokens: list[Token], close: dict[int, int], i: int) -> list[tuple[int, int]] | None:
    """The spans of ``name [(columns)] AS (query)``, separated by commas, behind the WITH at ``i``; None for another form."""
    spans: list[tuple[int, int]] = []
    i += 1
    while True:
        start, i = i, i + 1
        if tokens[i].text == "(":
            i = close[i] + 1
        if tokens[i].upper != "AS" or tokens[i + 1].text != "(" or i + 1 not in close:
            return None
        end = close[i + 1]
        spans.append((tokens[start].start, tokens[end].end))
        if tokens[end + 1].text != ",":
            return spans
        i = end + 2
