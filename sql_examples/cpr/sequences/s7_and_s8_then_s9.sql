-- CPR, Section 4.2: {[S7&S8];S9}, three queues (Figure 4.6).
-- Letters are the classes of temperature changes of Table 4.1, motes are neighbours if their numbers differ by 1 at most.
CREATE OR REPLACE TEMP VIEW changes AS
SELECT * FROM VALUES
  (1, 1, 'G', 4.0), (2, 2, 'K', 2.5), (3, 1, 'H', 1.0), (4, 3, 'G', 9.0), (5, 2, 'L', 5.5), (6, 1, 'J', 2.0), (7, 3, 'H', 3.0), (8, 2, 'M', 3.5),
  (9, 3, 'J', 6.0), (10, 4, 'K', 8.0), (11, 2, 'I', 1.0), (12, 4, 'L', 2.0), (13, 4, 'M', 4.0), (14, 2, 'N', 7.0), (15, 3, 'I', 2.0), (16, 2, 'O', 1.0),
  (17, 3, 'N', 4.0), (18, 3, 'O', 6.0)
  AS t(epoch, mote, class, dist);

SELECT * FROM changes MATCH_RECOGNIZE (
  ORDER BY epoch
  MEASURES MATCH_RANK() AS rank, round(MATCH_SCORE(), 3) AS score, array_join(array_agg(concat(class, epoch)), ' ') AS rows
  EVENT SELECTION SKIP TILL ANY MATCH
  SEQUENCE S7 AS (EG EH EJ) PREF MAX (SUM(dist))
  SEQUENCE S8 AS (EK EL EM) PREF MAX (SUM(dist))
  SEQUENCE S9 AS (EI EN EO) PREF MAX (SUM(dist))
  PATTERN ((S7 & S8) S9)
  WINDOW 100 SLIDE 100
  PREF SEQUENCES COMBINE BY AVG
  TOP 20
  DEFINE
    EG AS class = 'G', EH AS class = 'H' AND mote = EG.mote, EJ AS class = 'J' AND mote = EH.mote,
    EK AS class = 'K' AND mote BETWEEN EG.mote - 1 AND EG.mote + 1, EL AS class = 'L' AND mote = EK.mote,
    EM AS class = 'M' AND mote = EL.mote,
    EI AS class = 'I' AND mote BETWEEN EK.mote - 1 AND EK.mote + 1, EN AS class = 'N' AND mote = EI.mote,
    EO AS class = 'O' AND mote = EN.mote
) ORDER BY rank
