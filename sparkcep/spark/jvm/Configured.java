package org.sparkcep;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.internal.SQLConf;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/** The settings of sparkcep's, as sparkcep/settings.py reads them: each has a second name that begins with {@code spark.}. */
final class Configured {
  private static final String HEAD = "sparkcep.";
  private static final String OPERATOR_HEAD = "spark.";

  private Configured() {}

  /** A setting of the session, {@code key} beginning with {@code sparkcep.}. */
  static String get(String key, String otherwise) {
    SQLConf conf = SQLConf.get();
    return conf.getConfString(key, conf.getConfString(OPERATOR_HEAD + key, otherwise)).trim();
  }

  /** The settings of the session. */
  static ObjectNode session() {
    ObjectNode out = JsonNodeFactory.instance.objectNode();
    CollectionConverters.asJava(SQLConf.get().getAllConfs())
        .forEach((key, value) -> { if (key.startsWith(HEAD) || key.startsWith(OPERATOR_HEAD + HEAD)) out.put(key, value); });
    return out;
  }

  /** The settings of the application, which bound those of its sessions. */
  static ObjectNode application() {
    ObjectNode out = JsonNodeFactory.instance.objectNode();
    for (Tuple2<String, String> setting : SparkEnv.get().conf().getAll()) {
      if (setting._1().startsWith(OPERATOR_HEAD + HEAD)) {
        out.put(setting._1(), setting._2());
      }
    }
    return out;
  }
}
