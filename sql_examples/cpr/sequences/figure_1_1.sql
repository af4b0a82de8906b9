-- CPR, 2011, Figure 1.1, to the letter: the 10 best shoppers. S1 is goods of A, B and C one after the other within 10 hours, S2 is goods of D and E within 8 hours.
-- Both are on one card, and their windows move every 5 hours. S2 so takes only goods of the last 8 hours of each window: card 2 bought its D too early. A dollar
-- counts as much as a second, as in the thesis. The name of an objective must not be a column, so the thesis's S1.exp is S1.spent.
CREATE OR REPLACE TEMP VIEW purchases AS
SELECT ccid, timestamp_ntz'2011-05-06 00:00:00' + make_dt_interval(0, hour) AS at, brand, exp FROM VALUES
  (1, 10, 'A', 300), (1, 12, 'D', 80), (1, 12, 'B', 120), (1, 13, 'E', 40), (1, 14, 'A', 310), (1, 15, 'C', 500), (1, 16, 'E', 60), (1, 17, 'C', 505),
  (2, 11, 'D', 900), (2, 11, 'A', 100), (2, 12, 'B', 90), (2, 13, 'C', 80), (2, 14, 'E', 900),
  (3, 12, 'D', 20), (3, 13, 'E', 30), (3, 13, 'A', 200), (3, 15, 'B', 250), (3, 18, 'C', 400)
  AS t(ccid, hour, brand, exp);

SELECT * FROM purchases MATCH_RECOGNIZE (
  ORDER BY at
  MEASURES WINDOW_END() AS until, MATCH_RANK() AS rank, A.ccid AS ccid, S1.spent AS abc, S2.spent AS de, S1.took AS took
  EVENT SELECTION SKIP TILL ANY MATCH
  SEQUENCE S1 AS (A B C) WITHIN INTERVAL '10' HOUR UPDATE INTERVAL '5' HOUR
    PREF MAX (A.exp + B.exp + C.exp) AS spent AND MIN (unix_timestamp(C.at) - unix_timestamp(A.at)) AS took
  SEQUENCE S2 AS (D E) WITHIN INTERVAL '8' HOUR UPDATE INTERVAL '5' HOUR PREF MAX (D.exp + E.exp) AS spent
  PATTERN (S1 & S2)
  WINDOW INTERVAL '10' HOUR SLIDE INTERVAL '5' HOUR
  PREF MAX (S1.spent + S2.spent) AND MIN (S1.took)
  TOP 10
  DEFINE
    A AS brand = 'A',
    B AS brand = 'B' AND ccid = A.ccid,
    C AS brand = 'C' AND ccid = B.ccid,
    D AS brand = 'D' AND ccid = A.ccid,
    E AS brand = 'E' AND ccid = D.ccid
) ORDER BY until, rank
