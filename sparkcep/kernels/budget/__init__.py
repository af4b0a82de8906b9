"""Best-effort search under a budget (ACEP, VLDB 2016; its agents: RC-ACEP).

Rows, a net and a history go in. The matches that so many checks per row can find come out.
"""
