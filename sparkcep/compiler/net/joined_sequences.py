"""Named sequences as ranked streams that are joined: the automaton of each, their order, and the comparisons of their rows.

``compiler/strategy`` uses it to answer TOP k over sequences by a rank join (CPR, 2011, sections 3.3 and 3.4). The pattern must
consist of sequences, one after the other or beside each other (``&``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from sparkcep.compiler.net.conjunction import far_variables
from sparkcep.compiler.net.row_equalities import Compared, Links, comparison_in, conjuncts_of
from sparkcep.plan.facts import variables_in
from sparkcep.plan.plan import Plan
from sparkcep.plan.split.conditions import looks_at_match


class Across(NamedTuple):
    """A comparison of rows of two sequences.

    Attributes:
        sequence: the number of the sequence with the variable that has the condition.
        other: the number of the sequence whose row is read.
        compared: the comparison.
    """

    sequence: int
    other: int
    compared: Compared


class JoinedSequences(NamedTuple):
    """Sequences whose matches join if they come in order and agree.

    Attributes:
        plans: for each sequence, the plan of its matches alone.
        links: for each sequence, the comparisons between its own rows. The strategy sets them.
        before: (first, second) for each pair of sequences if the first must end before the second begins.
        across: the comparisons of rows of two sequences.
        written: the numbers of the sequences in the order of PATTERN.
    """

    plans: tuple[Plan, ...]
    links: tuple[Links, ...]
    before: tuple[tuple[int, int], ...]
    across: tuple[Across, ...]
    written: tuple[int, ...]


def joined_sequences(plan: Plan) -> JoinedSequences | None:
    """The sequences of a plan as streams, without ``links``.

    Returns None if the pattern has other parts, or other conditions across sequences.
    """
    assert plan.ranking is not None
    masks = plan.ranking.sequences
    parts: dict[int, tuple] = {}
    before: list[tuple[int, int]] = []
    if len(masks) < 2 or _placed(plan.pattern, masks, parts, before) is None or len(parts) < len(masks):
        return None
    home = {v: i for i, mask in enumerate(masks) for v in range(len(plan.variables)) if mask >> v & 1}
    beside, ordered = far_variables(plan.pattern, len(plan.variables)), set(before)
    across, own = [], []
    for condition in plan.conditions:
        kept = []
        for tree in condition.trees:
            if not looks_at_match(tree):
                kept.append(tree)
                continue
            for part in conjuncts_of(tree):
                found = comparison_in(part, condition.variable)
                if found is None:
                    return None
                others = {home[v] for v in range(len(plan.variables)) if found.mask >> v & 1}
                sequence = home[condition.variable]
                if others == {sequence}:
                    kept.append(part)
                    continue
                other = found.mask.bit_length() - 1
                if found.mask.bit_count() != 1 or not (beside[condition.variable] & found.mask or (home[other], sequence) in ordered):
                    return None
                across.append(Across(sequence, home[other], found))
        own.append(condition._replace(trees=tuple(kept)))
    plans = []
    for i, mask in enumerate(masks):
        conditions = tuple(condition for condition in own if mask >> condition.variable & 1 and condition.trees)
        plans.append(replace(plan, pattern=parts[i], conditions=conditions))
    return JoinedSequences(tuple(plans), (), tuple(before), tuple(across), tuple(parts))


def _placed(tree: tuple, masks: tuple[int, ...], parts: dict[int, tuple], before: list[tuple[int, int]]) -> list[int] | None:
    """The numbers of the sequences in a part of the pattern, None if the part has anything else.

    Adds the part of each sequence to ``parts``, and pairs of sequences in order to ``before``.
    """
    mask = variables_in(tree)
    if mask in masks:
        parts[masks.index(mask)] = tree
        return [masks.index(mask)]
    if tree[0] not in ("cat", "and"):
        return None
    found: list[int] = []
    for part in tree[1:]:
        inside = _placed(part, masks, parts, before)
        if inside is None:
            return None
        if tree[0] == "cat":
            before += [(first, second) for first in found for second in inside]
        found += inside
    return found
