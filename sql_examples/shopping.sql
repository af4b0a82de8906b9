-- CPR, 2011, Figure 1.1: the heaviest shoppers of expensive brands. Goods of A, B and C one after the other within 10 hours, meanwhile goods of
-- D and E within 8 hours, all on one card; best are those that spent most in the shortest time from A to C, a dollar counting as much as an hour.
-- The best are told anew every 5 hours (UPDATE), here the 2 best of all cards together. cpr/sequences/figure_1_1.sql has the figure to the letter: there the windows of the
-- two sequences move with the whole, so D and E must lie in the last 8 hours of a window, and here anywhere within 8 hours.
CREATE OR REPLACE TEMP VIEW purchases AS
SELECT ccid, timestamp_ntz'2011-05-06 00:00:00' + make_dt_interval(0, hour) AS at, brand, spent FROM VALUES
  (1, 10, 'A', 300), (1, 11, 'D', 80), (1, 12, 'B', 120), (1, 13, 'E', 40), (1, 14, 'A', 310), (1, 15, 'C', 500), (1, 16, 'E', 60), (1, 17, 'C', 505),
  (2, 10, 'D', 900), (2, 11, 'A', 100), (2, 12, 'B', 90), (2, 13, 'C', 80), (2, 19, 'E', 900),
  (3, 11, 'D', 20), (3, 12, 'E', 30), (3, 13, 'A', 200), (3, 15, 'B', 250), (3, 18, 'C', 400)
  AS t(ccid, hour, brand, spent);

SELECT * FROM purchases MATCH_RECOGNIZE (
  PARTITION BY ccid ORDER BY at
  MEASURES hour(WINDOW_START()) AS since, hour(WINDOW_END()) AS until, MATCH_RANK() AS rank, MATCH_SCORE() AS score,
    array_join(array_agg(concat(brand, hour(at))), ' ') AS goods
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN ((A B C) WITHIN INTERVAL '10' HOUR & (D E) WITHIN INTERVAL '8' HOUR)
  WINDOW INTERVAL '10' HOUR SLIDE INTERVAL '5' HOUR
  PREF MAX (A.spent + B.spent + C.spent + D.spent + E.spent) AND MIN (unix_timestamp(C.at) DIV 3600 - unix_timestamp(A.at) DIV 3600)
  TOP 2 OVERALL
  DEFINE A AS brand = 'A', B AS brand = 'B', C AS brand = 'C', D AS brand = 'D', E AS brand = 'E'
) ORDER BY since, rank
