"""The same patterns through Python's `re`, where each variable is a set of letters."""

from __future__ import annotations

import re
from itertools import permutations


def to_regex(p, letters) -> str:
    """`re` source; letters: variable -> string of the letters it accepts (absent: any)."""
    kind = p[0]
    if kind == "var":
        return f"[{letters[p[1]]}]" if p[1] in letters else "."
    if kind == "cat":
        return "".join(to_regex(child, letters) for child in p[1])
    if kind == "alt":
        return _group("|".join(to_regex(child, letters) for child in p[1]))
    if kind == "permute":
        return _group("|".join(to_regex(("cat", list(order)), letters) for order in permutations(p[1])))
    if kind == "rep":
        _, body, least, most, greedy = p
        # The outer group keeps a following quantifier from reading as a possessive mark.
        bounds = f"{{{least},{'' if most is None else most}}}"
        return _group(_group(to_regex(body, letters)) + bounds + ("" if greedy else "?"))
    if kind == "excl":
        return _group(to_regex(p[1], letters))
    return {"empty": "(?:)", "start": r"\A", "end": r"\Z"}[kind]


def _group(text) -> str:
    return f"(?:{text})"


def find_spans(pattern, letters, text):
    """(start, stop) of each match, as AFTER MATCH SKIP PAST LAST ROW finds them."""
    compiled = re.compile(to_regex(pattern, letters), re.DOTALL)
    spans = []
    at = 0
    while at < len(text):
        # match() tries this row only; \A still means the partition's start.
        hit = compiled.match(text, at)
        if hit:
            spans.append(hit.span())
        at = hit.end() if hit and hit.end() > at else at + 1
    return spans
