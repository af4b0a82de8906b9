"""Names in double quotes, as Spark reads them under ``spark.sql.ansi.doubleQuotedIdentifiers``.

The rewriter converts them to backticks.
"""

from __future__ import annotations

from sparkcep.clause.opaque_text import islands


def backticked(text: str) -> str:
    """``text`` with backticks instead of double quotes.

    Every name keeps its length, so all places stay valid. Only a name that contains a backtick gets longer. Raises ClauseError for
    a literal, a quoted name or a comment without an end.
    """
    if '"' not in text:
        return text
    out, pos = [], 0
    for start, end in islands(text):
        if text[start] == '"':
            name = text[start + 1 : end - 1].replace('""', '"').replace("`", "``")
            out += [text[pos:start], f"`{name}`".ljust(end - start)]
            pos = end
    return "".join([*out, text[pos:]])
