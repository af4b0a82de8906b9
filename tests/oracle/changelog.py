"""Rows that come and go, and the changes of an automaton's matches, by definition: after each change all matches are computed anew.

A change is a row of the oracle of automata with ``op``, ``at`` (its turn) and ``n``. Nothing is remembered between two changes but
the rows that are there and the matches as they were.
"""

from __future__ import annotations

from collections import Counter

from tests.oracle import automaton as oracle

TURNS = ("insert", "retract", "punctuate")
EQUAL = ("id", "v", "w", "s", "n")


class Refused(Exception):
    """The changes make no sense; its text is the class of the error."""


def turns(changes):
    """The changes in the order in which they come."""
    return sorted(changes, key=lambda change: (change["at"], TURNS.index(kind(change))))


def kind(change):
    found = (change["op"] or "insert").lower()
    if found not in TURNS:
        raise Refused("CHANGE_VALUE")
    return found


def take_away(there, change):
    """Removes the last row that equals a retraction."""
    equal = [row for row in there if all(row[c] == change[c] for c in EQUAL)]
    if not equal:
        raise Refused("RETRACTION_WITHOUT_ROW")
    there.remove(equal[-1])


def in_order(rows):
    return sorted((row for row in rows if row["id"] is not None), key=lambda row: (row["id"], row["at"]))


def left(changes, bag=False, by=None):
    """The rows that are left at the end; of a ``bag`` insertions come first, and punctuations say nothing. ``by``: PUNCTUATE BY."""
    there, promised, of = [], None, {}
    for change in sorted(changes, key=lambda c: TURNS.index(kind(c))) if bag else turns(changes):
        what = kind(change)
        if what == "punctuate":
            if change["id"] is None:
                raise Refused("CHANGE_VALUE")
            if by is not None and change[by] is not None:
                of.setdefault(change[by], []).append(change["id"])
                continue
            promised = change["id"] if promised is None or bag else max(promised, change["id"])
            continue
        if not bag and promised is not None and change["id"] is not None and change["id"] < promised:
            raise Refused("LATE_ROW")
        if by is not None and change["id"] is not None and any(change["id"] < time for time in of.get(change[by], ())):
            raise Refused("LATE_ROW")
        if what == "insert":
            there.append(change)
        else:
            take_away(there, change)
    return in_order(there)


def by_count(match, rows):
    """What matches with the measure count(*) are compared by."""
    return (*match[:-1], len(rows))


def changelog(automaton, changes, ahead=None, key=by_count, arcs=None, find=oracle.matches, by=None, punctuations=False):
    """The changes of the matches as (change, ``at`` of its cause or None, match, ``at`` of its rows), a match as the oracle of
    automata has it. ``ahead``:
    SPECULATE, None for ALL; ``key``: by what a match and its rows are compared; ``arcs``: what comes and goes of
    :mod:`tests.oracle.arcs`; ``find``: what gives the matches of rows, each of which begins with the names of its first and last
    row; ``by``: PUNCTUATE BY. ``punctuations``: WITH PUNCTUATIONS, which are ("punctuate", ``at``, time, ())."""
    left(changes, by=by)  # whether they make sense
    out, there, held = [], [], []
    promised, due, before = None, float("-inf"), []  # due: when arcs ON EXPIRY are taken, which follows what a punctuation releases
    reached, seen = None, False  # the greatest effective punctuation, and whether a row has come
    of_rows, moment = None, arcs.moment() if arcs is not None else None

    def name(row):
        return row["id"], row["at"]

    def told(cause, end=False):
        nonlocal before
        rows = in_order(there)
        found = find(moment.automaton if arcs is not None else automaton, rows, None if end else due, name)
        after = [(match, tuple(row["at"] for row in rows if match[0] <= name(row) <= match[1])) for match in found]
        keys = [[key(*match) for match in some] for some in (before, after)]
        gone, come = Counter(keys[0]) - Counter(keys[1]), Counter(keys[1]) - Counter(keys[0])
        for what, of, some, wanted in (("retract", keys[0], before, gone), ("insert", keys[1], after, come)):
            for k, match in zip(of, some):
                if wanted[k]:
                    wanted[k] -= 1
                    out.append((what, cause, *match))
        before = after

    def release(cause, limit):
        for row in sorted(held, key=lambda row: (row["id"], row["at"])):
            if limit is None or row["id"] < limit:
                held.remove(row)
                there.append(row)
                told(cause)

    for change in sorted([*turns(changes), *(arcs.events if arcs is not None else [])], key=lambda one: one["at"]):
        if "arc" in change:
            moment.take(change)
            what = "arc"
            if (change["op"] or "").lower() != "punctuate":
                told(change["at"])
                continue
        else:
            what = kind(change)
        seen = seen or what in ("insert", "retract")
        if what == "punctuate" and by is not None and change[by] is not None:
            continue
        if what in ("punctuate", "arc"):
            if what == "punctuate":
                of_rows = change["id"] if of_rows is None else max(of_rows, change["id"])
            promised = of_rows if arcs is None else moment.effective(of_rows)
            if promised is None:
                continue
            if ahead is not None:
                release(change["at"], promised + ahead)
            due = promised
            told(change["at"])
            if reached is None or promised > reached:
                reached = promised
                if punctuations and seen:
                    out.append(("punctuate", change["at"], promised, ()))
        elif change["id"] is None:
            continue
        elif what == "insert":
            if ahead is not None and (promised is None or change["id"] >= promised + ahead):
                held.append(change)
            else:
                there.append(change)
                told(change["at"])
        else:
            both = [row for row in turns(changes) if row in there or row in held]
            last = [row for row in both if all(row[c] == change[c] for c in EQUAL)][-1]
            if last in held:
                held.remove(last)
            else:
                there.remove(last)
                told(change["at"])
    release(None, None)
    told(None, end=True)
    return out


# -- random ones ------------------------------------------------------------------------------------------------------


def random_changes(rng, count, late=0.3, by=None, retracts=0.25, equal=0.0):
    """Changes that make sense but for now and then one: rows that come out of order, are retracted, and come again, and
    punctuations, with ``by`` also of rows with one value of that column. ``equal``: how often a row equals one that is there."""
    changes, there, at, time, promised, of = [], [], 0, 0, -1, {}
    for _ in range(count):
        at += 1
        kind = rng.random()
        free = [row for row in there if row["id"] is not None and row["id"] >= promised]
        if by is not None and rng.random() < 0.35:
            value = rng.choice((0, 1, 1, 2))
            of[value] = max(of.get(value, -1), time - rng.randrange(3) if rng.random() < 0.6 else rng.randrange(time + 2))
            changes.append({"id": max(of[value], 0), "v": None, "w": None, "s": None, "n": None, "op": "punctuate", "at": at} | {by: value})
            continue
        free = [row for row in free if by is None or row["id"] >= of.get(row[by], -1)]
        if kind < retracts and free:
            row = rng.choice(free)
            same = [r for r in there if all(r[c] == row[c] for c in EQUAL)][-1]
            there.remove(same)
            changes.append(dict(row, op=rng.choice(("retract", "RETRACT")), at=at))
            continue
        if kind < 0.35:
            promised = max(promised, rng.randrange(time + 2) if rng.random() < 0.5 else promised)
            changes.append({"id": max(promised, 0), "v": None, "w": None, "s": None, "n": None, "op": "punctuate", "at": at})
            continue
        if rng.random() < late:
            when = max(rng.randrange(time + 1), promised)
        else:
            time += rng.choice((0, 1, 1, 2))
            when = max(time, promised)
        row = {"id": when, "v": rng.choice((None, 0, 1, 2, 3)), "w": rng.choice((None, 0, 1, 2)), "s": None, "n": rng.choice((when, when, None))}
        if rng.random() < 0.02:
            row["id"] = None
        if by is not None and row["id"] is not None:
            row["id"] = max(row["id"], of.get(row[by], -1))
        if equal and free and rng.random() < equal:
            row = rng.choice(free)
        change = dict(row, op=rng.choice(("insert", None, "Insert")), at=at)
        changes.append(change)
        there.append(change)
    return changes


def spoiled(rng, changes):
    """The changes with one that makes no sense."""
    kind = rng.choice(("CHANGE_VALUE", "RETRACTION_WITHOUT_ROW", "LATE_ROW"))
    at = max((c["at"] for c in changes), default=0) + 1
    row = {"id": 1, "v": 9, "w": None, "s": None, "n": None, "op": {"CHANGE_VALUE": "delete", "LATE_ROW": "insert"}.get(kind, "retract"), "at": at + 1}
    promise = {"id": 5, "v": None, "w": None, "s": None, "n": None, "op": "punctuate", "at": at}
    return [*changes, *([promise] if kind == "LATE_ROW" else []), row], kind
