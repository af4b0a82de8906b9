"""Constants of the best-effort search (:mod:`sparkcep.kernels.budget.best_effort`): states, outcomes and columns of its arrays."""

from __future__ import annotations

from sparkcep.kernels.frontier.payload import CARGO_STATE

# Order of the tries. COVERING is the paper's, and equals PLAIN without a history. BY_UTILITY is ours, by utility. FIRST_IN is the
# paper's baseline ("ACEPMATCH with timeout"), for comparisons only.
PLAIN = COVERING = 0
FIRST_IN, BY_UTILITY = 1, 2
PRIME = (1 << 61) - 1  # modulus of the residues
# state[S_DETAIL] after GROW.
# CLOSED: the caller replaces the history by what the partition has recorded.
# OTHER_HISTORY: the caller uses the partition's history.
CANDIDATES_FULL, CLASSES_FULL, ENTRIES_FULL, VECTORS_FULL, UNJUDGED, SAVED_FULL, LOST, CLOSED, OTHER_HISTORY = range(9)
REPORTED, JUDGED = 1, 2  # state[Q_PENDING]: the row's matches are known, but not all emitted; runs were judged that may be matches
# State after that of the payload:
# Q_DONE, Q_PENDING: matches that the current row completes, and what still has to be done with them.
# Q_VECTORS, Q_ENDS: known feature vectors, and their match points.
# Q_CHECKS, Q_LEFT: checks, and candidates left out so far.
# Q_AGENTS, Q_SAVED: agents, and what is saved for them (a check is SHARE).
# Q_ENTERED: partitions entered.
Q_DONE, Q_PENDING, Q_VECTORS, Q_ENDS, Q_CHECKS, Q_LEFT, Q_AGENTS, Q_SAVED, Q_ENTERED, BUDGET_STATE = range(CARGO_STATE, CARGO_STATE + 10)
# Columns of a candidate:
# A_CLASS, A_EDGE, A_START, A_ENTRY: class (NONE: a run would begin), edge, first row, last entry.
# A_CODE, A_FEATURES, A_CODE_OF_UTILITY: code of its features for learning, their number in the history, their code for utility.
# A_VERSION, A_SCORE, A_RESIDUE: version of its score, the score in units, its residue.
A_CLASS, A_EDGE, A_START, A_ENTRY, A_CODE, A_FEATURES, A_VERSION, A_SCORE, A_RESIDUE, A_CODE_OF_UTILITY, CANDIDATE_FIELDS = range(11)
BEHIND = -1.0  # the utility of candidates that come after all others
# Columns of a bundle's cover: row whose candidates cover it, units and residue of 1/visits, the visits.
M_ROW, M_UNITS, M_RESIDUE, M_VISITS, COVER_FIELDS = range(5)
# Columns of the score of features: row, version, score in units, its residue.
G_ROW, G_VERSION, G_SCORE, G_RESIDUE, GAIN_FIELDS = range(5)
# State of a refill:
# R_LAST, R_BUNDLES: the last match point of the open bundle (NONE: no bundle is open), and bundles so far.
# R_INTERVALS: the intervals of the recorded features.
# R_OWNER: the partition whose own history is in use (NONE: the history of the clause).
R_LAST, R_BUNDLES, R_INTERVALS, R_OWNER, REFILL_FIELDS = range(5)
# Columns of learned features:
# V_PART, V_CODE, V_VISITS, V_POINTS: partition, code, visits, match points.
# V_LAST, V_END: the last match point, and the last match point or bundle in ``ends``.
# V_BEGUN: the last row where a run would begin with them.
V_PART, V_CODE, V_VISITS, V_POINTS, V_LAST, V_END, V_BEGUN, VECTOR_FIELDS = range(8)
T_NODE, T_FIRST, T_END = range(3)  # columns of a stretch
