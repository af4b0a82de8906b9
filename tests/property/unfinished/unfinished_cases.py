"""Random clauses with SHOW UNFINISHED MATCHES, their partitions, and the rows that the oracle expects.

    python -m tests.property.unfinished.unfinished_cases --cases 1000 --seed 1

counts matches and runs. ``--run tests.property.unfinished.unfinished_cases:by_laws`` compares the engine, and checks both laws of
the definition on each case. The
rows have the columns p (partition), t and id (order), v, w, s; id is the position.
"""

from __future__ import annotations

from dataclasses import replace

from tests.oracle import expr, measures, pattern, selection
from tests.oracle.cases import _ROWS_TEXT, BASE_MEASURES, _random_measure
from tests.oracle.match import SkipTargetError
from tests.oracle.selection import ANY, FIRST, NEXT, STRICT, Budget
from tests.oracle.unfinished import OWN_MEASURES, TIMEOUT, UNFINISHED, Unfinished
from tests.property.random_cases import Case, by_the_engine, comparable, main

LONGEST = 9  # rows of a partition, less one
PARTITIONS = 4
OWN = dict(zip(("st", "ended", "missing"), OWN_MEASURES, strict=True))
SHAPES = ("letters", "letters", "letters", "plain", "nested", "negation", "letters with negation", "group")


def rows_expected(query, rows, latest) -> list[dict]:
    return [values if at is None else {**values, "id": rows[at]["id"]} for at, values in query.output(rows, latest)]


def random_case(rng, partitions=PARTITIONS, **wanted) -> Case:
    """``wanted``: fields of the query that are to be as given."""
    query = random_query(rng, **wanted)
    case = Case(query, {p: random_partition(rng, query) for p in range(partitions)})
    answer(case)
    return case


def answer(case) -> None:
    """Fills in what the oracle expects. Partitions that are too large for it are left out."""
    # a partition left out changes the latest time of the input, so this begins again until all are answered
    while True:
        times = [row["t"] for rows in case.partitions.values() for row in rows if row["t"] is not None]
        latest = (min if case.query.descending else max)(times, default=None)
        case.expected, case.failing, large = {}, {}, []
        for p, rows in case.partitions.items():
            try:
                case.expected[p] = rows_expected(case.query, rows, latest)
            except Budget:
                large.append(p)
            except SkipTargetError:
                case.failing[p] = rows
        if not large and not (case.failing and case.expected):
            return
        gone = large or list(case.failing)
        case.partitions = {p: rows for p, rows in case.partitions.items() if p not in gone}


def by_laws(text, partitions) -> dict[int, list[dict]]:
    """The engine's output rows. Raises AssertionError if one of the laws does not hold for the clause."""
    found = by_the_engine(text, partitions)
    for law in (matches_alone, timeouts_alone):
        compared = law(text)
        if compared is not None:
            other, statuses, own = compared
            chosen = {p: [{name: value for name, value in row.items() if name in own or name not in OWN} for row in rows if row["st"] in statuses] for p, rows in found.items()}
            assert _filled(chosen) == _filled(_of_statuses(by_the_engine(other, partitions), statuses)), f"{law.__name__} differ"
    return found


def matches_alone(text) -> tuple[str, tuple, tuple] | None:
    """Law 1: (the clause without the option, the statuses of rows that both return, the measures that both have)."""
    lines = text.split("\n")
    return "\n".join(map(_without_option, lines)), ("MATCHED",), ()


def timeouts_alone(text) -> tuple[str, tuple, tuple] | None:
    """Law 2: as :func:`matches_alone`, for the clause with the other option. None without a window."""
    if "WINDOW" not in text and "WITHIN" not in text:
        return None
    other = text.replace("SHOW TIMEOUT", "SHOW UNFINISHED") if "SHOW TIMEOUT" in text else text.replace("SHOW UNFINISHED", "SHOW TIMEOUT")
    return other, ("MATCHED", "TIMED OUT"), tuple(OWN)


def _of_statuses(found, statuses) -> dict:
    return {p: [row for row in rows if row.get("st", statuses[0]) in statuses] for p, rows in found.items()}


def _filled(found) -> dict:
    return {p: comparable(rows) for p, rows in found.items() if rows}


def _without_option(line) -> str:
    if line.startswith("MEASURES"):
        kept = [part for part in line.removeprefix("MEASURES ").split(", ") if not part.startswith(tuple(OWN_MEASURES.values()))]
        return "MEASURES " + ", ".join(kept)
    if " PER MATCH" not in line:
        return line
    return line.split(" SHOW UNFINISHED")[0].split(" SHOW TIMEOUT")[0].replace("WITH UNMATCHED ROWS", "SHOW EMPTY MATCHES")


def random_partition(rng, query) -> list[dict]:
    """Rows in order: ties and gaps in t, now and then without a time at the beginning."""
    rows = expr.random_rows(rng, rng.randrange(LONGEST))
    at = rng.randrange(-2, 4)
    nulls = rng.choice([1, 1, 2]) if rng.random() < 0.06 and not query.descending else 0
    for i, row in enumerate(rows):
        row["t"] = None if i < nulls else at
        at += rng.choice([0, 1, 1, 1, 2, 3]) * (-1 if query.descending else 1)
        if rng.random() < 0.7:
            row["s"] = rng.choice("abcd")
    return rows


def random_query(rng, shapes=SHAPES, anchors=True, **wanted) -> Unfinished:
    while True:
        shape = rng.choice(shapes)
        strategy = wanted.get("strategy") or rng.choice([STRICT, STRICT, NEXT, NEXT, ANY])
        if strategy == STRICT and shape in ("negation", "letters with negation", "group"):
            continue
        mode = rng.choice([measures.ONE_ROW, measures.ONE_ROW, *_ROWS_TEXT])
        query = _letters(rng, shape, strategy) if shape.startswith("letters") else _any(rng, shape, strategy)
        if query is None:
            continue
        if anchors and shape in ("letters", "plain") and rng.random() < 0.1:
            parts = [query.pattern]
            parts = [("start",), *parts] if rng.random() < 0.5 else [*parts, ("end",)]
            query.pattern = ("cat", parts)
        if mode in (measures.SHOW_EMPTY, measures.OMIT_EMPTY) and rng.random() < 0.2:
            query.pattern = _hidden(rng, query.pattern)
        timed = bool(query.window and query.window[0] == "range") or _has_interval(query.pattern)
        bounded = timed or query.window or pattern.contains(query.pattern, ("within",))
        positive = [v for v in pattern.variables(query.pattern) if v not in "MNOK"]
        skip = None
        if positive and rng.random() < 0.15:
            skip = (rng.choice(["to first", "to last"]), rng.choice([*positive, *query.subsets]))
        elif rng.random() < 0.6:
            skip = (rng.choice(["past last row", "to next row", "to next row"]),)
        own = dict(BASE_MEASURES | OWN)
        for i in range(rng.choice([0, 0, 1, 2])):
            own[f"x{i}"] = _random_measure(rng, positive, tuple(query.subsets))
        return replace(
            query,
            pattern_text=pattern.to_text(query.pattern, rng),
            **{
                "skip": skip,
                "mode": mode,
                "measures": own,
                "show": TIMEOUT if bounded and rng.random() < 0.2 else UNFINISHED,
                "as_of": rng.randrange(-3, 20) if timed and rng.random() < 0.4 else None,
                "descending": rng.random() < 0.15,
            }
            | wanted,
        )


def _has_interval(p) -> bool:
    return (p[0] == "within" and not isinstance(p[2], pattern.Rows)) or any(map(_has_interval, pattern.children(p)))


def _window(rng, must):
    if not must and rng.random() < 0.4:
        return None
    return ("rows", rng.randrange(2, 7)) if rng.random() < 0.3 else ("range", rng.randrange(2, 11))


def _letters(rng, shape, strategy):
    """Steps of a funnel, each by a letter: most runs take some of them."""
    names = ["A", "B", "C", "D", "E"][: rng.choice([2, 3, 3, 4, 5])]

    def step(name):
        part = ("var", name)
        roll = rng.random()
        if roll < 0.1:
            part = ("alt", [part, ("cat", [("var", rng.choice(names)), ("var", rng.choice(names))])])
        elif roll < 0.2:
            part = ("cat", [part, ("var", rng.choice(names))])
        if rng.random() < 0.35:
            part = ("rep", part, *rng.choice([(0, None), (1, None), (1, None), (0, 1), (2, 2), (1, 2), (2, 3), (2, None)]), rng.random() < 0.75)
        return part

    parts = [step(name) for name in names]
    if rng.random() < 0.1:
        parts = [("permute", [("var", name) for name in names[:3]]), *parts[3:]]
    elif rng.random() < 0.15:
        parts = [("alt", [("cat", parts), ("cat", [step(rng.choice(names)) for _ in range(rng.choice([1, 2, 3]))])])]
    elif rng.random() < 0.12:
        parts = [("rep", ("cat", parts[:2]), *rng.choice([(1, None), (2, 2), (1, 2)]), rng.random() < 0.8), *parts[2:], ("var", rng.choice(names))]
    if rng.random() < 0.25:
        until = rng.randrange(1, len(parts) + 1)
        size = rng.randrange(1, 6)
        parts = [("within", ("cat", parts[:until]), pattern.Rows(size + 1) if rng.random() < 0.3 else size), *parts[until:]]
    defines = {name: ("=", ("col", "s"), ("lit", rng.choice("abcd"[: max(2, len(names))]))) for name in names if rng.random() < 0.9}
    for name in names:
        roll = rng.random()
        if roll < 0.12:
            defines[name] = ("or", defines.get(name, ("lit", True)), ("=", ("col", "v"), ("lit", rng.randrange(4))))
        elif roll < 0.25:
            looks = expr.random_condition(rng, name, names, rng.choice(["prev", "history"]), (), 0)
            defines[name] = ("and", defines[name], looks) if name in defines and rng.random() < 0.5 else looks
    if shape == "letters with negation":
        for name in rng.sample(["M", "N"], rng.choice([1, 1, 2])):
            parts.insert(rng.randrange(len(parts) + 1), ("neg", name))
            e = ("=", ("col", "s"), ("lit", rng.choice("abcd")))
            if rng.random() < 0.3:
                e = ("and", e, (rng.choice(["<", ">="]), ("col", "v"), ("nav", "LAST", rng.choice(names), 0, ("col", "v"))))
            defines[name] = e
    p = ("cat", parts) if len(parts) > 1 else parts[0]
    used = pattern.variables(p)
    window = _window(rng, "negation" in shape)
    return Unfinished(p, "", {name: e for name, e in defines.items() if name in used}, strategy, FIRST, window=window)


def _any(rng, shape, strategy):
    """Any pattern and conditions of the oracle of event selection; None: one with anchors."""
    found = selection.random_query(rng, strategy=strategy, report=FIRST, shapes=(shape,))
    if pattern.contains(found.pattern, ("start", "end")):
        return None
    return Unfinished(found.pattern, "", found.defines, strategy, FIRST, window=found.window, subsets=found.subsets)


def _hidden(rng, p):
    """The pattern with some of its parts in {- -}."""
    if p[0] in ("cat", "alt"):
        return (p[0], [_hidden(rng, child) for child in p[1]])
    return p if p[0] in ("neg", "start", "end") or rng.random() < 0.6 else ("excl", p)


if __name__ == "__main__":
    raise SystemExit(main(__doc__, random_case, lambda case: [row["st"] for rows in case.expected.values() for row in rows if row["st"]]))
