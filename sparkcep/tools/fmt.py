"""Formatter (``sparkcep fmt``): one layout for the text between the parentheses of MATCH_RECOGNIZE.

It keeps the tokens, chooses new blanks and line breaks, and writes keywords of the clause in capitals. Text outside the clauses,
comments, and the text of keys (which names their output columns) stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sparkcep.clause.identifiers import backticked
from sparkcep.clause.opaque_text import islands
from sparkcep.clause.tokens import Span, statement_spans
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import ClauseError
from sparkcep.sql.rewrite.occurrences import has_keyword
from sparkcep.tools.atoms import COMMENT, EXPRESSION, KEYWORD, PATTERN, Atom, atoms
from sparkcep.tools.jinja_mask import jinja_mask
from sparkcep.tools.statements import Place, clauses, in_text

WIDTH = 132
_STEP = "  "
_LISTS = frozenset(["PARTITION", "ORDER", "MEASURES", "SUBSET", "DEFINE"])


def format_sql(text: str, double_quoted: bool = False) -> str:
    """Returns ``text`` with its clauses formatted. Raises ClauseError if a clause cannot be read.

    Clauses that hold Jinja stay unchanged. ``double_quoted``: whether text in double quotes is a name. The result reads as the same
    clauses, and formatting it again changes nothing.
    """
    out = text
    for span, clause in reversed(edits(text, double_quoted)):
        out = out[: span.start] + clause + out[span.end :]
    return out


def edits(text: str, double_quoted: bool = False) -> list[tuple[Span, str]]:
    """Returns the new text of each clause that :func:`format_sql` changes, with the place between its parentheses, in order."""
    masked = jinja_mask(text)

    def written_at(offset: int) -> int:
        """Returns the offset in ``text`` of an offset in ``read``, where a name with a backtick is longer."""
        return offset - next((longer for end, longer in shifts if end <= offset), 0)

    def left_out(start: int, end: int) -> bool:
        return masked.any_in(written_at(start), written_at(end))

    shifts: list[tuple[int, int]] = []
    try:
        read = backticked(masked.text) if double_quoted else masked.text
        if read != masked.text:
            shifts = [(end, end - before) for (_, before), (_, end) in zip(islands(masked.text), islands(read))][::-1]
        statements = statement_spans(read)
    except ClauseError:
        if masked.spans:  # the rendered text may be right
            return []
        raise
    found = []
    for statement in statements:
        try:
            for span, clause in _of_statement(read, statement, left_out):
                span = Span(written_at(span.start), written_at(span.end))
                clause = _requoted(clause, span.of(text)) if read != masked.text else clause
                found += [(span, clause)] if clause != span.of(text) else []
        except ClauseError:
            if not masked.spans:
                raise
    return found


def _of_statement(text: str, statement: Span, left_out: Callable[[int, int], bool]) -> list[tuple[Span, str]]:
    """Returns the formatted clauses of a statement of ``text``, with the places between their parentheses. Raises ClauseError.

    ``left_out``: whether the clause between two offsets of ``text`` stays unchanged.
    """
    start, alone = statement.start, statement.of(text)
    if not has_keyword(alone):
        return []
    skipped: list[bool] = []  # of each clause

    def skips(first: int, last: int) -> bool:
        skipped.append(left_out(start + first, start + last))
        return skipped[-1]

    try:
        places = clauses(alone, skips)
    except ClauseError as error:
        raise in_text(error, text, start) from None
    found, out = [], alone
    for i, place in reversed([*enumerate(places)]):
        clause = _clause(text, start, alone, place, *_margin(text, start, places, i))
        out = out[: place.start] + clause + out[place.end :]
        found.append((Span(start + place.start, start + place.end), clause))
    if _content(out, skipped) != _content(alone, skipped):
        raise AssertionError("sparkcep fmt would change a clause or lose a comment; please report this statement")
    return found[::-1]


def _requoted(text: str, written: str) -> str:
    """Returns ``text`` with the quotes that its names have in ``written``, which has the same names in the same order."""
    names = iter([name for start, end in islands(written) if (name := written[start:end])[0] in '"`'])
    out, pos = [], 0
    for start, end in islands(text):
        if text[start] == "`":
            out += [text[pos:start], next(names)]
            pos = end
    return "".join([*out, text[pos:]])


def _content(text: str, left_out: list[bool]) -> tuple[list[MatchClause], list[str]] | None:
    """Returns the clauses of ``text``, and the comments inside them. Returns None if they cannot be read.

    ``left_out`` says of each clause whether it is skipped.
    """
    skipped = iter(left_out)
    try:
        places = clauses(text, lambda start, end: next(skipped))
    except ClauseError:
        return None
    return [p.clause for p in places], sorted(a.text for p in places for a in atoms(text, p) if a.kind == COMMENT)


def _margin(text: str, start: int, places: list[Place], i: int) -> tuple[str, int]:
    """Returns the indentation of clause ``i`` and the column after its parenthesis, once all clauses are formatted."""
    after = start + places[i].start
    first = text.rfind("\n", 0, start + places[i].word.start) + 1
    column = after - (text.rfind("\n", 0, after) + 1)
    if i and start + places[i - 1].start < first <= start + places[i - 1].end:
        # The line begins in the clause before, whose closing parenthesis will begin it.
        base, end = _margin(text, start, places, i - 1)[0], start + places[i - 1].end
        return base, column if "\n" in text[end:after] else len(base) + after - end
    line = text[first : start + places[i].word.start]
    return line[: len(line) - len(line.lstrip())], column


def _clause(text: str, start: int, statement: str, place: Place, base: str, column: int) -> str:
    """Returns the formatted clause of a statement that begins at offset ``start`` of ``text``; for the rest see :func:`_margin`."""
    pieces = atoms(statement, place)
    one = _flat(pieces) if "\n" not in statement[place.start : place.end] else None
    behind = text[start + place.end :].partition("\n")[0]
    if one is not None and column + len(one) + len(behind) <= WIDTH:
        return one
    out = _Lines()
    while pieces and pieces[0].kind == COMMENT and not pieces[0].own_line:
        out.behind(pieces.pop(0), base + _STEP)
    tail = _cut_tail(pieces)
    for section in _with_keys_in_a_line(_sections(pieces), WIDTH - len(base + _STEP)):
        section.write(out, base + _STEP)
    for comment in tail:
        out.comment(comment, base + _STEP)
    out.line(base, "")
    return out.text("\r\n" if "\r\n" in text else "\n")


class _Lines:
    """Text under construction. It begins after the opening parenthesis."""

    def __init__(self) -> None:
        self.lines = [""]
        self.closed = False  # the last line ends in a line comment

    def line(self, indent: str, text: str) -> None:
        self.lines.append(indent + text)
        self.closed = False

    def comment(self, comment: Atom, indent: str) -> None:
        """Adds a comment on a line of its own."""
        self.line(indent, comment.text)
        self.closed = comment.ends_line

    def behind(self, comment: Atom, indent: str) -> None:
        """Appends a comment to the last line, or to a new line if that is not possible."""
        if self.closed:
            self.comment(comment, indent)
        else:
            self.lines[-1] += f" {comment.text}"
            self.closed = comment.ends_line

    def text(self, newline: str) -> str:
        return newline.join(self.lines)


def _cut_tail(pieces: list[Atom]) -> list[Atom]:
    """Removes and returns the comments at the end that are on lines of their own."""
    at = len(pieces)
    while at and pieces[at - 1].kind == COMMENT:
        at -= 1
    while at < len(pieces) and not pieces[at].own_line:
        at += 1
    tail = pieces[at:]
    del pieces[at:]
    return tail


@dataclass
class _Section:
    """A section: ``lead`` has the comments on lines before it, ``body`` its text, ``trail`` the comments after its last token."""

    lead: list[Atom] = field(default_factory=list)
    body: list[Atom] = field(default_factory=list)
    trail: list[Atom] = field(default_factory=list)

    def write(self, out: _Lines, indent: str) -> None:
        for comment in self.lead:
            out.comment(comment, indent)
        flat = _flat(self.body)
        broken = any(atom.gap == "\n" for atom in self.body[1:])
        if self.body[0].text in _LISTS and (broken or flat is None or len(indent) + len(flat) > WIDTH):
            self._write_list(out, indent, flat)
        elif flat is not None and len(indent) + len(flat) <= WIDTH and not (broken and self.body[0].text == "AUTOMATON"):
            out.line(indent, flat)
        elif self.body[0].text == "AUTOMATON" and COMMENT not in (*(atom.kind for atom in self.body[:4]), self.body[-2].kind, self.body[-1].kind):
            self._write_automaton(out, indent)
        else:
            _write_loose(out, indent, self.body)
        for comment in self.trail:
            out.behind(comment, indent)

    def _write_automaton(self, out: _Lines, indent: str) -> None:
        """Writes an automaton. Each REGISTER, STATE, ARC and ARCS FROM begins a line."""
        at = next(i for i, atom in enumerate(self.body) if atom.text == "(")
        out.line(indent, " ".join(atom.text for atom in self.body[: at + 1]))
        items: list[list[Atom]] = [[]]
        for atom in self.body[at + 1 : -1]:
            if atom.kind == KEYWORD and atom.text in ("REGISTER", "STATE", "ARC", "ARCS") and items[-1]:
                items.append([])
            items[-1].append(atom)
        for item in filter(None, items):
            _write_item(out, indent + _STEP, item)
        out.line(indent, ")")

    def _write_list(self, out: _Lines, indent: str, flat: str | None) -> None:
        words = 2 if self.body[0].text in ("PARTITION", "ORDER") else 1
        at = next(i + 1 for i, a in enumerate(self.body) if a.kind == KEYWORD and (words := words - 1) == 0)
        lines = _lines_as_written(self.body, at, WIDTH - len(indent))
        if lines is not None:
            for number, line in enumerate(lines):
                out.line(indent + _STEP * (number > 0), line)
            return
        if flat is not None and len(indent) + len(flat) <= WIDTH:
            out.line(indent, flat)
            return
        head, rest = self.body[:at], self.body[at:]
        _write_item(out, indent, head)
        for item in _items(rest):
            while item and item[0].kind == COMMENT:
                comment = item.pop(0)
                if comment.own_line:
                    out.comment(comment, indent + _STEP)
                else:
                    out.behind(comment, indent + _STEP)
            trail = []
            while item and item[-1].kind == COMMENT and not item[-1].own_line:
                trail.insert(0, item.pop())
            _write_item(out, indent + _STEP, item)
            for comment in trail:
                out.behind(comment, indent + _STEP)


def _sections(pieces: list[Atom]) -> list[_Section]:
    out: list[_Section] = [_Section()]
    waiting: list[Atom] = []  # comments that belong to the section before or after, as the next token decides
    for atom in pieces:
        if atom.kind == COMMENT:
            waiting.append(atom)
            continue
        if atom.begins:
            own = next((i for i, c in enumerate(waiting) if c.own_line), len(waiting))
            if out[-1].body:
                out[-1].trail = waiting[:own]
                out.append(_Section(lead=waiting[own:]))
            else:
                out[-1].lead = waiting
        else:
            out[-1].body += waiting
        waiting = []
        out[-1].body.append(atom)
    out[-1].trail = waiting
    for section in out:
        _comma_first(section.body)
    return out


def _with_keys_in_a_line(sections: list[_Section], width: int) -> list[_Section]:
    """Merges PARTITION BY and ORDER BY into one section if both fit on a line."""
    if len(sections) < 2 or [section.body[0].text for section in sections[:2]] != ["PARTITION", "ORDER"]:
        return sections
    first, second, *others = sections
    flat = _flat([*first.body, *second.body])
    if first.trail or second.lead or flat is None or len(flat) > width:
        return sections
    if any(_lines_as_written(section.body, 2, width) for section in (first, second)):
        return sections
    return [_Section(first.lead, [*first.body, *second.body], second.trail), *others]


def _comma_first(body: list[Atom]) -> None:
    """Moves the comma of ``a -- note`` from the next line to before the comment, because it would be alone there."""
    for i, atom in enumerate(body):
        j = i
        while _is_comma(atom) and j and body[j - 1].kind == COMMENT:
            body[j - 1], body[j] = body[j], body[j - 1]
            body[j - 1].gap, body[j].gap = "", body[j].gap or " "
            j -= 1


def _is_comma(atom: Atom) -> bool:
    return atom.text == "," and atom.kind != EXPRESSION


def _items(pieces: list[Atom]) -> list[list[Atom]]:
    """Returns the elements of a list, each with its comma and the comments after it on the same line."""
    out: list[list[Atom]] = [[]]
    depth, ended = 0, False
    for atom in pieces:
        if ended and not (atom.kind == COMMENT and not atom.own_line):
            out.append([])
            ended = False
        out[-1].append(atom)
        if atom.kind not in (EXPRESSION, COMMENT):
            depth += (atom.text == "(") - (atom.text == ")")
        ended = ended or (_is_comma(atom) and depth == 0)
    return out


def _lines_as_written(body: list[Atom], head: int, width: int) -> list[str] | None:
    """Returns the lines of a list if the user broke it after commas, or after its ``head`` words. Long lines are filled.

    Returns None without such a break, with a comment, or if an item does not fit.
    """
    if any(atom.kind == COMMENT for atom in body):
        return None
    items = [body[:head], *_items(body[head:])]
    broken = [item[0].gap == "\n" or (_is_comma(before[-1]) and before[-1].gap == "\n") for before, item in zip(items, items[1:])]
    flat = [_flat(item) for item in items]
    if not any(broken) or any(text is None or len(_STEP) + len(text) > width for text in flat):
        return None
    lines = [flat[0] or ""]
    for new, text in zip(broken, flat[1:]):
        joined = f"{lines[-1]} {text}"
        if new or len(_STEP) * (len(lines) > 1) + len(joined) > width:
            lines.append(text or "")
        else:
            lines[-1] = joined
    return lines


def _flat(pieces: list[Atom]) -> str | None:
    """Returns the atoms in one line. Returns None if a comment or a text with line breaks prevents it."""
    if any(a.ends_line or a.own_line or "\n" in a.text for a in pieces):
        return None
    return "".join(_between(a, b) + b.text for a, b in zip([None, *pieces], pieces))


def _write_item(out: _Lines, indent: str, pieces: list[Atom]) -> None:
    """Writes atoms in one line if they fit in it."""
    flat = _flat(pieces)
    if flat is not None and len(indent) + len(flat) <= WIDTH:
        out.line(indent, flat)
    else:
        _write_loose(out, indent, pieces)


def _write_loose(out: _Lines, indent: str, pieces: list[Atom]) -> None:
    """Keeps line breaks inside expressions and patterns, and indents all lines after the first."""
    line, last, full = "", None, False
    lines = []
    for atom in pieces:
        broken = last is not None and (full or atom.gap == "\n")
        if broken:
            lines.append(line)
            line = atom.text
        else:
            line += _between(last, atom) + atom.text
        full = atom.ends_line or (broken and atom.kind == COMMENT)
        last = atom
    for i, text in enumerate([*lines, line]):
        out.line(indent if i == 0 else indent + _STEP, text)
    out.closed = pieces[-1].ends_line


def _between(left: Atom | None, right: Atom) -> str:
    """Returns the space between two atoms of one line."""
    if left is None:
        return ""
    if COMMENT in (left.kind, right.kind):
        return " "
    if left.part is not None and left.part == right.part:
        return " " if right.gap else ""  # as written: in `a - -1` and `x < = y` it is significant
    if PATTERN in (left.kind, right.kind):
        return _in_pattern(left, right)
    if left.text in ("(", "~") or right.text in (")", ","):
        return ""
    return "" if right.text == "(" and left.text == "PERMUTE" else " "


def _in_pattern(left: Atom, right: Atom) -> str:
    a, b = left.text, right.text
    in_bounds = left.kind == PATTERN and (a == "{" or (a == "," and (b.isdigit() or b == "}")))
    tight = a in ("(", "~") or b in (")", ",", "*", "+", "?", "{", "}") or (b == "(" and a == "PERMUTE")
    return "" if in_bounds or tight else " "
