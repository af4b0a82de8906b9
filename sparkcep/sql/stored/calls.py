"""Finds the calls of the table function in a rewritten statement, and replaces them by clauses.

``sparkcep.why`` uses it for stored views, whose text is the rewritten statement.
"""

from __future__ import annotations

from dataclasses import replace

from sparkcep.clause.parser import parse_clause
from sparkcep.clause.tokens import END, QUOTED, Token, matching, name_of, tokenize
from sparkcep.errors import SEMANTIC, UNSUPPORTED, ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import LETTERS, PLAN_HEAD, Plan
from sparkcep.settings import Settings
from sparkcep.sql.prefilter.slices import AWAY, SLICE
from sparkcep.sql.rewrite.table_names import table_names
from sparkcep.sql.stored.clause_text import Unprintable, clause_text, same_search

FUNCTION = "match_recognize"
_SLICED = (SLICE, AWAY)  # columns beside the clause's own
_WRITE = "Ask about the statement with its clause"


def has_call(text: str) -> bool:
    """Whether a statement has a call of the table function with a plan."""
    return FUNCTION in text.lower() and PLAN_HEAD in text


def with_clauses(text: str, of: str, settings: Settings) -> str:
    """A rewritten statement with a clause for each call.

    Args:
        text: the statement.
        of: how errors name it, such as "the view v".
        settings: the session's settings.

    Raises:
        ClauseError: a call cannot become a clause (class WHY), or its plan is of another version.
    """
    tokens = tokenize(text)
    close = matching(tokens)
    out, end = [], 0
    for i, token in enumerate(tokens):
        if token.start >= end and token.upper == FUNCTION.upper() and i + 3 in close and tokens[i + 2].upper == "TABLE":
            call = _Call(text, tokens, close, i, of, settings)
            begin, stop = call.replaced()
            out += [text[end : tokens[begin].start], f"{call.source} MATCH_RECOGNIZE ({call.clause()})"]
            end = tokens[stop].end
    return "".join([*out, text[end:]])


class _Call:
    """A call of the table function.

    Attributes:
        plan: its plan.
        source: the table that it reads.
    """

    def __init__(self, text: str, tokens: list[Token], close: dict[int, int], at: int, of: str, settings: Settings) -> None:
        self.text, self.tokens, self.close, self.at, self.of, self.settings = text, tokens, close, at, of, settings
        inside = range(at + 4, close[at + 3])
        named = next((tokens[i] for i in inside if tokens[i].kind == QUOTED and name_of(tokens[i]).startswith(PLAN_HEAD)), None)
        if named is None:
            raise self.refused("it calls match_recognize without a plan")
        self.plan = Plan.from_json(name_of(named))
        self.texts, self.source = self._read(inside)

    def refused(self, why: str) -> ClauseError:
        return ClauseError("WHY", f"The clause of {self.of} cannot be read back, because {why}. {_WRITE}", sqlstate=UNSUPPORTED)

    def replaced(self) -> tuple[int, int]:
        """The first and last token of the subquery that replaced the clause."""
        begin, end = self._around(self.at)
        if begin < 0:
            raise self.refused("its text is not that of a rewritten statement")
        first, last = self._around(begin)
        is_outer = first >= 0 and "__whole" in [token.text for token in self.tokens[first:begin]]
        return (first, last) if is_outer else (begin, end)

    def _around(self, at: int) -> tuple[int, int]:
        """The tokens of the parentheses around a token, (-1, -1) without any."""
        begin = max((i for i, end in self.close.items() if i < at < end), default=-1)
        return begin, self.close.get(begin, -1)

    def _read(self, inside: range) -> tuple[dict[str, str], str]:
        """The text of each input column and letter, and the table."""
        wanted = {name for name, _ in self.plan.inputs if name not in _SLICED} | {name for name, _ in self.plan.ordered_inputs} | ({LETTERS} if self.plan.letters else set())
        for begin in inside:
            if begin in self.close and self.tokens[begin + 1].upper == "SELECT":
                found, source = self._selected(begin + 2, self.close[begin])
                if wanted <= found.keys() and source:
                    letters = found.pop(LETTERS, "")
                    return found | self._letters(letters), source
        raise self.refused("its columns are computed in another way")

    def _selected(self, begin: int, end: int) -> tuple[dict[str, str], str]:
        """The expressions of a SELECT by their names, and the table after FROM."""
        found: dict[str, str] = {}
        first, i = begin, begin
        while i < end and not self._ends(i):
            i = self.close.get(i, i) + 1
            if i >= end or self.tokens[i].text == "," or self._ends(i):
                item = self.tokens[first:i]
                if len(item) > 2 and item[-2].upper == "AS":
                    found[name_of(item[-1])] = self.text[item[0].start : item[-3].end]
                first = i + 1
                i += i < end and self.tokens[i].text == ","
        start = i + 1
        stop = start
        while stop < end and self.tokens[stop].upper != "WHERE":  # the prefilter
            stop = self.close.get(stop, stop) + 1
        return found, self.text[self.tokens[start].start : self.tokens[stop - 1].end] if start < stop else ""

    def _ends(self, i: int) -> bool:
        """Whether token ``i`` is the FROM after a SELECT's expressions, and not that of IS DISTINCT FROM."""
        return self.tokens[i].upper == "FROM" and self.tokens[i - 1].upper != "DISTINCT"

    def _letters(self, text: str) -> dict[str, str]:
        """The conditions of the letters, by their bits."""
        tokens = [token for token in tokenize(text) if token.kind != END]
        close, found = matching(tokens), dict[str, str]()
        i = 0
        while i < len(tokens):
            if tokens[i].upper == "CASE":
                begin = i + 2
                while tokens[i].upper != "THEN" or self._nested(tokens, begin, i):
                    i = close.get(i, i) + 1
                bit = int(tokens[i + 1].text.rstrip("L")).bit_length() - 1
                found[f"__b{bit}"] = text[tokens[begin].start : tokens[i - 1].end]
                while tokens[i].upper != "END":
                    i += 1
            i += 1
        return found

    @staticmethod
    def _nested(tokens: list[Token], begin: int, at: int) -> bool:
        """Whether a THEN belongs to a CASE inside the condition."""
        words = [token.upper for token in tokens[begin:at]]
        return words.count("CASE") > words.count("END")

    def clause(self) -> str:
        """The clause. Raises ClauseError if it is not certain that it finds the plan's matches."""
        plan, settings = self.plan, self.settings
        for name, member in (
            ("spark.sql.ansi.enabled", "ansi"), ("spark.sql.session.timeZone", "zone"), ("spark.sql.caseSensitive", "case_sensitive"),
            ("spark.sql.decimalOperations.allowPrecisionLoss", "precision_loss"),
        ):  # fmt: skip
            then = getattr(plan, member)
            if then != getattr(settings, member):
                value = str(then).lower() if isinstance(then, bool) else then
                raise ClauseError("WHY", f"{self.of[:1].upper()}{self.of[1:]} was made with another setting. Write SET {name} = {value}, and ask again", sqlstate=SEMANTIC)
        try:
            text = clause_text(plan, self.texts)
        except Unprintable as error:
            raise self.refused(f"it has {error}") from None
        if not self._agrees(text):
            raise self.refused("its plan has a condition that is not printed exactly")
        return text

    def _agrees(self, text: str) -> bool:
        """Whether a clause has a plan that finds the same matches."""
        tokens = tokenize(self.source)
        qualifiers = table_names(tokens, matching(tokens), 0, len(tokens) - 1)
        for prefilter in (True, False):  # further keys replace tests unless a measure reads the number of the match
            try:
                again = make_plan(parse_clause(text, self.settings.columns), settings=replace(self.settings, prefilter=prefilter, slices=False), qualifiers=qualifiers)
            except ClauseError:
                return False
            texts = dict(again.inputs) | {f"__b{letter.bit}": letter.text for letter in again.letters} | dict(again.ordered_inputs)
            if same_search(self.plan, again, self.texts, texts):
                return True
        return False
