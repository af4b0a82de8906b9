-- A forbidden event that costs something in place of ruling a match out: orders that were shipped although they were cancelled, or
-- without a trace of packing. What was shipped cannot be missing: its weight is more than the errors allowed.
CREATE OR REPLACE TEMP VIEW events AS
SELECT order_id, position AS n, event FROM VALUES
  (1, array('ordered', 'paid', 'packed', 'shipped')), (2, array('ordered', 'cancelled', 'packed', 'shipped')), (3, array('ordered', 'shipped')),
  (4, array('ordered', 'cancelled', 'shipped')), (5, array('ordered', 'packed', 'cancelled')), (6, array('packed', 'cancelled', 'shipped')),
  (7, array('ordered', 'cancelled', 'ordered', 'packed', 'shipped')), (8, array('cancelled', 'packed', 'shipped'))
  AS t(order_id, events) LATERAL VIEW posexplode(events) AS position, event;

SELECT * FROM events MATCH_RECOGNIZE (
  PARTITION BY order_id ORDER BY n
  MEASURES MATCH_ERRORS() AS errors, MISSING() AS missing, array_join(array_agg(event), ' ') AS found
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (ORDERED ~CANCELLED PACKED SHIPPED)
  WINDOW 100
  APPROX 2 WEIGHTS (SHIPPED 2.5, ~CANCELLED 1.5)
  DEFINE ORDERED AS event = 'ordered', CANCELLED AS event = 'cancelled', PACKED AS event = 'packed', SHIPPED AS event = 'shipped'
) ORDER BY errors, order_id
