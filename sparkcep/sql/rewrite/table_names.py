"""Resolves table names: the WITH that makes a part of a statement readable on its own, and the names that may qualify columns.

The rewriter uses it on the statement's tokens.
"""

from __future__ import annotations

from sparkcep.clause.tokens import QUOTED, WORD, Token, name_of

_QUERIES = frozenset(["SELECT", "WITH", "FROM", "INSERT", "EXPLAIN", "CREATE"])
_JOINS = frozenset("JOIN INNER CROSS LEFT RIGHT FULL OUTER SEMI ANTI NATURAL LATERAL".split())
_NO_NAMES = _JOINS | frozenset("AS TABLE TABLESAMPLE VALUES UNION INTERSECT EXCEPT MINUS ALL DISTINCT".split())
_INNER_QUERIES = frozenset("SELECT WITH FROM VALUES TABLE".split())


def runs_at_once(tokens: list[Token]) -> bool:
    """Whether a statement reads its tables when it is submitted, unlike a view, function or script."""
    words = [t.upper for t in tokens if t.kind == WORD]
    first = next((t for t in tokens if t.text != "("), None)
    if first is None or first.upper not in _QUERIES:
        return False
    if words[0] == "EXPLAIN":
        words = words[1:]
    head = words[: words.index("AS")] if "AS" in words else words
    return words[0] != "CREATE" or ("TABLE" in head and "VIEW" not in head)


def definers(tokens: list[Token], close: dict[int, int]) -> list[tuple[int, tuple[int, ...]]]:
    """Returns each WITH that begins definitions: its index, and those of the parentheses around it."""
    found: list[tuple[int, tuple[int, ...]]] = []
    opened: list[int] = []
    for i, t in enumerate(tokens):
        if t.text == "(" and i in close:
            opened.append(i)
        elif t.text == ")" and opened:
            opened.pop()
        elif t.kind == WORD and t.upper == "WITH" and _defines(tokens, i):
            found.append((i, tuple(opened)))
    return found


def definitions(tokens: list[Token], close: dict[int, int], withs: list[tuple[int, tuple[int, ...]]], offset: int) -> list[tuple[int, int]] | None:
    """Returns (start, end) of the definitions in the statement's WITH before ``offset``. ``withs``: see :func:`definers`.

    Returns None if they cannot be found: under WITH RECURSIVE, or inside a WITH of an inner query.
    """
    found: list[tuple[int, int]] = []
    for i, opened in withs:
        if tokens[i].start >= offset:
            break
        if not opened:
            listed = _listed(tokens, close, i)
            if listed is None:
                return None
            found = [span for span in listed if span[1] <= offset]
        elif all(tokens[close[o]].start > offset for o in opened):
            return None
    return found


def table_names(tokens: list[Token], close: dict[int, int], start: int, stop: int) -> frozenset[str]:
    """Returns the lower-case names of the tables in ``tokens[start:stop]``, the text after FROM, that may qualify a column there.

    These are w, db.w and cat.db.w for the table cat.db.w. Names inside subqueries, names of columns and names in join conditions
    are left out.
    """
    found: set[str] = set()
    condition, i = False, start
    while i < stop:
        t = tokens[i]
        if t.text == "(":
            joined = i == start or tokens[i - 1].text in (",", "(") or tokens[i - 1].upper in _JOINS
            if joined and not condition and i in close and tokens[i + 1].upper not in _INNER_QUERIES:
                found |= table_names(tokens, close, i + 1, close[i])
            i = close.get(i, i)
        elif t.kind == WORD and t.upper in ("ON", "USING"):
            condition = True
        elif t.kind == WORD and t.upper == "LATERAL" and tokens[i + 1].upper == "VIEW" and _ends_table(tokens, start, i):
            return frozenset(found | _views(tokens, close, i, stop))
        elif t.text == "," or (t.kind == WORD and t.upper in _JOINS):
            condition = False
        elif not condition and (t.kind == QUOTED or (t.kind == WORD and t.upper not in _NO_NAMES)):
            parts = [name_of(t).lower()]
            while tokens[i + 1].text == "." and tokens[i + 2].kind in (WORD, QUOTED):
                i += 2
                parts.append(name_of(tokens[i]).lower())
            found |= {".".join(parts[k:]) for k in range(len(parts))}
        i += 1
    return frozenset(found)


def _ends_table(tokens: list[Token], start: int, i: int) -> bool:
    """Whether a table that begins at or after ``start`` ends before token ``i``."""
    return i > start and tokens[i - 1].text not in (",", "(") and tokens[i - 1].upper not in _JOINS


def _views(tokens: list[Token], close: dict[int, int], i: int, stop: int) -> set[str]:
    """Returns the lower-case names of each ``LATERAL VIEW function(...) name AS columns`` from token ``i`` on."""
    found: set[str] = set()
    while i < stop:
        if tokens[i].upper == "VIEW" and tokens[i - 1].upper == "LATERAL":
            call = next((k for k in range(i, stop) if k in close), stop)
            i = close.get(call, stop) + 1
            if i < stop and tokens[i].kind in (WORD, QUOTED):
                found.add(name_of(tokens[i]).lower())
        i += 1
    return found


def reads_itself(tokens: list[Token], close: dict[int, int], start: int, stop: int) -> Token | None:
    """Returns the token in ``tokens[start:stop]``, a clause's input, that reads a name still being defined by WITH RECURSIVE.

    Returns None if no token does.
    """
    recursive: set[str] = set()
    for i, t in enumerate(tokens[:start]):
        if t.kind == WORD and t.upper == "WITH" and tokens[i + 1].upper == "RECURSIVE":
            recursive |= _defining(tokens, close, i + 2, start)
    for i in range(start, stop if recursive else start):
        t, before = tokens[i], tokens[i - 1]
        as_table = i == start or before.text in (",", "(") or before.upper in ("FROM", "TABLE", *_JOINS)
        if t.kind in (WORD, QUOTED) and as_table and name_of(t).lower() in recursive:
            return t
    return None


def _defining(tokens: list[Token], close: dict[int, int], i: int, at: int) -> set[str]:
    """Returns the names whose definitions, listed from token ``i``, enclose token ``at``."""
    found: set[str] = set()
    while i < at:
        name = tokens[i]
        while i < at and not (tokens[i].upper == "AS" and tokens[i + 1].text == "("):
            i = close.get(i, i) + 1
        end = close.get(i + 1)
        if end is None or i >= at:
            break
        if end > at:
            found.add(name_of(name).lower())
        if tokens[end + 1].text != ",":
            break
        i = end + 2
    return found


def _defines(tokens: list[Token], i: int) -> bool:
    """Whether the WITH at ``i`` begins definitions."""
    if i + 2 >= len(tokens):
        return False
    name, after = tokens[i + 1], tokens[i + 2]
    return name.upper == "RECURSIVE" or (name.kind in (WORD, QUOTED) and (after.text == "(" or after.upper == "AS"))


def _listed(tokens: list[Token], close: dict[int, int], i: int) -> list[tuple[int, int]] | None:
    """Returns the spans of ``name [(columns)] AS (query)``, separated by commas, after the WITH at ``i``.

    Returns None if the text has another form.
    """
    spans: list[tuple[int, int]] = []
    i += 1
    while True:
        start, i = i, i + 1
        if tokens[i].text == "(":
            i = close.get(i, i) + 1
        if tokens[i].upper != "AS" or tokens[i + 1].text != "(" or i + 1 not in close:
            return None
        end = close[i + 1]
        spans.append((tokens[start].start, tokens[end].end))
        if tokens[end + 1].text != ",":
            return spans
        i = end + 2
