"""Array layouts and constants that the kernels and the engine share, so that no kernel imports another one for them."""

from __future__ import annotations

# Event selection: which rows may lie between two rows of a match.
STRICT, NEXT, ANY = range(3)

# Outcome of a search:
# DONE: all rows are searched.
# FULL: the output is full.
# SUSPENDED: future rows decide. Inside a partition this ends the partition's search only, and the next one is searched.
# SKIP_TO_FIRST, SKIP_TO_ABSENT: AFTER MATCH SKIP goes to the match's first row, or to a variable without a row.
# ERROR: a condition failed.
# GROW: the working memory is full.
# EFFORT, TOO_MANY: sparkcep.maxSteps or sparkcep.maxMatches is exceeded.
DONE, FULL, SUSPENDED, SKIP_TO_FIRST, SKIP_TO_ABSENT, ERROR, GROW, EFFORT, TOO_MANY = range(9)

# State of a search between two calls: partition, start row, match number, events written, labels written, first row that is not
# known to be matched or unmatched, detail of the outcome, steps, entries of the memo.
S_PART, S_START, S_NUMBER, S_EVENTS, S_LABELS, S_COVERED, S_DETAIL, S_STEPS, S_ENTRIES, STATE_SIZE = range(10)
# More state of the walks:
# S_DEPTH, S_ACTIVE: depth of the run, and whether a start row is in progress.
# S_FOUND: matches found so far.
# S_BEST, S_BEST_START, S_BEST_END: rows of the match that completes first (0: no match), its start row, and the row after its last
#   one.
# S_REPEATS: whether the output is too small for one start row, which is then repeated.
# S_KEPT: the earliest row where a future match may begin, plus one, if the search is already past that row; else 0.
S_DEPTH, S_ACTIVE, S_FOUND, S_BEST, S_BEST_START, S_BEST_END, S_REPEATS, S_KEPT, SELECTION_STATE = range(STATE_SIZE, STATE_SIZE + 9)

# Columns of ``opens``, one row for each partition:
# O_START: the row where its search begins, and later the row where it resumes.
# O_NUMBER: the number of its last match.
# O_COVERED: the row up to which matches reach.
# O_CUT: 1 if rows of the partition before the buffer were dropped.
# O_GOING: 1 if the partition still grows.
# O_CLOSED: the first row whose window is still open.
# O_EMITTED: with early emission, matches that end before this row have been emitted.
# O_PUT_OFF: with early emission, 1 if start rows with an open window are not searched in this call.
O_START, O_NUMBER, O_COVERED, O_CUT, O_GOING, O_CLOSED, O_EMITTED, O_PUT_OFF, OPEN_FIELDS = range(9)

# Memo of failed states: none, one bit for each state (BITMAP), or a hash of what decides the state's future (HASHED).
NO_MEMO, BITMAP, HASHED = range(3)

# AFTER MATCH SKIP.
SKIP_PAST_LAST, SKIP_NEXT_ROW, SKIP_FIRST, SKIP_LAST = range(4)

# Columns of an event: partition, first row, number of rows (-1: unmatched row), match number, offset of its labels. Approximate
# matches also have the edge that completes the match.
E_PART, E_START, E_ROWS, E_NUMBER, E_LABELS, E_ACCEPT = range(6)

NEVER = 1 << 62  # later than all rows
