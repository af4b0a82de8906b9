-- An ordinary pattern over rows that come late and are taken back: an item that leaves a shelf and then the shop. Its payment at 4 comes last, and one exit was a reading of another item.
SELECT * FROM VALUES (1, 'insert', 1, 'i1', 'shelf'), (2, 'insert', 3, 'i2', 'shelf'), (3, 'insert', 6, 'i1', 'exit'), (4, 'insert', 8, 'i2', 'exit'),
  (5, 'insert', 4, 'i1', 'paid'), (6, 'retract', 8, 'i2', 'exit') AS readings(came, op, at, item, place)
MATCH_RECOGNIZE (
  PARTITION BY item ORDER BY at
  MEASURES CHANGED_BY() AS came, CHANGE() AS change, TAKEN.at AS taken, LEFT_SHOP.at AS left_at, count(SEEN.*) AS seen
  EVENT SELECTION STRICT CONTIGUITY ALL MATCHES
  PATTERN (TAKEN SEEN* LEFT_SHOP)
  WINDOW 60
  CHANGES IN op ARRIVAL BY came
  REPORT CHANGES
  DEFINE TAKEN AS place = 'shelf', SEEN AS place NOT IN ('paid', 'exit'), LEFT_SHOP AS place = 'exit'
) ORDER BY came
