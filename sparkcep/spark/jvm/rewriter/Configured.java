package org.sparkcep.rewriter;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Optional;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.internal.SQLConf;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/** Reads sparkcep's settings, as sparkcep/settings.py does: each setting has a second name that begins with {@code spark.}. */
public final class Configured {
  private static final String HEAD = "sparkcep.";
  private static final String OPERATOR_HEAD = "spark.";
  private static final String EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"; // as in settings.py
  private static final String WORKER_MEMORY = "spark.executor.pyspark.memory";
  private static final String MAP_IN_ARROW = "sparkcep.mapInArrow";
  private static final String EXCHANGE = "sparkcep.exchange";
  private static final String TASK_BYTES = "sparkcep.exchange.taskBytes";
  private static final String WORKER_BYTES = "sparkcep.exchange.workerBytes";

  private Configured() {}

  /** Returns a setting of the session; {@code key} begins with {@code sparkcep.}. */
  public static String get(String key, String otherwise) {
    SQLConf conf = SQLConf.get();
    return conf.getConfString(key, conf.getConfString(OPERATOR_HEAD + key, otherwise)).trim();
  }

  /** Returns the pattern of the texts that Spark redacts in the statements that it shows. */
  static Optional<String> redaction() {
    return OptionConverters.toJava(SQLConf.get().stringRedactionPattern()).map(Object::toString);
  }

  /** Returns the settings of the session that a clause depends on: sparkcep's, and some of Spark's. */
  public static ObjectNode session() {
    SQLConf conf = SQLConf.get();
    ObjectNode out = JsonNodeFactory.instance.objectNode();
    CollectionConverters.asJava(conf.getAllConfs())
        .forEach((key, value) -> { if (key.startsWith(HEAD) || key.startsWith(OPERATOR_HEAD + HEAD)) out.put(key, value); });
    out.put("spark.sql.caseSensitive", String.valueOf(conf.caseSensitiveAnalysis()));
    out.put("spark.sql.ansi.enabled", String.valueOf(conf.ansiEnabled()));
    out.put("spark.sql.decimalOperations.allowPrecisionLoss", String.valueOf(conf.decimalOperationsAllowPrecisionLoss()));
    out.put("spark.sql.session.timeZone", conf.sessionLocalTimeZone());
    out.put("spark.sql.ansi.doubleQuotedIdentifiers", String.valueOf(conf.doubleQuotedIdentifiers()));
    out.put(EXCLUDED_RULES, conf.getConfString(EXCLUDED_RULES, ""));
    return out;
  }

  /**
   * Returns how many MB each Python worker of an executor may map, as Spark computes it (0: no limit), and the executor's cores.
   */
  public static ObjectNode workers() {
    SparkConf conf = SparkEnv.get().conf();
    int cores = Math.max(1, conf.getInt("spark.executor.cores", 1));
    long limit = conf.contains(WORKER_MEMORY) ? Math.max(1, conf.getSizeAsMb(WORKER_MEMORY) / cores) : 0;
    return JsonNodeFactory.instance.objectNode().put("limit", limit).put("cores", cores);
  }

  /** Returns the sparkcep settings of the application, which limit those of its sessions. */
  public static ObjectNode application() {
    ObjectNode out = JsonNodeFactory.instance.objectNode();
    for (Tuple2<String, String> setting : SparkEnv.get().conf().getAll()) {
      if (setting._1().startsWith(OPERATOR_HEAD + HEAD)) {
        out.put(setting._1(), setting._2());
      }
    }
    return out;
  }

  /**
   * Whether the session lets Spark's operator of {@code mapInArrow} run the engine. The setting allows comparison, and helps with a
   * Spark whose operator misbehaves.
   */
  public static boolean mapsInArrow() {
    return Boolean.parseBoolean(get(MAP_IN_ARROW, "true"));
  }

  /** Whether rows are exchanged as blocks of columns. The setting allows comparison. */
  public static boolean exchangesColumns() {
    return !get(EXCHANGE, "columns").equalsIgnoreCase("rows");
  }

  /** Returns how many bytes of rows a task collects before it makes blocks of them. */
  public static long taskBytes() {
    return bytes(TASK_BYTES, "64m");
  }

  /** Returns how many bytes of blocks a worker holds in memory. */
  public static long workerBytes() {
    return bytes(WORKER_BYTES, "256m");
  }

  /** Returns a size in bytes. sparkcep/settings.py has checked its text, which may have a space before the unit. */
  private static long bytes(String key, String otherwise) {
    return JavaUtils.byteStringAsBytes(get(key, otherwise).replace(" ", ""));
  }
}
