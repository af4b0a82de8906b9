"""What happens to a clause, in words: the rewritten statement, the program, who computes what, and why."""

from __future__ import annotations

import re

from sparkcep.plan.costs import ALL, BUNDLES, PROXY
from sparkcep.plan.define import ORDER, looks_at_match, reads_labels
from sparkcep.plan.options import MICROS, NUMBER, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Approx, At, Classifier, Label, LeafSpec, Ranking, RowAt, Value, has
from sparkcep.plan.scope import APPROXIMATE, ENDINGS
from sparkcep.settings import DEFAULT, Settings
from sparkcep.sql.semijoin import UNFILTERED, Choice, candidate_text
from sparkcep.sql.slices import WHOLE, Slicing

NO_CLAUSE = "no MATCH_RECOGNIZE clause: the statement passes to Spark as it is"
TEXT, SVG, HTML = FORMATS = ("text", "svg", "html")


def explain(sql: str, format: str = TEXT, *, settings: Settings = DEFAULT) -> str:
    """The rewritten statement, and for each clause its program, its conditions and the engine chosen.

    ``format``: ``"text"``; ``"svg"``, a picture of each clause's automaton; ``"html"``, a page with all of it, in one file that loads
    nothing. No session needed. Raises ValueError for another format and for SVG of a statement without a clause, ClauseError as
    :func:`sparkcep.rewrite` does.
    """
    from sparkcep.sql.rewrite import rewrite_all

    if format not in FORMATS:
        raise ValueError(f"no format {format!r}; there are {', '.join(FORMATS)}")
    if format != TEXT:
        from sparkcep.draw import explained

        return (explained.as_svg if format == SVG else explained.as_html)([sql], settings)
    text, found = rewrite_all(sql, settings)
    if not found:
        return f"{NO_CLAUSE}\n"
    parts = ["== Rewritten statement ==", text, ""]
    for i, item in enumerate(found, 1):
        about = [item.choice] if item.choice else []
        parts += [f"== Clause {i} ==", *about, *([] if item.native else [describe(item.plan, item.filtering, item.slicing)]), ""]
    return "\n".join(parts)


def describe(plan: Plan, filtering: Choice = UNFILTERED, slicing: Slicing = WHOLE) -> str:
    """One clause's engine, program and split, as lines of text. ``filtering``: what was chosen of its table's second read; ``slicing``: of
    slices of time."""
    from sparkcep.automaton.compiler import compile_pattern

    if plan.approximate is not None:
        lines = _approximate(plan, plan.approximate)
    elif plan.selection:
        lines = _selection(plan)
    else:
        program = compile_pattern(plan.pattern, plan.variables)
        lines = [f"engine: {_engine(plan, program)}", "program:"]
        lines += ["  " + line for line in program.dump().splitlines()]
    if plan.ranking:
        lines += _ranking(plan, plan.ranking)
    lines.append("computed by Spark, per row:")
    lines += [f"  {name} = {text}" for name, text in plan.inputs]
    lines += [f"  bit {bit} of __letters = {plan.variables[v]}: {text}" for v, bit, text in plan.letters]
    lines += [f"  {name} = {text.replace(ORDER, 'clause order')}" for name, text in plan.ordered_inputs]
    if plan.prefilter:
        lines.append("filtered by Spark before the exchange: rows that fulfil no variable's condition")
    if filtering.told:
        lines.append(_filtered(plan, filtering))
    if slicing.told:
        lines.append(_sliced(plan, slicing))
    if plan.equal_keys:
        lines.append("further partition keys, because all rows of a match must agree in them:")
        lines += [f"  {dict(plan.inputs)[name]} ({name}): {'; '.join(tests)}" for name, tests in plan.equal_keys]
    neighbours, history = [], []
    for variable, conjuncts in plan.conditions:
        for tree in conjuncts:
            target = history if looks_at_match(tree) else neighbours
            target.append(f"  {plan.variables[variable]}: {show(tree, plan.variables)}")
    if neighbours:
        lines += ["computed over whole arrays (physical neighbours only):", *neighbours]
    if history:
        lines += ["computed in the matching kernel (looks at the match so far):", *history]
    conditioned = {v for v, *_ in plan.letters} | {v for v, _ in plan.conditions}
    free = [name for i, name in enumerate(plan.variables) if i not in conditioned]
    if free:
        lines.append(f"true for every row (no condition): {', '.join(free)}")
    lines.append("returned by the engine:")
    lines += [f"  {name} = {_show_leaf(spec, plan.variables)}" for name, spec in plan.leaves]
    if plan.outputs:
        lines.append("computed by Spark, per output row:")
        lines += [f"  {name} = {text}" for name, text in (*plan.arrays, *plan.aggregates, *plan.outputs)]
    return "\n".join(lines)


def _filtered(plan: Plan, choice: Choice) -> str:
    """Whether a second read of the table drops rows, and why."""
    if choice.filter is None:
        return f"partitions are not filtered: {choice.told}"
    what = "partitions without a row of" if choice.filter.near is None else "rows farther than WINDOW from every row of"
    return f"filtered by Spark before the exchange: {what} {candidate_text(plan, choice.filter)}; {choice.told}"


def _sliced(plan: Plan, slicing: Slicing) -> str:
    """Whether partitions are cut into slices, and why."""
    if slicing.slices is None:
        return f"partitions are not cut into slices of {plan.order[0].name}: {slicing.told}"
    return f"{'partitions' if plan.keys else 'the input'} cut into slices of {plan.order[0].name}, {slicing.slices.told}; {slicing.told}"


STRATEGIES = {"STRICT": "STRICT CONTIGUITY", "NEXT": "SKIP TILL NEXT MATCH", "ANY": "SKIP TILL ANY MATCH"}
_IGNORE = {
    "STRICT": "never: rows of a match are adjacent",
    "NEXT": "the row fulfils none of {variables}",
    "ANY": "always",
}


def _selection(plan: Plan) -> list[str]:
    """Engine, automaton and windows of a plan with an event selection."""
    from sparkcep.automaton.conjunction import conjunction_automaton, has_conjunction
    from sparkcep.automaton.selection import counts_by_numbers, matches_once, selection_automaton

    strategy, report = plan.selection
    names = STRATEGIES
    how = {"FIRST": "the preferred match of each start row", "ALL": "every match"}[report]
    if plan.non_overlapping:
        how = "of all matches the one that completes first, then onward behind it"
    history = [plan.variables[v] for v, cs in plan.conditions if any(looks_at_match(c) for c in cs)]
    forgotten = _looked_up(plan) or _why_negated(plan)
    pruned = (
        f"runs that failed are not remembered, because {forgotten}"
        if history and forgotten
        else f"runs that failed are remembered with the values of the match that {', '.join(history)} still need"
        if history
        else "a run that cannot complete inside its window is never begun, because every condition is local to its row and its neighbours"
    )
    conditions = condition_texts(plan)
    if plan.counting or plan.graphing:
        how = "matches drawn as one graph by their last row" if plan.graphing else "matches counted by their last row"
    if has_conjunction(plan.pattern):
        listed = "listed one by one, " if plan.counting or plan.graphing else ""
        if plan.ranking and joins_sides(plan, plan.ranking):
            how, listed = f"the best {plan.ranking.top} matches", (
                "rank join of the best matches of the sides, each found as paths over (node, row); where that cannot tell them, all are listed: "
            )
        lines = [
            f"engine: conjunction, event selection {names[strategy]}, {how}; {listed}the sides of & side by side, depth-first; conditions across &, "
            "and negations, are judged by the finished match",
            "automaton:",
        ]
        automaton = conjunction_automaton(plan)[1]
        return lines + ["  " + line for line in automaton.dump(conditions).splitlines()] + _windows(plan)
    automaton = selection_automaton(plan)[1]
    searched = f"depth-first in preference order; {pruned}"
    if plan.counting or plan.graphing:
        if not plan.graphing and counts_by_numbers(plan, automaton, bool(history)):
            searched = "dynamic programming, because every condition is local to its row and its neighbours"
        elif matches_once(automaton) and not _looked_up(plan):
            searched = "runs side by side over a shared buffer; runs that need the same values of the match are one"
        else:
            searched = f"listed one by one, {searched}"
    if plan.ranking and ranks_without_enumeration(plan, plan.ranking):
        how, searched = f"the best {plan.ranking.top} matches", (
            "k best paths over (node, row), because every condition is local to its row or compares it with the row before, and the score is a sum over the rows"
        )
    elif plan.ranking and joins_queues(plan, plan.ranking):
        how, searched = f"the best {plan.ranking.top} matches", (
            "rank join of the rows of each variable under a bound, because every condition is local to its row and the score is monotone in one number of each"
        )
    lines = [f"engine: event selection {names[strategy]}, {how}; {searched}", "automaton:"]
    lines += ["  " + line for line in automaton.dump(_IGNORE[strategy], conditions).splitlines()]
    for v, name in enumerate(plan.variables):
        if automaton.edges[:, 5].any() and any(int(e) >> v & 1 for e in automaton.edges[:, 5]):
            lines.append(f"  {name} is negated: no row with {conditions[v] or 'anything'}")
    return lines + _windows(plan)


def _approximate(plan: Plan, approx: Approx) -> list[str]:
    """Engine, costs, automaton and windows of a plan with APPROX."""
    from sparkcep.automaton.approximate import approximate_automaton, lists_all
    from sparkcep.automaton.guesses import with_copies

    copied, copies = with_copies(plan)
    history = [plan.variables[v] for v, cs in plan.conditions if any(looks_at_match(c) for c in cs)]
    listed = lists_all(plan, bool(history))
    _, automaton = approximate_automaton(copied, copies, merge=listed)
    what = {ALL: "every match at its least cost", PROXY: "the best match of each last row", BUNDLES: "the best match of each bundle of last rows"}
    if not listed:
        how = "in one pass with one run for each node, because every condition is local to its row and its neighbours"
    elif approx.report == ALL:
        how = "depth-first, one by one"
    elif automaton.selection.negates or _looked_up(plan):
        how = "out of all matches, which are gone through depth-first, because a negation or a label is looked up among the rows taken"
    else:
        needed = f"the values of the match that {', '.join(history)} still need" if history else "the groups' windows still open"
        how = f"in one pass with one run for each node and {needed}"
    costs = {f"missing {v}": approx.missing[i] for i, v in enumerate(plan.variables)}
    if plan.selection.strategy == "STRICT":
        costs["an extra row"] = approx.extra
    costs |= {f"a row of ~{v}": cost for v, cost in zip(plan.variables, approx.violation) if cost}
    lines = [
        f"engine: approximate, {STRATEGIES[plan.selection.strategy]}, cost at most {approx.errors(approx.bound)}, {what[approx.report]}; {how}",
        "costs: " + ", ".join(f"{name} {approx.errors(cost)}" for name, cost in costs.items()),
        "automaton:",
    ]
    texts = condition_texts(copied)
    if len(copied.variables) > len(plan.variables):
        lines.append(f"  {len(copied.variables)} variables with copies: for rows that stand for one, and without the conditions that name a missing one")
    return lines + ["  " + line for line in automaton.dump(_IGNORE[plan.selection.strategy], texts, approx).splitlines()] + _windows(plan)


def condition_texts(plan: Plan) -> tuple[str, ...]:
    """The condition of each variable as text, over the columns of the engine's input."""
    texts = {v: [text] for v, _, text in plan.letters}
    for v, conjuncts in plan.conditions:
        texts.setdefault(v, []).extend(show(c, plan.variables) for c in conjuncts)
    return tuple(" AND ".join(texts.get(v, ())) for v in range(len(plan.variables)))


def _ranking(plan: Plan, ranking: Ranking) -> list[str]:
    # an objective is tested to be a number: nothing to read
    score = re.sub(r"IF\(typeof\((__g\d+)\).*?raise_error\(concat\('[^']*', typeof\(__g\d+\)\)\)\)", r"\1", ranking.score)
    lines = [f"score: {score}, with " + ", ".join(f"__g{i} = {text}" for i, text in enumerate(ranking.objectives))]
    if ranking.top:
        of = "all partitions together" if ranking.overall else "each partition" if plan.partition else "the input"
        windows = f" and window of {plan.windows[0].size} that slides by {plan.slide.step}" if plan.slide else ""
        if ranks_without_enumeration(plan, ranking):
            how = "ranked without enumerating matches:" + (" Spark tells the rank of" if ranking.overall else "")
        elif joins_queues(plan, ranking) or joins_sides(plan, ranking):
            how = "ranked by rank join: Spark tells the rank of"
        else:
            how = "ranked by enumeration: every match is listed, Spark keeps"
        lines.append(f"{how} the best {ranking.top} of {of}{windows}")
        if ranking.order:
            lines.append(f"  order: {', '.join(ranking.order)}")
    return lines


def ranks_without_enumeration(plan: Plan, ranking: Ranking) -> bool:
    """As the engine decides (engines.ranked), by the plan."""
    from sparkcep.automaton.links import links_of
    from sparkcep.automaton.selection import ranks_paths, selection_automaton

    if plan.approximate is not None or plan.selection != ("ANY", "ALL") or not ranking.terms:
        return False
    automaton = selection_automaton(plan)[1]
    return ranks_paths(plan, ranking.top, automaton) and links_of(plan, automaton) is not None


def joins_queues(plan: Plan, ranking: Ranking) -> bool:
    """As the engine decides (engines.joined), by the plan."""
    from sparkcep.automaton.selection import chain_of, selection_automaton

    if plan.approximate is not None or not ranking.monotone or any(looks_at_match(c) for _, cs in plan.conditions for c in cs):
        return False
    return len(chain_of(plan, ranking.top, selection_automaton(plan)[1])) > 0


def joins_sides(plan: Plan, ranking: Ranking) -> bool:
    """As the engine decides (engines.conjoined), by the plan."""
    from sparkcep.automaton.selection import side_automata

    return ranking.by_sides is not None and len(side_automata(plan, ranking.top + 1)) > 0


def window_texts(plan: Plan) -> list[tuple[str, str]]:
    """(name, what it means) of each window that bounds a match or a group."""
    found = []
    for i, window in enumerate(plan.windows):
        unit = {ROWS: "rows", MICROS: "microseconds", NUMBER: f"of {plan.order[0].name}" if plan.order else ""}.get(window.kind)
        if unit is not None:
            found.append((f"window {i}", f"less than {window.size} {unit} from its first to its last row"))
    return found


def _windows(plan: Plan) -> list[str]:
    return [f"{name}: {text}" for name, text in window_texts(plan)]


def _looked_up(plan: Plan, numbers: bool = True) -> str:
    """What a condition looks up beyond the values that a run carries, as the engines decide; "" for nothing. ``numbers``: MATCH_NUMBER(), too."""
    adjacent = plan.adjacent
    for v, conjuncts in plan.conditions:
        if any(reads_labels(c, adjacent) for c in conjuncts):
            return f"{plan.variables[v]} looks up labels or distinct values among the rows of the match"
        if numbers and any(has(c, "mno") for c in conjuncts):
            return f"{plan.variables[v]} reads MATCH_NUMBER()"
    return ""


def _why_negated(plan: Plan) -> str:
    return "a negation looks at rows that the run did not take" if has(plan.pattern, "not") else ""


def _engine(plan: Plan, program) -> str:
    history = [plan.variables[v] for v, cs in plan.conditions if any(looks_at_match(c) for c in cs)]
    if not program.states:
        return "exact, depth-first in preference order; the pattern leaves no choice, so that no failed states need be remembered"
    if forgotten := _looked_up(plan, numbers=False):
        return f"exact, depth-first in preference order; failed states are not remembered, because {forgotten}"
    if history:
        return (
            f"exact, depth-first in preference order; failed states are remembered with the values of the match that "
            f"{', '.join(history)} still need, because their conditions look at the match"
        )
    if program.register_bits:
        return (
            "exact, depth-first in preference order; failed states are remembered by (state, counters, row): linear in rows, "
            "because every condition is local to its row and its neighbours"
        )
    return (
        "exact, depth-first in preference order; failed states are remembered in one bit per (state, row): linear in rows, "
        "because every condition is local to its row and its neighbours"
    )


def _set_text(mask: int, variables: tuple[str, ...]) -> str:
    if mask == -1:
        return "*"
    return ",".join(v for i, v in enumerate(variables) if mask >> i & 1)


def _nav(row: At | Label | RowAt | Value | Classifier, value: str, variables: tuple[str, ...]) -> str:
    name = "FIRST" if row.which == "F" else "LAST"
    text = f"{name}({_set_text(row.mask, variables)}: {value}" + (f", {row.logical})" if row.logical else ")")
    if row.physical:
        text = f"{'PREV' if row.physical < 0 else 'NEXT'}({text}, {abs(row.physical)})"
    return text


def show(tree: tuple, variables: tuple[str, ...]) -> str:
    """A condition tree in readable form."""
    kind = tree[0]
    if kind == "col":
        return tree.column
    if kind == "off":
        return f"{'PREV' if tree.physical < 0 else 'NEXT'}({tree.column}, {abs(tree.physical)})"
    if kind == "nav":
        return _nav(tree, tree.column, variables)
    if kind == "cls":
        return _nav(tree, "CLASSIFIER", variables)
    if kind == "mno":
        return "MATCH_NUMBER()"
    if kind == "prior":
        return f"PRIOR({show(tree.tree, variables)})"
    if kind == "isfirst":
        return f"first row of {_set_text(tree.mask, variables)}"
    if kind == "pair":
        return f"{tree.column}[{', '.join(_nav(row, 'row', variables) for row in tree.rows)}]"
    if kind == "lit":
        return tree.text if tree.type != "string" else repr(tree.text)
    filtered = f" FILTER ({tree.keep})" if kind in ("agg", "by") and tree.keep else ""
    if kind == "agg":
        return f"{tree.function}({_set_text(tree.mask, variables)}: {'DISTINCT ' if tree.distinct else ''}{tree.column or '*'}){filtered}"
    if kind == "by":
        return f"{tree.which}_by({_set_text(tree.mask, variables)}: {tree.column or 'CLASSIFIER'}, {tree.key}){filtered}"
    name, args = tree[1], [show(t, variables) for t in tree[2:]]
    if len(args) == 2 and not name[0].isalpha():
        return f"({args[0]} {name} {args[1]})"
    if name in ("and", "or"):
        return "(" + f" {name.upper()} ".join(args) + ")"
    return f"{name}({', '.join(args)})"


def _show_leaf(spec: LeafSpec, variables: tuple[str, ...]) -> str:
    kind = spec.kind
    if kind == "mno":
        return "MATCH_NUMBER()"
    if kind in ("window_start", "window_end"):
        return f"{kind.upper()}()"
    if kind == "score":
        terms = " ".join(f"{'+' if term.sign > 0 else '-'} {_set_text(term.mask, variables)}: {term.column or 1}" for term in spec.terms)
        return f"floating sum in row order of {terms}" + (f", divided by {spec.parts}" if spec.parts > 1 else "")
    if kind == "rank":
        return "rank of the match: by score, then earliest rows, then preferment"
    if kind == "vector":
        return "positions of the match's rows"
    for name, leaf in (ENDINGS | APPROXIMATE).items():
        if kind == leaf:
            return f"{name}()"
    semantics = "FINAL " if spec.final else "RUNNING "
    if kind in ("nav", "cls"):
        return semantics + _nav(spec, spec.column if kind == "nav" else "CLASSIFIER", variables)
    if kind == "rows":
        return f"{semantics}rows of {_set_text(spec.mask, variables)}: {', '.join(spec.columns)}"
    filtered = f" FILTER ({spec.keep})" if spec.keep else ""
    return f"{semantics}{spec.function}({_set_text(spec.mask, variables)}: {spec.column or '*'}){filtered}"
