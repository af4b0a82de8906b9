"""Best-effort search for approximate matches under a budget (ACEP, VLDB 2016). Chunks and a history go in. The matches that each
row's checks find come out, with counts of those checks."""
