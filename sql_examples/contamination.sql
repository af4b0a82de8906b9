-- SASE+ Query 2: every way food can have spread from a contaminated site within three hours, shipment by shipment.
CREATE OR REPLACE TEMP VIEW shipments AS SELECT * FROM VALUES
  (1, TIMESTAMP '2026-03-02 08:00:00', 'alert', 'plant', NULL),
  (2, TIMESTAMP '2026-03-02 08:20:00', 'shipment', 'plant', 'depot A'),
  (3, TIMESTAMP '2026-03-02 08:30:00', 'shipment', 'farm', 'depot B'),
  (4, TIMESTAMP '2026-03-02 09:00:00', 'shipment', 'depot A', 'shop 1'),
  (5, TIMESTAMP '2026-03-02 09:10:00', 'shipment', 'plant', 'depot B'),
  (6, TIMESTAMP '2026-03-02 09:50:00', 'shipment', 'depot A', 'shop 2'),
  (7, TIMESTAMP '2026-03-02 10:40:00', 'shipment', 'depot B', 'shop 1'),
  (8, TIMESTAMP '2026-03-02 11:30:00', 'shipment', 'depot B', 'shop 3')
  AS t(id, ts, kind, site, target);

SELECT * FROM shipments MATCH_RECOGNIZE (
  ORDER BY ts, id
  MEASURES MATCH_NUMBER() AS chain, array_agg(S.id) AS shipments, LAST(S.target) AS reached
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (ALERT S+)
  WINDOW INTERVAL '3' HOURS
  DEFINE ALERT AS kind = 'alert',
    S AS kind = 'shipment' AND site = coalesce(PRIOR(LAST(S.target)), ALERT.site)
) ORDER BY chain
