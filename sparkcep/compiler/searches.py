"""Names of the questions that clauses ask, and of the searches that answer them."""

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

# the searches
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
STREAMS = "join of sequences"
COMPUTATIONS = "computations"
BUDGETED = "candidates under a budget"
SEARCHES = (ADJACENT, WALK, CONJUNCTION, NUMBERS, FRONT, PROXIES, CLASSES, PATHS, SEQUENCES, SIDES, STREAMS, COMPUTATIONS, BUDGETED)
