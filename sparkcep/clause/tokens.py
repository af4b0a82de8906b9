"""Tokens of Spark SQL text, with their offsets.

The parser and the rewriter read them. sqlglot cuts the text (``clause/tokenizer``, imported for the first text), and this module
maps its tokens to five kinds. Each operator character is a token of its own, so that ``A??`` or ``A||B`` in a row pattern and ``a
|| b`` in an expression need no lexer modes. The expression parser joins neighbours itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkcep.clause.opaque_text import islands

WORD, QUOTED, STRING, NUMBER, OP, END = "word", "quoted", "string", "number", "op", "end"


class Token(NamedTuple):
    """A token.

    Attributes:
        kind: one of the constants above.
        text: the source text.
        upper: the source text, in upper case for words.
        start, end: its offsets.
    """

    kind: str
    text: str
    upper: str
    start: int
    end: int


_DECIMAL = r"(?:[dDfF]|[bB][dD])?"  # suffix of a number with a fraction or an exponent
_NUMBER = (
    rf"(?:\d+[eE][+-]\d+{_DECIMAL}|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?{_DECIMAL}(?![A-Za-z0-9_])|\d+(?:[eE]\d+)?{_DECIMAL}(?!\w)|\d+[lLsSyY](?!\w))"
)
_IS_NUMBER = re.compile(_NUMBER).fullmatch
_TOUCHING = re.compile(r"(?:[\w.]|(?<=[eE])[+-](?=\d))*").match
_PIECES = re.compile(rf"(?P<number>{_NUMBER})|(?P<word>\w+)|(?P<op>\S)")
_QUOTES = frozenset("'\"`")
_BLOCK = re.compile(r"\bBEGIN\b", re.I)
# words that open a block, and words that begin its next part, with the words before the first statement; none if it follows at once
_OPENED: Mapping[str, tuple[str, ...]] = {"IF": ("THEN",), "CASE": ("THEN",), "WHILE": ("DO",), "FOR": ("DO",), "LOOP": (), "REPEAT": ()}
_LABELLED = frozenset(["BEGIN", "WHILE", "FOR", "LOOP", "REPEAT"])  # blocks that may have a label before a colon
_NEXT_PART: Mapping[str, tuple[str, ...]] = {"ELSEIF": ("THEN",), "WHEN": ("THEN",), "ELSE": (), "UNTIL": ("END",)}
_TRANSACTIONS = frozenset(["TRANSACTION", "WORK"])
_STRETCH = re.compile(r";|[^\s;]+")
_COMMENTS = ("--", "/*")


def tokenize(text: str, read: str = "") -> list[Token]:
    """All tokens of ``text``, closed by one END token. Comments and blanks are dropped.

    ``read``: the name of the text's SQL, "" for Spark's. Raises ClauseError for an unterminated string, quoted identifier or
    comment.
    """
    from sparkcep.clause.tokenizer import cut

    out: list[Token] = []
    end = 0
    for token, stretch, offset in cut(text, read):
        start = token.start + offset
        if start < end:  # skip the type that sqlglot adds for a number's suffix
            continue
        end = token.end + offset + 1
        piece = text[start:end]
        first = piece[0]
        if first in _QUOTES or (read and token.token_type.name.endswith("STRING")):
            quoted = first == "`" or (first == '"' and token.token_type.name == "IDENTIFIER")
            if not quoted and out and out[-1].end == start and out[-1].upper in ("R", "X") and (first == "'" or out[-1].upper == "R"):
                start = out.pop().start  # after "1." sqlglot does not recognize the prefix
            out.append(Token(QUOTED if quoted else STRING, text[start:end], text[start:end], start, end))
        elif first.isalpha() or first == "_":
            if piece[-1] in "'\"":  # r'...', X'...'; n'...' is a word and a string
                prefix = start + 1 if first in "nN" else start
                if prefix > start:
                    out.append(Token(WORD, first, first.upper(), start, prefix))
                out.append(Token(STRING, text[prefix:end], text[prefix:end], prefix, end))
            elif piece.isalnum() or piece.replace("_", "").isalnum():
                out.append(Token(WORD, piece, piece.upper(), start, end))
            else:
                out += _pieces(stretch, start, end, offset)
        elif len(piece) == 1 and not first.isdigit():
            out.append(Token(OP, piece, piece, start, end))
        else:
            if out and out[-1].end == start and out[-1].text == "." and first.isdigit():
                start = out.pop().start
            if first.isdigit() and not _IS_NUMBER(piece):  # for example, sqlglot reads 1e3-2 in 1e3-2.5 as a number
                end = _TOUCHING(stretch, end - offset).end() + offset
            out += _pieces(stretch, start, end, offset)
    out.append(Token(END, "", "", len(text), len(text)))
    return out


def _pieces(stretch: str, start: int, end: int, offset: int) -> list[Token]:
    """The tokens inside one sqlglot token: ORDER BY, an operator of several signs, or a number that Spark ends elsewhere.

    ``stretch`` contains the token. It begins at ``offset`` and has blanks for comments.
    """
    out = []
    for m in _PIECES.finditer(stretch, start - offset, end - offset):
        piece = m.group()
        out.append(Token(m.lastgroup, piece, piece.upper() if m.lastgroup == WORD else piece, m.start() + offset, m.end() + offset))
    return out


def name_of(token: Token) -> str:
    """The identifier in a word or a quoted token."""
    return unquoted(token.text) if token.kind == QUOTED else token.text


def unquoted(text: str) -> str:
    """The name in ``text``, which may be quoted."""
    return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in _QUOTES else text


def quote(name: str) -> str:
    """``name`` as a backtick identifier."""
    return "`" + name.replace("`", "``") + "`"


def matching(tokens: Sequence[Token], opening: str = "(", closing: str = ")") -> dict[int, int]:
    """Maps the index of each opening bracket to that of its closing bracket."""
    out, stack = {}, []
    for i, t in enumerate(tokens):
        if t.kind == OP and t.text == opening:
            stack.append(i)
        elif t.kind == OP and t.text == closing and stack:
            out[stack.pop()] = i
    return out


def outside(tokens: Sequence[Token]) -> Iterator[int]:
    """The indexes of the tokens outside of parentheses, and of the parentheses that open there."""
    close, i = matching(tokens), 0
    while i < len(tokens):
        yield i
        i = close.get(i, i) + 1


def one_line(text: str) -> str:
    """The text without comments and with one blank for several. Strings and quoted names stay as they are."""
    parts: list[str] = []
    end = 0
    for token in tokenize(text):
        if token.start > end:
            between = text[end : token.start].strip()
            parts.append(" " if not between or between.startswith(_COMMENTS) else between)
        parts.append(text[token.start : token.end])
        end = token.end
    return "".join(parts).strip()


def split_statements(text: str) -> list[str]:
    """The statements of ``text``, separated by ``;`` outside strings, comments and BEGIN ... END blocks."""
    return [span.of(text) for span in statement_spans(text)]


def ended(statement: str) -> str:
    """``statement`` with its semicolon, which is on a line of its own after a line that may end in a comment."""
    statement = statement.rstrip()
    return statement + ("\n;" if "--" in statement.rpartition("\n")[2] else ";")


def is_script(text: str) -> bool:
    """Whether a statement is a block BEGIN ... END. Raises ClauseError."""
    return _BLOCK.search(text) is not None and any(place.inside for place in statement_places(tokenize(text)))


def statement_spans(text: str) -> list[Span]:
    """The places of the statements of ``text``, see :func:`split_statements`. Raises ClauseError."""
    return _spans_by_tokens(text) if _BLOCK.search(text) else _spans_by_semicolons(text)


def _spans_by_semicolons(text: str) -> list[Span]:
    """The statements of a text without BEGIN ... END blocks, which need not be cut into tokens."""
    out, start, pos, empty = [], 0, 0, True
    for begin, end in (*islands(text), (len(text), len(text))):
        for found in _STRETCH.finditer(text, pos, begin):
            if found[0] != ";":
                empty = False
                continue
            if not empty:
                out.append(_stripped(text, start, found.start()))
            start, empty = found.end(), True
        empty = empty and (begin == end or text.startswith(_COMMENTS, begin))
        pos = end
    return out if empty else [*out, _stripped(text, start, len(text))]


def _spans_by_tokens(text: str) -> list[Span]:
    out, start, empty = [], 0, True
    tokens = tokenize(text)
    for token, place in zip(tokens, statement_places(tokens)):
        ends = token.kind == END or (token.text == ";" and not place.inside)
        if ends and not empty:
            out.append(_stripped(text, start, token.start))
        start, empty = (token.end, True) if ends else (start, False)
    return out


class Place(NamedTuple):
    """The place of a token among statements.

    Attributes:
        begins: whether it may be the first token of a statement, also of one in a block.
        inside: whether it is inside a block that BEGIN opened.
    """

    begins: bool
    inside: bool


def statement_places(tokens: Sequence[Token]) -> Iterator[Place]:
    """Yields the place of each token.

    Almost any word may be a name in Spark, also ``begin``, ``if`` and ``end``. So a word opens or closes a block only where a
    statement begins. IF, CASE, WHILE and FOR open blocks only inside of other blocks. Their statements begin after THEN or DO.
    """
    begins, blocks, parentheses = True, 0, 0
    until: tuple[str, ...] = ()  # the words that end the condition of a block, or the query of FOR
    cases = 0  # expressions with CASE that are open in that condition
    opens = ""  # CREATE or DECLARE, then PROCEDURE or HANDLER: BEGIN opens a block later in their statements
    for i, token in enumerate(tokens):
        yield Place(begins, bool(blocks))
        word, behind = token.upper if token.kind == WORD else "", tokens[min(i + 1, len(tokens) - 1)]
        began, begins = begins, False
        if token.text == ";":
            begins, parentheses, until, opens = True, 0, (), ""
        elif token.kind == OP and token.text in "()":
            parentheses = max(parentheses + (1 if token.text == "(" else -1), 0)
        elif parentheses:
            continue
        elif began:
            label = word not in _OPENED and word not in _NEXT_PART and tokens[min(i + 2, len(tokens) - 1)].upper in _LABELLED
            if token.text == ":" or (behind.text == ":" and label):
                begins = True
            elif word == "BEGIN" and behind.text != ";" and behind.kind != END and behind.upper not in _TRANSACTIONS:
                blocks += 1
                begins = True
            elif word in ("CREATE", "DECLARE"):
                opens = word
            elif blocks and word in _OPENED:
                blocks += 1
                begins, until, cases = not _OPENED[word], _OPENED[word], 0
            elif blocks and word in _NEXT_PART:
                begins, until, cases = not _NEXT_PART[word], _NEXT_PART[word], 0
            elif blocks and word == "END":
                blocks -= 1
            else:
                begins = (word, behind.upper) == ("NOT", "ATOMIC") or word == "ATOMIC"
        elif word == "CASE":
            cases += 1
        elif word == "END" and cases:
            cases -= 1
        elif word in until and not cases:
            begins, until = word != "END", ()
            if word == "END":
                blocks -= 1
        elif opens == "CREATE" and word == "PROCEDURE" and tokens[i - 1].upper in ("CREATE", "REPLACE"):
            opens = word
        elif opens == "DECLARE" and word == "HANDLER":
            opens = word
        elif word == "BEGIN" and opens in ("PROCEDURE", "HANDLER"):
            blocks += 1
            begins, opens = True, ""


def _stripped(text: str, start: int, end: int) -> Span:
    body = text[start:end].strip()
    start = text.index(body, start)
    return Span(start, start + len(body))


@dataclass(frozen=True)
class Span:
    """Half-open character range in the statement text."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]

    def holds(self, other: Span) -> bool:
        """Whether the other span lies inside."""
        return self.start <= other.start and other.end <= self.end


def span_field() -> Span:
    """The place of a node, as a field of its class. Nodes are equal at different places."""
    return field(default=Span(0, 0), compare=False)
