"""Copies of variables for approximate matches (LANGUAGE section 5; ACEP, VLDB 2016, sections 2 and 3.1).

A condition that names a missing variable counts as true, but only the finished match shows which variables are missing. So each run
guesses at its start. A :class:`Guess` is a set of missing variables. For each guess, every other variable has a copy without the
conjuncts that name missing variables. A run does not complete if its guess turns out wrong.

Under STRICT CONTIGUITY further copies take substitute rows, which fill a variable's position without satisfying its condition. One
more copy takes extra rows. To the engine a copy is a variable. ``compiler/net/skip_net`` builds the net over the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from sparkcep.compiler.pattern.epsilon import too_complex
from sparkcep.plan.facts import variables_in
from sparkcep.plan.limits import MAX_VARIABLES
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, Approx, Condition, Leaf, Pair
from sparkcep.plan.split.conditions import looks_at_match

MATCHED, SUBSTITUTED, EXTRA = range(3)
KINDS = ("MATCHED", "SUBSTITUTED", "EXTRA")
MAX_GUESSES = 256
NO_COPY = -1


@dataclass(frozen=True)
class Guess:
    """Which tracked variables a run assumes to be missing, and the copies that it uses.

    The masks say nothing about the remaining tracked variables, except that they are not missing.

    Attributes:
        missing: mask of the variables with missing positions and no row.
        absent: mask of the variables with neither missing positions nor rows.
        present: mask of the variables with at least one row.
        copies: for each variable, the copy with its condition.
        substitutes: for each variable, the copies that take rows in its place.
    """

    missing: int
    absent: int
    present: int
    copies: tuple[int, ...]
    substitutes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Copies:
    """The copies of all variables.

    Attributes:
        original: for each copy its variable, -1 for extra rows.
        kinds: for each copy MATCHED, SUBSTITUTED or EXTRA.
        guesses: all guesses.
        tracked: mask of the variables that guesses are about.
        complements: pairs (copy, copy whose row-local part it must not satisfy).
        extra: the copy that takes extra rows, NO_COPY if the bound allows none.
    """

    original: tuple[int, ...]
    kinds: tuple[int, ...]
    guesses: tuple[Guess, ...]
    tracked: int
    complements: tuple[tuple[int, int], ...]
    extra: int


def with_copies(plan: Plan) -> tuple[Plan, Copies]:
    """The plan with copies among its variables, and the description of the copies."""
    assert plan.approximate is not None
    return _Copier(plan, plan.approximate).run()


class _Copier:
    def __init__(self, plan: Plan, approx: Approx) -> None:
        self.plan = plan
        self.approx = approx
        self.strict = plan.adjacent
        self.conjuncts = dict(plan.conditions)
        self.names = {v: [_named(tree, v) for tree in trees] for v, trees in plan.conditions}
        self.taken = variables_in(plan.pattern, "var")
        count = len(plan.variables)
        self.original = list(range(count))
        self.kinds = [MATCHED] * count
        self.conditions: dict[int, tuple] = dict(self.conjuncts)
        self.letters = list(plan.letters)
        self.complements: list[tuple[int, int]] = []
        self._copies: dict[tuple[int, tuple[int, ...]], int] = {(v, ()): v for v in range(count)}
        self._substitutes: dict[int, tuple[int, ...]] = {}

    def run(self) -> tuple[Plan, Copies]:
        masks = {m for found in self.names.values() for named in found for m in named}
        single = reduce(or_, (m for m in masks if m.bit_count() == 1), 0) & self.taken
        grouped = reduce(or_, (m for m in masks if m.bit_count() > 1), 0) & self.taken
        guesses = tuple(self._guess(*states) for states in self._states(single, grouped))
        extra = NO_COPY
        if self.strict and self.approx.extra <= self.approx.bound:
            extra = self._add(-1, EXTRA)
        copies = Copies(tuple(self.original), tuple(self.kinds), guesses, single | grouped, tuple(self.complements), extra)
        return self._widened(copies), copies

    def _states(self, single: int, grouped: int) -> list[tuple[int, int, int]]:
        """The (missing, absent, present) masks that the bound allows, fewest missing variables first."""
        found = [(0, 0, 0)]
        for v in (v for v in range(len(self.plan.variables)) if (single | grouped) >> v & 1):
            found = [way for masks in found for way in self._with(v, grouped, masks)]
            if len(found) > MAX_GUESSES:  # each partial choice extends to at least one complete guess
                raise too_complex(
                    "conditions name too many other variables: these can be missing in more than "
                    f"{MAX_GUESSES} combinations. Allow fewer errors or name fewer variables"
                )
        # Fewest missing variables first: that is the preferred way among ways of equal cost.
        return sorted(found, key=lambda masks: masks[0].bit_count())

    def _with(self, variable: int, grouped: int, masks: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
        """Extends the masks by one variable: yields each of its states that the bound allows."""
        missing, absent, present = masks
        own = 1 << variable
        if sum(self.approx.missing[v] for v in range(variable + 1) if (missing | own) >> v & 1) <= self.approx.bound:
            yield missing | own, absent, present
        if grouped & own:
            yield missing, absent, present | own
            yield missing, absent | own, present
        else:
            yield masks

    def _guess(self, missing: int, absent: int, present: int) -> Guess:
        copies = tuple(self._copy(v, self._exempt(v, missing, missing | absent)) for v in range(len(self.plan.variables)))
        return Guess(missing, absent, present, copies, tuple(map(self._standing, copies)))

    def _exempt(self, variable: int, missing: int, rowless: int) -> tuple[int, ...]:
        """The numbers of the conjuncts of a variable's condition that name a missing variable or subset."""
        return tuple(
            i
            for i, named in enumerate(self.names.get(variable, ()))
            if any(m & missing and not m & self.taken & ~rowless for m in named)
        )

    def _copy(self, variable: int, exempt: tuple[int, ...]) -> int:
        if (variable, exempt) not in self._copies:
            copy = self._add(variable, MATCHED)
            self._copies[variable, exempt] = copy
            self._same_letters(variable, copy)
            kept = tuple(tree for i, tree in enumerate(self.conjuncts[variable]) if i not in exempt)
            if kept:
                self.conditions[copy] = kept
        return self._copies[variable, exempt]

    def _same_letters(self, variable: int, copy: int) -> None:
        self.letters += [letter._replace(variable=copy) for letter in self.plan.letters if letter.variable == variable]

    def _standing(self, copy: int) -> tuple[int, ...]:
        """The copies that take exactly the rows that ``copy`` does not take."""
        variable = self.original[copy]
        if not self.strict or self.approx.missing[variable] > self.approx.bound:
            return ()
        if copy not in self._substitutes:
            found = []
            trees = self.conditions.get(copy, ())
            local = tuple(t for t in trees if not looks_at_match(t))
            if local or any(letter.variable == copy for letter in self.letters):
                found.append(self._add(variable, SUBSTITUTED))
                self.complements.append((found[-1], copy))
            if history := tuple(t for t in trees if looks_at_match(t)):
                found.append(self._add(variable, SUBSTITUTED))
                self._same_letters(variable, found[-1])
                whole = history[0] if len(history) == 1 else ("call", "and", *history)
                self.conditions[found[-1]] = (*local, ("call", "not", ("call", "istrue", whole)))
            self._substitutes[copy] = tuple(found)
        return self._substitutes[copy]

    def _add(self, variable: int, kind: int) -> int:
        self.original.append(variable)
        self.kinds.append(kind)
        if len(self.original) > MAX_VARIABLES:
            raise too_complex(
                f"approximate matches of this pattern need more than {MAX_VARIABLES} variables and copies of them; use fewer "
                "variables, or conditions that name fewer others"
            )
        return len(self.original) - 1

    def _widened(self, copies: Copies) -> Plan:
        """The plan with the copies as variables. Every set of variables also contains the copies of its members."""
        of = [0] * len(self.plan.variables)
        for copy, variable in enumerate(copies.original):
            if variable >= 0:
                of[variable] |= 1 << copy

        def widen(mask: int) -> int:
            return mask if mask == ALL_ROWS else reduce(or_, (of[v] for v in range(len(of)) if mask >> v & 1), 0)

        names = tuple(self.plan.variables[v] if v >= 0 else "" for v in copies.original)
        return replace(
            self.plan,
            variables=names,
            letters=tuple(self.letters),
            conditions=tuple(Condition(c, tuple(_map_masks(t, widen) for t in trees)) for c, trees in sorted(self.conditions.items())),
            leaves=tuple(Leaf(name, _map_masks(spec, widen)) for name, spec in self.plan.leaves),
            places=tuple(place._replace(variable=c) for place in self.plan.places for c, v in enumerate(copies.original) if v == place.variable),
        )


def _map_masks(tree: tuple, change: Callable[[int], int]) -> tuple:
    """The tree, or the record of a leaf, with each set of variables changed."""
    if isinstance(tree, Pair):
        return tree._replace(rows=tuple(row._replace(mask=change(row.mask)) for row in tree.rows))
    if hasattr(tree, "mask"):
        tree = tree._replace(mask=change(tree.mask))
    parts = [_map_masks(part, change) if isinstance(part, tuple) else part for part in tree]
    return tree._make(parts) if hasattr(tree, "_make") else tuple(parts)


def _named(tree: tuple, variable: int) -> list[int]:
    """The sets of variables that a conjunct names, except sets with the variable itself, because that variable has a row."""
    found: list[int] = []

    def see(mask: int) -> int:
        if mask != ALL_ROWS and not mask >> variable & 1:
            found.append(mask)
        return mask

    _map_masks(tree, see)
    return found
