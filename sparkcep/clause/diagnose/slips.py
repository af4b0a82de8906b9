"""Slips in the parts of a clause: words that are missing, repeated or misplaced, and the notation of other languages.

``clause/diagnose/advice`` tries them in turn. Each function checks the place where the parser stopped. It returns the slip's place
and a message with the correction, or None.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkcep.clause.expressions import Cursor
from sparkcep.clause.tokens import NUMBER, OP, QUOTED, WORD, Span, Token
from sparkcep.errors import nearest

HEADS = ("PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER")  # parts that precede the options
PARTS = ("PATTERN", "AUTOMATON", "EVENT", "WINDOW", "WITHIN", "APPROX", "PREF", "TOP", "SUBSET", "DEFINE")
_WHOLE = {"PARTITION": "PARTITION BY", "ORDER": "ORDER BY", "ONE": "ONE ROW PER MATCH", "ALL": "ALL ROWS PER MATCH", "AFTER": "AFTER MATCH SKIP"}
_DIRECTIONS = {"ASCENDING": "ASC", "DESCENDING": "DESC"}
_SHORT_UNITS = {"SEC": "SECOND", "S": "SECOND", "MIN": "MINUTE", "M": "MINUTE", "HR": "HOUR", "H": "HOUR", "D": "DAY", "MS": "MILLISECOND"}
_OF_A_REPORT = {"BUNDLES": "MATCH BUNDLES", "PROXY": "PROXY MATCHES", "PROXIES": "PROXY MATCHES", "HISTORY": "MATCH HISTORY"}
_REPORTS = ("ALL MATCHES", "FIRST MATCH", "PROXY MATCHES", "MATCH BUNDLES", "MATCH HISTORY")
_UNFINISHED = {"TIMEOUT": "SHOW TIMEOUT MATCHES", "PARTIAL": "SHOW UNFINISHED MATCHES", "UNFINISHED": "SHOW UNFINISHED MATCHES"}  # as other engines and users write them
_ROWS_OF_ALL = {"WITH": "WITH UNMATCHED ROWS", "SHOW": "SHOW EMPTY MATCHES", "OMIT": "OMIT EMPTY MATCHES"}
_ONCE = {
    "ON": "Leave one of the two out", "WHEN": "Join its conditions by AND", "SET": "Separate its assignments by commas", "EMIT": "Separate its values by commas",
}  # fmt: skip

Slip = tuple[Span, str]  # its place and the message


def span_of(token: Token) -> Span:
    return Span(token.start, token.end)


def before(cursor: Cursor, back: int = 1) -> Token:
    """The token ``back`` places before the one where the parser stopped, or END."""
    return cursor.tokens[cursor.i - back] if cursor.i >= back else cursor.tokens[-1]


def whole_clause(said: str) -> bool:
    """Whether the parser had read all that it could, or had not found PATTERN."""
    return "the order is" in said


def _is(token: Token, *words: str) -> bool:
    return token.kind == WORD and token.upper in words


def _part_before(cursor: Cursor) -> str:
    """The first word of the part that the parser had just read."""
    return next((t.upper for t in reversed(cursor.tokens[: cursor.i]) if _is(t, *HEADS, *PARTS)), "")


def _by_forgotten(cursor: Cursor, said: str) -> Slip | None:
    token = cursor.token
    if whole_clause(said) and _is(token, "PARTITION", "ORDER") and not _is(cursor.peek(), "BY"):
        return span_of(token), f"BY is missing. Write {token.upper} BY {cursor.peek().text}"
    if whole_clause(said) and _is(token, "BY") and _is(before(cursor), "PARTITION", "ORDER") and before(cursor, 2).text != ",":  # the keyword was read as a column
        return span_of(before(cursor, 2)), f"an expression is missing before {before(cursor).upper} BY"
    return None


def _of_a_key(cursor: Cursor, said: str) -> Slip | None:
    """Finds a word that cannot follow a key of PARTITION BY or ORDER BY."""
    token, part = cursor.token, _part_before(cursor)
    if not whole_clause(said) or part not in ("PARTITION", "ORDER") or token.kind != WORD:
        return None
    if part == "PARTITION" and token.upper in ("ASC", "DESC", "NULLS", *_DIRECTIONS):
        return span_of(token), f"keys of PARTITION BY are not ordered. Write {token.upper} in ORDER BY"
    if token.upper in _DIRECTIONS:
        return span_of(token), f"{token.upper} is not a keyword of ORDER BY. Write {_DIRECTIONS[token.upper]}"
    if token.upper in ("ASC", "DESC"):
        return span_of(token), f"{token.upper} must directly follow its expression, before NULLS FIRST or NULLS LAST"
    if token.upper == "AS":
        return span_of(token), "a key cannot have an alias here. Rename it in a subquery below the clause, or in SELECT"
    return None


def _report_after_define(cursor: Cursor, said: str) -> Slip | None:
    token, part = cursor.token, _part_before(cursor)
    report = f"{token.upper} {cursor.peek().upper}"
    if whole_clause(said) and part in ("DEFINE", "SUBSET") and report in _REPORTS:
        return Span(token.start, cursor.peek().end), f"{report} must come before {part}, next to its option. Move it up"
    return None


def _head_again(cursor: Cursor, said: str) -> Slip | None:
    """Finds a part that is written twice, or before a part that it must follow. Other functions handle options."""
    token = cursor.token
    if not whole_clause(said) or not _is(token, *HEADS, "DEFINE", "SUBSET") or any(_is(t, *PARTS) for t in cursor.tokens[: cursor.i]) and token.upper in HEADS:
        return None
    same = ("ONE", "ALL") if token.upper in ("ONE", "ALL") else (token.upper,)
    depth = 0
    for earlier in cursor.tokens[: cursor.i]:
        depth += (earlier.text == "(") - (earlier.text == ")")
        if depth == 0 and _is(earlier, *same):
            what = "DEFINE is written twice. Write one DEFINE, with commas between the conditions" if token.upper == "DEFINE" else f"{_WHOLE.get(token.upper, token.upper)} is written twice. Leave one out"
            return span_of(token), what
    if token.upper in HEADS:
        later = next((t.upper for t in cursor.tokens[: cursor.i] if _is(t, *HEADS[HEADS.index(token.upper) :])), None)
        if later is not None:
            return span_of(token), f"{_WHOLE.get(token.upper, token.upper)} must come before {_WHOLE.get(later, later)}. Move it up"
    return None


def _semicolon(cursor: Cursor, said: str) -> Slip | None:
    if cursor.token.text == ";":
        return span_of(cursor.token), "a semicolon ends the statement, but the clause is not complete. Remove the semicolon"
    return None


def _of_a_measure(cursor: Cursor, said: str) -> Slip | None:
    token = cursor.token
    if said == "expected AS and a name after the measure's expression, but the clause ends":
        return span_of(token) if token.text else Span(token.start, token.start + 1), "this parenthesis ends the clause inside MEASURES. Add a missing (, or remove an extra )"
    if said.startswith("expected AS and a name"):
        item = _item(cursor)
        if item and not _is(item[-1], "FINAL", "RUNNING") and token.kind in (WORD, QUOTED) and not _is(token, *HEADS, *PARTS) and cursor.peek().text in ("(", "."):
            expression = cursor.text[item[0].start : item[-1].end]
            next_one = "" if nearest(token.text, (*HEADS, *PARTS), 0.8) else f", and a comma before {token.text}"
            return Span(item[0].start, item[-1].end), f"a measure needs a name. Write {expression} AS {_proposed(item)}{next_one}"
        if len(item) > 2 and item[0].kind in (WORD, QUOTED) and item[1].text == "=" and (_is(token, *HEADS, *PARTS) or token.text == ","):
            expression = cursor.text[item[2].start : item[-1].end]
            return Span(item[0].start, item[1].end), f"a measure's name follows its expression. Write {expression} AS {item[0].text}"
        if item and item[-1].text == "*" and (len(item) == 1 or item[-2].text == "."):
            return Span(item[0].start, item[-1].end), "a measure is an expression with a name, not *. For all columns write ALL ROWS PER MATCH, with or without measures"
        if item and not _is(item[-1], "FINAL", "RUNNING") and not _is(item[0], *PARTS) and (token.text == "," or _is(token, *HEADS, *PARTS)):
            expression = cursor.text[item[0].start : item[-1].end]
            return Span(item[0].start, item[-1].end), f"a measure needs a name. Write {expression} AS {_proposed(item)}"
    name = before(cursor)
    if whole_clause(said) and _part_before(cursor) == "MEASURES" and not _is(before(cursor, 2), "AS") and name.kind in (WORD, QUOTED) and token.kind in (WORD, QUOTED):
        if not _is(token, *HEADS, *PARTS) and cursor.peek().text in (",", "(", ".") and nearest(token.text, (*HEADS, *PARTS), 0.8) is None:
            return span_of(token), f"a comma is missing before {token.text}"
        if not _is(token, *HEADS, *PARTS) and (cursor.peek().text == "," or _is(cursor.peek(), *HEADS, *PARTS)):
            return Span(name.start, token.end), f"a measure's name is one word. Write AS {token.text}, or AS `{name.text} {token.text}`"
    if whole_clause(said) and token.text == "(" and _is(name, *PARTS) and _is(before(cursor, 2), "AS"):
        return span_of(before(cursor, 2)), f"a name for the measure is missing before {name.upper}"
    if whole_clause(said) and _part_before(cursor) == "MEASURES" and _is(before(cursor, 2), "AS"):
        if token.text == ".":
            return Span(name.start, cursor.peek().end), f"a measure's name is one word. Write {name.text}_{cursor.peek().text}, or `{name.text}.{cursor.peek().text}`"
        if token.kind in (WORD, QUOTED, NUMBER) and not _is(token, *HEADS, *PARTS, "WITH", "SHOW", "OMIT", "SKIP", "WHERE", "GROUP", "HAVING", "LIMIT", "QUALIFY") and cursor.peek().text in ("(", "."):
            if token.kind == WORD and cursor.peek().text == "(" and nearest(token.text, (*HEADS, *PARTS), 0.8):
                return None  # the name of a part is misspelled
            return span_of(token), f"a comma is missing before {token.text}"
    return None


def _proposed(item: list[Token]) -> str:
    """A name for a measure, from its function and its last column."""
    words = [t.text for t in item if t.kind == WORD]
    called = words and len(item) > 1 and item[1].text == "("
    return "_".join([words[0].lower(), *words[1:][-1:]]) if called else words[-1] if words else "name"


def _item(cursor: Cursor) -> list[Token]:
    """The tokens of the item of MEASURES that the parser was reading."""
    item: list[Token] = []
    depth = 0
    for token in reversed(cursor.tokens[: cursor.i]):
        depth += (token.text == ")") - (token.text == "(")
        if depth == 0 and (token.text == "," or _is(token, "MEASURES")):
            break
        item.insert(0, token)
    return item


def _of_the_rows(cursor: Cursor, said: str) -> Slip | None:
    token = cursor.token
    other = token if _is(token, *_UNFINISHED) else cursor.peek()
    if _is(other, *_UNFINISHED) and (said.startswith("expected UNMATCHED in") or (whole_clause(said) and _is(token, "WITH"))):
        first = token if _is(token, "WITH") else before(cursor)
        last = next((t for t in cursor.tokens[cursor.tokens.index(other) + 1 :][:1] if _is(t, "ROWS", "MATCHES")), other)
        return Span(first.start, last.end), f"write {_UNFINISHED[other.upper]} after ONE ROW PER MATCH or ALL ROWS PER MATCH"
    if whole_clause(said) and _is(token, "SHOW") and _is(cursor.peek(), *_UNFINISHED):
        option = _UNFINISHED[cursor.peek().upper]
        return Span(token.start, cursor.peek().end), f"{option} must directly follow ONE ROW PER MATCH or ALL ROWS PER MATCH. Write ONE ROW PER MATCH {option}"
    if said.startswith("expected MATCHES after SHOW") and _is(token, "ROWS"):
        return span_of(token), "the option shows matches, not rows. Write MATCHES instead of ROWS"
    if said.startswith("expected UNMATCHED in") and _is(token, "EMPTY"):
        return Span(before(cursor).start, token.end), "empty matches are shown by default. To leave them out, write ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    if said.startswith("expected EMPTY in") and _is(token, "UNMATCHED"):
        verb = before(cursor)
        return Span(verb.start, token.end), "rows outside of all matches are left out by default. Remove OMIT UNMATCHED ROWS" if _is(verb, "OMIT") else "SHOW cannot be used with UNMATCHED ROWS. Write WITH UNMATCHED ROWS"
    words = [t.upper for t in cursor.tokens[max(cursor.i - 4, 0) : cursor.i]]
    if said.startswith("expected EMPTY in") and _is(before(cursor), "SHOW"):
        return Span(before(cursor).start, token.end), "write SHOW EMPTY MATCHES, SHOW UNFINISHED MATCHES or SHOW TIMEOUT MATCHES"
    if whole_clause(said) and words == ["ONE", "ROW", "PER", "MATCH"] and _is(token, "SHOW") and not _is(cursor.peek(), "EMPTY"):
        return span_of(token), "after ONE ROW PER MATCH write SHOW UNFINISHED MATCHES or SHOW TIMEOUT MATCHES"
    if whole_clause(said) and _is(token, *_ROWS_OF_ALL) and words == ["ONE", "ROW", "PER", "MATCH"]:
        return span_of(token), f"{_ROWS_OF_ALL[token.upper]} needs ALL ROWS PER MATCH"
    if whole_clause(said) and _is(token, *_ROWS_OF_ALL) and _is(cursor.peek(), "UNMATCHED", "EMPTY"):
        return Span(token.start, cursor.peek().end), f"write ALL ROWS PER MATCH {_ROWS_OF_ALL[token.upper]} after MEASURES, before AFTER MATCH SKIP, the options and PATTERN"
    return None


def _of_a_skip(cursor: Cursor, said: str) -> Slip | None:
    token = cursor.token
    if whole_clause(said) and _is(token, "SKIP"):
        asked = f"EVENT SELECTION SKIP TILL {cursor.peek(2).text} MATCH" if _is(cursor.peek(), "TILL") else "AFTER MATCH SKIP"
        return span_of(token), f"SKIP does not begin a part of the clause. Write {asked}"
    if whole_clause(said) and _is(token, "MATCH") and _is(before(cursor), "NEXT") and _is(before(cursor, 2), "TO"):
        return Span(before(cursor).start, token.end), "by default the search resumes after the match. To resume at its second row, write TO NEXT ROW"
    if said.startswith("expected LAST in ... LAST ROW") and token.kind in (WORD, QUOTED):
        instead = "TO NEXT ROW for the second row of the match" if _is(token, "FIRST", "NEXT") else f"TO LAST {token.text} for the last row of a variable"
        return Span(before(cursor).start, token.end), f"write PAST LAST ROW, or {instead}"
    if said.startswith("expected ROW in ... LAST ROW"):
        of = f", or TO LAST {token.text} for the last row of a variable" if token.kind in (WORD, QUOTED) and not _is(token, *HEADS, *PARTS, "ROWS") else ""
        return Span(before(cursor, 2).start, token.end if of else before(cursor).end), f"write PAST LAST ROW{of}"
    if said.startswith("expected SKIP in ... MATCH SKIP") and _is(token, "NO") and _is(cursor.peek(), "SKIP"):
        return Span(token.start, cursor.peek().end), "NO SKIP is not an option. Write SKIP TO NEXT ROW to let the next match begin at the second row of this one"
    if said.startswith("expected TO or PAST LAST ROW") and token.kind == NUMBER:
        return span_of(token), _NO_COUNT
    if whole_clause(said) and token.kind == NUMBER and _is(before(cursor), "ROW") and _is(before(cursor, 2), "TO"):
        return Span(before(cursor).start, token.end), _NO_COUNT
    return None


_NO_COUNT = "AFTER MATCH SKIP does not take a row number. Write TO NEXT ROW (the second row of the match), TO FIRST A or TO LAST A (a row of a variable), or PAST LAST ROW"


def _of_the_pattern(cursor: Cursor, said: str) -> Slip | None:
    """Finds notation of other languages in and around a row pattern."""
    token, last = cursor.token, before(cursor)
    if "to close PATTERN" in said and (opened := _define_inside(cursor)) is not None:
        return span_of(opened), "this parenthesis of PATTERN is not closed: DEFINE is inside it. Write ) before DEFINE"
    if token.text == "|" and last.text == "|" and last.end == token.start:
        return Span(last.start, token.end), "an alternation is written with one bar, as in (A | B)"
    if token.text == "&" and last.text == "&" and last.end == token.start:
        return Span(last.start, token.end), "&& is not an operator of Spark SQL. Write AND" if "row pattern" not in said else "a conjunction is written with one &, as in (A & B)"
    if token.text == ">" and last.text == "=" and last.end == token.start:
        return Span(last.start, token.end), "=> is not a comparison operator. Write >="
    if said.startswith("expected '}'") and token.text == "-" and last.kind == NUMBER and cursor.peek().kind == NUMBER:
        return Span(last.start, cursor.peek().end), f"a comma separates the bounds. Write {{{last.text},{cursor.peek().text}}}"
    if "to close PATTERN" in said and token.text == ":":
        return span_of(token), f"conditions go in DEFINE, as in DEFINE {last.text} AS ..."
    if whole_clause(said) and token.kind == OP and token.text in "*+?{" and last.text == ")" and _part_before(cursor) == "PATTERN":
        return span_of(token), "a quantifier goes inside the parentheses of PATTERN, as in PATTERN ((A B)+)"
    if "to close the subset" in said and token.text == "|":
        return span_of(token), "commas separate the variables of a subset. Write , instead of |"
    return None


def _define_inside(cursor: Cursor) -> Token | None:
    """The parenthesis of PATTERN if DEFINE and its first condition were read as variables, else None."""
    tokens = cursor.tokens[: cursor.i]
    at = next((i for i in range(len(tokens) - 1, 0, -1) if _is(tokens[i - 1], "PATTERN") and tokens[i].text == "("), None)
    begun = at is not None and any(_is(a, "DEFINE") and _is(c, "AS") for a, c in zip(tokens[at:], tokens[at + 2 :]))
    return tokens[at] if at is not None and begun else None


def _of_a_condition(cursor: Cursor, said: str) -> Slip | None:
    token = cursor.token
    if whole_clause(said) and _is(token, "AS") and _part_before(cursor) == "DEFINE" and _is(before(cursor, 2), "AND"):
        joint = before(cursor, 2)
        return span_of(joint), f"a comma separates the conditions of two variables. Write , {before(cursor).text} AS instead of AND {before(cursor).text} AS"
    if said.startswith("expected AS after") and "in DEFINE" in said and token.kind == OP and token.text in ("<", ">", "=", "!", ".", "+", "-", "*", "/"):
        if token.text == "=":
            return span_of(token), f"AS separates a variable from its condition. Write {before(cursor).text} AS"
        return Span(before(cursor).start, token.end), "a condition follows its variable and AS, as in DEFINE A AS price > 10"
    if said.startswith("expected a row pattern variable") and token.text == "(" and _is(before(cursor), "DEFINE"):
        return span_of(token), "DEFINE takes its list of conditions without parentheses, as in DEFINE A AS price > 10, B AS price < 5"
    return None


def _of_a_size(cursor: Cursor, said: str) -> Slip | None:
    token, last = cursor.token, before(cursor)
    if not whole_clause(said):
        return None
    if _is(token, "ROW") and last.kind == NUMBER:
        return span_of(token), f"a number of rows is written {last.text} ROWS"
    if token.kind == NUMBER and _is(last, "ROWS", "ROW") and _is(before(cursor, 2), "WINDOW", "WITHIN"):
        return Span(last.start, token.end), f"the number comes before ROWS. Write {token.text} ROWS"
    if last.kind == NUMBER and token.kind == WORD and token.upper in _SHORT_UNITS:
        return Span(last.start, token.end), f"a length of time must be an interval. Write INTERVAL '{last.text}' {_SHORT_UNITS[token.upper]}"
    return None


_WEIGHTS = "weights are written in parentheses after WEIGHTS, as in WEIGHTS (A 2, B 0.5)"


def _of_a_ranking(cursor: Cursor, said: str) -> Slip | None:
    token, last = cursor.token, before(cursor)
    if token.text == "=" and _is(last, "APPROX", "TOP", "WINDOW", "WITHIN"):
        return span_of(token), f"the number directly follows {last.upper}. Write {last.upper} {cursor.peek().text}"
    if _is(last, "PER") and said.startswith("expected PARTITION after PER"):
        if _is(token, "WINDOW"):
            return Span(last.start, token.end), "TOP ranks each window if the clause has SLIDE, as in WINDOW 10 SLIDE 5. Leave PER WINDOW out"
        return span_of(token), "TOP ranks the matches of each partition. Name the keys in PARTITION BY, and write PER PARTITION"
    if said.startswith("expected CHECKS after") and token.text != ")":
        return span_of(before(cursor)), f"CHECKS is missing after the number. Write BUDGET {last.text} CHECKS"
    if said.startswith("expected MIN or MAX in PREF"):
        return span_of(token), "write PREF SEQUENCES for the preferences of the sequences" if _is(token, "SEQUENCE") else "a preference begins with MAX or MIN, as in PREF MAX (LAST(price))"
    if said.startswith("expected '(' after WEIGHTS"):
        return span_of(token), _WEIGHTS
    if said.startswith(("expected '(' after MAX", "expected '(' after MIN")):
        return span_of(token), f"an objective is written in parentheses, as in {last.upper} (LAST(price))"
    if not whole_clause(said):
        return None
    if _is(token, "SEQUENCE") and cursor.peek().kind in (WORD, QUOTED) and (cursor.peek(2).text == "(" or _is(cursor.peek(2), "AS")):
        missing = "AS is missing" if cursor.peek(2).text == "(" else "the pattern of a sequence is written in parentheses"
        return Span(token.start, cursor.peek(2).end), f"{missing}. Write SEQUENCE {cursor.peek().text} AS (...)"
    if _is(token, "WEIGHT", "WEIGHTS") and _part_before(cursor) in ("APPROX", "PREF") and cursor.peek().kind in (WORD, QUOTED, OP):
        return span_of(token), _WEIGHTS
    if _is(token, "HISTORY", "USING") and _is(last, "CHECKS"):
        table = cursor.peek().text
        return span_of(token), f"a history's table follows USING HISTORY. Write USING HISTORY {table if table != ')' else 'h'}"
    if _is(token, "PER") and _is(last, "CHECKS"):
        number = f"BUDGET {before(cursor, 2).text} CHECKS"
        return Span(token.start, cursor.peek().end), f"CHECKS are always counted for each row. Write {number} alone, or BUDGET INTERVAL '1' SECOND PER {cursor.peek().upper}"
    if _is(token, *_OF_A_REPORT) and _part_before(cursor) != "EVENT":
        return span_of(token), f"{token.upper} is not a report by itself. Write {_OF_A_REPORT[token.upper]}"
    if _is(token, "EXTRA"):
        return span_of(token), f"EXTRA is a weight. Write WEIGHTS (EXTRA {cursor.peek().text if cursor.peek().kind == NUMBER else 1})"
    if token.text == "%" and _is(before(cursor, 2), "APPROX"):
        return Span(last.start, token.end), "APPROX takes a number of errors, not a share of the match. Write APPROX 1, or another number"
    if (_is(token, "PER") and _is(last, "OVERALL")) or (_is(token, "OVERALL") and _is(last, "PARTITION")):
        return Span(token.start, cursor.peek().end if _is(token, "PER") else token.end), "OVERALL and PER PARTITION exclude each other. Write one of them"
    if _is(token, "MAX", "MIN") and _part_before(cursor) == "PREF":
        return span_of(token), f"AND separates objectives. Write AND {token.upper} (...)"
    if _is(token, "ERRORS", "ERROR") and _is(before(cursor, 2), "APPROX"):
        return span_of(token), f"APPROX takes only the number of errors. Write APPROX {last.text}"
    if _is(token, "BY", "ORDER") and _is(before(cursor, 2), "TOP"):
        return span_of(token), "TOP does not take ORDER BY. Write PREF to rank the matches, as in PREF MAX (LAST(price)) TOP 3"
    if token.text == "," and _part_before(cursor) == "PREF":
        return span_of(token), "AND separates objectives, as in PREF MAX (A.x) AND MIN (B.y)"
    return None


def _of_the_arc(cursor: Cursor, items: tuple[str, ...]) -> list[str]:
    """The words outside of parentheses and CASE of the arc that the parser had read. Empty if it had read another item."""
    begin = next((at for at in range(cursor.i - 1, -1, -1) if _is(cursor.tokens[at], *items)), 0)
    words, depth = [], 0
    for token in cursor.tokens[begin : cursor.i]:
        depth = max(depth + (token.text == "(" or _is(token, "CASE")) - (token.text == ")" or _is(token, "END")), 0)
        if depth == 0 and token.kind == WORD:
            words.append(token.upper)
    return words if words[:1] == ["ARC"] else []


def _of_an_automaton(cursor: Cursor, said: str) -> Slip | None:
    """Finds notation of other languages between the items of AUTOMATON, and in them."""
    token, last, items = cursor.token, before(cursor), ("REGISTER", "STATE", "ARC", "ARCS")
    if not said.startswith(("expected REGISTER, STATE", "expected ARC", "expected FROM and the state")):
        return None
    if _is(last, *items) and before(cursor, 2).text == ",":
        return span_of(before(cursor, 2)), f"{last.upper} cannot follow a comma. Remove the comma"
    if token.text == ",":
        return span_of(token), "the items of AUTOMATON are not separated by commas, except names after one STATE or REGISTER. Remove the comma"
    if _is(last, *items) and (_is(before(cursor, 3), "REGISTER") or before(cursor, 3).text == ","):
        name = before(cursor, 2)
        return span_of(name), f"the type of the register {name.text} is missing. Write REGISTER {name.text} INT, or another type"
    if _is(before(cursor, 2), *items) and before(cursor, 3).text == ",":
        return span_of(before(cursor, 3)), f"{before(cursor, 2).upper} cannot follow a comma. Remove the comma"
    if _is(token, "INITIAL", "ACCEPTING") and (_is(before(cursor, 2), "STATE") or before(cursor, 2).text == ","):
        mark = "FINAL" if _is(token, "ACCEPTING") else "START"
        return span_of(token), f"a state is marked by START or FINAL. Write {last.text} {mark}"
    if _is(token, "DEFAULT"):
        return span_of(token), f"the first value of a register follows an equals sign. Write = {cursor.peek().text}"
    if _is(token, "IF", "WHERE"):
        return span_of(token), f"the condition of an arc follows WHEN. Write WHEN instead of {token.text}"
    arc = _of_the_arc(cursor, items)
    if _is(token, *_ONCE) and arc and said.startswith("expected REGISTER, STATE"):
        if token.upper in arc:
            return span_of(token), f"an arc has one {token.upper}. {_ONCE[token.upper]}"
        return span_of(token), f"{token.upper} comes too late in the arc. Write its parts in this order: ARC FROM q TO q ON EMPTY WHEN ... SET ... EMIT (...)"
    if _is(token, "START") and _is(last, "FINAL"):
        return Span(last.start, token.end), "START comes before FINAL. Write START FINAL"
    if _is(token, "START", "FINAL", "INITIAL", "ACCEPTING") and _is(cursor.peek(), "STATE"):
        mark = "FINAL" if _is(token, "FINAL", "ACCEPTING") else "START"
        return Span(token.start, cursor.peek().end), f"{mark} follows the state's name. Write STATE {cursor.peek(2).text} {mark}"
    return None


OF_THE_PARTS: tuple[Callable[[Cursor, str], Slip | None], ...] = (
    _by_forgotten, _of_a_key, _report_after_define, _head_again, _semicolon, _of_a_measure, _of_the_rows, _of_a_skip, _of_the_pattern, _of_a_condition, _of_a_size, _of_a_ranking,
    _of_an_automaton,
)  # fmt: skip
