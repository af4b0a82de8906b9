-- RC-ACEP's agents (EXPLORE): on day 1 words lack their a, and a b comes without the rest; on days 2 and 3 all four letters come. At one check a row the history of day 1 begins with b, and a run by it never sees that a leads on; agents do.
CREATE OR REPLACE TEMP VIEW letters AS
SELECT day, 40 * n + p AS ts, substr(word, p, 1) AS letter
FROM VALUES (1, 'ab..........bcd'), (2, 'abcd...........'), (3, 'abcd...........') AS words(day, word)
LATERAL VIEW explode(sequence(0, 19)) AS n LATERAL VIEW explode(sequence(1, 15)) AS p;

CREATE OR REPLACE TEMP VIEW history_1 AS
SELECT * FROM (SELECT * FROM letters WHERE day = 1) MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH HISTORY INTERVALS 2
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
);

CREATE OR REPLACE TEMP VIEW seen AS
SELECT * FROM (SELECT * FROM letters WHERE day = 2) MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH HISTORY INTERVALS 2 BUDGET 1 CHECKS USING HISTORY history_1 AS PUBLISHED
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
);

CREATE OR REPLACE TEMP VIEW explored AS
SELECT * FROM (SELECT * FROM letters WHERE day = 2) MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH HISTORY INTERVALS 2 BUDGET 1 CHECKS USING HISTORY history_1 AS PUBLISHED EXPLORE
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
);

SELECT learnt, count(*) AS found, min(errors) AS errors FROM (
  SELECT 'without agents' AS learnt, errors FROM (SELECT * FROM letters WHERE day = 3) MATCH_RECOGNIZE (
    ORDER BY ts
    MEASURES MATCH_ERRORS() AS errors
    PATTERN (A B C D)
    WINDOW 10
    APPROX 1 BUDGET 1 CHECKS USING HISTORY seen AS PUBLISHED
    DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
  )
  UNION ALL
  SELECT 'with agents', errors FROM (SELECT * FROM letters WHERE day = 3) MATCH_RECOGNIZE (
    ORDER BY ts
    MEASURES MATCH_ERRORS() AS errors
    PATTERN (A B C D)
    WINDOW 10
    APPROX 1 BUDGET 1 CHECKS USING HISTORY explored AS PUBLISHED
    DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
  )
) GROUP BY learnt ORDER BY learnt
