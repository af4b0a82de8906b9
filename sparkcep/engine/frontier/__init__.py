"""Answers for each last row. Chunks go in; numbers of matches, their graphs and the cheapest approximate match come out (ACEP, VLDB
2016)."""
