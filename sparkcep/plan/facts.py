"""Facts about a row pattern that follow from its tree (:mod:`sparkcep.plan.records`). Planner and compiler share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import chain, count, permutations
from math import factorial
from operator import or_
from typing import NamedTuple

from sparkcep.clause import nodes
from sparkcep.clause.tokens import Span
from sparkcep.plan.records import ALL_ROWS, Repeat, Within, Without, has, walk

MANY = 2  # a number of occurrences: more than one

_GROUPS = {nodes.Concat: "cat", nodes.Alternate: "alt", nodes.Conjunct: "and", nodes.Permute: "permute"}
_ANCHORS = {nodes.Empty: "empty", nodes.Start: "start", nodes.End: "end"}


def tree_of(pattern: nodes.Node) -> tuple[tuple[str, ...], tuple]:
    """The names of a pattern's variables, in order of first occurrence, and the pattern's tree."""
    names, whole, _ = trees_of(pattern)
    return names, whole


def trees_of(pattern: nodes.Node, text: str = "") -> tuple[tuple[str, ...], tuple, tuple[Without, ...]]:
    """Like :func:`tree_of`, and also the groups that the pattern negates. ``text``: the clause's text."""
    ids: dict[str, int] = {}
    names: list[str] = []
    groups: list[Without] = []
    windows = count(1)

    def negated(node: nodes.Node, span: Span) -> tuple:
        found = tree(node)
        first = next((part for part in walk(found) if part[0] in ("var", "not")), None)
        if first is None:
            return ("empty",)  # check_options rejects it
        if not isinstance(node, nodes.Var):
            groups.append(Without(first[1], found, " ".join(span.of(text).split())))
        return ("not", first[1])

    def tree(node: nodes.Node) -> tuple:
        match node:
            case nodes.Var(name):
                if ids.setdefault(name.lower(), len(names)) == len(names):
                    names.append(name)
                return ("var", ids[name.lower()])
            case nodes.Not(item):
                return negated(item, node.span)
            case nodes.Within(item):
                number = next(windows)
                return Within("within", tree(item), number)
            case nodes.Exclude(item):
                return ("exclude", tree(item))
            case nodes.Repeat(item, low, high, greedy):
                return Repeat("repeat", tree(item), low, high, greedy)
        if type(node) in _ANCHORS:
            return (_ANCHORS[type(node)],)
        return (_GROUPS[type(node)], *map(tree, node.items))

    whole = tree(pattern)
    return tuple(names), whole, tuple(groups)


def unbounded(pattern: tuple) -> tuple[tuple, tuple[int, ...]]:
    """A pattern without the windows that bound it as a whole, and those windows."""
    windows = []
    while isinstance(pattern, Within):
        windows.append(pattern.window)
        pattern = pattern.item
    return pattern, tuple(windows)


def shown(pattern: tuple) -> tuple:
    """A pattern without its exclusions. They hide rows of a match and change nothing else."""
    if isinstance(pattern, Repeat | Within):
        return pattern._replace(item=shown(pattern.item))
    if pattern[0] == "exclude":
        return shown(pattern[1])
    return (pattern[0], *(shown(part) if isinstance(part, tuple) else part for part in pattern[1:]))


def written_out(pattern: tuple, most: int = 1 << 20, *, copies: bool = True) -> tuple:
    """Expands a pattern so that each variable occurs once for each position: bounded quantifiers as copies, PERMUTE as all orders.

    Args:
        pattern: the pattern.
        most: a pattern that would need more parts stays as it is. It is too complex anyway.
        copies: whether quantifiers are expanded, too.
    """
    if isinstance(pattern, Within):
        return pattern._replace(item=written_out(pattern.item, copies=copies))
    if isinstance(pattern, Repeat):
        item, low, high, greedy = written_out(pattern.item, copies=copies), pattern.low, pattern.high, pattern.greedy
        if not copies:
            return pattern._replace(item=item)
        size = sum(1 for _ in walk(item))
        if size * max(low, high or 0) > most:
            return pattern
        if high is None:
            return item if low == 0 and item == ("empty",) else ("cat", *[item] * max(low - 1, 0), Repeat("repeat", item, min(low, 1), None, greedy))
        rest: tuple = ("empty",)
        for _ in range(high - low):
            rest = Repeat("repeat", ("cat", item, rest), 0, 1, greedy)
        return ("cat", *[item] * low, rest)
    parts = [written_out(part, copies=copies) if isinstance(part, tuple) else part for part in pattern[1:]]
    if pattern[0] == "permute" and factorial(len(parts)) * sum(1 for _ in walk(pattern)) <= most:
        return ("alt", *(("cat", *order) for order in permutations(parts)))
    return (pattern[0], *parts)


class Distance(NamedTuple):
    """How many rows lie from the last row of one variable to the last row of another.

    ``only``: the first variable has only this row.
    """

    rows: int
    only: bool


class _Place(NamedTuple):
    """The position of a variable's last row.

    Attributes:
        point: a point of the pattern.
        rows: number of rows from that point to the row.
        inside: the alternatives and iterations around it, outermost first.
        repeated: whether it is inside an alternative or an iteration.
    """

    point: int
    rows: int
    inside: tuple[int, ...]
    repeated: bool


def distances(pattern: tuple) -> dict[tuple[int, int], Distance]:
    """The distances that are equal in all matches, by (earlier variable, later variable).

    Rows of a match must be adjacent, and each of the two variables must occur once in the pattern. ALL_ROWS as the
    earlier variable is the first row of the match.
    """
    if has(pattern, "and", "not", "within"):
        return {}  # other rows may lie between the rows of such patterns
    numbers, places = count(1), {}
    seen = Counter(part[1] for part in walk(pattern) if part[0] == "var")

    def place(tree: tuple, point: int, rows: int, inside: tuple[int, ...]) -> tuple[int, int]:
        """The point and the number of rows after ``tree``."""
        kind = tree[0]
        if kind == "var":
            places[tree[1]] = _Place(point, rows, inside, bool(inside))
            return point, rows + 1
        if kind in ("cat", "exclude"):
            for part in tree[1:]:
                point, rows = place(part, point, rows, inside)
            return point, rows
        if kind == "repeat" and tree.low == tree.high == 1:
            return place(tree.item, point, rows, inside)
        if kind in ("empty", "start", "end"):
            return point, rows
        # A part of varying length starts a new point after it. Each iteration and each alternative begins at a point of its own.
        for part in [tree.item] if kind == "repeat" else tree[1:]:
            place(part, next(numbers), 0, (*inside, next(numbers)))
        after = next(numbers)
        if kind == "repeat" and tree.low > 0 and tree.item[0] == "var":
            places[tree.item[1]] = _Place(after, -1, inside, True)
        return after, 0

    place(pattern, 0, 0, ())
    known = {v: at for v, at in places.items() if seen[v] == 1}
    of_first = {(ALL_ROWS, later): Distance(at.rows, True) for later, at in known.items() if at.point == 0 and not at.repeated}
    return of_first | {
        (earlier, later): Distance(known[later].rows - at.rows, not at.repeated)
        for earlier, at in known.items()
        for later in known
        if known[later].point == at.point and known[later].rows > at.rows and known[later].inside[: len(at.inside)] == at.inside
    }


def least(pattern: tuple, weight: Callable[[int], int] = lambda variable: 1, beside: Callable = max) -> int:
    """The least number of rows of a match, or their least total weight.

    ``beside``: the weight of a conjunction, given those of its sides. By default the sides share their rows.
    """
    parts = [least(part, weight, beside) for part in pattern if isinstance(part, tuple)]
    match pattern[0]:
        case "var":
            return weight(pattern[1])
        case "alt":
            return min(parts)
        case "and":
            return beside(parts)
        case "not":
            return 0
        case "repeat":
            return sum(parts) * pattern.low
    return sum(parts)


def of_single_rows(pattern: tuple) -> bool:
    """Whether every match has exactly one row of each variable.

    Such a pattern has only sequences, conjunctions, exclusions and windows.
    """
    taken = [part[1] for part in walk(pattern) if part[0] == "var"]
    return len(set(taken)) == len(taken) > 0 and not has(pattern, "alt", "repeat", "permute", "not", "empty", "start", "end")


def nullable(pattern: tuple) -> bool:
    """Whether the pattern may match without any row."""
    return least(pattern) == 0


def anchored(pattern: tuple) -> bool:
    """Whether the pattern has ^ or $."""
    return has(pattern, "start", "end")


def variables_in(pattern: tuple, *kinds: str) -> int:
    """The mask of the variables in a pattern.

    ``kinds`` restricts it to variables that rows are mapped to (``var``) or to negated ones (``not``).
    """
    return reduce(or_, (1 << part[1] for part in walk(pattern) if part[0] in (kinds or ("var", "not"))), 0)


def negated_in(pattern: tuple, groups: tuple[Without, ...]) -> dict[int, int]:
    """For each negation in a pattern, the mask of its variables. The key is the variable, or the variable that represents the
    group.
    """
    found = {part[1]: 1 << part[1] for part in walk(pattern) if part[0] == "not"}
    return found | {group.variable: variables_in(group.pattern) for group in groups if group.variable in found}


def finished_in(pattern: tuple, groups: tuple[Without, ...]) -> int:
    """The mask of the variables whose conditions read the finished match: those under ``~``, and those in a side of ``&``."""
    sides = (variables_in(part) for part in walk(pattern) if part[0] == "and")
    return reduce(or_, chain(sides, negated_in(pattern, groups).values()), 0)


def first_variables(pattern: tuple) -> int:
    """The mask of the variables that can take the first row of a non-empty match."""
    if pattern[0] == "cat":
        mask = 0
        for part in pattern[1:]:
            mask |= first_variables(part)
            if not nullable(part):
                break
        return mask
    if pattern[0] == "var":
        return 1 << pattern[1]
    return reduce(or_, (first_variables(part) for part in pattern if isinstance(part, tuple)), 0)


def straight(pattern: tuple) -> bool:
    """Whether the pattern leaves no choice: rows from a given start can match it in one way only."""
    return all(
        part[0] in ("var", "not", "empty", "start", "end", "cat", "exclude", "within") or (part[0] == "repeat" and part.low == part.high)
        for part in walk(pattern)
    )


def leader(pattern: tuple) -> int:
    """The mask of the variable that takes the first row of every match, 0 if it varies."""
    if pattern[0] == "var":
        return 1 << pattern[1]
    leads = pattern[0] in ("cat", "exclude", "within") or (pattern[0] == "repeat" and pattern.low > 0)
    return leader(next(part for part in pattern if isinstance(part, tuple))) if leads else 0


def leads_with_negation(pattern: tuple) -> bool:
    """Whether a negation may come before the first row of the match."""
    if pattern[0] == "not":
        return True
    for part in pattern:
        if isinstance(part, tuple):
            if leads_with_negation(part):
                return True
            if pattern[0] == "cat" and not nullable(part):
                return False
    return False


def room(pattern: tuple, count: int) -> list[tuple[int, int]]:
    """For each of ``count`` variables, the least numbers of the match's rows before and after one of its rows.

    A row that the variable negates counts as a row here.
    """
    found: dict[int, tuple[int, int]] = {}

    def visit(tree: tuple, before: int, after: int) -> None:
        parts = [part for part in tree if isinstance(part, tuple)]
        if tree[0] in ("var", "not"):
            known = found.get(tree[1], (before, after))
            found[tree[1]] = (min(before, known[0]), min(after, known[1]))
        elif tree[0] == "cat":
            sizes = [least(part) for part in parts]
            for i, part in enumerate(parts):
                visit(part, before + sum(sizes[:i]), after + sum(sizes[i + 1 :]))
        else:
            # Other iterations do not count, because an iteration may be the first or the last one. Nor does anything around a
            # conjunction's side, because rows of the sides come in any order.
            around = (0, 0) if tree[0] == "and" else (before, after)
            for part in parts:
                visit(part, *around)

    visit(pattern, 0, 0)
    return [found.get(v, (0, 0)) for v in range(count)]


class Branch(NamedTuple):
    """A branch of an alternation.

    Attributes:
        alternation: number of the alternation.
        own: mask of the variables that occur in this branch only.
        inside: number of branches around it.
        alone: whether a match takes at most one branch of the alternation.
    """

    alternation: int
    own: int
    inside: int
    alone: bool


def branches(pattern: tuple) -> list[Branch]:
    """The branches of all alternations in a pattern."""
    everywhere = Counter(part[1] for part in walk(pattern) if part[0] in ("var", "not"))
    found: list[Branch] = []
    numbers = count()

    def visit(tree: tuple, inside: int, alone: bool) -> None:
        number = next(numbers)
        alone = alone and not (isinstance(tree, Repeat) and tree.high != 1)
        for part in tree:
            if not isinstance(part, tuple):
                continue
            if tree[0] == "alt":
                here = Counter(inner[1] for inner in walk(part) if inner[0] in ("var", "not"))
                own = sum(1 << variable for variable, times in here.items() if times == everywhere[variable])
                found.append(Branch(number, own, inside, alone))
            visit(part, inside + (tree[0] == "alt"), alone)

    visit(pattern, 0, True)
    return found


def straddles(pattern: tuple, mask: int) -> bool:
    """Whether several sides of a conjunction may take rows of these variables, so that one row may serve two of them."""
    conjunctions = (part for part in walk(pattern) if part[0] == "and")
    return any(sum(mask & variables_in(side, "var") != 0 for side in part[1:]) > 1 for part in conjunctions)


def occurrences(pattern: tuple) -> dict[int, tuple[int, int]]:
    """How many rows each variable has in a match, as (least, most). Numbers above MANY count as MANY."""
    parts = [occurrences(part) for part in pattern if isinstance(part, tuple)]
    names = {variable for part in parts for variable in part}
    of = {v: [part.get(v, (0, 0)) for part in parts] for v in names}
    if pattern[0] == "var":
        return {pattern[1]: (1, 1)}
    if pattern[0] == "alt":
        return {v: (min(low for low, _ in found), max(high for _, high in found)) for v, found in of.items()}
    low, high = (pattern.low, MANY if pattern.high is None else pattern.high) if pattern[0] == "repeat" else (1, 1)
    return {v: (min(MANY, low * sum(a for a, _ in found)), min(MANY, high * sum(b for _, b in found))) for v, found in of.items()}


def plain_sum(signs: Sequence[int]) -> tuple:
    """The tree that adds terms with these signs from left to right.

    With a negative first term it is the negative of the sum with all signs changed, like that of a MIN objective.
    """
    tree: tuple = ("leaf", 0)
    for i, sign in enumerate(signs[1:], 1):
        tree = ("+" if sign == signs[0] else "-", tree, ("leaf", i))
    return tree if signs[0] > 0 else ("neg", tree)
