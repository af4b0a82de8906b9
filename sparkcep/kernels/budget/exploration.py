"""Agents that explore a history under a budget (RC-ACEP, VLDB 2016, Algorithm 6): each follows one run.

The best-effort search (:mod:`sparkcep.kernels.budget.best_effort`) gives them their turns before the candidates of a row.
:mod:`sparkcep.kernels.budget.q_learning` has what they learn.
"""

from __future__ import annotations

import numpy as np

from sparkcep.compiler.net.net import E_AT_START, E_TARGET, E_VAR
from sparkcep.kernels.budget.candidates import is_stopped
from sparkcep.kernels.budget.features import code_of, feature_vector, when
from sparkcep.kernels.budget.layout import A_CLASS, A_EDGE, Q_AGENTS, Q_SAVED, V_VISITS
from sparkcep.kernels.budget.negation import blocked, distinguish, run_begin
from sparkcep.kernels.budget.q_learning import (
    G_ACTION,
    G_CLASS,
    G_STATE,
    MOST,
    O_END,
    O_FIRST,
    O_SKIP,
    S_END,
    S_FIRST,
    SHARE,
    chosen,
    learn,
    state_of,
)
from sparkcep.kernels.budget.save_runs import first_row
from sparkcep.kernels.budget.trial import take_candidate
from sparkcep.kernels.budget.utility import was_tried
from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.frontier.frontier import inside, new_class, timed
from sparkcep.kernels.frontier.payload import K_ENTRIES
from sparkcep.kernels.frontier.run_classes import give_back
from sparkcep.kernels.jit.cache import embedded, kernel


@embedded
def _agent_takes(place, e, start, last, part, row, low, high, proxies, arrays, state):
    """:func:`take_candidate` for an agent: counts one visit and one try."""
    vector = np.int64(NONE)
    utility_code = np.int64(NONE)
    if arrays.learned.wanted:
        code = code_of(e, start, last, row, arrays.clock.intervals, arrays.net, arrays.clock)
        vector = feature_vector(part, code, arrays.learned, state)
        arrays.learned.vectors[vector, V_VISITS] += 1
    if arrays.utilities.wanted:
        utility_code = code_of(e, start, last, row, arrays.utilities.intervals, arrays.net, arrays.clock)
        was_tried(utility_code, part, arrays.utilities)
    before = arrays.runs.run[place] if place != NONE else np.int64(NONE)
    return take_candidate(place, e, before, vector, utility_code, row, low, high, proxies, arrays, state)


@embedded
def _advances(i, place, e, row, agents, net, looking, negations, classes, runs, state):
    """Moves agent ``i`` to the position it has reached. Returns False if nothing follows that position; the agent is then over."""
    behind = agents.behind[e]
    if behind == NONE or net.masks[net.edges[e, E_TARGET]] == 0:
        return False
    c = new_class(place, e, row, net.edges, looking, classes, state)
    classes.until[c] = looking.windows[0, row] - 1 if place == NONE else classes.until[place]
    if negations.some:
        distinguish(c, run_begin(place, e, row, net.edges, classes, negations), net.edges[e, E_TARGET], row, classes, negations)
    runs.run[c] = state[K_ENTRIES] - 1
    agents.alive[i, G_CLASS] = c
    agents.alive[i, G_STATE] = behind
    return True


@embedded
def _next_place(place, at_state, last, row, here, agents, net, looking, negations, classes, runs):
    """Which of the agent's next places the row is of, and the edge that takes it there.

    Returns (index of the place, edge), or (number of places, NONE).
    """
    first, end = agents.agent_states[at_state, S_FIRST], agents.agent_states[at_state, S_END]
    for o in range(first, end):
        for k in range(agents.options[o, O_FIRST], agents.options[o, O_END]):
            e = agents.edges[k]
            if (here >> net.edges[e, E_VAR]) & 1 == 0 or (net.edges[e, E_AT_START] != 0 and runs.positions[row] != 0):
                continue
            if negations.some and blocked(e, last, row, net.edges, negations):
                continue
            if inside(place, e, row, net.edges, looking, classes) and timed(e, row, net.edges, looking):
                return o - first, e
    return end - first, np.int64(NONE)


@embedded
def _turn(i, left, part, row, low, high, here, proxies, arrays, state):
    """The turn of an agent that has ``left`` checks: (checks it used, whether it goes on). The first value is -1 for an error."""
    agents, runs = arrays.agents, arrays.runs
    while True:
        place, at_state = agents.alive[i, G_CLASS], agents.alive[i, G_STATE]
        entry = runs.run[place]
        start, last = first_row(entry, row, runs), runs.at[entry]
        letter, e = _next_place(place, at_state, last, row, here, agents, arrays.net, arrays.looking, arrays.negations, arrays.classes, runs)
        at = state_of(at_state, when(start, last, row, agents.intervals, arrays.clock), letter, agents)
        action, greatest = chosen(at_state, at, letter, part, agents)
        first = agents.agent_states[at_state, S_FIRST]
        count = agents.agent_states[at_state, S_END] - first
        if action < count and left == 0:
            return 0, True  # it waits for a check, and learns nothing
        learn(i, greatest, agents)
        agents.alive[i, G_ACTION] = at + action
        agents.earned[i] = 0.0
        if action == 2 * count:
            return 0, True
        if action >= count:
            agents.alive[i, G_STATE] = agents.options[first + action - count, O_SKIP]
            agents.earned[i] = agents.rewards[first + action - count]
            continue
        got = _agent_takes(place, e, start, last, part, row, low, high, proxies, arrays, state)
        if got <= 0:
            return 1 if got == 0 else -1, True
        agents.earned[i] = agents.rewards[first + action]
        goes_on = _advances(i, place, e, row, agents, arrays.net, arrays.looking, arrays.negations, arrays.classes, runs, state)
        give_back(place, arrays.classes, state)
        return 1, goes_on


@embedded
def seed_agents(count, net, clock, agents, ground, state):
    """The candidate that begins the next agent: of those that begin a run, the one where the fewest agents began. NONE without one.

    It is also NONE if too little is saved: each agent has the checks of a whole match set aside.
    """
    best, least = np.int64(NONE), np.int64(0)
    if state[Q_AGENTS] == MOST or state[Q_SAVED] < SHARE * agents.need * (state[Q_AGENTS] + 1):
        return best
    for i in range(count):
        if ground.candidates[i, A_CLASS] == NONE:
            e = ground.candidates[i, A_EDGE]
            key = net.places[e] * clock.levels + net.levels[e]
            if best == NONE or agents.begun[key] < agents.begun[least] or (agents.begun[key] == agents.begun[least] and key < least):
                best, least = np.int64(i), key
    if best != NONE:
        agents.begun[least] += 1
    return best


@embedded
def agent_begins(e, row, agents, net, looking, negations, classes, runs, state):
    """Begins an agent with the run that has just taken the row by an edge."""
    i = state[Q_AGENTS]
    if _advances(i, np.int64(NONE), e, row, agents, net, looking, negations, classes, runs, state):
        agents.alive[i, G_ACTION] = NONE
        state[Q_AGENTS] = i + 1


@kernel
def explore(count, checks, part, row, low, high, here, proxies, arrays, state):
    """Runs the turns of all agents, oldest first, and begins a new one if candidates are left out.

    Returns the number of checks used, or -1 for an error. From the first row that leaves out candidates, one check in SHARE of each
    row is saved for agents. They also have the checks that candidates do not need.
    """
    net, agents, classes = arrays.net, arrays.agents, arrays.classes
    short = count > checks
    spare = max(checks - count, 0)
    if short or state[Q_SAVED] > 0:  # nothing is to be explored while no candidate is left out
        state[Q_SAVED] = min(state[Q_SAVED] + checks, SHARE * max(checks, agents.need))
    most = min(checks, max(spare, state[Q_SAVED] // SHARE))
    used = np.int64(0)
    kept = 0
    for i in range(state[Q_AGENTS]):
        for k in range(agents.alive.shape[1]):
            agents.alive[kept, k] = agents.alive[i, k]
        agents.earned[kept] = agents.earned[i]
        place = agents.alive[kept, G_CLASS]
        if row > classes.until[place]:
            learn(kept, 0.0, agents)
            give_back(place, classes, state)
            continue
        took, goes_on = _turn(kept, most - used, part, row, low, high, here, proxies, arrays, state)
        if took < 0:
            return np.int64(-1)
        used += took
        if goes_on and net.blockers.shape[0] > 0 and agents.alive[kept, G_CLASS] == place:
            got = is_stopped(place, row, low, high, here, net, arrays.looking, classes, state)
            if got < 0:
                return np.int64(-1)
            if got == 1:
                give_back(place, classes, state)
                goes_on = False
        if goes_on:
            kept += 1
        else:
            learn(kept, 0.0, agents)
    state[Q_AGENTS] = kept
    seed = seed_agents(count, net, arrays.clock, agents, arrays.ground, state) if short and used < most else np.int64(NONE)
    if seed != NONE:
        e = arrays.ground.candidates[seed, A_EDGE]
        got = _agent_takes(np.int64(NONE), e, row, row, part, row, low, high, proxies, arrays, state)
        if got < 0:
            return np.int64(-1)
        if got == 1:
            agent_begins(e, row, agents, net, arrays.looking, arrays.negations, classes, arrays.runs, state)
        used += 1
    # At least 1, so that saving goes on.
    state[Q_SAVED] = max(state[Q_SAVED] - SHARE * max(used - spare, 0), min(state[Q_SAVED], 1))
    return used


@embedded
def dismiss_agents(agents, classes, state):
    """Ends all agents with their partition."""
    for i in range(state[Q_AGENTS]):
        give_back(agents.alive[i, G_CLASS], classes, state)
    state[Q_AGENTS] = 0
    state[Q_SAVED] = 0
    for k in range(agents.begun.shape[0]):
        agents.begun[k] = 0
