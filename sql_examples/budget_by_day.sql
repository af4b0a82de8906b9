-- RC-ACEP day by day: each day's run under a budget leaves the history that the next day's begins with. On the first two days b c d come without their a, and a b comes without the rest; from the third day on all four come.
CREATE OR REPLACE TEMP VIEW letters AS
SELECT day, 40 * n + p AS ts, substr(word, p, 1) AS letter
FROM VALUES (1, 'ab..........bcd'), (2, 'ab..........bcd'), (3, 'abcd...........'), (4, 'abcd...........') AS words(day, word)
LATERAL VIEW explode(sequence(0, 9)) AS n LATERAL VIEW explode(sequence(1, 15)) AS p;

CREATE OR REPLACE TEMP VIEW history_1 AS
SELECT * FROM (SELECT * FROM letters WHERE day = 1) MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH HISTORY INTERVALS 2
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
);

CREATE OR REPLACE TEMP VIEW history_2 AS
SELECT * FROM (SELECT * FROM letters WHERE day = 2) MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH HISTORY INTERVALS 2 BUDGET 2 CHECKS USING HISTORY history_1
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
);

CREATE OR REPLACE TEMP VIEW history_3 AS
SELECT * FROM (SELECT * FROM letters WHERE day = 3) MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH HISTORY INTERVALS 2 BUDGET 2 CHECKS USING HISTORY history_2
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
);

SELECT learnt, count(*) AS found, min(errors) AS errors, sum(left_out) AS left_out FROM (
  SELECT 'of the day before' AS learnt, errors, left_out FROM (SELECT * FROM letters WHERE day = 4) MATCH_RECOGNIZE (
    ORDER BY ts
    MEASURES MATCH_ERRORS() AS errors, CHECKS_LEFT_OUT() AS left_out
    PATTERN (A B C D)
    WINDOW 10
    APPROX 1 BUDGET 1 CHECKS USING HISTORY history_3
    DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
  )
  UNION ALL
  SELECT 'of the first day, as published', errors, left_out FROM (SELECT * FROM letters WHERE day = 4) MATCH_RECOGNIZE (
    ORDER BY ts
    MEASURES MATCH_ERRORS() AS errors, CHECKS_LEFT_OUT() AS left_out
    PATTERN (A B C D)
    WINDOW 10
    APPROX 1 BUDGET 1 CHECKS USING HISTORY history_1 AS PUBLISHED
    DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
  )
  UNION ALL
  SELECT 'of the first day', errors, left_out FROM (SELECT * FROM letters WHERE day = 4) MATCH_RECOGNIZE (
    ORDER BY ts
    MEASURES MATCH_ERRORS() AS errors, CHECKS_LEFT_OUT() AS left_out
    PATTERN (A B C D)
    WINDOW 10
    APPROX 1 BUDGET 1 CHECKS USING HISTORY history_1
    DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
  )
) GROUP BY learnt ORDER BY learnt
