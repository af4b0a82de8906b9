# Databricks notebook source
# MAGIC %md
# MAGIC # Sessions of clicks
# MAGIC
# MAGIC A session is a run of clicks of one user with less than 30 minutes from each to the next. The notebook finds them with a row pattern,
# MAGIC checks them against the same in window functions, and asks for visits that ended in a purchase.
# MAGIC
# MAGIC It uses what every kind of Databricks compute has: Python cells with `spark.sql`, and `%sql` cells over views and the table function.

# COMMAND ----------

# MAGIC %pip install "numba>=0.61,<0.70" "jinja2>=3.1,<4"
# MAGIC %pip install --no-deps /Volumes/main/default/wheels/sparkcep-0.1.0-py3-none-any.whl

# COMMAND ----------

# DBTITLE 1,Clicks of 40 users
import sparkcep

sparkcep.enable(spark)
spark.sql("""
CREATE OR REPLACE TEMP VIEW clicks AS
SELECT user_id, TIMESTAMP '2026-03-02 06:00:00' + make_dt_interval(0, 0, sum(gap) OVER (PARTITION BY user_id ORDER BY n)) AS ts,
       CASE WHEN pmod(hash(n, user_id), 9) < 5 THEN 'view' WHEN pmod(hash(n, user_id), 9) < 8 THEN 'cart' ELSE 'buy' END AS action
FROM (
  SELECT id % 40 AS user_id, id DIV 40 AS n, IF(pmod(hash(id), 8) = 0, 30, 0) + pmod(hash(id, 7), 12) AS gap FROM range(4000)
)
""")
display(spark.sql("SELECT count(*) AS clicks, count(DISTINCT user_id) AS users, min(ts) AS first, max(ts) AS last FROM clicks"))

# COMMAND ----------

# MAGIC %md
# MAGIC The clause goes through `spark.sql`. Its result is a data frame; a view makes it known to `%sql` cells.

# COMMAND ----------

sessions = spark.sql("""
SELECT * FROM clicks MATCH_RECOGNIZE (
  PARTITION BY user_id ORDER BY ts
  MEASURES MATCH_NUMBER() AS session, FIRST(ts) AS began, LAST(ts) AS ended, count(*) AS clicks
  PATTERN (A B*)
  DEFINE B AS ts < PREV(ts) + INTERVAL '30' MINUTE
)
""")
sessions.createOrReplaceTempView("sessions")

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT count(*) AS sessions, max(session) AS most_of_a_user, max(clicks) AS longest, sum(clicks) AS clicks
# MAGIC FROM sessions

# COMMAND ----------

# DBTITLE 1,The same with window functions
import pyspark.sql.functions as F
from pyspark.sql import Window

by_time = Window.partitionBy("user_id").orderBy("ts")
fresh = F.coalesce((F.col("ts") >= F.lag("ts").over(by_time) + F.expr("INTERVAL '30' MINUTE")).cast("int"), F.lit(1))
numbered = spark.table("clicks").withColumn("session", F.sum(fresh.cast("bigint")).over(by_time.rowsBetween(Window.unboundedPreceding, 0)))
by_windows = numbered.groupBy("user_id", "session").agg(F.min("ts").alias("began"), F.max("ts").alias("ended"), F.count("*").alias("clicks"))
different = sessions.exceptAll(by_windows).count() + by_windows.exceptAll(sessions).count()
print("sessions that differ:", different)

# COMMAND ----------

# MAGIC %md
# MAGIC In a `%sql` cell the table function does the same without the clause: its text is a string, here in double quotes so that single ones may stand inside.

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT count(*) AS visits_with_a_purchase, round(avg(views), 2) AS views_before
# MAGIC FROM match_recognize(TABLE(clicks), "
# MAGIC   PARTITION BY user_id ORDER BY ts
# MAGIC   MEASURES count(LOOK.*) AS views, LAST(BUY.ts) AS bought
# MAGIC   PATTERN (LOOK+ CART+ BUY)
# MAGIC   DEFINE LOOK AS action = 'view', CART AS action = 'cart', BUY AS action = 'buy'
# MAGIC ")
