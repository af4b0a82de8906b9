"""Random clauses in the oracle's terms, with their SQL text and the oracle's answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import expr, measures, pattern
from .match import find_matches

_SKIP_TEXT = {
    "past last row": "PAST LAST ROW",
    "to next row": "TO NEXT ROW",
    "to first": "TO FIRST",
    "to last": "TO LAST",
}
_ROWS_TEXT = {
    measures.ONE_ROW: "ONE ROW PER MATCH",
    measures.SHOW_EMPTY: "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
    measures.OMIT_EMPTY: "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    measures.WITH_UNMATCHED: "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
}

# Enough to tell every row of every match, and what it is mapped to.
BASE_MEASURES = {
    "m_no": ("match_number",),
    "m_first": ("nav", "FIRST", None, 0, ("col", "id")),
    "m_last": ("nav", "LAST", None, 0, ("col", "id")),
    "m_final": ("final", ("nav", "LAST", None, 0, ("col", "id"))),
    "m_count": ("agg", "count", None, "*", False),
    "m_class": ("classifier", None),
}


@dataclass
class Clause:
    """One MATCH_RECOGNIZE over rows with the columns p (partition), id (order), v, w, s."""

    pattern: tuple
    pattern_text: str
    defines: dict
    skip: tuple = ("past last row",)
    mode: str = measures.ONE_ROW
    subsets: dict = field(default_factory=dict)
    measures: dict = field(default_factory=dict)

    def to_sql(self) -> str:
        wanted = ", ".join(f"{expr.to_sql(e)} AS {name}" for name, e in self.measures.items())
        parts = [
            "PARTITION BY p",
            "ORDER BY id",
            f"MEASURES {wanted}",
            _ROWS_TEXT[self.mode],
            "AFTER MATCH SKIP " + " ".join([_SKIP_TEXT[self.skip[0]], *self.skip[1:]]),
            f"PATTERN ({self.pattern_text})",
        ]
        if self.subsets:
            parts.append("SUBSET " + ", ".join(f"{name} = ({', '.join(m)})" for name, m in self.subsets.items()))
        if self.defines:
            parts.append("DEFINE " + ", ".join(f"{v} AS {expr.to_sql(e)}" for v, e in self.defines.items()))
        return "\n".join(parts)

    def answer(self, rows, budget=20_000):
        """Output rows for one partition, as measures.output_rows gives them."""
        matches = find_matches(rows, self.pattern, self.defines, self.skip, self.subsets, budget=budget)
        return measures.output_rows(rows, matches, self.measures, self.mode, self.subsets)


def random_clause(rng, kinds=("row", "prev", "history")) -> Clause:
    """A random clause whose conditions are of `kinds`."""
    names = ["A", "B", "C", "D"][: rng.choice([1, 2, 2, 3, 3, 4])]
    mode = rng.choice([measures.ONE_ROW, measures.SHOW_EMPTY, measures.OMIT_EMPTY, measures.WITH_UNMATCHED])
    # Trees with anchors everywhere match next to nothing, so most go without.
    p = pattern.random_pattern(
        rng,
        names,
        rng.choice([1, 2, 2, 3, 3, 4]),
        exclude=mode in (measures.SHOW_EMPTY, measures.OMIT_EMPTY) or rng.random() < 0.05 and mode == measures.ONE_ROW,
        anchors=rng.random() < 0.25,
    )
    used = pattern.variables(p)
    subsets = {}
    if used and rng.random() < 0.4:
        subsets["S"] = tuple(sorted(rng.sample(used, rng.randrange(1, len(used) + 1))))
    defines = {}
    for name in used:
        if rng.random() < 0.85:
            kind = rng.choice(kinds)
            defines[name] = expr.random_condition(rng, name, used, kind, tuple(subsets))
    if used and rng.random() < 0.35:
        skip = (rng.choice(["to first", "to last"]), rng.choice([*used, *subsets]))
    else:
        skip = (rng.choice(["past last row", "past last row", "to next row"]),)
    wanted = dict(BASE_MEASURES)
    for i in range(rng.randrange(0, 4)):
        wanted[f"x{i}"] = _random_measure(rng, used, tuple(subsets))
    return Clause(p, pattern.to_text(p, rng), defines, skip, mode, subsets, wanted)


def _random_measure(rng, used, subsets):
    over = rng.choice([None, *used, *subsets])
    column = ("col", rng.choice(["id", "v", "w"]))
    roll = rng.random()
    if roll < 0.25:
        inner = ("nav", rng.choice(["FIRST", "LAST"]), over, rng.choice([0, 0, 1, 2]), column)
    elif roll < 0.45:
        fn = rng.choice(["count", "sum", "min", "max", "avg"])
        argument = ("+", column, ("col", "v")) if rng.random() < 0.3 else column
        # DISTINCT over finished matches is Spark's own work and has its tests there.
        keep = [(">", ("col", "v"), ("lit", rng.randrange(3)))] if rng.random() < 0.2 else []
        inner = ("agg", fn, over, argument, False, *keep)
    elif roll < 0.55:
        inner = ("agg", "count", over, "*", False)
    elif roll < 0.61:
        return ("classifier", over)
    elif roll < 0.66:
        # a label behind the current row is known: the match is complete
        label = ("classifier", None)
        inner = ("nav", rng.choice(["FIRST", "LAST"]), over, rng.choice([0, 0, 1]), label)
        return (rng.choice(["prev", "next", "next"]), rng.choice([1, 1, 2]), rng.choice([label, inner, ("running", inner), ("final", inner)]))
    elif roll < 0.72:
        inner = ("nav", rng.choice(["FIRST", "LAST"]), over, rng.choice([0, 1]), ("classifier", None))
    elif roll < 0.86:
        inner = ("nav", rng.choice(["FIRST", "LAST"]), over, rng.choice([0, 1]), column)
        if rng.random() < 0.3:
            inner = (rng.choice(["running", "final"]), inner)
        return (rng.choice(["prev", "next"]), rng.choice([0, 1, 1, 2]), inner)
    else:
        return (rng.choice(["+", "-"]), column, ("col", "v"))
    return rng.choice([inner, ("running", inner), ("final", inner)])
