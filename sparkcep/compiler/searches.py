"""Names of the questions that clauses ask, of the searches that answer them, and of each search's traversal of the rows."""

from __future__ import annotations

# the questions
FIRST = "the preferred match of each start row"
EVERY = "every match"
COUNTED = "how many matches end at each row"
GRAPH = "the graph of the matches that end at each row"
CHEAPEST = "the best match of each last row"
BY_COST = "of each last row the best match of each cost that starts later than all cheaper ones"
BUNDLED = "the best match of each bundle of last rows"
BEST = "the k best matches"
LEARNED = "which vectors lead to which bundles"

# traversals: how a search visits rows
DEPTH_FIRST = "depth first, one run at a time"
SIDE_BY_SIDE = "row by row, all runs side by side"
BY_SCORE = "by score, the best first"

# the searches, and the traversal of each
ADJACENT = "adjacent rows"
WALK = "walk"
CONJUNCTION = "sides of a conjunction"
NUMBERS = "numbers"
FRONT = "classes of runs"
PROXIES = "one run for each state"
CLASSES = "one run for each class"
PATHS = "k best paths"
SEQUENCES = "join of rows"
SIDES = "join of sides"
COMPUTATIONS = "computations"
BUDGETED = "candidates under a budget"
SEARCHES = {
    ADJACENT: DEPTH_FIRST, WALK: DEPTH_FIRST, CONJUNCTION: DEPTH_FIRST, NUMBERS: SIDE_BY_SIDE, FRONT: SIDE_BY_SIDE, PROXIES: SIDE_BY_SIDE,
    CLASSES: SIDE_BY_SIDE, PATHS: SIDE_BY_SIDE, SEQUENCES: BY_SCORE, SIDES: BY_SCORE, COMPUTATIONS: SIDE_BY_SIDE, BUDGETED: SIDE_BY_SIDE,
}  # fmt: skip
