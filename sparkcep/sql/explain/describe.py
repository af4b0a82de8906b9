"""EXPLAIN of a clause: the search and why it was chosen, the program, and who computes what.

The rewriter adds this text to EXPLAIN statements, and ``explain`` and reports show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sparkcep.clause.automaton import ROW
from sparkcep.clause.printer import STRATEGIES
from sparkcep.clause.tree import NEXT_ROW, ONE_ROW
from sparkcep.compiler import searches as by
from sparkcep.compiler.net.net import E_NOT, E_VAR, Net
from sparkcep.compiler.strategy import MAX_RANKED, Strategy, knows_scores, strategy_of
from sparkcep.plan.extend.approx import ALL
from sparkcep.plan.extend.budget import HISTORY, HISTORY_COLUMN
from sparkcep.plan.extend.unfinished import CLOCK, clock_matters
from sparkcep.plan.facts import nullable
from sparkcep.plan.options import MICROS, NUMBER, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import (
    ALL_ROWS,
    LIKE,
    MEAN,
    SUM,
    TOTAL,
    WAY,
    Arc,
    At,
    Automaton,
    Budget,
    Classifier,
    Label,
    LeafSpec,
    Ranking,
    Register,
    RowAt,
    Unfinished,
    Value,
    has,
    letter_column,
    parameter_column,
    register_column,
    walk,
)
from sparkcep.plan.scope import APPROXIMATE, CHANGED, ENDINGS, LIFETIMES, SLIDING, STATUSES
from sparkcep.plan.split.conditions import ORDER, looks_at_match
from sparkcep.plan.split.fallible import spoken, unshielded
from sparkcep.settings import COUNTED
from sparkcep.sql.prefilter.second_read import UNFILTERED, Choice, candidate_text
from sparkcep.sql.prefilter.slices import WHOLE, Slicing
from sparkcep.sql.rewrite import window_aggregates


def describe(plan: Plan, filtering: Choice = UNFILTERED, slicing: Slicing = WHOLE) -> str:
    """Returns one clause's engine, program and split as lines of text.

    ``filtering``: the choice about a second read of its table. ``slicing``: the choice about time slices.
    """
    strategy = strategy_of(plan)
    cost = f"cost of the search: {strategy.cost}"
    if strategy.search == by.COMPUTATIONS:
        of = "" if plan.automaton is not None else f" made from the PATTERN under {STRATEGIES[plan.selection.strategy]}"
        lines = [f"engine: automaton{of}, every match; all computations in parallel, row by row", cost, *_arcs(strategy.plan, strategy.plan.automaton)]
    elif strategy.net is None:
        lines = [f"engine: {_exact(strategy)}", cost, *_additions(strategy), "program:", *_indented(strategy.program.dump())]
    else:
        searched = _approximate if plan.approximate else _conjunction if strategy.conjoined else _selection
        lines = [f"engine: {searched(plan, strategy)}", *_by_time(plan), cost, *_automaton(plan, strategy, strategy.net)]
        lines += [f"{name}: {text}" for name, text in window_texts(plan)]
    if plan.ranking:
        lines += _ranking(plan, plan.ranking, strategy)
    lines.append("computed by Spark, per row:")
    lines += [f"  {name} = {spoken(text)}" for name, text in plan.inputs if name not in (HISTORY_COLUMN, CLOCK)]
    lines += [f"  bit {bit} of __letters = {f'{plan.variables[v]}: ' if plan.automaton is None else ''}{unshielded(text)}" for v, bit, text in plan.letters]
    lines += [f"  {name} = {spoken(text).replace(ORDER, 'clause order')}" for name, text in plan.ordered_inputs]
    lines += [f"computed by Spark, once for all tasks: {name} = {text}" for name, text in plan.inputs if name == HISTORY_COLUMN]
    if plan.unfinished is not None:
        lines += _unfinished(plan, plan.unfinished)
    if plan.prefilter:
        lines.append("filtered by Spark before the exchange: rows that do not satisfy the condition of any variable")
    if filtering.note:
        lines.append(_filtered(plan, filtering))
    if slicing.note:
        lines.append(_sliced(plan, slicing))
    if plan.equal_keys:
        lines.append("additional partition keys, because all rows of a match must agree in them:")
        lines += [f"  {dict(plan.inputs)[name]} ({name}): {'; '.join(tests)}" for name, tests in plan.equal_keys]
    neighbours, history = [], []
    for variable, conjuncts in plan.conditions:
        for tree in conjuncts:
            target = history if looks_at_match(tree) else neighbours
            target.append(f"  {plan.variables[variable]}: {show(tree, plan.variables)}")
    if neighbours:
        lines += ["computed over whole arrays (physical neighbours only):", *neighbours]
    if history and strategy.search == by.COMPUTATIONS:
        lines += ["kept in registers (reads the match so far):", *history]
    elif history:
        lines += ["computed in the matching kernel (reads the match so far):", *history]
    conditioned = {part.variable for part in (*plan.letters, *plan.conditions)}
    free = [name for i, name in enumerate(plan.variables) if i not in conditioned]
    if free and plan.automaton is None:
        lines.append(f"true for every row (no condition): {', '.join(free)}")
    lines.append("returned by the engine:")
    lines += [f"  {name} = {_show_leaf(spec, plan.variables)}" for name, spec in plan.leaves]
    if plan.outputs:
        lines.append("computed by Spark, per output row:")
        lines += [f"  {name} = {text}" for name, text in (*plan.over_arrays, *plan.arrays, *plan.aggregates, *plan.outputs)]
    lines += _growth(plan)
    return "\n".join(lines)


_AS_LONG = re.compile(r"\b(array_agg|collect_list|collect_set|listagg|string_agg)\(|^(array_distinct|transform|filter)\(", re.IGNORECASE)


def _placed(plan: Plan, names: Iterable[str]) -> str:
    """Lists columns. A leaf that has a position is shown by its text and position."""
    places = {place.name: f"{place.text} (line {place.line}, column {place.column})" for place in plan.leaf_places}
    return ", ".join(places.get(name, name) for name in names)


def _unfinished(plan: Plan, shown: Unfinished) -> list[str]:
    """Describes the unfinished matches that are reported, and the clock that ends their windows."""
    if nullable(plan.pattern):
        return ["never unfinished: the pattern may be empty"]
    found = ["unfinished: for each start row without a match the run that got farthest (deepest place, fewest rows still needed, most rows, preferment)"]
    if shown.report == "TIMEOUT":
        found.append("only those that timed out")
    if plan.skip.mode != NEXT_ROW:
        found.append("left out: start rows inside an unfinished match")
    if shown.clock:
        text = dict(plan.inputs)[shown.clock]
        latest = "min" if plan.order[0].descending else "max"
        if shown.dated:
            found.append(f"clock: AS OF {text}")
        elif clock_matters(plan):
            found.append(f"clock: {latest}({dict(plan.inputs)[shown.order]}) of the input, read a second time; AS OF would save it. Over a stream the watermark")
        else:
            found.append("clock: not read, because no measure says how or when an unfinished match ended. Over a stream the watermark")
    if not plan.prefilter:
        found.append("no row is left out before the exchange, because unfinished matches may need it")
    return found


def _growth(plan: Plan) -> list[str]:
    """Says how the cost of aggregates grows with the rows of a match that has several output rows."""
    if plan.rows == ONE_ROW:
        return []
    by_spark = {name: bool(_AS_LONG.search(text)) for name, text in (*plan.aggregates, *plan.over_arrays)}
    written = {place.name for place in plan.leaf_places}
    lists = [name for name, spec in plan.leaves if spec.kind == "agg" and spec.function == "list" and name in written]
    long = [name for name, is_long in by_spark.items() if is_long] + lists
    once = [name for name in by_spark if name not in long]
    lines = []
    if once:
        cost = "O(rows of the match) for each output row" if window_aggregates.searched(plan) else "each row of a match once"
        lines += ["cost of aggregates that Spark computes:", f"  {_placed(plan, once)}: {cost}"]
    if once and not window_aggregates.searched(plan):
        arrays = window_aggregates.refused(plan)
        slow = [name for name in window_aggregates.slow(plan) if not arrays]
        if arrays:
            lines.append(f"  without the JVM extension, O(rows of the match) for each output row of all of these, because of {_placed(plan, arrays)}: {window_aggregates.INSTEAD}")
        if slow:
            lines.append(f"  without the JVM extension, O(values so far) for each output row: {_placed(plan, slow)}; write percentile_approx, or FINAL")
    if long:
        lines.append("values as long as the rows that they are computed from, so O(rows of the match) for each output row:")
        lines.append(f"  {_placed(plan, long)}")
    return lines


def _filtered(plan: Plan, choice: Choice) -> str:
    """Says whether a second read of the table drops rows, and why."""
    if choice.filter is None:
        return f"partitions are not filtered: {choice.note}"
    what = "partitions without a row of" if choice.filter.near is None else "rows farther than WINDOW from every row of"
    return f"filtered by Spark before the exchange: {what} {candidate_text(plan, choice.filter)}; {choice.note}"


def _sliced(plan: Plan, slicing: Slicing) -> str:
    """Says whether partitions are cut into slices, and why."""
    if slicing.slices is None:
        return f"partitions are not cut into slices of {plan.order[0].name}: {slicing.note}"
    return f"{'partitions' if plan.keys else 'the input'} cut into slices of {plan.order[0].name}, {slicing.slices.words}; {slicing.note}"


NO_CLAUSE = "no MATCH_RECOGNIZE clause: the statement goes to Spark unchanged"
_IGNORE = {"STRICT": "never: rows of a match are adjacent", "NEXT": "the row satisfies none of {variables}", "ANY": "always"}


def _selection(plan: Plan, strategy: Strategy) -> str:
    """Describes the search under an event selection."""
    searched = f"depth-first in preference order; {_pruned(strategy)}"
    if strategy.search == by.NUMBERS:
        searched = "dynamic programming, because every condition is local to its row and its neighbours"
    elif strategy.search == by.FRONT:
        searched = "runs in parallel over a shared buffer; runs that need the same values of the match are merged"
    elif strategy.question in (by.COUNTED, by.GRAPH):
        searched = f"listed one by one, {searched}"
    elif strategy.search == by.PATHS:
        local = "every condition is local to its row or compares it with the row before, and the score is a sum over the rows"
        searched = f"k best paths over (node, row), because {local}"
    elif strategy.search == by.SEQUENCES:
        searched = _joined(strategy)
    elif strategy.search == by.STREAMS:
        searched = _streamed(plan)
    elif strategy.ranks:
        searched = "depth-first, under a bound of the score: a run that cannot reach the best found so far is dropped"
    return f"event selection {STRATEGIES[plan.selection.strategy]}, {_asked(plan, strategy)}; {searched}"


def _joined(strategy: Strategy) -> str:
    """Describes the join of the rows of single variables."""
    score = "a sum over the rows" if strategy.plan.ranking.terms else "monotone in one number of each"
    orders = f" in {len(strategy.orders)} orders of the variables" if len(strategy.orders) > 1 else ""
    equal = " or compares it for equality with another's" if strategy.far else ""
    return f"rank join of the rows of each variable under a bound{orders}, because every condition is local to its row{equal} and the score is {score}"


def _streamed(plan: Plan) -> str:
    """Describes the join of named sequences."""
    names = ", ".join(f"({_set_text(mask, plan.variables)})" for mask in plan.ranking.sequences)
    paths = "each the best matches of one, found as paths over (node, row); if that cannot find them, all are listed"
    return f"rank join of the sequences {names}, {paths}; their order and the conditions across them are tested when they are joined"


def _not_cheaper(plan: Plan, ranking: Ranking, strategy: Strategy) -> list[str]:
    """Says of named sequences why no cheaper search answers."""
    lines, every = [], plan.selection == ("ANY", "ALL")
    if not every:
        return ["  no cheaper search: these rank all matches of SKIP TILL ANY MATCH"]
    if strategy.search != by.PATHS:
        conjoined = "the pattern has a conjunction &" if has(plan.pattern, "and") else ""
        score = "" if ranking.terms else "the score is not one sum over the rows of every match"
        lines.append(f"  not as k best paths: {conjoined or score or 'conditions compare more than neighbouring rows, or a group has a window'}")
    if strategy.search not in (by.PATHS, by.SEQUENCES, by.STREAMS, by.SIDES):
        score = "" if ranking.by_sequences else "the score is not monotone in one sum over each sequence, or a sequence is optional"
        lines.append(f"  not as a join of sequences: {score or 'the pattern has other parts, or conditions are not equalities and bands'}")
    return lines


_BESIDE = "the sides of & in parallel, depth-first"
_FINALLY = "conditions across &, and negations, are evaluated on the finished match"


def _conjunction(plan: Plan, strategy: Strategy) -> str:
    """Describes the search for a pattern with a conjunction."""
    searched = "listed one by one, " if strategy.question in (by.COUNTED, by.GRAPH) else ""
    if strategy.search == by.SIDES:
        paths = "the best matches of the sides, each found as paths over (node, row); if that cannot find them, all are listed"
        searched = f"rank join of {paths}: "
    if strategy.search == by.SEQUENCES:
        searched = f"{_joined(strategy)}; if that cannot find them, all are listed: "
    if strategy.search == by.STREAMS:
        searched = f"{_streamed(plan)}: "
    asked = f"conjunction, event selection {STRATEGIES[plan.selection.strategy]}, {_asked(plan, strategy)}"
    bound = ", under a bound of the score" if strategy.ranks and strategy.search == by.CONJUNCTION else ""
    return f"{asked}; {searched}{_BESIDE}{bound}; {_FINALLY}"


def _approximate(plan: Plan, strategy: Strategy) -> str:
    """Describes the search for approximate matches."""
    approx = plan.approximate
    if strategy.search == by.PROXIES:
        how = "in one pass with one run for each node, because every condition is local to its row and its neighbours"
    elif strategy.search == by.CLASSES:
        kept = [f"the values of the match that {_names(strategy)} still need"] if strategy.looking else ["the groups' windows still open"] * (len(plan.windows) > 1)
        counted = ["another that counts the matches of each run without listing them"] * plan.sizing
        how = f"in one pass with one run for each node and {', and '.join(kept + counted)}"
    elif strategy.search == by.BUDGETED:
        how = f"row by row, all runs in parallel; {_tried(plan)}"
    elif strategy.conjoined:
        listed = "" if strategy.question == by.EVERY else f"from all matches{' and counted' * plan.sizing}, "
        how = f"{listed}{_BESIDE}, where each side may lack variables and their costs add up; {_FINALLY}"
    elif strategy.question == by.EVERY:
        how = "depth-first, one by one"
    else:
        looked_up = "because a negation or a label is looked up among the rows taken"
        because = looked_up if not plan.sizing else f"and counted, because {strategy.reasons[0].text}"
        how = f"from all matches, which are searched depth-first, {because}"
    bound = f"cost at most {approx.errors(approx.bound)}"
    return f"approximate, {STRATEGIES[plan.selection.strategy]}, {bound}, {_asked(plan, strategy)}; {how}"


def _tried(plan: Plan) -> str:
    """Says which candidates of a row are tried."""
    approx = plan.approximate
    assert approx is not None
    budget, history = approx.budget, approx.history
    if budget is None:
        return "all candidates of a row are tried"
    runs = "each run is a candidate" if history is not None and history.runs == "ALL" or approx.report == ALL else "the best of indistinguishable runs is a candidate"
    tie = "least cost, latest start, latest place, earliest rows"
    sketch = f" through a sketch {'of ' * (len(budget.sketch) == 1)}{' x '.join(map(str, budget.sketch))}{' cells' * (len(budget.sketch) == 1)}" if budget.sketch else ""
    if not budget.history:
        return f"{_limit(budget)}, in the order of {tie} ({runs})"
    first = f"first those that cover most bundles of the history{sketch}, then in the order of {tie}"
    if not budget.published:
        what = f"match points for each visit, in the history{sketch} and in the partition so far"
        first = f"for each place and cost the one of highest utility ({what}), in the order of utility, then the others in the order of {tie}"
    agents = "; agents look for vectors that the history does not contain: they get the checks that candidates do not need, and one in eight of the others" if budget.explore else ""
    refill = ""
    if budget.refill is not None:
        refill = f"; each partition replaces the history by its own once {budget.refill or 'as many'} bundles {'' if budget.refill else 'as the history has '}are closed"
    return f"{_limit(budget)}, {first} ({runs}){agents}{refill}"


def _limit(budget: Budget) -> str:
    """Says how many candidates are tried, and whether a second run tries the same ones."""
    pace = budget.pace
    if pace is None:
        return f"{budget.checks} candidates of a row are tried"
    what = {"ROW": "a matching row on average", "PARTITION": "all rows of a partition", "BATCH": "all rows of a task's micro-batch"}[pace.per]
    return f"as many candidates are tried as fit {_nanos(pace.nanos)} of search for {what} (reading, sorting and output are not in it)"


def _nanos(nanos: int) -> str:
    """A length of time as a whole number of the largest unit that divides it."""
    size, unit = next((size, unit) for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns")) if nanos % size == 0)
    return f"{nanos // size:,} {unit}"


def _by_time(plan: Plan) -> list[str]:
    """The line about the clock of BUDGET INTERVAL."""
    pace = plan.approximate.budget.pace if plan.approximate is not None and plan.approximate.budget is not None else None
    if pace is None:
        return []
    if pace.clock == COUNTED:
        return [f"BUDGET by time, counted clock ({pace.row} ns a row, {pace.check} ns a check): repeatable"]
    return [f"BUDGET by time, {pace.clock} clock: not repeatable (COMPLETE() rows are)"]


def _places(plan: Plan, net: Net) -> list[str]:
    """Lists the positions of a pattern that run features refer to."""
    variables = {}
    for e, place in enumerate(net.places.tolist() if net.places is not None and net.ways is not None else []):
        if place:
            variables[place] = plan.variables[net.copies.original[net.edges[e, E_VAR]]]
    if not variables:
        return []
    lines = ["places of the pattern: " + ", ".join(f"{place} {variable}" for place, variable in sorted(variables.items()))]
    approx = plan.approximate
    if approx is not None and approx.history is not None and approx.report == HISTORY:
        lines.append(f"recorded: visits, match points and bundles of each vector (place, errors, remaining, idle), in {approx.history.intervals} intervals of the window")
    return lines


def _automaton(plan: Plan, strategy: Strategy, net: Net) -> list[str]:
    """Describes the automaton of an event selection, with the costs of approximate matches and the negations."""
    approx, conditions, contiguity = plan.approximate, condition_texts(strategy.plan), plan.selection.strategy
    ignored = "" if strategy.conjoined else _IGNORE[contiguity]
    lines = ["automaton:", *_indented(net.dump(ignored, conditions, approx))]
    if approx is not None:
        costs = {f"missing {v}": approx.missing[i] for i, v in enumerate(plan.variables)}
        costs |= {"an extra row": approx.extra} if contiguity == "STRICT" else {}
        costs |= {f"a row of ~{v}": cost for v, cost in zip(plan.variables, approx.violation) if cost}
        copies = len(strategy.plan.variables)
        if copies > len(plan.variables):
            what = "for substitute rows, or without the conditions that name a missing variable"
            lines.insert(1, f"  {copies} variables with copies: {what}")
        found = ["costs: " + ", ".join(f"{name} {approx.errors(cost)}" for name, cost in costs.items()), *_places(plan, net)]
        return [*found, *lines, *_negated_groups(plan, strategy)]
    if not strategy.conjoined:
        negated = [v for v in range(len(plan.variables)) if (net.edges[:, E_NOT] >> v & 1).any()]
        lines += [f"  {plan.variables[v]} is negated: no row with {conditions[v] or 'anything'}" for v in negated if v not in dict(net.groups)]
    return lines + _negated_groups(plan, strategy)


def _negated_groups(plan: Plan, strategy: Strategy) -> list[str]:
    """Describes the rows of negated groups, and how their matches are found."""
    conditions, nets, lines = condition_texts(plan), dict(strategy.groups), []
    windowed = {group.variable for group in plan.without if has(group.pattern, "within")}
    for group in plan.without:
        inside = [v for v in range(len(plan.variables)) if (nets[group.variable].masks >> v & 1).any()]
        texts = ", ".join(f"{plan.variables[v]} with {conditions[v] or 'anything'}" for v in inside)
        looks = group.variable in windowed or set(inside) & set(strategy.looking)
        how = "evaluated on the finished match, starting at each row" if looks else "their ends are known for each row before the search"
        lines.append(f"  {group.text}: no match of rows {texts}; {how}")
    return lines


def _arcs(plan: Plan, automaton: Automaton) -> list[str]:
    """Describes registers, states, arcs and windows of an AUTOMATON."""
    texts = {letter.bit: unshielded(letter.text) for letter in plan.letters}
    named = {register_column(i): register.name for i, register in enumerate(automaton.registers)} | dict(plan.inputs)
    named |= {parameter_column(i): parameter.name for i, parameter in enumerate(automaton.parameters)}
    named |= {letter_column(bit): text for bit, text in texts.items()}

    def shown(tree: tuple) -> str:
        text = re.sub(rf"\b(?:{SUM}|{MEAN}) __c\d+", "that type", show(tree, plan.variables))  # the type that a sum is cast to
        return re.sub(r"__[a-z]\d+", lambda found: named.get(found[0], found[0]), text)

    lines = ["automaton:"]
    for register in automaton.registers:
        if register.type == WAY:
            lines.append("  matches differ by the rows that they took, and by the variables of these rows")
        else:
            lines.append(f"  register {register.name} {_register_type(register, named)} = {shown(register.initial)}")
    for number, state in enumerate(automaton.states):
        marks = [word for word, is_so in (("start", number == automaton.start), ("final", number in automaton.final)) if is_so]
        lines.append(f"  {state}{' (' + ', '.join(marks) + ')' if marks else ''}")
        for arc in automaton.arcs:
            if arc.source == number:
                lines.append("    " + arc_text(arc, automaton, plan.variables, texts, shown))
    return lines + [f"{name}: {text}" for name, text in window_texts(plan)] + _from_table(plan) + _changes(plan)


def _register_type(register: Register, named: dict[str, str]) -> str:
    """Returns a register's type, or the column that determines it."""
    words = {LIKE: "of the type of {}", SUM: "of the type of sum({})", MEAN: "of the sum of avg({})"}
    return words[register.type].format(named[register.like]) if register.like else register.type.upper()


def _from_table(plan: Plan) -> list[str]:
    """Describes the source of arcs with parameters."""
    arcs = plan.arcs
    if arcs is None:
        return []
    order = f"in the order of {', '.join(arcs.arrival)}, shared with the rows" if arcs.came else "before all rows"
    named = [arc.template for arc in plan.automaton.arcs if arc.template] + (["arcs as text"] if arcs.texts else [])
    return [f"arcs: {', '.join(named)} exist according to the rows of {arcs.table}, {order}"]


def _changes(plan: Plan) -> list[str]:
    """Describes inserted and deleted rows, and the report about them."""
    changes, texts = plan.changes, dict(plan.inputs)
    if changes is None:
        return []
    arrival = ", ".join(texts[column] for column in plan.arcs.came) if plan.arcs is not None and plan.arcs.came else changes.arrival
    order = f"in the order of {arrival}" if arrival else "as a multiset" if changes.report == "NET" else "in the order of the stream"
    lines = [f"changes: {texts[changes.column]} says whether a row is inserted or retracted, {order}; a retraction refers to a row with equal {changes.same}"]
    if changes.consecutive:
        lines.append(f"consecutive: a computation steps to a row whose {texts[changes.consecutive]} is one more")
    if changes.punctuate:
        lines.append(f"punctuate: a punctuation with a value of {texts[changes.punctuate]} applies to the rows with that value")
    if changes.report == "NET":
        return [*lines, "report: the matches of the rows that remain at the end"]
    held = {"ALL": "no row is held back", "NONE": "rows at or after the last punctuation are held back"}
    size = f"rows {changes.size.text} or more after the last punctuation are held back" if changes.size is not None else ""
    lines.append(f"report: how each change changes the matches; {size or held[changes.speculate]}")
    if plan.punctuates:
        least = "the lesser of the last punctuations of the rows and of the arcs" if plan.arcs is not None else "the last punctuation"
        lines.append(f"punctuations: an output row each time that {least} grows")
    return lines


def arc_text(arc: Arc, automaton: Automaton, names: tuple[str, ...], texts: dict[int, str], shown: Callable[[tuple], str]) -> str:
    """Describes an arc in one line: its event and conditions, its target, and the registers it sets."""
    takes = [f"on {arc.on}"] if arc.on != ROW else []
    conditions = [*([texts[arc.letter]] if arc.letter >= 0 else []), *map(shown, arc.fence)]
    if conditions or not takes:
        takes.append(" and ".join(conditions) or "any row")
    sets = [f"{automaton.registers[item.register].name} := {shown(item.tree)}" for item in arc.sets]
    emits = [f"{name} {shown(tree)}" for name, tree in zip(automaton.emits, arc.emits)]
    given = ", ".join(automaton.parameters[i].name for i in range(*arc.parameters))
    name = ("", *names)[arc.label] if automaton.by_ways else names[arc.label]
    label = f"{name}{f'({given})' if arc.template else ''}: " if name else ""
    behind = [*([f"set {', '.join(sets)}"] if sets else []), *([f"emit {', '.join(emits)}"] if emits else [])]
    return f"{label}{' '.join(takes)} -> {automaton.states[arc.target]}{'; ' if behind else ''}{'; '.join(behind)}"


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.splitlines()]


def _names(strategy: Strategy) -> str:
    """Returns the variables whose conditions look at the match."""
    return ", ".join(strategy.plan.variables[v] for v in strategy.looking)


def _asked(plan: Plan, strategy: Strategy) -> str:
    """Describes the question that the clause asks."""
    if strategy.question == by.BEST:
        assert plan.ranking is not None
        return f"the best {plan.ranking.top} matches"
    if plan.approximate is not None:
        return "every match at its least cost" if strategy.question == by.EVERY else strategy.question
    if strategy.question in (by.COUNTED, by.GRAPH):
        return "matches drawn as one graph by their last row" if strategy.question == by.GRAPH else "matches counted by their last row"
    return "of all matches the one that completes first, then the search resumes after it" if plan.non_overlapping else strategy.question


def _pruned(strategy: Strategy) -> str:
    """Describes the runs that a search over an automaton prunes."""
    if not strategy.looking and (strategy.search == by.CONJUNCTION or not strategy.automaton.negates):
        return "a run that cannot complete inside its window is never started, because every condition is local to its row and its neighbours"
    if strategy.forgets is not None:
        return f"failed runs are not remembered, because {strategy.forgets.text}"
    if not strategy.looking:
        return "failed runs are remembered"
    return f"failed runs are remembered with the values of the match that {_names(strategy)} still need"


def _additions(strategy: Strategy) -> list[str]:
    """Describes the cost of measures over matches that share their ends, if it exceeds the cost of the search."""
    leaves = strategy.plan.leaves if strategy.shares_ends else ()
    sums = [name for name, spec in leaves if spec.kind == "agg" and spec.function in ("sum", "avg")]
    arrays = [name for name, spec in leaves if spec.kind == "rows" or (spec.kind == "agg" and spec.function == "list")]
    lines = []
    if sums:
        cost = "up to one addition for each row of each match, in the order of the rows, and far fewer for values of one sign"
        lines.append(f"cost of {_placed(strategy.plan, sums)} over FLOAT or DOUBLE: {cost}; DECIMAL is linear in rows")
    if arrays:
        lines.append(f"cost of {_placed(strategy.plan, arrays)}: the elements of all arrays; under AFTER MATCH SKIP PAST LAST ROW each row is in one array at most")
    return lines


def _by_thresholds(strategy: Strategy) -> str:
    """Describes how rows are found for conditions that compare with the match's first row, or with a running extreme."""
    parts = [part for condition in strategy.plan.conditions for tree in condition.trees for part in walk(tree)]
    first = any(part[0] == "nav" and part.which == "F" and part.logical == 0 for part in parts)
    running = any(part[0] == "agg" and part.function in ("min", "max") for part in parts)
    if not first and not running:
        return ""
    return "; 64 rows are decided together if each condition on the match compares the row with the first row of the match, or with a running min or max"


def _exact(strategy: Strategy) -> str:
    searched, local = "exact, depth-first in preference order", "because every condition is local to its row and its neighbours"
    if not strategy.program.states:
        return f"{searched}; the pattern leaves no choice, so failed states need not be remembered"
    if strategy.forgets is not None:
        return f"{searched}; failed states are not remembered, because {strategy.forgets.text}"
    if strategy.looking:
        return f"{searched}; failed states are remembered with the values of the match that {_names(strategy)} still need, because their conditions read the match{_by_thresholds(strategy)}"
    if strategy.shares_ends:
        return f"{searched}; the future of each (state, row) is remembered, and matches share their ends: linear in rows, {local}"
    bound = "each match is returned with all its rows" if strategy.plan.skip.mode != "past_last" else f"linear in rows, {local}"
    if strategy.program.register_bits:
        return f"{searched}; failed states are remembered by (state, counters, row): {bound}"
    return f"{searched}; failed states are remembered in one bit per (state, row): {bound}"


def condition_texts(plan: Plan) -> tuple[str, ...]:
    """Returns the condition of each variable as text, over the columns of the engine's input."""
    texts = {v: [unshielded(text)] for v, _, text in plan.letters}
    for v, conjuncts in plan.conditions:
        texts.setdefault(v, []).extend(show(c, plan.variables) for c in conjuncts)
    return tuple(" AND ".join(texts.get(v, ())) for v in range(len(plan.variables)))


def _ranking(plan: Plan, ranking: Ranking, strategy: Strategy) -> list[str]:
    # The score tests that each objective is a number. The text leaves the test out.
    score = re.sub(r"IF\(typeof\((__g\d+)\).*?raise_error\(concat\('[^']*', typeof\(__g\d+\)\)\)\)", r"\1", ranking.score)
    lines = [f"score: {score}, with " + ", ".join(f"__g{i} = {text}" for i, text in enumerate(ranking.objectives))]
    if ranking.top:
        of = "all partitions together" if ranking.overall else "each partition" if plan.partition else "the input"
        windows = f" and window of {plan.windows[0].size} that slides by {plan.slide.step}" if plan.slide else ""
        if strategy.search == by.PATHS:
            how = "ranked without enumerating matches:" + (" Spark ranks" if ranking.overall or ranking.changes is not None else "")
        elif strategy.ranks and strategy.search in (by.WALK, by.CONJUNCTION):
            how = "ranked under a bound: rows are joined only to runs that may reach the best found so far; Spark ranks"
        elif strategy.ranks:
            how = "ranked by rank join: Spark ranks"
        else:
            how = f"ranked by enumeration, because {'; '.join(map(str, strategy.unranked))}: {_listed(ranking, strategy)}; Spark ranks"
        lines.append(f"{how} the best {ranking.top} of {of}{windows}")
        lines += _not_cheaper(plan, ranking, strategy) if ranking.sequences else []
        for moving in ranking.moving:
            lines.append(f"  {_set_text(moving.mask, plan.variables)}: rows in the last {moving.size} before an end that moves by {moving.step}")
        if ranking.order:
            first, second, *others = ranking.order
            # without PREF the second one is the time from the first row to the last, a long text
            lines.append(f"  order: {', '.join([first, second if ranking.place else 'shortest duration', *others])}")
        if ranking.changes is not None:
            lines.append("  returned are the changes of this list from each window that holds a row to the next one: Spark compares neighbouring windows of equal matches")
    return lines


def _listed(ranking: Ranking, strategy: Strategy) -> str:
    """Says which of the listed matches are kept."""
    if ranking.top <= MAX_RANKED and knows_scores(strategy):
        return "matches are listed except those whose score cannot reach the best found so far, and the best are kept"
    return "every match is listed, and those that may be among the best are kept"


def window_texts(plan: Plan) -> list[tuple[str, str]]:
    """Returns (name, meaning) of each window that bounds a match or a group."""
    found = []
    for i, window in enumerate(plan.windows):
        of = f" of {plan.order[0].name}" if plan.order else ""
        size = {ROWS: f"{window.size} rows", MICROS: f"{' '.join(window.text.split())}{of}", NUMBER: f"{window.size}{of}"}.get(window.kind)
        if size is not None:
            found.append((f"window {i}", f"less than {size} from its first to its last row"))
    return found


def _set_text(mask: int, variables: tuple[str, ...]) -> str:
    if mask == ALL_ROWS:
        return "*"
    return ",".join(v for i, v in enumerate(variables) if mask >> i & 1)


def _nav(row: At | Label | RowAt | Value | Classifier, value: str, variables: tuple[str, ...]) -> str:
    name = "FIRST" if row.which == "F" else "LAST"
    text = f"{name}({_set_text(row.mask, variables)}: {value}" + (f", {row.logical})" if row.logical else ")")
    if row.physical:
        text = f"{'PREV' if row.physical < 0 else 'NEXT'}({text}, {abs(row.physical)})"
    return text


def show(tree: tuple, variables: tuple[str, ...]) -> str:
    """Returns a condition tree in readable form."""
    match tree[0]:
        case "col":
            return tree.column
        case "off":
            return f"{'PREV' if tree.physical < 0 else 'NEXT'}({tree.column}, {abs(tree.physical)})"
        case "nav":
            return _nav(tree, tree.column, variables)
        case "cls":
            return _nav(tree, "CLASSIFIER", variables)
        case "mno":
            return "MATCH_NUMBER()"
        case "prior":
            return f"PRIOR({show(tree.tree, variables)})"
        case "isfirst":
            return f"first row of {_set_text(tree.mask, variables)}"
        case "pair":
            return f"{tree.column}[{', '.join(_nav(row, 'row', variables) for row in tree.rows)}]"
        case "checked":
            return show(tree.tree, variables)
        case "lit":
            return repr(tree.text) if tree.type == "string" else f"INTERVAL '{tree.text}' DAY" if tree.type == "days" else tree.text
        case "agg":
            return f"{tree.function}({_set_text(tree.mask, variables)}: {'DISTINCT ' if tree.distinct else ''}{tree.column or '*'}){_filter(tree.keep)}"
        case "by":
            return f"{tree.which}_by({_set_text(tree.mask, variables)}: {tree.column or 'CLASSIFIER'}, {tree.key}){_filter(tree.keep)}"
    name, args = "+" if tree[1] == TOTAL else tree[1], [show(t, variables) for t in tree[2:]]
    if len(args) == 2 and not name[0].isalpha():
        return f"({args[0]} {name} {args[1]})"
    if name in ("and", "or"):
        return "(" + f" {name.upper()} ".join(args) + ")"
    if name == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    return f"{name}({', '.join(args)})"


def _filter(keep: str | None) -> str:
    return f" FILTER ({keep})" if keep else ""


_OF_HISTORY = {
    "history_place": "place", "history_so_far": "errors so far", "history_remaining": "intervals that remain", "history_idle": "intervals since its last row",
    "history_visits": "visits", "history_points": "match points", "history_starts": "first match points of the bundles",
}
# the leaves that one text describes
_LEAVES = {
    "mno": "MATCH_NUMBER()", "next_start": "begin of the next window that holds a row", "next_end": "end of the next window that holds a row",
    "emitted": "whether an earlier micro-batch emitted the window", "pairs": "positions and variables of the match's rows", "vector": "positions of the match's rows",
    "rank": "rank of the match: by score, then earliest rows, then preference",
    **{kind: f"{name} of each vector of the partition" for kind, name in _OF_HISTORY.items()},
    **{leaf: f"{name}()" for name, leaf in (STATUSES | ENDINGS | APPROXIMATE | SLIDING | LIFETIMES | CHANGED).items()},
}  # fmt: skip


def _show_leaf(spec: LeafSpec, variables: tuple[str, ...]) -> str:
    kind = spec.kind
    if kind in _LEAVES:
        return _LEAVES[kind]
    if kind == "score":
        terms = " ".join(f"{'+' if term.sign > 0 else '-'} {_set_text(term.mask, variables)}: {term.column or 1}" for term in spec.terms)
        return f"floating sum in row order of {terms}" + (f", divided by {spec.parts}" if spec.parts > 1 else "")
    if kind in ("register", "emit"):
        return f"{'register' if kind == 'register' else 'EMIT column'} {spec.number + 1} at the end of the match"
    semantics = "FINAL " if spec.final else "RUNNING "
    if kind in ("nav", "cls"):
        return semantics + _nav(spec, spec.column if kind == "nav" else "CLASSIFIER", variables)
    if kind == "rows":
        return f"{semantics}rows of {_set_text(spec.mask, variables)}: {', '.join(spec.columns)}"
    return f"{semantics}{spec.function}({_set_text(spec.mask, variables)}: {spec.column or '*'}){_filter(spec.keep)}"
