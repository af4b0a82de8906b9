"""Random clause texts, made by walking the productions of grammar/match_recognize.lark.

Nothing of the language's shape is repeated here: rules and words come from the grammar as Lark loaded it. What
is added is weights (so that texts stay short and typical), names that read like SQL, and blanks, comments and
letter case between and in the tokens. ``Mutator`` breaks such texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from lark import Lark, Tree
from lark.exceptions import UnexpectedInput
from lark.grammar import NonTerminal, Rule
from lark.lexer import PatternStr

GRAMMAR_FILE = Path(__file__).resolve().parents[2] / "grammar" / "match_recognize.lark"
STARTS = ("match_clause", "match_recognize", "row_pattern", "expression")


@cache
def grammar() -> Lark:
    return Lark.open(str(GRAMMAR_FILE), parser="lalr", lexer="basic", start=list(STARTS))


class Piece(NamedTuple):
    """One token of a generated text, and whether it was made below ``expression``."""

    terminal: str
    text: str
    in_expression: bool


COLUMNS = ["price", "ts", "symbol", "volume", "v1", "_id", "2nd", "t", "device_id", "val"]
VARIABLES = ["A", "B", "C", "down", "UP", "X1", "z_", "Strt"]
FUNCTIONS = [
    "abs", "coalesce", "PREV", "next", "avg", "COUNT", "classifier", "match_number", "lower", "array_agg", "PRIOR",
    "date_trunc", "greatest", "concat", "MATCH_SCORE", "missing",
]  # fmt: skip
TYPES = ["int", "bigint", "double", "string", "decimal"]
QUOTED = ["`my column`", "`select`", "`größe`", "`a``b`", "`window`", "`within`", "`Permute`", "`day`", "`{- x -}`", "`)`", "`--`"]
STRINGS = [
    "'x'", "''", "'it''s'", r"'a\'b'", "'-- no comment'", "'/* none */'", "'PATTERN ('", '"double"', "r'raw\\'", "'é\n'",
]  # fmt: skip
INTERVALS = ["'10'", "'1 02:03:04'", "'2 hours'"]
INTEGERS = ["0", "1", "2", "3", "5", "10", "007"]
DECIMALS = ["1.5", ".5", "2.", "1e3", "1.5E-3", "10L", "2.5BD", "3d"]
BINARIES = ["X'1F'", "x''"]

NAMED_NOT = re.compile(r"\b(NOT|ALL|DISTINCT)\s+(PATTERN|AUTOMATON|EMIT)\s*\(", re.I)  # a column called so, before the next part of the clause

# Weight of a production by its rule and its alias or else its first symbol; 1 where nothing is said.
WEIGHTS = {
    ("name", "IDENTIFIER"): 12,
    ("name", "QUOTED_IDENTIFIER"): 1,
    ("name", "_word"): 1,
    ("name", "_unit_word"): 0.2,
    ("any_name", "IDENTIFIER"): 20,
    ("arc_name", "IDENTIFIER"): 20,
    ("any_name", "QUOTED_IDENTIFIER"): 2,
    ("any_name", "_unit_word"): 0.5,
    ("measure", "measure_without_as"): 0,  # the parser reads NOT before some words as a name there: write AS
    ("primary", "column"): 5,
    ("primary", "call"): 2,
    ("primary", "parenthesised"): 0.8,
    ("primary", "case"): 0.3,
    ("primary", "cast"): 0.3,
    ("primary", "semantics"): 0.8,
    ("postfix", "reference"): 2,
    ("reference", "primary"): 40,
    ("predicate", "comparison"): 50,
    ("call_arguments", "argument"): 6,
    ("pattern_primary", "variable"): 7,
    ("argument", "expression"): 8,
    ("matched", "pattern"): 4,
    ("constant_factor", "interval"): 8,
    ("constant_factor", "number"): 8,
}
# Rules that chain operands of one precedence: most of the time there is one operand.
CHAINS = {
    "disjunction": 0.1, "logical_and": 0.15, "logical_not": 0.1, "comparison": 0.3, "bit_or": 0.03, "bit_xor": 0.03, "bit_and": 0.03,
    "sum": 0.15, "product": 0.12, "constant": 0.15, "constant_product": 0.1, "unary": 0.08, "dotted_name": 0.3, "alternation": 0.25, "conjunction": 0.15,
    "negation": 0.15,
}  # fmt: skip
NESTING = {"expression", "alternation", "type"}


class Generator:
    """Draws derivations of the grammar's start rules from one random source."""

    def __init__(self, random: Random, max_nesting: int = 4) -> None:
        self.random = random
        self.max_nesting = max_nesting
        lark = grammar()
        self.words = {
            t.name: t.pattern.value if isinstance(t.pattern, PatternStr) else None for t in lark.terminals
        }
        self.regexps = {
            t.name: re.compile(t.pattern.to_regexp(), re.I | re.S) for t in lark.terminals if t.name not in lark.ignore_tokens
        }
        self.productions: dict[str, list[Rule]] = {}
        for rule in lark.rules:
            self.productions.setdefault(str(rule.origin.name), []).append(rule)
        self.size = _sizes(self.productions)
        self.limit = 0  # length of the token list at which the present expression or pattern is brought to an end

    # -- derivation -----------------------------------------------------------------------------------------

    def pieces(self, start: str) -> list[Piece]:
        """The tokens of a random sentence of ``start`` that the grammar's parser reads."""
        while True:
            out: list[Piece] = []
            self.options: set[str] = set()
            self.after, self.named = "", False  # the option written last, and whether objectives may have names
            self._expand(start, start, 0, False, out)
            _mend_bounds(out)
            # Two tokens that read as a longer construct (README "Names") make another sentence or none: draw again.
            if accepts(plain(out), start) and not NAMED_NOT.search(plain(out)):
                return out

    def _expand(self, name: str, rule_name: str, nesting: int, in_expression: bool, out: list[Piece]) -> None:
        in_expression = in_expression or name == "expression"
        if name in NESTING:
            if nesting == 0:
                self.limit = len(out) + self.random.choice([2, 6, 12, 25])
            nesting += 1
        flat = nesting > self.max_nesting or (nesting > 0 and len(out) > self.limit)
        production = self._choose(name, flat)
        if name == "option":  # each at most once, which the grammar leaves to its README
            chosen = str(production.expansion[0].name)
            of_sequence, self.after = self.after == "sequence" and chosen == "pref", chosen
            self.named = of_sequence
            if of_sequence or chosen == "sequence":
                chosen = ""
            if chosen in self.options or (chosen in ("pref", "pref_sequences") and {"pref", "pref_sequences"} & self.options):
                return
            if chosen in self.options or (chosen in ("weights", "approx_report", "budget") and "approx" not in self.options):
                return
            self.options |= {chosen} if chosen else set()
        elif name == "objective_name" and not self.named:
            return
        elif name == "pattern":
            self.after = name
        shown = rule_name if name.startswith("_") else name
        for symbol in production.expansion:
            if isinstance(symbol, NonTerminal):
                self._expand(str(symbol.name), shown, nesting, in_expression, out)
            else:
                out.append(Piece(symbol.name, self._token(symbol.name, shown), in_expression))

    def _choose(self, name: str, flat: bool) -> Rule:
        options = self.productions[name]
        if len(options) == 1:
            return options[0]
        if flat:
            least = min(_production_size(p, self.size) for p in options)
            options = [p for p in options if _production_size(p, self.size) == least]
        if name in CHAINS and not flat:
            single = [p for p in options if len(p.expansion) == 1]
            longer = [p for p in options if len(p.expansion) > 1]
            return self.random.choice(longer if self.random.random() < CHAINS[name] else single)
        return self.random.choices(options, [_weight(name, p) for p in options])[0]

    def _token(self, terminal: str, rule: str) -> str:
        word = self.words[terminal]
        if word is not None:
            return self._case(word)
        if terminal == "IDENTIFIER":
            text = self._identifier(rule)
        elif terminal == "STRING":
            text = self.random.choice(INTERVALS if rule == "interval" else STRINGS)
        else:
            samples = {"QUOTED_IDENTIFIER": QUOTED, "INTEGER": INTEGERS, "DECIMAL": DECIMALS, "BINARY": BINARIES}
            text = self.random.choice(samples[terminal])
        assert self.regexps[terminal].fullmatch(text), (terminal, text)
        return text

    def _identifier(self, rule: str) -> str:
        if rule == "type":
            return self.random.choice(TYPES)
        if rule == "navigation_function":
            return self.random.choice(["first", "LAST", "avg", "count", "min_by"])
        pool = VARIABLES + FUNCTIONS + COLUMNS if rule == "name" else VARIABLES
        return self._case(self.random.choice(pool))

    def _case(self, word: str) -> str:
        draw = self.random.random()
        if draw < 0.6:
            return word
        if draw < 0.75:
            return word.lower()
        return "".join(c.upper() if self.random.random() < 0.5 else c.lower() for c in word)

    # -- text -----------------------------------------------------------------------------------------------

    def text(self, start: str) -> str:
        return self.layout(self.pieces(start))

    def layout(self, pieces: Iterable[Piece]) -> str:
        """The tokens with random blanks and comments between them."""
        out = [self._blank(may_be_empty=True)]
        last = ""
        for piece in pieces:
            out.append(self._blank(may_be_empty=_may_touch(last, piece.text)))
            out.append(piece.text)
            last = piece.text
        out.append(self._blank(may_be_empty=True))
        return "".join(out)

    def _blank(self, may_be_empty: bool) -> str:
        draw = self.random.random()
        if may_be_empty and draw < 0.5:
            return ""
        if draw < 0.93:
            return " "
        return self.random.choice(["\n", "\t", "  \n", " /* note */ ", " /* a /* nested */ ' note */", " -- to the end, ( ' `\n"])


def _mend_bounds(pieces: list[Piece]) -> None:
    """Makes the upper bound of every quantifier at least 1 and at least the lower one (LANGUAGE section 9)."""
    for i, piece in enumerate(pieces):
        if piece.text != "}" or pieces[i - 1].terminal != "INTEGER":
            continue
        low = 1
        if pieces[i - 2].text == "," and pieces[i - 3].terminal == "INTEGER":
            low = max(1, int(pieces[i - 3].text))
        if int(pieces[i - 1].text) < low:
            pieces[i - 1] = pieces[i - 1]._replace(text=str(low))


def _sizes(productions: dict[str, list[Rule]]) -> dict[str, int]:
    """Number of tokens of the shortest sentence of each rule."""
    size = dict.fromkeys(productions, 10_000)
    changed = True
    while changed:
        changed = False
        for name, options in productions.items():
            best = min(_production_size(p, size) for p in options)
            if best < size[name]:
                size[name], changed = best, True
    return size


def _production_size(production: Rule, size: dict[str, int]) -> int:
    return sum(size[str(s.name)] if isinstance(s, NonTerminal) else 1 for s in production.expansion)


def _weight(name: str, production: Rule) -> float:
    first = str(production.expansion[0].name) if production.expansion else ""
    return WEIGHTS.get((name, production.alias or first), 1.0)


_OPERATOR = frozenset("-+*/|<>=!~&^:.{}%")


def _may_touch(left: str, right: str) -> bool:
    """Whether the two tokens stay two tokens with nothing between them."""
    if not left:
        return True
    a, b = left[-1], right[0]
    if a in _OPERATOR and b in _OPERATOR:
        return False
    if a == "." or b == ".":
        return not (a.isdigit() or b.isdigit() or left[0].isdigit() or left[0] == ".")
    wordlike = [c.isalnum() or c == "_" or c in "'\"`" for c in (a, b)]
    return not all(wordlike)


def plain(pieces: Iterable[Piece]) -> str:
    return " ".join(p.text for p in pieces)


@cache
def words_of(rule: str) -> set[str]:
    """The words that a rule of words lists, in upper case."""
    spelling = {t.name: t.pattern.value for t in grammar().terminals}
    return {spelling[r.expansion[0].name] for r in grammar().rules if r.origin.name == rule}


def tree(text: str, start: str = "match_clause") -> Tree | None:
    """The grammar's tree of ``text``, or None where it is no sentence."""
    try:
        return grammar().parse(text, start=start)
    except UnexpectedInput:
        return None


def accepts(text: str, start: str = "match_clause") -> bool:
    return tree(text, start) is not None


class Mutator:
    """Breaks texts: on tokens, or on characters."""

    ODD = ["\x00", "\\", ";", "@", "#", "'", '"', "`", "/*", "--", "(", ")", "{", "}", "{-", "-}", "?", "$", "\u200b", "😀", "]", ":"]

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.random = generator.random

    def tokens(self, pieces: list[Piece], places: list[int] | None = None) -> list[Piece]:
        """``pieces`` after one to three token edits, of the tokens at ``places`` only if given."""
        out = list(pieces)
        others = pieces if places is None else [pieces[i] for i in places]
        for _ in range(self.random.randint(1, 3)):
            if not out:
                return out
            live = [i for i in (places if places is not None else range(len(out))) if i < len(out)]
            if not live:
                return out
            i = self.random.choice(live)
            edit = self.random.randrange(5)
            if edit == 0:
                del out[i]
            elif edit == 1:
                out.insert(i, out[i])
            elif edit == 2:
                j = self.random.choice(live)
                out[i], out[j] = out[j], out[i]
            elif edit == 3:
                out[i] = self.random.choice(others)
            else:
                out.insert(i, self.random.choice(others))
        return out

    def characters(self, text: str) -> str:
        """``text`` after one to three character edits, or cut off."""
        for _ in range(self.random.randint(1, 3)):
            i = self.random.randrange(len(text) + 1)
            edit = self.random.randrange(5)
            if edit == 0:
                text = text[:i]
            elif edit == 1:
                text = text[:i] + self.random.choice(self.ODD) + text[i:]
            elif edit == 2:
                text = text[:i] + text[i + 1 :]
            elif edit == 3:
                text = text[i:]
            else:
                text = text[:i] + self.random.choice(self.ODD) + text[i + 1 :]
        return text

    def text(self, pieces: list[Piece]) -> str:
        if self.random.random() < 0.5:
            return self.generator.layout(self.tokens(pieces))
        return self.characters(self.generator.layout(pieces))
