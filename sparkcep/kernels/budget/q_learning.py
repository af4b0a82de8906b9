"""Agents that explore what a history would not choose, by Q-learning (RC-ACEP, VLDB 2016, section 5, Algorithms 5 and 6).

An agent is a run beside the others that never branches. At each row that a variable takes it chooses one action for each place that
comes next in the pattern: to take the row there (only where the row is of that place), or to skip the place (only where it is not),
or to stay. A skip costs what the place's variable costs, and the agent chooses again for the same row; taking the row or staying
ends its turn. What is learnt of an action is its value in a state of place, cost so far, remaining window, time since the last row,
and which of the next places the row is of.

An action that was tried fewer than five times in a state goes before all others (the paper's exploration function). Its value is
updated one step late, as the paper has it; where the agent ends, nothing is expected behind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.jit.cache import embedded

TRIALS = 5  # of each action, before its value counts
DISCOUNT = 0.9  # gamma, which the paper does not tell
SHARE = 8  # of so many checks that candidates would have, agents have one
MOST = 64  # agents at a time
# columns of an agent: its class of runs, where it stands, the place of its last action among the values (NONE: none yet)
G_CLASS, G_STATE, G_ACTION, AGENT_FIELDS = range(4)
# columns of a standing: range of its options, number of its place and cost among the states
S_FIRST, S_END, S_STATE, AGENT_STATE_FIELDS = range(4)
# columns of an option: range of the edges that take a row there, the standing behind a skip (NONE: there is no way on)
O_FIRST, O_END, O_SKIP, OPTION_FIELDS = range(4)


class Agents(NamedTuple):
    """``wanted``: whether there are agents; ``need``: rows of the shortest match. ``agent_states`` int64 (n, STANDING_FIELDS): a node,
    a place up to which the pattern is matched or skipped, and a cost; ``options`` int64 (m, OPTION_FIELDS): the places that come
    next, ``rewards`` float64 (m): for getting there; ``edges`` int64: those of the options; ``behind`` int64 (edges of the net):
    the standing of a run that took a row by each, NONE where nothing goes on. ``intervals`` of the window; ``first`` int64 (places
    and costs): where their values begin; ``values`` float64 and ``tries`` int64, of each action in each state; ``owner`` int64,
    likewise: the partition that they are of. ``alive`` int64 (MOST, AGENT_FIELDS) and ``earned`` float64 (MOST): the agents, oldest
    first, and the reward of their last action; ``begun`` int64 (places and costs): how many began there. ``value_bits``,
    ``earned_bits``: ``values`` and ``earned`` as int64; ``met`` int64: the actions that were tried in the partition, ``many`` int64
    (1): how many these are."""

    wanted: bool
    need: int
    agent_states: np.ndarray
    options: np.ndarray
    rewards: np.ndarray
    edges: np.ndarray
    behind: np.ndarray
    intervals: int
    first: np.ndarray
    values: np.ndarray
    tries: np.ndarray
    owner: np.ndarray
    alive: np.ndarray
    earned: np.ndarray
    begun: np.ndarray
    value_bits: np.ndarray
    earned_bits: np.ndarray
    met: np.ndarray
    many: np.ndarray


@embedded
def state_of(at_state, when, letter, agents):
    """Where the values of a state's actions begin; ``when``: remaining window and time since the last row as one number,
    ``letter``: the next place that the row is of, or their number."""
    count = agents.agent_states[at_state, S_END] - agents.agent_states[at_state, S_FIRST]
    return agents.first[agents.agent_states[at_state, S_STATE]] + (when * (count + 1) + letter) * (2 * count + 1)


@embedded
def chosen(at_state, at, letter, part, agents):
    """The action of an agent whose values begin at ``at``, and the greatest value of all that it may choose: below the number of
    options it takes the row, below twice that it skips, else it stays."""
    first = agents.agent_states[at_state, S_FIRST]
    count = agents.agent_states[at_state, S_END] - first
    best = np.int64(NONE)
    untried = False
    greatest = 0.0
    seen = False
    for action in range(2 * count + 1):
        if agents.owner[at + action] != part:
            agents.owner[at + action] = part
            agents.values[at + action] = 0.0
            agents.tries[at + action] = 0
        if action < count:
            if action != letter:
                continue
        elif action < 2 * count:
            if action - count == letter or agents.options[first + action - count, O_SKIP] == NONE:
                continue
        value = agents.values[at + action]
        if not seen or value > greatest:
            greatest = value
            if not untried:
                best = np.int64(action)
        seen = True
        if not untried and agents.tries[at + action] < TRIALS:
            untried = True
            best = np.int64(action)
    return best, greatest


@embedded
def learn(i, expected, agents):
    """Updates the value of an agent's last action; ``expected``: the greatest value of what it may choose now."""
    at = agents.alive[i, G_ACTION]
    if at != NONE:
        if agents.tries[at] == 0:
            agents.met[agents.many[0]] = at
            agents.many[0] += 1
        agents.tries[at] += 1
        rate = 60.0 / (59.0 + agents.tries[at])
        agents.values[at] += rate * (agents.earned[i] + DISCOUNT * expected - agents.values[at])
