-- Absence at the end (Figure 18): an order that is not paid within 5 days. Rows other than payments are ignored; the arc ON EXPIRY is taken when the order's lifetime ends.
SELECT * FROM VALUES ('u', 1, 'order'), ('u', 3, 'visit'), ('u', 7, 'order'), ('u', 9, 'payment'), ('v', 2, 'order') AS events(customer, day, what)
MATCH_RECOGNIZE (
  PARTITION BY customer ORDER BY day
  MEASURES FIRST(day) AS ordered, LAST(day) AS last_seen, MATCH_FROM() AS due
  AUTOMATON (
    STATE q0 START, waiting IGNORE WHEN what <> 'payment', unpaid FINAL
    ARC FROM q0 TO waiting WHEN what = 'order'
    ARC FROM waiting TO unpaid ON EXPIRY
  )
  WINDOW 5
) ORDER BY customer, ordered
