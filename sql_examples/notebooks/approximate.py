# Databricks notebook source
# MAGIC %md
# MAGIC # Batches with missing steps
# MAGIC
# MAGIC A batch is filled, heated, stirred and emptied. Some messages are lost on their way, so an exact pattern misses good batches.
# MAGIC `APPROX 1` finds those that lack one step, and says which.

# COMMAND ----------

# MAGIC %md
# MAGIC `%load_ext sparkcep` gives `%%sparkcep` cells. In Databricks `%sql` stays the platform's own.

# COMMAND ----------

# MAGIC %load_ext sparkcep

# COMMAND ----------

import sparkcep

sparkcep.enable(spark)
# 60 batches in 3 vessels, one message a minute; every ninth message is lost
spark.sql("""
CREATE OR REPLACE TEMP VIEW messages AS
SELECT vessel, batch, TIMESTAMP '2026-03-02 06:00:00' + make_dt_interval(0, 0, 10 * batch + position) AS ts, step
FROM (SELECT id % 3 AS vessel, id DIV 3 AS batch FROM range(60))
LATERAL VIEW posexplode(array('fill', 'heat', 'stir', 'empty')) AS position, step
WHERE pmod(hash(vessel, batch, step), 9) > 0
""")
steps, minutes = "fill heat stir empty".split(), 5

# COMMAND ----------

# MAGIC %%sparkcep exact <<
# MAGIC SELECT * FROM messages MATCH_RECOGNIZE (
# MAGIC   PARTITION BY vessel ORDER BY ts
# MAGIC   MEASURES LAST(ts) AS ended
# MAGIC   PATTERN (FILL HEAT STIR EMPTY)
# MAGIC   DEFINE FILL AS step = 'fill', HEAT AS step = 'heat', STIR AS step = 'stir', EMPTY AS step = 'empty'
# MAGIC )

# COMMAND ----------

# MAGIC %%sparkcep near <<
# MAGIC SELECT * FROM messages MATCH_RECOGNIZE (
# MAGIC   PARTITION BY vessel ORDER BY ts
# MAGIC   MEASURES LAST(ts) AS ended, LAST(batch) AS batch, MATCH_ERRORS() AS errors, MISSING() AS missing
# MAGIC   PATTERN (FILL HEAT STIR EMPTY)
# MAGIC   WINDOW INTERVAL '5' MINUTE
# MAGIC   APPROX 1 MATCH BUNDLES
# MAGIC   DEFINE FILL AS step = 'fill', HEAT AS step = 'heat', STIR AS step = 'stir', EMPTY AS step = 'empty'
# MAGIC )

# COMMAND ----------

near.createOrReplaceTempView("near")
exact_count, near_count = exact.count(), near.count()
print(f"exact: {exact_count} batches, with one step missing: {near_count}")

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT coalesce(get(missing, 0), 'none') AS missing, count(*) AS batches FROM near GROUP BY ALL ORDER BY missing
