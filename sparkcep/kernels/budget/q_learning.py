"""Q-learning agents, which explore candidates that a history would not choose (RC-ACEP, VLDB 2016, section 5, Algorithms 5 and 6).

The best-effort search (:mod:`sparkcep.kernels.budget.best_effort`) gives them their turns. An agent is a run beside the others that
never branches. At each row that a variable takes it chooses one action. It takes the row at a place that comes next in the pattern,
if the row is of that place. Or it skips such a place, if the row is not, or it stays.

A skip costs what the place's variable costs, and the agent chooses once more for this row. Taking the row or staying ends its turn.
An action's value is learned for each state: place, cost so far, remaining window, time since the last row, and which of the next
places the row is of.

An action that was tried fewer than five times in a state goes before all others (the paper's exploration function). Its value is
updated one step late, as in the paper. At the end of an agent nothing more is expected.

Example: an agent has two next places, so its actions are 0 and 1 (take), 2 and 3 (skip) and 4 (stay). If the row is of the second
place, it may choose 1, 2 or 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcep.kernels.common.run_chains import NONE
from sparkcep.kernels.jit.cache import embedded

TRIALS = 5  # tries of each action, before its value counts
DISCOUNT = 0.9  # gamma, which the paper does not state
SHARE = 8  # agents get one in so many of the checks that candidates would have
MOST = 64  # agents at a time
# Columns of an agent: its run class, its position, the place of its last action among the values (NONE: none yet).
G_CLASS, G_STATE, G_ACTION, AGENT_FIELDS = range(4)
# Columns of a position: range of its options, number of its place and cost among the states.
S_FIRST, S_END, S_STATE, AGENT_STATE_FIELDS = range(4)
# Columns of an option: range of the edges that take a row there, the position after a skip (NONE: it leads nowhere).
O_FIRST, O_END, O_SKIP, OPTION_FIELDS = range(4)


class Agents(NamedTuple):
    """The agents, and the values that they have learned.

    Attributes:
        wanted: whether there are agents.
        need: rows of the shortest match.
        agent_states: int64 (n, AGENT_STATE_FIELDS), the positions: a node, a place up to which the pattern is matched or skipped,
            and a cost.
        options: int64 (m, OPTION_FIELDS), the places that come next.
        rewards: float64 (m), the reward for getting there.
        edges: int64, the edges of the options.
        behind: int64 (edges of the net), the position of a run that took a row by the edge, NONE if it cannot go on.
        intervals: the intervals of the window.
        first: int64 (places and costs), the first value of each.
        values, tries: float64 and int64, of each action in each state.
        owner: int64, the partition of each of these values.
        alive: int64 (MOST, AGENT_FIELDS), the agents, oldest first.
        earned: float64 (MOST), the reward of their last action.
        begun: int64 (places and costs), how many agents began there.
        value_bits, earned_bits: ``values`` and ``earned`` as int64.
        met: int64, the actions that were tried in the partition.
        many: int64 (1), how many these are.
    """

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
    """The first of the values of a state's actions.

    ``when`` is the remaining window and the time since the last row as one number. ``letter`` is the next place that the row is of,
    or their number.
    """
    count = agents.agent_states[at_state, S_END] - agents.agent_states[at_state, S_FIRST]
    return agents.first[agents.agent_states[at_state, S_STATE]] + (when * (count + 1) + letter) * (2 * count + 1)


@embedded
def chosen(at_state, at, letter, part, agents):
    """The action of an agent whose values begin at ``at``, and the greatest value of all allowed actions.

    An action below the number of options takes the row. Below twice that number it skips a place. Else the agent stays.
    """
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
    """Updates the value of an agent's last action. ``expected`` is the greatest value of the actions allowed now."""
    at = agents.alive[i, G_ACTION]
    if at != NONE:
        if agents.tries[at] == 0:
            agents.met[agents.many[0]] = at
            agents.many[0] += 1
        agents.tries[at] += 1
        rate = 60.0 / (59.0 + agents.tries[at])
        agents.values[at] += rate * (agents.earned[i] + DISCOUNT * expected - agents.values[at])
