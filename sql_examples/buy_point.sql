-- ACEP Example 1: two tweets or more that see a bullish chart of $AAPL, then two or more with good news of it, one letter of
-- them perhaps missing. A tweet gives a letter for its start, the stock symbol, what it says, and its end.
CREATE OR REPLACE TEMP VIEW tweets AS SELECT * FROM VALUES
  (1, TIMESTAMP '2026-03-02 09:00:00', '@ann double bottom in $AAPL'),
  (2, TIMESTAMP '2026-03-02 09:10:00', '@bob lunch'),
  (3, TIMESTAMP '2026-03-02 09:20:00', '@cid $AAPL falling wedge'),
  (4, TIMESTAMP '2026-03-02 09:50:00', '@dot $AAPL good earnings'),
  (5, TIMESTAMP '2026-03-02 10:05:00', '@eve $AAPL surely beats everything'),
  (6, TIMESTAMP '2026-03-02 15:00:00', '@ann $AAPL bullish'),
  (7, TIMESTAMP '2026-03-02 15:05:00', '@cid $AAPL upgrade'),
  (8, TIMESTAMP '2026-03-02 15:30:00', '@dot $GOOGL solid guidance') AS t(id, ts, text);

CREATE OR REPLACE TEMP VIEW letters AS
SELECT id, ts, position, letter FROM (
  SELECT id, ts, filter(array(
    IF(text LIKE '@%', 'S', NULL),
    IF(text LIKE '%$AAPL%', 'a', NULL),
    CASE WHEN text LIKE '%bullish%' THEN 'b' WHEN text LIKE '%double bottom%' THEN 'd' WHEN text LIKE '%falling wedge%' THEN 'w'
         WHEN text LIKE '%rounding bottom%' THEN 'r' WHEN text LIKE '%guidance%' THEN 'g' WHEN text LIKE '%good earnings%' THEN 'e'
         WHEN text LIKE '%upgrade%' THEN 'u' END,
    'E'), x -> x IS NOT NULL) AS found FROM tweets
) LATERAL VIEW posexplode(found) AS position, letter;

SELECT * FROM letters MATCH_RECOGNIZE (
  ORDER BY ts, position
  MEASURES BUNDLE_END() AS buy_point, BUNDLE_SIZE() AS match_points, MATCH_ERRORS() AS errors, MISSING() AS missing,
    FIRST(ts) AS since, array_join(array_agg(letter), '') AS found
  PATTERN ((S A CHART E){2,} (S A NEWS E){2,})
  WINDOW INTERVAL '2' HOURS
  APPROX 1 MATCH BUNDLES
  DEFINE
    S AS letter = 'S',
    A AS letter = 'a',
    CHART AS letter IN ('b', 'd', 'w', 'r'),
    NEWS AS letter IN ('g', 'e', 'u'),
    E AS letter = 'E'
) ORDER BY buy_point
