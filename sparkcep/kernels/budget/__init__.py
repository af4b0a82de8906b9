"""Approximate search under a budget (ACEP, VLDB 2016; agents: RC-ACEP). Rows, a net and a history go in; the matches come out that
so many checks a row find."""
