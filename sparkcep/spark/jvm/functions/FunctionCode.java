package org.sparkcep.functions;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.CollectionAccumulator;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.rewriter.Rewriter;
import scala.collection.immutable.Seq;

/** The code of the functions that Python describes: pickled references to functions of the installed package. */
public final class FunctionCode {
  private static final int MAP_ARROW_ITER = 207; // PythonEvalType.SQL_MAP_ARROW_ITER_UDF
  private static Map<String, Definition> definitions;

  private FunctionCode() {}

  /** A function as Python describes it; {@code returns} is null for the table function. */
  record Definition(PythonFunction function, int evalType, DataType returns) {}

  /** Returns the description of a function. Python is asked once. */
  static synchronized Definition definition(String name) {
    if (definitions == null) {
      ObjectNode request = JsonNodeFactory.instance.objectNode();
      request.put("kind", "functions");
      definitions = read(Rewriter.asked(request));
    }
    return definitions.get(name);
  }

  private static Map<String, Definition> read(JsonNode answer) {
    Map<String, Definition> out = new HashMap<>();
    for (JsonNode one : answer.get("functions")) {
      Map<String, String> environment = new HashMap<>();
      environment.put("PYTHONHASHSEED", "0"); // as a Python driver sets it for its workers
      PythonFunction function = new SimplePythonFunction(
          list(bytes(one.get("command"))), environment, new ArrayList<>(), workerPython(answer.get("python").asText()), answer.get("version").asText(),
          new ArrayList<>(), null);
      DataType returns = one.get("returns").isNull() ? null : DataType.fromJson(one.get("returns").asText());
      out.put(one.get("name").asText(), new Definition(function, one.get("eval_type").asInt(), returns));
    }
    return out;
  }

  /**
   * Returns the Python of workers: on this machine the rewriter's own unless another was chosen. Elsewhere its path is meaningless.
   */
  private static String workerPython(String rewriters) {
    SparkConf conf = SparkEnv.get().conf();
    String chosen = conf.get("spark.pyspark.python", System.getenv("PYSPARK_PYTHON"));
    if (chosen != null && !chosen.isEmpty()) {
      return chosen;
    }
    return conf.get("spark.master", "").startsWith("local") ? rewriters : "python3";
  }

  /** Returns the pickled function that runs the engine for a clause's plan under {@code mapInArrow}. */
  public static Seq<Object> mapper(ObjectNode plan, Shipment shipment) {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("kind", "mapper").put("plan", plan.toString()).set("columns", shipment.names());
    request.set("workers", Configured.workers());
    ArrayNode sent = request.putArray("sent");
    shipment.columns().forEach(column -> sent.add(column.name()));
    return command(Rewriter.granted(request));
  }

  /**
   * Returns the function of {@code mapInArrow} for a call, in the Python that would run the table function. {@code totals} receives
   * what workers count; null: the accumulator of Spark's own.
   */
  public static Expression mapping(
      Call call, Seq<Object> command, CollectionAccumulator<byte[]> totals, StructType output, List<Expression> lines) {
    PythonFunction like = call.function().func();
    PythonFunction function = new SimplePythonFunction(
        command, like.envVars(), like.pythonIncludes(), like.pythonExec(), like.pythonVer(), like.broadcastVars(), totals == null ? like.accumulator() : totals);
    return (Expression) Reflection.construct(
        "org.apache.spark.sql.catalyst.expressions.PythonUDF", Call.TABLE_FUNCTION, function, output, Scala.seq(lines), MAP_ARROW_ITER, true);
  }

  /** Returns the pickled function in an answer. */
  public static Seq<Object> command(JsonNode answer) {
    return list(bytes(answer.get("command")));
  }

  /** Returns the bytes that a text represents in base64. */
  static byte[] bytes(JsonNode base64) {
    try {
      return base64.binaryValue();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Seq<Object> list(byte[] bytes) {
    List<Object> out = new ArrayList<>();
    for (byte b : bytes) {
      out.add(b);
    }
    return Scala.seq(out);
  }
}
