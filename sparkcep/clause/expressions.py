"""Parses Spark SQL expressions to a tree with exact source spans.

The planner uses the tree to find references to variables, navigations and aggregates, and to split conditions. Spark always
evaluates the user's own text, spliced by span (see docs/adr/0001). Operator precedence is that of Spark's grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from sparkcep.clause.tokens import END, NUMBER, OP, QUOTED, STRING, WORD, Span, Token, name_of, quote
from sparkcep.errors import LIMIT, SYNTAX, ClauseError, error_at

T = TypeVar("T")

EXPRESSION, TYPE = "an expression", "a type name"  # names of expected parts, for errors
MAX_DEPTH = 50  # each level takes a dozen Python frames; the interpreter allows 1,000
MAX_CHAIN = 2000

UNITS = frozenset(
    "YEAR YEARS QUARTER QUARTERS MONTH MONTHS WEEK WEEKS DAY DAYS DAYOFYEAR HOUR HOURS MINUTE MINUTES SECOND SECONDS "
    "MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS NANOSECOND NANOSECONDS".split()
)
# units that these functions accept without quotes as the first of three arguments; nowhere else
UNITS_OF_CALLS = frozenset("YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND".split())
UNIT_FUNCTIONS = frozenset("DATEDIFF DATE_DIFF TIMESTAMPDIFF TIMEDIFF DATEADD DATE_ADD TIMESTAMPADD".split())
CONSTANTS = frozenset(["TRUE", "FALSE", "NULL"])
# functions that may be called without parentheses; Spark prefers a column of the same name
NAMED_FUNCTIONS = frozenset("CURRENT_DATE CURRENT_TIMESTAMP CURRENT_TIME CURRENT_USER SESSION_USER CURRENT_PATH".split())
_GLUED = re.compile(r"\w\w").fullmatch  # the end of a word and the beginning of another
_TYPED = frozenset("DATE TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TIME X".split())
TRIMMED = frozenset(["BOTH", "LEADING", "TRAILING"])
# words between the arguments of a call, by the number of arguments before them
_CONNECTIVES: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "TRIM": {1: ("FROM",)}, "OVERLAY": {1: ("PLACING",), 2: ("FROM",), 3: ("FOR",)},
    "SUBSTRING": {1: ("FROM",), 2: ("FOR",)}, "SUBSTR": {1: ("FROM",), 2: ("FOR",)},
}
_NAMING = frozenset(["STRUCT", "ARRAYS_ZIP"])  # the names of their fields come from their arguments
_OPENING = frozenset("PATTERN AUTOMATON EMIT AND BETWEEN DIV ILIKE IN LIKE OR RLIKE".split())  # words that may follow a column named RUNNING or FINAL
# Any word may be a column's name in Spark. These words also occur after a missing operand. They are names if the end of an operand
# follows; otherwise the unfinished expression is an error.
_STOP = frozenset("AS FROM WHERE THEN WHEN ELSE END AND OR GROUP BY USING OVER CASE NOT".split())
_QUERIES = frozenset("SELECT WITH VALUES FROM TABLE".split())
# names to quote when an expression is moved, because Spark might read them as keywords or values in the new place
TO_QUOTE = _STOP | _QUERIES | CONSTANTS | frozenset(["DISTINCT", "ALL", "INTERVAL", "EXISTS", "CAST", "CURRENT_PATH"])
# words that may follow an operand
INFIX = frozenset("AND OR IS NOT BETWEEN IN LIKE ILIKE RLIKE REGEXP DIV COLLATE".split())
_BEHIND = INFIX | frozenset("AS ASC DESC NULLS THEN WHEN ELSE END FROM FOR PLACING ESCAPE AT ORDER IGNORE RESPECT".split())
# and words of the clause that may follow an expression
_BEHIND_ALL = _BEHIND | frozenset(
    """MEASURES ONE ALL AFTER PATTERN AUTOMATON EVENT WINDOW WITHIN LIFETIME CHANGES REPORT SPECULATE APPROX PREF TOP SUBSET DEFINE ARRIVAL CONSECUTIVE PUNCTUATE
    REGISTER STATE ARC ARCS SET EMIT""".split()
)


@dataclass(frozen=True)
class Expr:
    """One node of an expression.

    Attributes:
        op: ``col`` (``value``: tuple of name parts), ``star`` (``A.*``; ``value``: parts before the star; operand: names after
            EXCEPT), ``lit`` (``value``: source text), ``call`` (``value``: upper-case name), ``bin``/``un`` (``value``: operator),
            ``and``, ``or``, ``case``, ``cast`` (``value``: type text), ``between``, ``in``, ``like``, ``is`` (``value``: the test),
            ``index``, ``field`` (``value``: name), ``lambda``, ``interval``, ``subquery``, ``paren``, ``special``.
        value: see ``op``.
        args: the operands.
        flags: ``distinct``, ``filter`` (the last argument is the filter), ``ordered``, ``named``, ``running``, ``final``,
            ``not``, ``try``.
        span: its place.
        depth: the height of the tree.
    """

    op: str
    value: object = None
    args: tuple[Expr, ...] = ()
    flags: frozenset[str] = frozenset()
    span: Span = field(default=Span(0, 0), compare=False)
    depth: int = field(default=1, compare=False)

    def walk(self) -> Iterator[Expr]:
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.args))

    def bare(self) -> Expr:
        """The node inside any parentheses."""
        node = self
        while node.op == "paren":
            node = node.args[0]
        return node


def render(text: str, expr: Expr, replacements: Mapping[Span, str]) -> str:
    """``expr``'s source text, with every span of ``replacements`` inside it replaced.

    A replacement stays apart from a word that directly follows the original, as in ``CAST(count(*)AS INT)``.
    """
    out, pos = [], expr.span.start
    for span in sorted(filter(expr.span.holds, replacements), key=lambda s: (s.start, -s.end)):
        if span.start < pos:  # inside an outer replacement
            continue
        out += [text[pos : span.start], replacements[span]]
        pos = span.end
    out = [piece for piece in (*out, text[pos : expr.span.end]) if piece]
    return "".join(f"{piece} " if _GLUED(piece[-1] + after[0]) else piece for piece, after in zip(out, [*out[1:], " "]))


def render_values(text: str, expr: Expr, replacements: Mapping[Span, str]) -> str:
    """Like :func:`render`, for replacing columns and calls by others with the same values.

    Spark names struct fields after columns that are whole arguments. Such fields keep the user's names. If the user wrote a call
    instead, the field stays unnamed.
    """
    named = dict(replacements)
    for node in expr.walk():
        if (node.op == "call" and node.value in _NAMING) or (node.op, node.value) == ("special", "row"):
            for value in (argument.bare() for argument in node.args):
                if value.span in replacements and value.op != "star":  # whose fields Spark names
                    named[value.span] = _called(value, replacements[value.span])
    return render(text, expr, named)


def _called(expr: Expr, text: str) -> str:
    """``text`` as an expression that Spark names like ``expr``."""
    if expr.op != "col":
        return f"coalesce({text})"
    name = quote(expr.value[-1])
    return f"struct({text} AS {name}).{name}"


class Cursor:
    """A position in a token list, with the statement text for errors."""

    def __init__(
        self, text: str, tokens: list[Token], index: int = 0, columns: frozenset[str] = frozenset(), parameters: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Starts at a token of a statement.

        Args:
            text: the statement.
            tokens: its tokens, closed by END.
            index: index of the current token.
            columns: those of :data:`NAMED_FUNCTIONS`, in upper case, that are columns of the input.
            parameters: values of the statement's parameters by their text. The key of a ``?`` is "?" and its offset.
        """
        self.parameters = parameters
        self.text = text
        self.columns = columns
        self.tokens = tokens
        self.i = index

    @property
    def token(self) -> Token:
        return self.tokens[self.i]

    def peek(self, n: int = 1) -> Token:
        return self.tokens[min(self.i + n, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.tokens[self.i]
        if token.kind != END:
            self.i += 1
        return token

    def at_op(self, chars: str) -> bool:
        """Whether the next tokens are the characters of the operator ``chars``, adjacent in the text."""
        j = self.i
        for k, c in enumerate(chars):
            t = self.tokens[j + k] if j + k < len(self.tokens) else self.tokens[-1]
            if t.kind != OP or t.text != c:
                return False
            if k and t.start != self.tokens[j + k - 1].end:
                return False
        return True

    def at_word(self, *words: str) -> bool:
        """Whether the next tokens are these (upper-case) unquoted words."""
        for k, w in enumerate(words):
            t = self.peek(k)
            if t.kind != WORD or t.upper != w:
                return False
        return True

    def take_op(self, chars: str) -> bool:
        if self.at_op(chars):
            self.i += len(chars)
            return True
        return False

    def take_word(self, *words: str) -> bool:
        if self.at_word(*words):
            self.i += len(words)
            return True
        return False

    def ends_operand(self, n: int) -> bool:
        """Whether the token ``n`` places ahead can only follow an operand, so that the word before it is an operand."""
        t, behind = self.peek(n), self.peek(n + 1)
        if t.kind != OP:
            return t.kind == END
        if t.text in "!:":  # "!=" and "::"; a single one may also precede an operand
            return behind.kind == OP and behind.text in ("=<>" if t.text == "!" else ":") and behind.start == t.end
        if t.text == "-":  # the arrow of a lambda
            return behind.kind == OP and behind.text == ">" and behind.start == t.end
        return t.text in ")],.[=<>/%|^&;}"

    def begins_operand(self, n: int) -> bool:
        """Whether an operand begins ``n`` places ahead."""
        t, behind = self.peek(n), self.peek(n + 1)
        while t.kind == behind.kind == WORD and t.upper == behind.upper == "NOT":
            n += 1
            t, behind = behind, self.peek(n + 1)
        if t.kind == WORD and t.upper == "NOT" and not (behind.kind == WORD and behind.upper in _BEHIND_ALL):
            return self.ends_operand(n + 1) or behind.text != "*"
        if t.upper in ("IGNORE", "RESPECT") and behind.upper == "NULLS":
            return False
        if t.kind == WORD and t.upper in _BEHIND_ALL and (behind.text != "(" or t.upper in ("PATTERN", "AUTOMATON", "EMIT")):
            return self.ends_operand(n + 1) or (behind.kind == WORD and behind.upper in _BEHIND_ALL) or (behind.text in "+-*" and t.upper not in INFIX)
        return t.kind in (WORD, QUOTED, STRING, NUMBER) or (t.kind == OP and t.text in "(+-~!?:" and not self.ends_operand(n))

    def at_query(self, n: int) -> bool:
        """Whether the token ``n`` places ahead begins a query, and is not a column named select, with, values, from or table."""
        word, behind = self.peek(n), self.peek(n + 1)
        if word.kind != WORD or word.upper not in _QUERIES or self.ends_operand(n + 1):
            return False
        if word.upper == "WITH":
            return behind.kind in (WORD, QUOTED) and ((self.peek(n + 2).text == "(" and behind.upper not in INFIX) or self.peek(n + 2).upper == "AS" or behind.upper == "RECURSIVE")
        if word.upper == "SELECT" or (word.upper in ("VALUES", "FROM") and behind.text == "("):
            return True
        return behind.kind in (WORD, QUOTED, STRING, NUMBER) and behind.upper not in INFIX

    def expect_op(self, chars: str, why: str) -> None:
        if not self.take_op(chars):
            raise self.error(f"expected '{chars}' {why}")

    def expect_word(self, word: str, why: str) -> None:
        if not self.take_word(word):
            raise self.error(f"expected {word} {why}")

    def expect_one_of(self, words: tuple[str, ...], why: str) -> str:
        """Takes one of these words and returns it. The error without any of them names the last one."""
        for word in words[:-1]:
            if self.take_word(word):
                return word
        self.expect_word(words[-1], why)
        return words[-1]

    def listed(self, item: Callable[[], T], separator: str = ",") -> list[T]:
        """The items of a list. ``item`` reads one item."""
        items = [item()]
        while self.take_op(separator):
            items.append(item())
        return items

    def name(self, what: str) -> tuple[str, Span]:
        """Reads a name. ``what``: what it names, for the error if there is none."""
        t = self.token
        if t.kind not in (WORD, QUOTED):
            raise self.expected(what)
        self.next()
        return name_of(t), Span(t.start, t.end)

    def span(self, start: int) -> Span:
        """The span from an offset to the end of the last token read."""
        return Span(start, self.tokens[self.i - 1].end)

    def may_be(self, what: str) -> None:
        """Called by the parser at each place where ``what``, which is not a keyword, could come next.

        Only completion overrides it.
        """

    def expected(self, what: str) -> ClauseError:
        """The error for a missing ``what``."""
        self.may_be(what)
        return self.error(f"expected {what}")

    def error(self, message: str, error_class: str = "SYNTAX", sqlstate: str = SYNTAX) -> ClauseError:
        t = self.token
        problem, semicolon, advice = message.partition(";")
        if t.kind == END:
            return error_at(self.text, max(t.start - 1, 0), t.end, error_class, f"{problem}, but the clause ends{semicolon}{advice}", sqlstate)
        if error_class == "SYNTAX":
            problem += f", found '{t.text[:40]}'"
        return error_at(self.text, t.start, t.end, error_class, problem + semicolon + advice, sqlstate)


_PREDICATES = ("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP")
_COMPARE = ("<=>", "<=", ">=", "<>", "!=", "!<", "!>", "==", "=", "<", ">")
_SAME = {"==": "=", "<>": "!=", "!<": ">=", "!>": "<="}
_BINARY = [  # loosest to tightest, below comparison
    ("|",), ("^",), ("&",), (">>>", "<<", ">>"), ("||", "+", "-"), ("*", "/", "%", "DIV"),
]
SUMS = 4  # the level of + and -


class ExpressionParser:
    """Recursive descent over a :class:`Cursor`. ``parse()`` reads one expression and leaves the cursor after it."""

    def __init__(self, cursor: Cursor) -> None:
        self.c = cursor
        self.nesting = 0
        self._names: set[int] = set()  # tokens that are names, after a first attempt read them as keywords
        self._words: list[int] = []  # tokens that were read as keywords and may be names
        self._retries = 64

    def parse(self) -> Expr:
        self.nesting += 1
        if self.nesting > MAX_DEPTH:
            raise self.c.error(f"the expression is nested more than {MAX_DEPTH} levels deep; split it up", "EXPRESSION_TOO_DEEP", LIMIT)
        try:
            return self._or()
        finally:
            self.nesting -= 1

    def parse_operand(self) -> Expr:
        """Reads a constant without comparison or boolean operators around it (a window size, a weight)."""
        return ConstantParser(self.c)._binary(SUMS)

    # -- building -------------------------------------------------------------------------------------------

    def _node(self, op: str, value: object, args: tuple[Expr, ...], start: int, flags: frozenset[str] = frozenset()) -> Expr:
        depth = 1 + max((a.depth for a in args), default=0)
        if depth > MAX_DEPTH * 3:
            message = f"the expression has a chain of more than {MAX_DEPTH * 3} operators; use parentheses or a function"
            raise self.c.error(message, "EXPRESSION_TOO_DEEP", LIMIT)
        return Expr(op, value, args, flags, self.c.span(start), depth)

    def _text(self, op: str, start: int) -> Expr:
        """A node whose value is its text, which ends here."""
        return self._node(op, self.c.span(start).of(self.c.text), (), start)

    def _or(self) -> Expr:
        return self._chain("OR", "or", self._and)

    def _and(self) -> Expr:
        return self._chain("AND", "and", self._not)

    def _chain(self, word: str, op: str, lower) -> Expr:
        start = self.c.token.start
        args = [lower()]
        while self.c.take_word(word):
            args.append(lower())
            if len(args) > MAX_CHAIN:
                raise self.c.error(f"more than {MAX_CHAIN} operands of {word}", "EXPRESSION_TOO_DEEP", LIMIT)
        return args[0] if len(args) == 1 else self._node(op, None, tuple(args), start)

    def _not(self) -> Expr:
        start, count = self.c.token.start, 0
        c, begin = self.c, self.c.i
        if c.at_word("NOT") and begin not in self._names and self._unclear() and self._retries > 0:
            return self._not_or_name(start)
        while (c.at_word("NOT") and c.i not in self._names and c.begins_operand(1)) or (c.at_op("!") and not c.at_op("!=")):
            c.next()
            count += 1
            if count > MAX_DEPTH:
                raise self.c.error(f"more than {MAX_DEPTH} NOTs", "EXPRESSION_TOO_DEEP", LIMIT)
        node = self._predicate()
        for _ in range(count):
            node = self._node("un", "NOT", (node,), start)
        return node

    def _unclear(self) -> bool:
        """Whether the next word may begin an operand, or may follow the current word as an operand."""
        word, behind = self.c.peek(), self.c.peek(2)
        if word.kind != WORD or word.upper not in _BEHIND_ALL:
            return False
        opens = behind.text == "(" and word.upper in ("PATTERN", "AUTOMATON", "EMIT")
        return not opens and not (word.upper in ("IGNORE", "RESPECT") and behind.upper == "NULLS")

    def _not_or_name(self, start: int) -> Expr:
        """Reads NOT before a word that may also follow an operand.

        Returns the negation if there is one that ends like an operand, and otherwise the column named not.
        """
        c, at, chosen = self.c, self.c.i, len(self._words)
        try:
            c.next()
            self._words.append(at)
            node = self._node("un", "NOT", (self._not(),), start)
            if c.token.kind == END or (c.token.kind == OP and c.token.text != "(") or (c.token.kind == WORD and c.token.upper in _BEHIND_ALL - INFIX | {"AND", "OR"}):
                return node
        except ClauseError:
            self._retries -= 1
        del self._words[chosen:]
        self._names.add(at)
        c.i = at
        return self._not()

    def _predicate(self) -> Expr:
        """Reads a value and at most one predicate on it, as in Spark."""
        c, start = self.c, self.c.token.start
        left = self._comparison()
        if c.take_word("IS"):
            negated = frozenset(["not"]) if c.take_word("NOT") else frozenset()
            if c.take_word("DISTINCT"):
                c.expect_word("FROM", "after IS DISTINCT")
                right = self._comparison()
                return self._node("is", "DISTINCT", (left, right), start, negated)
            for word in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
                if c.take_word(word):
                    return self._node("is", word, (left,), start, negated)
            raise c.error("expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS")
        before = ("NOT",) if c.at_word("NOT") else ()
        word = next((word for word in _PREDICATES if c.take_word(*before, word)), None)
        if word is None:
            return left
        negated = frozenset(["not"]) if before else frozenset()
        if word == "BETWEEN":
            low = self._comparison()
            c.expect_word("AND", "in BETWEEN")
            return self._node("between", None, (left, low, self._comparison()), start, negated)
        if word == "IN":
            if not c.at_op("("):
                raise c.error("expected '(' after IN")
            if c.at_query(1):
                return self._node("in", "query", (left, self._primary()), start, negated)
            c.next()
            return self._node("in", None, (left, *self._list()), start, negated)
        if word in ("LIKE", "ILIKE") and c.token.upper in ("ANY", "ALL", "SOME") and c.peek().text == "(":
            c.i += 2
            return self._node("like", word, (left, *self._list()), start, negated)
        args = [left, self._comparison()]
        if c.take_word("ESCAPE"):
            args.append(self._binary(0))
        return self._node("like", word, tuple(args), start, negated)

    def _comparison(self) -> Expr:
        """Reads operators and comparisons. Comparisons have one precedence level and are left-associative."""
        c, start = self.c, self.c.token.start
        left = self._binary(0)
        while True:
            compare = next((op for op in _COMPARE if c.at_op(op)), None)
            if compare is None:
                return left
            c.take_op(compare)
            right = self._binary(0)
            left = self._node("bin", _SAME.get(compare, compare), (left, right), start)

    def _binary(self, level: int) -> Expr:
        """Precedence climbing: reads operators of ``level`` and tighter ones."""
        c, start = self.c, self.c.token.start
        left = self._unary()
        while True:
            found = self._operator(level)
            if found is None:
                return left
            op, at = found
            c.i += 1 if op == "DIV" else len(op)
            left = self._node("bin", op, (left, self._binary(at + 1)), start)

    def _operator(self, level: int) -> tuple[str, int] | None:
        """The binary operator here and its level, None if there is none of ``level`` or tighter."""
        for at in range(level, len(_BINARY)):
            for op in _BINARY[at]:
                if self.c.at_word(op) if op == "DIV" else self._at_binary(op):
                    return op, at
        return None

    def _at_binary(self, op: str) -> bool:
        c = self.c
        longer = {"|": ("||",), "-": ("->", "-}")}.get(op, ())
        return c.at_op(op) and not any(map(c.at_op, longer))

    def _unary(self) -> Expr:
        c = self.c
        signs = []
        while c.token.kind == OP and c.token.text in "+-~":
            signs.append(c.next())
            if len(signs) > MAX_DEPTH:
                raise c.error(f"more than {MAX_DEPTH} signs", "EXPRESSION_TOO_DEEP", LIMIT)
        if signs and signs[-1].text == "-" and c.token.kind == NUMBER:
            # the sign belongs to the number: -1L::INT casts a negative number
            number = self._primary()
            node = self._postfix(self._node("un", "-", (number,), signs.pop().start))
        else:
            node = self._postfix(self._primary())
        for sign in reversed(signs):
            node = self._node("un", sign.text, (node,), sign.start)
        return node

    def _postfix(self, node: Expr) -> Expr:
        """Reads subscripts, fields, casts and collations after ``node``."""
        c, start = self.c, node.span.start
        while True:
            if c.take_op("["):
                index = self.parse()
                c.expect_op("]", "to close the subscript")
                node = self._node("index", None, (node, index), start)
            elif c.take_op("::"):
                node = self._node("cast", self.parse_type(), (node,), start)
            elif c.at_op(".") and c.peek().kind in (WORD, QUOTED):
                c.next()
                node = self._node("field", name_of(c.next()), (node,), start)
            elif c.at_op(":") and (c.peek().kind in (WORD, QUOTED) or self._at_step(1)):
                node = self._path(node, start)
            elif c.take_word("COLLATE"):
                node = self._node("special", "COLLATE " + self._dotted(), (node,), start)
            elif c.at_word("AT", "TIME", "ZONE"):
                c.i += 3
                node = self._node("special", "AT TIME ZONE", (node, self._primary()), start)
            else:
                return node

    def _path(self, node: Expr, start: int) -> Expr:
        """Reads a colon and the path into a VARIANT after it. Spark takes its fields and subscripts only together."""
        c, at = self.c, self.c.token.start
        c.next()
        c.i += 3 if self._at_step(0) else 1
        while self._at_step(0) or (c.at_op(".") and c.peek().kind in (WORD, QUOTED)):
            c.i += 3 if self._at_step(0) else 2
        return self._node("special", c.span(at).of(c.text), (node,), start)

    def _at_step(self, n: int) -> bool:
        """Whether a subscript of a path comes ``n`` places ahead: a constant, or a star, in brackets."""
        opening, inside, closing = (self.c.peek(n + k) for k in range(3))
        return (opening.text, closing.text) == ("[", "]") and (inside.kind in (STRING, NUMBER) or inside.text == "*")

    def _star(self, parts: tuple[str, ...], start: int) -> Expr:
        """A star that was read, and EXCEPT after it, whose names in parentheses are its operand."""
        if not self.c.at_word("EXCEPT") or self.c.peek().text != "(":
            return self._node("star", parts, (), start)
        self.c.next()
        begin = self.c.token.start
        self.skip_parens()
        return self._node("star", parts, (self._node("names", None, (), begin),), start)

    def _dotted(self) -> str:
        c = self.c
        return ".".join(c.listed(lambda: c.next().text, "."))

    # -- primaries ------------------------------------------------------------------------------------------

    def _primary(self) -> Expr:
        c = self.c
        t, start = c.token, c.token.start
        if t.kind == STRING:
            while c.token.kind == STRING:
                c.next()
            return self._text("lit", start)
        if t.kind == NUMBER:
            c.next()
            return self._text("lit", start)
        if t.kind == OP:
            return self._symbol(t, start)
        if t.kind in (QUOTED, WORD):
            return self._word(t, start)
        raise c.expected(EXPRESSION)

    def _symbol(self, t: Token, start: int) -> Expr:
        c = self.c
        if t.text == "(":
            if c.at_query(1):
                self.skip_parens()
                return self._text("subquery", start)
            lam = self._lambda_params()
            if lam:
                return self._lambda(lam, start)
            c.next()
            return self._in_parentheses(start)
        if t.text == "?" or (t.text == ":" and c.peek().kind == WORD):
            c.i += 1 if t.text == "?" else 2
            return self._text("lit", start)
        if c.take_op("*"):
            return self._star((), start)
        raise c.expected(EXPRESSION)

    def _in_parentheses(self, start: int) -> Expr:
        """Reads an expression and its closing parenthesis, or a row of several expressions, which may have names."""
        c = self.c
        items, named, at = [self.parse()], False, c.i
        if self._field_name(bare=True) and not (named := c.at_op(",")):
            c.i = at  # only the fields of a row have names
        while c.take_op(","):
            items.append(self.parse())
            named |= self._field_name(bare=True)
        c.expect_op(")", "to close the parenthesis")
        if len(items) == 1:
            return self._node("paren", None, tuple(items), start)
        return self._node("special", "row", tuple(items), start, frozenset(["named"] if named else []))

    def _field_name(self, bare: bool) -> bool:
        """Reads the name of a struct's field after its value, without AS if ``bare`` allows it. Returns whether there is a name."""
        c = self.c
        if c.take_word("AS"):
            if c.token.kind not in (WORD, QUOTED):
                raise c.error("expected a name after AS")
        elif not bare or not (c.token.kind == QUOTED or (c.token.kind == WORD and c.token.upper not in _BEHIND)):
            return False
        c.next()
        return True

    def _word(self, t: Token, start: int) -> Expr:
        c, upper = self.c, t.upper if t.kind == WORD else ""
        nxt = c.peek()
        if upper == "CASE" and (case := self._case_or_name(start)) is not None:
            return case
        if upper in ("CAST", "TRY_CAST") and nxt.text == "(":
            c.i += 2
            inner = self.parse()
            c.expect_word("AS", "in CAST")
            type_text = self.parse_type()
            c.expect_op(")", "to close CAST")
            return self._node("cast", type_text, (inner,), start, frozenset(["try"] if upper == "TRY_CAST" else []))
        if upper == "INTERVAL" and (nxt.kind in (STRING, NUMBER) or self._at_signed_unit() or (self._parameter(1) and c.peek(1 + self._parameter(1)).upper in UNITS)):
            return self._interval(start)
        if upper in _TYPED and nxt.kind == STRING:
            c.i += 2
            return self._text("lit", start)
        if upper == "EXISTS" and nxt.text == "(" and c.at_query(2):
            c.next()
            self.skip_parens()
            return self._text("subquery", start)
        if upper in ("RUNNING", "FINAL") and nxt.kind == WORD and nxt.upper not in _OPENING and c.peek(2).text == "(":
            c.next()
            call = self._word(c.token, c.token.start)
            if call.op != "call":
                raise c.error(f"{upper} must be followed by a function call")
            return Expr("call", call.value, call.args, call.flags | {upper.lower()}, Span(start, call.span.end), call.depth)
        if nxt.kind == OP and nxt.text == "(":
            return self._call(start)
        if upper in CONSTANTS or (upper in NAMED_FUNCTIONS and upper not in c.columns and nxt.text not in (".", "[")):
            c.next()
            return self._node("lit", upper, (), start)
        if nxt.text == "-" and c.peek(2).text == ">" and c.peek(2).start == nxt.end:
            return self._lambda([name_of(t)], start)
        if upper in _STOP and not (c.ends_operand(1) or nxt.text in "+-*" or (nxt.kind == WORD and nxt.upper in _BEHIND_ALL)):
            raise c.expected(EXPRESSION)
        c.next()
        parts = [name_of(t)]
        while c.at_op("."):
            follow = c.peek()
            if follow.kind in (WORD, QUOTED):
                if follow.kind == WORD and c.peek(2).text == "(" and c.peek(2).kind == OP:
                    break  # A.f(x): a qualified function name
                c.next()
                parts.append(name_of(c.next()))
            elif follow.text == "*" and follow.kind == OP:
                c.i += 2
                return self._star(tuple(parts), start)
            else:
                break
        if c.at_op(".") and c.peek().kind == WORD and c.peek(2).text == "(":
            c.next()
            return self._call(start, ".".join(parts) + ".")
        return self._node("col", tuple(parts), (), start)

    def _call(self, start: int, prefix: str = "") -> Expr:
        c = self.c
        name = prefix + name_of(c.next())
        upper = re.sub(r"^(SYSTEM\.)?BUILTIN\.", "", name.upper())  # built-in functions may be written with their full names
        c.expect_op("(", f"after {name}")
        flags: set[str] = set()
        at, unclear = c.i, self._unclear()
        args: list[Expr] | None = None
        if (c.at_word("DISTINCT") or c.at_word("ALL")) and at not in self._names and (unclear or c.begins_operand(1) or c.peek().text == "*"):
            flags |= {"distinct"} if c.next().upper == "DISTINCT" else set()
            try:
                args = self._arguments(name, upper, flags)
            except ClauseError:
                if not unclear or self._retries <= 0:
                    raise
                self._retries -= 1
                self._names.add(at)
                c.i, flags = at, set()
        if args is None:
            args = [] if c.at_op(")") else self._arguments(name, upper, flags)
        c.expect_op(")", f"to close {name}(")
        self._nulls(flags)
        if c.at_word("WITHIN", "GROUP") and c.peek(2).text == "(":
            c.i += 3
            flags.add("ordered")
            self._sorting(args)
            c.expect_op(")", "to close WITHIN GROUP")
        if c.at_word("FILTER") and c.peek().text == "(":
            c.i += 2
            c.expect_word("WHERE", "in FILTER (WHERE ...)")
            args.append(self.parse())
            c.expect_op(")", "to close FILTER")
            flags.add("filter")
            self._nulls(flags)
        if c.at_word("OVER"):
            message = "MATCH_RECOGNIZE cannot contain a window function. Compute it in a subquery below the clause"
            raise c.error(message, "WINDOW_FUNCTION")
        return self._node("call", upper, tuple(args), start, frozenset(flags))

    def _nulls(self, flags: set[str]) -> None:
        """Reads IGNORE NULLS or RESPECT NULLS after a call."""
        if self.c.take_word("IGNORE", "NULLS") or self.c.take_word("RESPECT", "NULLS"):
            flags.add("ordered")

    def _arguments(self, name: str, upper: str, flags: set[str]) -> list[Expr]:
        """Reads the arguments between the parentheses of a call."""
        c, args = self.c, []
        if upper == "EXTRACT" and c.token.kind in (WORD, QUOTED) and c.peek().kind == WORD and c.peek().upper == "FROM" and c.begins_operand(2):
            c.i += 2
            return [self._comparison()]
        if upper == "TRIM" and c.token.kind == WORD and c.token.upper in TRIMMED and self._connected("FROM"):
            source = c.peek().kind == WORD and c.peek().upper == "FROM" and c.begins_operand(2)
            if source and not (c.peek(2).upper == "FROM" and c.begins_operand(3)):  # otherwise the trimmed column is named from
                c.i += 2
                return [self._comparison()]
            if c.begins_operand(1):
                c.next()
        if upper in UNIT_FUNCTIONS and c.token.kind == WORD and c.token.upper in UNITS_OF_CALLS and c.peek().text == "," and self._commas() == 2:
            unit = c.next()
            args.append(self._node("lit", unit.upper, (), unit.start))
            c.next()
        while True:
            if c.token.kind in (WORD, QUOTED) and c.peek().text == "=" and c.peek(2).text == ">" and c.peek(2).start == c.peek().end:
                c.i += 3  # named argument
                flags.add("named")
                args.append(self.parse())
            elif upper == "POSITION" and not args and not (c.at_word("NOT") and c.peek().text in ("+", "-")):
                args.append(self._comparison())
                if c.take_word("IN"):
                    args.append(self._comparison())
            else:
                args.append(self.parse())
            if self._field_name(bare=upper == "STRUCT"):  # struct(x AS name, y name)
                flags.add("named")
            if c.take_op(","):
                if c.at_op(")"):
                    raise c.error("expected an expression after ','")
                continue
            if c.token.kind == WORD and c.token.upper in _CONNECTIVES.get(upper, {}).get(len(args), ()):
                c.next()
                continue
            if c.at_word("ORDER", "BY") or c.at_word("IGNORE", "NULLS") or c.at_word("RESPECT", "NULLS"):
                flags.add("ordered")
                self._sorting(args)
            if not c.at_op(")"):
                raise c.error(f"expected ',' or ')' in the arguments of {name}")
            return args

    def _level(self) -> Iterator[Token]:
        """The tokens from here to the parenthesis that closes the arguments, without those inside nested brackets."""
        depth, j = 0, self.c.i
        while self.c.tokens[j].kind != END:
            t = self.c.tokens[j]
            if t.kind == OP and t.text in ")]":
                if depth == 0:
                    return
                depth -= 1
            if depth == 0:
                yield t
            depth += t.kind == OP and t.text in "(["
            j += 1

    def _commas(self) -> int:
        return sum(t.kind == OP and t.text == "," for t in self._level())

    def _connected(self, word: str) -> bool:
        """Whether the word occurs between the arguments, after the first token."""
        tokens = list(self._level())[1:]
        return any(t.kind == WORD and t.upper == word for t in tokens)

    def _sorting(self, args: list[Expr]) -> None:
        """Reads ORDER BY with its items, and IGNORE NULLS or RESPECT NULLS, up to the closing parenthesis."""
        c = self.c
        if c.take_word("ORDER", "BY"):
            while True:
                args.append(self.parse())
                if not c.take_word("ASC"):
                    c.take_word("DESC")
                if c.take_word("NULLS"):
                    c.expect_one_of(("FIRST", "LAST"), "or FIRST after NULLS")
                if not c.take_op(","):
                    break
        if c.at_word("IGNORE", "NULLS") or c.at_word("RESPECT", "NULLS"):
            c.i += 2

    def _list(self) -> list[Expr]:
        items = self.c.listed(self.parse)
        self.c.expect_op(")", "to close the list")
        return items

    def _case_or_name(self, start: int) -> Expr | None:
        """Reads CASE with its branches. None if the word is the name of a column."""
        c, at = self.c, self.c.i
        if at in self._names or c.ends_operand(1) or c.peek().text == "*":
            if c.peek().kind == END:  # lets completion know that a branch may follow, too
                c.next()
                c.at_word("WHEN")
                c.i = at
            return None
        signed = c.peek().kind == OP and c.peek().text in "+-"
        if not signed and not (c.peek().kind == WORD and c.peek().upper in _BEHIND_ALL and not c.at_word("CASE", "WHEN")):
            return self._case(start)
        try:
            return self._case(start)
        except ClauseError:  # as in case - 1 > 2, where the word is a column
            self._names.add(at)
            c.i = at
            return None

    def _case(self, start: int) -> Expr:
        """Reads CASE with its branches. If they do not end properly, the last keyword inside that may be a name is read as a name.

        An example is CASE case WHEN 1 THEN 2 END.
        """
        c, at, chosen = self.c, self.c.i, len(self._words)
        failed: ClauseError | None = None
        while True:
            try:
                node = self._branches(start)
                self._words.append(at)
                return node
            except ClauseError as error:
                failed = failed or error
                if len(self._words) == chosen or self._retries <= 0:
                    raise failed from None
                self._retries -= 1
                self._names.add(self._words[-1])
                del self._words[chosen:]
                c.i = at

    def _branches(self, start: int) -> Expr:
        c = self.c
        c.next()
        args: list[Expr] = []
        shape = ""
        searched = c.at_word("WHEN") and c.i not in self._names and c.begins_operand(1)
        if searched and c.peek().kind == WORD and c.peek().upper in _BEHIND:
            self._words.append(c.i)
        if not searched:
            args.append(self.parse())
            shape = "o"
            if not c.at_word("WHEN"):
                raise c.error("expected WHEN in CASE")
        while c.take_word("WHEN"):
            args.append(self.parse())
            c.expect_word("THEN", "after the WHEN condition")
            args.append(self.parse())
            shape += "w"
        if c.take_word("ELSE"):
            args.append(self.parse())
            shape += "e"
        c.expect_word("END", "to close CASE")
        return self._node("case", shape, tuple(args), start)

    def _interval(self, start: int) -> Expr:
        c = self.c
        c.next()
        if c.token.kind == STRING and not (c.peek().kind == WORD and c.peek().upper in UNITS):
            c.next()
            return self._text("interval", start)
        read = 0
        while True:
            j = 1 if c.token.text in ("+", "-") else 0
            j += 1 if c.peek(j).kind in (NUMBER, STRING) else self._parameter(j)
            if (j == 0 or c.peek(j - 1).text in ("+", "-")) or c.peek(j).upper not in UNITS:
                break
            c.i += j + 1
            read += 1
            if c.at_word("TO") and c.peek().upper in UNITS:
                c.i += 2
        if not read:
            raise c.error("expected a number or string and a unit such as MINUTE after INTERVAL")
        return self._text("interval", start)

    def _at_signed_unit(self) -> bool:
        """Whether a number with its sign and unit follows INTERVAL, as in INTERVAL -3 MONTHS."""
        size = 1 if self.c.peek(2).kind in (STRING, NUMBER) else self._parameter(2)
        unit = self.c.peek(2 + size)
        return self.c.peek().text in ("+", "-") and size > 0 and unit.kind == WORD and unit.upper in UNITS

    def _parameter(self, n: int) -> int:
        """The number of tokens of the parameter that begins ``n`` places ahead, 0 if none begins there."""
        first = self.c.peek(n)
        if first.kind != OP or first.text not in "?:":
            return 0
        return 1 if first.text == "?" else 2 if self.c.peek(n + 1).kind == WORD else 0

    def _lambda_params(self) -> list[str] | None:
        """The names in ``(x, y) ->`` if it comes next, else None. Does not move the cursor."""
        c, j, names = self.c, 1, []
        while c.peek(j).kind in (WORD, QUOTED):
            names.append(name_of(c.peek(j)))
            j += 1
            if c.peek(j).text != ",":
                break
            j += 1
        if names and c.peek(j).text == ")" and c.peek(j + 1).text == "-" and c.peek(j + 2).text == ">":
            return names
        return None

    def _lambda(self, names: list[str], start: int) -> Expr:
        c = self.c
        while not c.at_op("->"):
            c.next()
        c.take_op("->")
        return self._node("lambda", tuple(n.lower() for n in names), (self.parse(),), start)

    def parse_type(self) -> str:
        """Reads a type and returns its text."""
        c = self.c
        start = c.token.start
        if c.token.kind not in (WORD, QUOTED) or c.token.upper in _STOP:
            raise c.expected(TYPE)
        first = c.next().upper
        if first == "INTERVAL" and c.token.upper in UNITS:
            c.next()
            if c.at_word("TO"):
                c.i += 2
        if c.take_op("("):
            c.listed(self._size)
            c.expect_op(")", f"to close {first}(")
        elif c.at_op("<") and first in ("ARRAY", "MAP", "STRUCT"):  # after other words it is a comparison
            self._inner_types(first)
        if first in ("TIME", "TIMESTAMP"):
            c.take_word("WITHOUT", "TIME", "ZONE") or c.take_word("WITH", "LOCAL", "TIME", "ZONE")
        if c.take_word("COLLATE"):
            self._dotted()
        return c.span(start).of(c.text)

    def _inner_types(self, kind: str) -> None:
        """Reads the types between the angle brackets of ARRAY, MAP or STRUCT."""
        c = self.c
        c.next()
        if kind != "STRUCT":
            self.parse_type()
            if kind == "MAP":
                c.expect_op(",", "between the types of a MAP's keys and values")
                self.parse_type()
        elif not c.at_op(">"):
            c.listed(self._struct_field)
        c.expect_op(">", f"to close {kind}<")

    def _struct_field(self) -> None:
        """Reads the name and the type of a struct's field, NOT NULL, and a comment."""
        c = self.c
        if c.token.kind not in (WORD, QUOTED):
            raise c.error("expected the name of a field")
        c.next()
        c.take_op(":")
        self.parse_type()
        if c.take_word("NOT"):
            c.expect_word("NULL", "after NOT")
        if c.at_word("COMMENT") and c.peek().kind == STRING:
            c.i += 2

    def _size(self) -> None:
        """Reads a number in a type's parentheses. GEOMETRY and GEOGRAPHY also allow the word ANY."""
        c = self.c
        if c.token.kind != NUMBER and not c.at_word("ANY"):
            raise c.error("expected a number in the type's parentheses")
        c.next()

    def skip_parens(self) -> None:
        """Skips all tokens from a parenthesis to the one that closes it."""
        c, depth, open_at = self.c, 0, self.c.token
        while True:
            t = c.next()
            if t.kind == END:
                raise error_at(c.text, open_at.start, open_at.end, "SYNTAX", "this parenthesis is not closed")
            if t.kind == OP:
                depth += (t.text == "(") - (t.text == ")")
                if depth == 0:
                    return


class ConstantParser(ExpressionParser):
    """Reads a size or a number. Outside of parentheses an operator belongs to it only if an operand follows."""

    follows = frozenset("(:?+-")
    names = True  # whether a column may be read; it is rejected later

    def _operator(self, level: int) -> tuple[str, int] | None:
        found = super()._operator(level)
        if self.nesting:
            return found
        behind = self.c.peek(1 if found is None or found[0] == "DIV" else len(found[0]))
        operand = behind.kind == NUMBER or (behind.kind == OP and behind.text in self.follows) or (behind.kind == WORD and behind.upper == "INTERVAL")
        return found if operand or (self.names and behind.kind in (WORD, QUOTED) and behind.upper not in _BEHIND_ALL) else None
