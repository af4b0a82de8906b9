"""Numbers that several searches and the engine agree on; no search imports another one for them."""

from __future__ import annotations

# event selection: what may lie between two rows of a match
STRICT, NEXT, ANY = range(3)

# outcome of a search: all rows are done; the output is full; rows still to come decide (of one partition: the search goes on with
# the next); AFTER MATCH SKIP goes to the match's first row, or to a variable without
# one; a condition failed; the working memory is full; sparkcep.maxSteps and sparkcep.maxMatches are exceeded
DONE, FULL, SUSPENDED, SKIP_TO_FIRST, SKIP_TO_ABSENT, ERROR, GROW, EFFORT, TOO_MANY = range(9)

# state of a search between its calls: partition, start row, match number, events and labels written, first row not known to be
# matched or unmatched, what the
# outcome is about, steps, entries of the memo
S_PART, S_START, S_NUMBER, S_EVENTS, S_LABELS, S_COVERED, S_DETAIL, S_STEPS, S_ENTRIES, STATE_SIZE = range(10)
# behind that of walks: depth, whether a start row is under way, matches found so far; rows of the match that completes first (0:
# none), its start row and the row behind it; whether the output is too small for one start row, which is repeated; where the search
# goes on behind the first row at which a match to come may begin, that row and one
S_DEPTH, S_ACTIVE, S_FOUND, S_BEST, S_BEST_START, S_BEST_END, S_REPEATS, S_KEPT, SELECTION_STATE = range(STATE_SIZE, STATE_SIZE + 9)

# columns of ``opens``, a row for each partition: where its search begins and is left, the number of its last match, the row up to
# which matches reach; 1 if rows of it are gone before the buffer; 1 if rows of it may still come; the first row whose window a row
# to come may still enter; where each match is told with its last row, the row before which all that ends is told, and 1
# if rows of which WINDOW goes on are not searched
O_START, O_NUMBER, O_COVERED, O_CUT, O_GOING, O_CLOSED, O_EMITTED, O_PUT_OFF, OPEN_FIELDS = range(9)

# how failed states are remembered: not at all, one bit each, by a hash of what decides their future
NO_MEMO, BITMAP, HASHED = range(3)

# AFTER MATCH SKIP
SKIP_PAST_LAST, SKIP_NEXT_ROW, SKIP_FIRST, SKIP_LAST = range(4)

# columns of an event: partition, first row, number of rows (-1: unmatched row), match number, offset of its labels; of approximate
# matches also
# the edge that completes it
E_PART, E_START, E_ROWS, E_NUMBER, E_LABELS, E_ACCEPT = range(6)

NEVER = 1 << 62  # behind all rows
