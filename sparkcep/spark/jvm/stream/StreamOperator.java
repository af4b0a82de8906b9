package org.sparkcep.stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.catalyst.ExtensionJar;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Call;
import org.sparkcep.functions.FunctionCode;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.rewriter.Rewriter;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Constructs the stateful operator of a clause over a stream, and knows whether this Spark has it. */
public final class StreamOperator {
  public static final String OPERATOR = "org.sparkcep.stream.exec.MatchStateExec";
  public static final String STATEMENT = "sparkcep.statement"; // metadata of the operator's last column
  public static final String BUDGETED = "sparkcep.budgeted";
  private static final String PARENT = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec";
  private static final String VERSION = "org.sparkcep.versions.SparkVersion"; // the Spark version that the operator is compiled for
  private static final int PLANNED = 12; // parameters of the operator that its plan sets
  public static final String READING = "sparkcep.reading"; // metadata: the request about tables that are read in addition to the rows
  public static final String LATE = "sparkcep.late"; // metadata: the table of late rows
  public static final String BEHIND = "sparkcep.behind"; // metadata: how many milliseconds the watermark that it passes on trails its own

  private StreamOperator() {}

  /** Whether the operator was compiled, and extends the class that it was written for. */
  public static boolean isKnown() {
    try {
      ClassLoader loader = StreamOperator.class.getClassLoader();
      Class<?> parent = Class.forName(PARENT, false, loader);
      int parameters = parameters();
      boolean same = java.util.Arrays.stream(parent.getConstructors()).anyMatch(c -> c.getParameterCount() == parameters);
      return same && Class.forName(OPERATOR, true, loader).getSuperclass() == parent;
    } catch (ClassNotFoundException | LinkageError e) {
      return false;
    }
  }

  /** Returns the number of parameters of Spark's operator in the version that ours is compiled for; 0 if there is none. */
  private static int parameters() {
    try {
      return Class.forName(VERSION, true, StreamOperator.class.getClassLoader()).getDeclaredField("PARAMETERS").getInt(null);
    } catch (ReflectiveOperationException e) {
      return 0;
    }
  }

  /**
   * Returns the operator over {@code child}, whose rows are those of {@code parts}, and the additional {@code tables}. Its last
   * columns describe states, not matches.
   */
  public static SparkPlan operator(
      Call call, StreamInput input, StreamPlanning.Parts parts, Seq<Attribute> output, List<Expression> described, ObjectNode plan, SparkPlan child,
      SparkPlan tables) {
    ObjectNode statement = StreamStatement.statement(call, input, parts, plan);
    int sent = parts.columns().size() - parts.keys().size() - input.late().size();
    List<Attribute> all = new ArrayList<>(CollectionConverters.asJava(output));
    all.add(column("__k", DataTypes.IntegerType, Metadata.empty()));
    all.add(column("__state", DataTypes.BinaryType, Metadata.empty()));
    MetadataBuilder metadata = new MetadataBuilder().putString(STATEMENT, statement.toString());
    boolean keepsLate = !input.late().isEmpty();
    metadata = keepsLate ? metadata.putString(LATE, LateRows.table(input)) : metadata;
    StructType schema = call.function().elementSchema();
    schema = schema.add("__k", DataTypes.IntegerType).add("__state", DataTypes.BinaryType).add("__due", DataTypes.LongType);
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("kind", "streamer").put("plan", plan.toString()).put("ordered", parts.ordered()).set("columns", parts.names());
    ArrayNode beside = request.putArray("tables");
    CollectionConverters.asJava(input.names()).forEach(beside::add);
    ArrayNode names = request.putArray("sent");
    parts.columns().subList(0, sent - parts.ordered()).forEach(column -> names.add(column.name()));
    ObjectNode limited = request.deepCopy();
    limited.set("workers", Configured.workers());
    JsonNode answer = Rewriter.granted(limited);
    if (!input.names().isEmpty()) {
      metadata = metadata.putString(READING, reading(request, parts.columns().subList(0, sent)));
    }
    if (call.isBudgeted()) {
      metadata = metadata.putBoolean(BUDGETED, true);
    }
    metadata = answer.get("behind").isNull() ? metadata : metadata.putLong(BEHIND, answer.get("behind").asLong());
    all.add(column("__due", DataTypes.LongType, metadata.build()));
    List<Expression> lines = new ArrayList<>(described); // for EXPLAIN
    lines.add(new Literal(UTF8String.fromString(answer.get("kept").asText()), DataTypes.StringType));
    lines.add(new Literal(UTF8String.fromString(answer.get("passed").asText()), DataTypes.StringType));
    if (keepsLate) {
      lines.add(new Literal(UTF8String.fromString("late rows are appended to " + LateRows.table(input)), DataTypes.StringType));
    }
    Expression udf = FunctionCode.mapping(call, FunctionCode.command(answer), null, schema, lines);
    ExtensionJar.ship();
    List<Object> given = new ArrayList<>(List.of(
        udf, Scala.seq(parts.keys()), Scala.seq(all), org.apache.spark.sql.streaming.OutputMode.Append(),
        org.apache.spark.sql.streaming.TimeMode.EventTime()));
    given.addAll(java.util.Collections.nCopies(parameters() - PLANNED, Option.empty())); // set by Spark for each micro-batch
    given.addAll(List.of(
        org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark.UserFacingDataType$.MODULE$.PANDAS(), child, true, false, tables,
        Scala.seq(List.<Attribute>of()), new StructType()));
    Object operator = Reflection.construct(OPERATOR, given.toArray());
    return (SparkPlan) operator;
  }

  /**
   * Returns the request about a micro-batch's tables, without their contents: the engine's request, with the types of the columns
   * that go to Python.
   */
  private static String reading(ObjectNode engine, List<NamedExpression> columns) {
    StructType types = new StructType();
    for (NamedExpression column : columns) {
      types = types.add("c" + types.length(), ((Expression) column).dataType(), true);
    }
    return engine.deepCopy().put("kind", "arrived").put("types", types.json()).toString();
  }

  private static Attribute column(String name, DataType type, Metadata metadata) {
    return new AttributeReference(name, type, true, metadata, NamedExpression.newExprId(), Scala.seq(List.<String>of()));
  }
}
