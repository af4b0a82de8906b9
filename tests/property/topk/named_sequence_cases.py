"""Random clauses with SEQUENCE, and with objectives of branches, their partitions, and the rows that the oracle expects.

    python -m tests.property.topk.named_sequence_cases --cases 1000 --seed 1

counts what the clauses have. ``--run MODULE:FUNCTION`` compares FUNCTION(text, partitions), see :mod:`tests.property.random_cases`.
The rows have the columns p (partition), t and id (order), v, w, s; the id at position i is 2 ** i, so a sum of ids names its rows.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle import measures, pattern
from tests.oracle.cases import BASE_MEASURES
from tests.oracle.named_sequences import (
    AVG,
    MAX,
    MIN,
    PRODUCT,
    SUM,
    Objective,
    Preference,
    Ranked,
    Sequence,
    expanded,
    home,
    homes,
    strict,
)
from tests.oracle.selection import ALL, ANY, FIRST, NEXT, STRICT, Budget
from tests.property.random_cases import Case, main

LONGEST = 9  # rows of a partition, less one
KEYS = (None, 0, 1)
BUDGET = 30_000  # steps of the oracle for one partition
NAMES = ("S1", "S2", "S3")
MERGES = (SUM, SUM, AVG, MIN, MAX, PRODUCT)
WEIGHTS = ("0.5", "2", "1.5", "3", "1")


def random_case(rng, **wanted) -> Case:
    """``wanted``: fields of the query that are to be as given."""
    return answered_case(rng, lambda: random_query(rng, **wanted), random_partition)


def answered_case(rng, draw: Callable, rows_of: Callable) -> Case:
    """A case with its answers. Cases that are too large for the oracle are left out, and most without a match.

    ``draw`` returns a query or None, and ``rows_of(rng, query)`` the rows of a partition.
    """
    while True:
        query = draw()
        if query is None:
            continue
        case = Case(query, {p: rows_of(rng, query) for p in KEYS})
        try:
            case.expected = query.answers(case.partitions)
        except Budget:
            continue
        if any(case.expected.values()) or rng.random() < 0.1:
            return case


def random_partition(rng, query) -> list[dict]:
    letters = "".join(v.lower() for v in pattern.variables(query.pattern))
    at, rows, nulls = rng.randrange(-3, 12), [], rng.random() < 0.3
    for i in range(rng.randrange(LONGEST)):
        v, w = (None if nulls and rng.random() < 0.2 else rng.randrange(-1, 6) for _ in range(2))
        timeless = i == 0 and not query.descending and rng.random() < 0.05
        rows.append({"id": 2**i, "t": None if timeless else at, "v": v, "w": w, "s": rng.choice(letters + "x")})
        at += rng.choice([0, 1, 1, 1, 2, 4]) * (-1 if query.descending else 1)
    return rows


def random_query(rng, **wanted) -> Ranked | None:
    """None: a clause that is refused."""
    strategy = wanted.get("strategy") or rng.choice([ANY] * 6 + [NEXT, STRICT])
    window = slide = None
    if rng.random() < 0.75:
        window = (rng.choice(["rows", "range", "range"]), rng.randrange(2, 11))
        slide = rng.randrange(1, window[1] + 1) if rng.random() < 0.7 else None
    top = rng.choice([1, 3, 10, 10]) if slide or rng.random() < 0.85 else None
    if rng.random() < 0.15:
        written, sequences = _branches(rng), ()
    else:
        written, sequences = _sequences(rng, strategy, window, slide)
    written = _bounded(rng, written, strategy, window)
    conjoined = pattern.contains(written, ("and",))
    if strategy == STRICT and conjoined:
        return None
    moved = any(s.update is not None for s in sequences)
    report = FIRST if not conjoined and not moved and rng.random() < 0.1 else ALL
    preference = _preference(rng, written, sequences)
    if preference is None and not any(s.objectives for s in sequences):
        return None
    variables = [v for v in pattern.variables(expanded(written, sequences)) if v != "N"]
    defines = {v: _condition(rng, v, variables) for v in variables}
    if pattern.contains(written, ("neg",)):
        defines["N"] = _condition(rng, "N", ["N", *variables])
    changes = bool(slide) and rng.random() < 0.2
    query = Ranked(
        written,
        pattern.to_text(written, rng),
        defines,
        strategy,
        report,
        None,
        window,
        measures.SHOW_EMPTY if not changes and rng.random() < 0.25 else measures.ONE_ROW,
        written=written,
        sequences=sequences,
        preference=preference,
        top=top,
        overall=top is not None and rng.random() < 0.25,
        slide=slide,
        changes=changes,
        descending=not changes and rng.random() < 0.15,
        budget=BUDGET,
    )
    query.measures = _measures(rng, query, variables)
    for name, value in wanted.items():
        setattr(query, name, value)
    return None if refused(query) else query


def refused(query) -> bool:
    """Does an objective need variables of two branches?"""
    whole = query.preference.objectives if query.preference and query.preference.objectives else ()
    if any(len(homes(strict(o.e), query.written, query.pattern, query.sequences)) > 1 for o in whole):
        return True
    return any(len(homes(strict(o.e), s.pattern, s.pattern, ())) > 1 for s in query.sequences for o in s.objectives)


# --- patterns -------------------------------------------------------------------------------------------------------


def _sequences(rng, strategy, window, slide):
    free = list("ABCDEF")
    count = rng.choice([1, 2, 2, 2, 2, 3])
    sequences = []
    for name in NAMES[:count]:
        p = _part(rng, [free.pop(0) for _ in range(rng.choice([1, 1, 2]))])
        within = rng.randrange(1, 9) if rng.random() < 0.5 else None
        update = None
        if within is not None and slide is not None and rng.random() < 0.6:
            # half of the steps are the SLIDE's or divide it
            dividing = [u for u in range(1, slide + 1) if slide % u == 0]
            update = rng.choice(dividing) if rng.random() < 0.5 else rng.randrange(1, 13)
        if within is not None and window is not None and window[0] == "rows" and (update or rng.random() < 0.5):
            within, update = pattern.Rows(within), update and pattern.Rows(update)
        sequences.append(Sequence(name, p, within, update, *_pref(rng, p)))
    names = [("var", s.name) for s in sequences]
    rng.shuffle(names)
    return _grouped(rng, _written(rng, names, strategy), window), tuple(sequences)


def _grouped(rng, p, window):
    """The pattern, with windows around some of its groups."""
    if p[0] not in ("cat", "and", "alt"):
        return p
    p = (p[0], [_grouped(rng, part, window) for part in p[1]])
    if rng.random() >= 0.2:
        return p
    of_rows = window is not None and window[0] == "rows" and rng.random() < 0.5
    return ("within", p, pattern.Rows(rng.randrange(2, 9)) if of_rows else rng.randrange(1, 9))


def _bounded(rng, p, strategy, window):
    """The pattern, perhaps with a negation between two parts or with an anchor. At an end a negation needs a window."""
    roll = rng.random()
    if p[0] == "cat" and roll < 0.12 and strategy != STRICT and (window or not pattern.contains(p, ("rep",))):
        parts = list(p[1])
        parts.insert(rng.randrange(1, len(parts)), ("neg", "N"))
        return ("cat", parts)
    if p[0] in ("cat", "var") and roll > 0.94:
        parts = list(p[1]) if p[0] == "cat" else [p]
        return ("cat", rng.choice([[("start",), *parts], [*parts, ("end",)]]))
    return p


def _part(rng, variables):
    """A pattern of a sequence: it takes a row at least."""
    parts = [("var", name) for name in variables]
    roll = rng.random()
    if len(parts) == 2 and roll < 0.15:
        return ("alt", parts)
    if roll < 0.35:
        parts[-1] = ("rep", parts[-1], *rng.choice([(1, None), (1, 2), (2, 2)]), rng.random() < 0.8)
    elif len(parts) == 2 and roll < 0.45:
        parts[1] = ("rep", parts[1], 0, 1, True)
    return parts[0] if len(parts) == 1 else ("cat", parts)


def _written(rng, names, strategy):
    roll = rng.random()
    optional = ("rep", names[-1], 0, 1, rng.random() < 0.7)
    if len(names) == 1:
        return names[0] if roll < 0.5 else ("alt", [names[0], ("var", "Z")]) if roll < 0.75 else ("cat", [names[0], ("var", "Z")])
    if len(names) == 2:
        if roll < 0.25:
            return ("cat", names)
        if roll < 0.6 and strategy != STRICT:
            return ("and", names)
        if roll < 0.75:
            return ("alt", names)
        if roll < 0.85:
            return ("cat", [names[0], optional])
        return ("cat", [names[0], ("var", "Z"), names[1]])
    first, second, third = names
    if roll < 0.3 and strategy != STRICT:
        return ("cat", [("and", [first, second]), third])
    if roll < 0.45 and strategy != STRICT:
        return ("and", [first, ("cat", [second, third])])
    if roll < 0.65:
        return ("cat", [first, ("alt", [second, third])])
    if roll < 0.8:
        return ("alt", [("cat", [first, second]), third])
    return ("cat", names) if roll < 0.9 else ("cat", [first, second, optional])


def _branches(rng):
    """Alternations without SEQUENCE."""
    a, b, c, d, e = (("var", name) for name in "ABCDE")
    p = rng.choice([("cat", [a, b]), a, ("cat", [a, ("rep", b, 0, 1, True)])])
    q = rng.choice([("cat", [c, d]), c, ("cat", [c, ("rep", d, 1, None, True)])])
    choice = ("alt", [p, q])
    return rng.choice([choice, choice, ("cat", [choice, e]), ("cat", [e, choice])])


def _condition(rng, name, variables):
    letter = ("=", ("col", "s"), ("lit", name.lower()))
    if rng.random() < 0.12:
        letter = ("or", letter, ("=", ("col", "s"), ("lit", rng.choice(variables).lower())))
    other = rng.choice(variables)
    roll = rng.random()
    if other == name or roll < 0.65:
        return letter
    theirs = ("nav", "LAST", other, 0, ("col", "w"))
    if roll < 0.8:
        near = ("and", (">=", ("col", "w"), ("-", theirs, ("lit", 1))), ("<=", ("col", "w"), ("+", theirs, ("lit", 1))))
        return ("and", letter, near if rng.random() < 0.4 else ("=", ("col", "w"), theirs))
    linked = (rng.choice(["<", "<=", ">", "<>"]), ("col", "v"), ("nav", "LAST", other, 0, ("col", "v")))
    # the other variable may be in another branch
    return ("and", letter, ("or", linked, ("is null", theirs)))


# --- preferences ----------------------------------------------------------------------------------------------------


def _own_terms(rng, p):
    """Values of the rows of a sequence."""
    variables = pattern.variables(p)
    v = ("col", rng.choice("vvw"))
    first, last = variables[0], variables[-1]
    many = [("agg", SUM.lower(), None, v, False), ("agg", rng.choice(["sum", "min", "max", "avg", "count"]), rng.choice([None, last]), v, False)]
    one = ("nav", rng.choice(["LAST", "LAST", "FIRST"]), rng.choice(variables), 0, v)
    took = ("-", ("nav", "LAST", last, 0, ("col", "t")), ("nav", "LAST", first, 0, ("col", "t")))
    return rng.choice([many[0], many[0], many[1], one, ("agg", "count", None, "*", False), ("+", one, ("nav", "LAST", last, 0, v)), took])


def _pref(rng, p):
    """(objectives, combine) of a sequence."""
    if rng.random() < 0.12:
        return (), SUM
    found = []
    for i in range(rng.choice([1, 1, 1, 2])):
        found.append(Objective(rng.choice([MAX, MAX, MAX, MIN]), _own_terms(rng, p), f"o{i}" if rng.random() < 0.8 else None))
    combine = rng.choice(MERGES) if len(found) > 1 else SUM
    return tuple(Objective(MAX, o.e, o.name) for o in found) if combine == PRODUCT else tuple(found), combine


def _preference(rng, written, sequences):
    """PREF of the whole, or None."""
    combine = rng.choice(MERGES)
    scored = [s.name for s in sequences if s.objectives]
    roll = rng.random()
    if scored and roll < 0.25:
        return None
    if scored and roll < 0.65:
        if any(o.goal == MIN for s in sequences for o in s.objectives):
            combine = rng.choice([merge for merge in MERGES if merge != PRODUCT])
        weights = ()
        if combine != PRODUCT and rng.random() < 0.35:
            weights = tuple((name, float(rng.choice(WEIGHTS))) for name in scored if rng.random() < 0.8)
        return Preference(None, weights, combine)
    terms = [("score", name) for name in scored]
    terms += [("nav", "LAST", s.name, 0, ("col", o.name)) for s in sequences for o in s.objectives if o.name]
    terms += [("nav", "FIRST", s.name, 0, ("col", "v")) for s in sequences] + [("agg", "sum", s.name, ("col", "v"), False) for s in sequences]
    terms += [("nav", "LAST", v, 0, ("col", rng.choice("vw"))) for v in pattern.variables(written) if not sequences and v != "N"]
    terms += [("agg", "count", None, "*", False), ("agg", "sum", None, ("col", "v"), False)]
    found = []
    for _ in range(rng.choice([1, 2, 2])):
        e = rng.choice(terms)
        if rng.random() < 0.4:
            e = (rng.choice("++-"), e, rng.choice(terms))
        found.append(Objective(MAX if combine == PRODUCT else rng.choice([MAX, MAX, MIN]), e))
    return Preference(tuple(found), (), combine)


def _measures(rng, query, used):
    own = {f"r_{v}": ("agg", "sum", v, ("col", "id"), False) for v in used} | {"score": ("match score",)}
    if not (query.changes and rng.random() < 0.5):
        own |= {"m_no": BASE_MEASURES["m_no"]} | ({"rank": ("match rank",)} if query.top else {})
    if query.slide is not None:
        own |= {"begins": ("window start",), "ends": ("window end",)}
    if query.changes:
        own["change"] = ("change",)
    for i, s in enumerate(query.sequences):
        terms = [("score", s.name)] * bool(s.objectives) + [("nav", "LAST", s.name, 0, ("col", o.name)) for o in s.objectives if o.name]
        terms += [("agg", "count", s.name, "*", False), ("nav", "FIRST", s.name, 0, ("col", "id")), ("nav", "LAST", s.name, 0, ("col", "v"))]
        own[f"x{i}"] = rng.choice(terms)
    return own


def kinds(case) -> list[str]:
    """The words under which a case is counted."""
    q = case.query
    found = ["SLIDE"] * bool(q.slide) + ["OVERALL"] * q.overall + ["REPORT CHANGES"] * q.changes + ["DESC"] * q.descending
    found += ["&"] * pattern.contains(q.written, ("and",)) + [f"TOP {q.top}", f"{len(q.sequences)} sequences"]
    for s in q.sequences:
        if s.update is not None:
            found.append("UPDATE that divides SLIDE" if q.slide % s.update == 0 else "UPDATE that does not")
    found += ["windows of groups"] * pattern.contains(q.written, ("within",))
    found += ["branches"] * any(home(name, q.written) for name in pattern.variables(q.written))
    combine = q.preference.combine if q.preference else "no PREF of the whole"
    return [*found, combine, *(["rows"] * sum(map(len, case.expected.values())))]


if __name__ == "__main__":
    raise SystemExit(main(__doc__, random_case, kinds))
