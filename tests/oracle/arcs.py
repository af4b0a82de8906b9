"""Arcs that come and go, by definition: after each row of ARCS FROM all arcs are made anew from all such rows.

A row is a dictionary with ``arc``, ``op``, ``valid_from``, ``valid_to``, ``at`` (its turn), the parameters, and ``p`` where it is
for one partition alone. Turns of rows and arcs differ. An arc as text has ``from_state``, ``to_state``, ``final``, ``when`` and
``set``, and the :class:`Arc` that these say (``of``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.oracle.automaton import Arc, Automaton

NEVER, ALWAYS = float("inf"), float("-inf")


class Refused(Exception):
    """The rows make no sense; its text is the class of the error."""


@dataclass(frozen=True)
class Arcs:
    """The rows of ARCS FROM for one partition, in their order. ``rows``: all rows of all partitions; ``explicit``: whether there is
    a valid_from; ``bag``: without ARRIVAL BY."""

    automaton: Automaton
    events: tuple[dict, ...]
    rows: tuple[dict, ...] = ()
    explicit: bool = True
    bag: bool = False

    def moment(self):
        return Moment(self)

    def at_the_end(self):
        """The automaton with the arcs that are left."""
        order = ("insert", "delete", "retract", "punctuate")
        moment = Moment(self)
        for event in sorted(self.events, key=lambda e: order.index((e["op"] or "insert").lower())) if self.bag else self.events:
            moment.take(event)
        return moment.automaton


class Moment:
    """What has come so far."""

    def __init__(self, arcs):
        self.arcs, self.taken, self.promised = arcs, [], None

    def take(self, event):
        self.taken.append(event)
        if (event["op"] or "").lower() == "punctuate":
            self.promised = event["valid_from"] if self.promised is None else max(self.promised, event["valid_from"])

    def effective(self, of_rows):
        """The punctuation that holds, None where there is none."""
        if not self.arcs.explicit:
            return of_rows
        return None if None in (of_rows, self.promised) else min(of_rows, self.promised)

    @property
    def automaton(self):
        automaton = self.arcs.automaton
        found = [(number, ALWAYS, (), arc) for number, arc in enumerate(automaton.arcs)]  # templates are never valid, but their EMIT has columns
        final = {event["to_state"].lower() for event in self.arcs.events if event.get("final") and (event["op"] or "").lower() != "punctuate"}
        for event, begin, end in self._standing():
            if event.get("from_state") is not None:
                found.append((len(automaton.arcs), begin, _text(event), replace(event["of"], begin=begin, end=end)))
                continue
            number, arc = next((n, a) for n, a in enumerate(automaton.arcs) if a.parameters is not None and a.name == event["arc"])
            values = tuple(event[name] for name in arc.parameters)
            own = replace(
                arc, parameters=None, begin=begin, end=end, when=arc.when and _given(arc.when, arc, event),
                sets=tuple((n, _given(e, arc, event)) for n, e in arc.sets), emits=tuple((n, _given(e, arc, event)) for n, e in arc.emits),
            )  # fmt: skip
            found.append((number, begin, tuple((v is not None, v or 0) for v in values), own))
        found.sort(key=lambda one: one[:3])
        return replace(automaton, arcs=tuple(arc for *_, arc in found), final=automaton.final | final)

    def _standing(self):
        """[row that brought it, begin, end] of all arcs that were not undone."""
        standing = []
        for event in self.taken:
            op = (event["op"] or "insert").lower()
            times = [row["id"] for row in self.arcs.rows if row["id"] is not None and row["at"] < event["at"]]
            behind = max(times) + 1 if times and not self.arcs.bag else ALWAYS
            if op == "insert":
                begin = behind if event.get("valid_from") is None else event["valid_from"]
                standing.append([event, begin, NEVER if event.get("valid_to") is None else event["valid_to"], False])
            elif op == "vanish":  # a row of a table that is read again and again is not there any more
                like = [one for one in standing if self._alike(one[0], event) and not one[3] and all(one[0].get(c) == event.get(c) for c in ("valid_from", "valid_to"))]
                if like:
                    like[-1][2], like[-1][3] = min(like[-1][2], behind), True
            elif op in ("delete", "retract"):
                like = [one for one in standing if self._alike(one[0], event)]
                like = [one for one in like if not one[3]] if op == "delete" else [one for one in like if all(one[0].get(c) == event.get(c) for c in ("valid_from", "valid_to"))]
                if not like:
                    raise Refused("ARC_CHANGE_WITHOUT_ARC")
                if op == "retract":
                    standing.remove(like[-1])
                else:
                    like[-1][2] = min(like[-1][2], behind if event.get("valid_to") is None else event["valid_to"])
                    like[-1][3] = True
        return [one[:3] for one in standing]

    def _alike(self, one, other):
        if one.get("from_state") is not None or other.get("from_state") is not None:
            return other.get("from_state") is not None and one.get("from_state") is not None and one.get("p") == other.get("p") and _text(one) == _text(other)
        arc = next(a for a in self.arcs.automaton.arcs if a.parameters is not None and a.name == other["arc"])
        return all(one.get(c) == other.get(c) for c in ("arc", "p", *arc.parameters))


def _text(event):
    """What an arc as text is known by."""
    names = [event[c] and event[c].lower() for c in ("arc", "from_state", "to_state")]
    return tuple((v is not None, v or "") for v in (*names, event["when"], event["set"]))


def _given(e, arc: Arc, event):
    """The expression with the values of the parameters."""
    if e[0] == "name" and e[1] in arc.parameters:
        return ("lit", event[e[1]])
    return (e[0], *(_given(part, arc, event) if isinstance(part, tuple) else part for part in e[1:]))


_TEXTS = ("from_state", "to_state", "when", "set")


def random_text(rng, automaton, condition, expression, to_sql):
    """An arc as text between states of the automaton, or states that it does not name. ``condition`` and ``expression`` make random
    ones over names."""
    seen = [*automaton.registers, "v", "w"]
    source, target = (rng.choice(("q0", "q0", "q1", "q2", "q3", "new")) for _ in range(2))
    when = condition(seen) if rng.random() < 0.8 else None
    sets = tuple((name, expression(seen)) for name in automaton.registers if rng.random() < 0.4)
    arc = Arc(source, target, rng.choice((None, "t1", "t2", "t2")), when=when, sets=sets)
    declared = {state for one in automaton.arcs for state in (one.source, one.target)} | automaton.final
    final = rng.choice((None, target in automaton.final)) if target in declared else rng.choice((None, target != "q3"))
    written = ", ".join(f"{name.upper() if rng.random() < 0.5 else name} = {to_sql(e)}" for name, e in sets) if sets else None
    return {
        "arc": arc.name and rng.choice((arc.name, arc.name.upper())), "from_state": rng.choice((source, source.upper())), "to_state": target, "final": final,
        "when": None if when is None else to_sql(when), "set": written, "of": arc,
    }  # fmt: skip


# -- random ones ------------------------------------------------------------------------------------------------------


def with_templates(rng, automaton, more):
    """The automaton, of which some arcs with names are templates; ``more(names)``: a random condition over names."""
    arcs, number = [], 0
    for arc in automaton.arcs:
        if arc.name is not None and rng.random() < 0.6:
            parameters = tuple(f"k{number + i}" for i in range(rng.choice((0, 1, 1, 2))))
            number += len(parameters)
            names = [*automaton.registers, *parameters, *(("v", "w") if arc.on == "row" else ())]
            condition = more(names) if names else None
            when = arc.when if condition is None else condition if arc.when is None or rng.random() < 0.5 else ("and", arc.when, condition)
            sets = tuple((name, ("least", ("lit", 5), ("coalesce", ("name", parameters[0]), e)) if parameters and rng.random() < 0.4 else e) for name, e in arc.sets)
            emits = tuple((name, ("name", parameters[0]) if parameters and rng.random() < 0.4 else e) for name, e in arc.emits)
            arc = replace(arc, parameters=parameters, when=when, sets=sets, emits=emits)
        arcs.append(arc)
    return replace(automaton, arcs=tuple(arcs))


def random_events(rng, automaton, turns, times, *, explicit=True, default=True, changes=True, promise=False, own=(), texts=None):
    """Rows of ARCS FROM that come at the ``turns``, with times among ``times``: with lifetimes of their own (``explicit``), in
    default mode, or both; also what ends and undoes arcs (``changes``), and punctuations that are kept (``promise``); ``own``:
    partitions that arcs may be of; ``texts``: makes arcs as text."""
    templates = [arc for arc in automaton.arcs if arc.parameters is not None]
    names = sorted({name for arc in templates for name in arc.parameters})
    events, there = [], []
    for at in sorted(turns) if templates or texts else ():
        kind = rng.random()
        if changes and there and kind < 0.35:
            event = rng.choice(there)
            like = [one for one in there if all(one.get(c) == event.get(c) for c in (*names, *_TEXTS, "arc", "p", "valid_from", "valid_to"))]
            if kind < 0.2 or not explicit:
                there.remove(like[-1])
                until = rng.choice(times) if explicit and (not default or rng.random() < 0.5) else None
                events.append(dict(event, op="delete", valid_to=until, at=at))
            else:
                events.append(dict(event, op=rng.choice(("retract", "Retract")), at=at))
                there.remove(like[-1])
            continue
        arc = rng.choice(templates) if templates and not (texts and rng.random() < 0.6) else None
        begin = None if default and (not explicit or rng.random() < 0.5) else rng.choice(times)
        end = None if rng.random() < 0.5 or not explicit else rng.choice(times) + rng.randrange(4)
        event = {"arc": arc and arc.name, "op": rng.choice(("insert", None)), "valid_from": begin, "valid_to": end, "at": at, "p": rng.choice((None, *own))}
        event |= {name: rng.choice((None, 0, 1, 2, 3)) if arc is not None and name in arc.parameters else None for name in names}
        event |= {} if texts is None else texts() if arc is None else dict.fromkeys((*_TEXTS, "final", "of"))
        if there and rng.random() < 0.35:  # a second one that is like it but for its times
            like = rng.choice(there)
            event = dict(like, at=at, valid_from=event["valid_from"], valid_to=event["valid_to"])
        events.append(event)
        there.append(event)
    if explicit and promise and events:
        for at in rng.sample(range(max(turns)), min(2, max(turns))):
            later = [event for event in events if event["at"] > at + 0.5]
            reach = [0 if event["valid_from"] is None else event["valid_from"] for event in later if (event["op"] or "insert").lower() != "delete"]
            reach += [event["valid_to"] for event in later if event["op"] == "delete" and event["valid_to"] is not None]
            events.append(dict.fromkeys((*names, *((*_TEXTS, "final", "of") if texts else ()), "arc", "valid_to", "p")) | {"op": "punctuate", "valid_from": min([*reach, rng.choice(times)]), "at": at + 0.5})
        events.sort(key=lambda event: event["at"])
    if not explicit:
        events = [{name: value for name, value in event.items() if name not in ("valid_from", "valid_to")} for event in events]
    return events
