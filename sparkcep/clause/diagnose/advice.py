"""Diagnoses syntax errors in a clause: finds frequent slips and reports each at its place, with the correction.

``clause/parser`` calls :func:`advised`. The parser stops where it cannot continue, which may be long after the slip. Each function
searches the tokens before that place for one kind of slip.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkcep.clause.diagnose.slips import HEADS, OF_THE_PARTS, PARTS, Slip, before, span_of, whole_clause
from sparkcep.clause.expressions import Cursor
from sparkcep.clause.tokens import END, NUMBER, OP, QUOTED, STRING, WORD, Span, tokenize
from sparkcep.errors import ClauseError, error_at, nearest

# first words of the options, and of the parts among them
OPTIONS = ("PATTERN", "AUTOMATON", "EVENT", "WINDOW", "WITHIN", "LIFETIME", "CHANGES", "REPORT", "SPECULATE", "APPROX", "PREF", "TOP")
_LISTS = {"MEASURES": "measure", "DEFINE": "condition", "SUBSET": "subset", "BY": "expression", "PREF": "objective"}
_UNITS = ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_OF_THE_TABLE = "is not part of MATCH_RECOGNIZE. Filter the input in a subquery, or the matches after the clause"
_AROUND = {
    "WHERE": _OF_THE_TABLE, "HAVING": _OF_THE_TABLE, "QUALIFY": _OF_THE_TABLE, "LIMIT": "is not part of MATCH_RECOGNIZE. Write it after the clause, or write TOP k for the best matches",
    "GROUP": "is not part of MATCH_RECOGNIZE. Write it after the clause to group the matches", "OVER": "belongs to window functions. Write PARTITION BY and ORDER BY in the clause without it",
    "OPTIONS": "is not part of MATCH_RECOGNIZE. Leave it out: the greedy quantifier A+ takes as many rows as it can, and A+? as few as it can",
    "CLUSTER": "is not part of MATCH_RECOGNIZE. Write PARTITION BY and ORDER BY", "DISTRIBUTE": "is not part of MATCH_RECOGNIZE. Write PARTITION BY", "SORT": "is not part of MATCH_RECOGNIZE. Write ORDER BY",
}
ELSEWHERE = {  # functions of other engines' clauses, and their replacements here
    "MATCH_SEQUENCE_NUMBER": "write RUNNING count(*) for the number of a row in its match",
    "MATCH_NUM": "write MATCH_NUMBER()",
    "MATCH_ROWTIME": "write LAST of the time column",
    "MATCH_PROCTIME": "write current_timestamp()",
    "PREVIOUS": "write PREV",
    "AVERAGE": "did you mean avg?",
    "ABSOLUTE": "did you mean abs?",
}
_KEYWORD = "MATCH_RECOGNIZE"
_FAR = 60  # most tokens to look back for the beginning of a list's item


def advised(cursor: Cursor, error: ClauseError) -> ClauseError:
    """The error, or a better one if a known slip explains it."""
    if error.error_class != "SPARKCEP.SYNTAX":
        return error
    for slip in _SLIPS:
        found = slip(cursor, error.message)
        if found is not None:
            span, message = found
            return error_at(cursor.text, span.start, span.end, "SYNTAX", message)
    return error


def not_begun(text: str) -> ClauseError | None:
    """The error for a statement that Spark cannot parse because a clause lacks a proper beginning, None for any other statement.

    The keyword may be misspelled, lack its parenthesis, or follow something other than a table.
    """
    tokens = tokenize(text)
    if not any(t.kind == WORD and t.upper == "PATTERN" and behind.text == "(" for t, behind in zip(tokens, tokens[1:])):
        return None
    for i, token in enumerate(tokens[:-1]):
        behind = tokens[i + 1]
        if token.kind != WORD:
            continue
        if token.upper == "MATCH" and behind.kind == WORD and nearest(behind.text, ["RECOGNIZE"], 0.8):
            return error_at(text, token.start, behind.end, "SYNTAX", f"{token.text} {behind.text} is not a clause; did you mean MATCH_RECOGNIZE?")
        if token.upper != _KEYWORD and behind.text == "(" and nearest(token.text, [_KEYWORD], 0.8):
            return error_at(text, token.start, token.end, "SYNTAX", f"{token.text} is not a clause; did you mean MATCH_RECOGNIZE?")
        if token.upper == _KEYWORD and behind.kind == WORD and behind.upper in (*HEADS, *PARTS):
            return error_at(text, token.start, token.end, "SYNTAX", "the clause needs parentheses, as in MATCH_RECOGNIZE (ORDER BY ... PATTERN (...))")
        if token.upper == _KEYWORD and behind.text == "(" and tokens[min(i + 2, len(tokens) - 1)].upper in (*HEADS, *PARTS):
            return error_at(text, token.start, token.end, "NOT_AFTER_TABLE", "MATCH_RECOGNIZE must follow a table in FROM, as in FROM t MATCH_RECOGNIZE (...)")
    return None


def _keyword_in_the_text(cursor: Cursor, said: str) -> Slip | None:
    """Finds the keyword at the beginning of a clause's text, given to a function or a DataFrame method."""
    first, second = cursor.tokens[0], cursor.tokens[min(1, len(cursor.tokens) - 1)]
    if first.kind == WORD and first.upper == _KEYWORD and second.text == "(":
        return span_of(first), "the text of a clause is the part between the parentheses. Leave out MATCH_RECOGNIZE ( )"
    return None


def _list_without_item(cursor: Cursor, said: str) -> Slip | None:
    """Finds a comma, or the keyword of a list, directly before the clause's next part."""
    if cursor.token.kind == END and before(cursor).text == ",":
        return span_of(before(cursor)), "no list item follows the comma at the end of the clause. Remove the comma"
    comma = _comma_before_pattern(cursor)
    if comma is not None:
        return comma
    for i in range(cursor.i, max(cursor.i - _FAR, 0), -1):
        token, last = cursor.tokens[i], cursor.tokens[i - 1]
        if token.kind != WORD or token.upper not in (*PARTS, *HEADS) or token.upper in ("ONE", "ALL") and cursor.tokens[i + 1].upper not in ("ROW", "ROWS"):
            continue
        if last.kind == OP and last.text == ",":
            return span_of(last), f"no list item follows the comma before {token.upper}. Remove the comma"
        if last.kind == WORD and last.upper in _LISTS and token.upper not in ("ALL", "ONE", "FIRST"):
            return span_of(last), f"{last.upper} is empty: no {_LISTS[last.upper]} comes before {token.upper}. Write one, or leave out {last.upper}"
        return None
    return None


def _comma_before_pattern(cursor: Cursor) -> Slip | None:
    """Finds a comma before PATTERN. The parser read such a PATTERN as a function call."""
    tokens, depth, found = cursor.tokens, 0, []
    for i in range(cursor.i):
        depth += (tokens[i].text == "(") - (tokens[i].text == ")")
        if depth == 0 and tokens[i].kind == WORD and tokens[i].upper in ("PATTERN", "AUTOMATON") and tokens[i + 1].text == "(":
            found.append(i)
    if len(found) != 1 or found[0] == 0 or tokens[found[0] - 1].text != ",":
        return None
    return span_of(tokens[found[0] - 1]), f"no list item follows the comma before {tokens[found[0]].upper}. Remove the comma"


def _comma_between_parts(cursor: Cursor, said: str) -> Slip | None:
    if whole_clause(said) and cursor.token.text == ",":
        return span_of(cursor.token), "the parts of the clause are not separated by commas. Remove the comma"
    return None


def _comma_missing(cursor: Cursor, said: str) -> Slip | None:
    if whole_clause(said) and cursor.token.kind == WORD and cursor.peek().upper == "AS" and cursor.token.upper not in (*HEADS, *PARTS):
        return span_of(cursor.token), f"a comma is missing before {cursor.token.text}"
    return None


def _moved(cursor: Cursor, said: str) -> Slip | None:
    """Finds a part of the clause after a part that it must precede."""
    word = cursor.token.upper if cursor.token.kind == WORD else ""
    begun = any(token.kind == WORD and token.upper in PARTS for token in cursor.tokens[: cursor.i])
    if not whole_clause(said) or not begun:
        return None
    if word == "SUBSET":
        return span_of(cursor.token), "SUBSET must come before DEFINE. Move it up"
    behind = next((t.upper for t in cursor.tokens[: cursor.i] if t.kind == WORD and t.upper in ("SUBSET", "DEFINE")), None)
    if word in OPTIONS and behind is not None:
        return span_of(cursor.token), f"{word} must come before {behind}{'' if word in ('PATTERN', 'AUTOMATON') else ', next to PATTERN'}. Move it up"
    if word in HEADS:
        names = {"PARTITION": "PARTITION BY", "ORDER": "ORDER BY", "ONE": "ONE ROW PER MATCH", "ALL": "ALL ROWS PER MATCH", "AFTER": "AFTER MATCH SKIP"}
        return span_of(cursor.token), f"{names.get(word, word)} must come before the options and PATTERN, in the order PARTITION BY, ORDER BY, MEASURES, ROWS PER MATCH, AFTER MATCH SKIP. Move it up"
    return None


def _of_the_statement(cursor: Cursor, said: str) -> Slip | None:
    """Finds a keyword that belongs to the statement around the clause, or to a window function."""
    if not whole_clause(said) or cursor.token.kind != WORD:
        return None
    found = _AROUND.get(cursor.token.upper)
    return None if found is None else (span_of(cursor.token), f"{cursor.token.upper} {found}")


def _misspelled(cursor: Cursor, said: str) -> Slip | None:
    token = cursor.token
    if not whole_clause(said) or token.kind != WORD or token.upper in (*HEADS, *PARTS):
        return None
    meant = nearest(token.text, (*HEADS, *PARTS))
    return None if meant is None else (span_of(token), f"{token.text} is not a keyword of MATCH_RECOGNIZE; did you mean {meant}?")


def _unit_without_interval(cursor: Cursor, said: str) -> Slip | None:
    number, unit = before(cursor), cursor.token.upper.removesuffix("S")
    length = number.text.strip("'\"") if number.kind == STRING else number.text
    if number.kind in (NUMBER, STRING) and length.replace(".", "", 1).isdigit() and cursor.token.kind == WORD and unit in _UNITS:
        return Span(number.start, cursor.token.end), f"a length of time must be an interval. Write INTERVAL '{length}' {unit}"
    return None


def _final_of_a_column(cursor: Cursor, said: str) -> Slip | None:
    last = before(cursor)
    if said.startswith("expected AS") and last.upper in ("FINAL", "RUNNING") and cursor.token.upper in ("FINAL", "RUNNING"):
        return Span(last.start, cursor.token.end), "FINAL and RUNNING exclude each other. Write one of them"
    if said.startswith("expected AS") and last.kind == WORD and last.upper in ("FINAL", "RUNNING") and cursor.token.kind in (WORD, QUOTED):
        word, n = last.upper, 0
        while cursor.peek(n + 1).text == "." and cursor.peek(n + 2).kind in (WORD, QUOTED):
            n += 2
        column = Span(cursor.token.start, cursor.peek(n).end)
        return Span(last.start, column.end), f"{word} goes before FIRST, LAST and aggregates. Write {word} LAST({column.of(cursor.text)})"
    return None


def _name_in_quotes(cursor: Cursor, said: str) -> Slip | None:
    text = cursor.token.text
    if said.startswith(("expected a name", "expected a row pattern variable")) and text[:1] in ("'", '"'):
        return span_of(cursor.token), f"{text} is a string in Spark SQL. Quote a name as `{text[1:-1]}`"
    return None


def _number_forgotten(cursor: Cursor, said: str) -> Slip | None:
    word, approx = before(cursor), before(cursor, 2)
    if "in the arguments of PATTERN" in said or said.startswith("expected PATTERN ("):  # PATTERN was read as a function
        words = cursor.tokens[max(cursor.i - _FAR, 0) : cursor.i]
        approx, word = next(((one, other) for one, other in zip(words, words[1:]) if other.kind == WORD and other.upper == "PATTERN"), (approx, word))
    if word.kind == WORD and word.upper in PARTS and approx.kind == WORD and approx.upper in ("APPROX", "TOP", "WINDOW", "WITHIN"):
        wanted = {"APPROX": "the number of errors, as in APPROX 1", "TOP": "how many matches, as in TOP 10"}.get(approx.upper, "a size, as in WINDOW INTERVAL '1' HOUR")
        return span_of(approx), f"{approx.upper} needs {wanted}"
    return None


def _weight_with_equals(cursor: Cursor, said: str) -> Slip | None:
    name, opening = before(cursor), before(cursor, 2)
    if cursor.token.text in ("=", ":") and name.kind == WORD and opening.text in ("(", ",") and any(t.upper == "WEIGHTS" for t in cursor.tokens[max(cursor.i - _FAR, 0) : cursor.i]):
        return span_of(cursor.token), f"a weight follows its variable. Write {name.text} {cursor.peek().text}"
    return None


def _foreign_pattern(cursor: Cursor, said: str) -> Slip | None:
    """Finds operators of other pattern languages between variables."""
    text = cursor.token.text
    begun = text == "!" and said.startswith("expected a row pattern variable")
    if not (begun or "to close PATTERN" in said) or cursor.token.kind == END:
        return None
    if text == "," or (text == "-" and cursor.peek().text == ">"):
        return span_of(cursor.token), f"variables in PATTERN are separated by spaces, as in (A B C). Remove {',' if text == ',' else '->'}"
    if text == ".":
        return span_of(cursor.token), "PATTERN does not use a dot for any row. Write a variable that DEFINE does not name, as in (A X* B)"
    if text == "!":
        return span_of(cursor.token), f"negation is written ~, as in ~{cursor.peek().text}"
    if text == "[":
        return span_of(cursor.token), "a choice between variables is written |, as in (B | C)"
    return None


_SLIPS: tuple[Callable[[Cursor, str], Slip | None], ...] = (
    _keyword_in_the_text, *OF_THE_PARTS, _foreign_pattern, _number_forgotten, _weight_with_equals, _unit_without_interval, _final_of_a_column, _name_in_quotes, _comma_between_parts, _comma_missing,
    _moved, _of_the_statement, _list_without_item, _misspelled,
)  # fmt: skip
