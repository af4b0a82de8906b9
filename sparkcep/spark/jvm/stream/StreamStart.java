package org.sparkcep.stream;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.ChecksumException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker$;
import org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestamp;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.expressions.Now;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Except;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement;
import org.apache.spark.sql.internal.SQLConf;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.functions.Call;
import org.sparkcep.rewriter.Rewriter;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Raises errors that are only known when a query over a stream starts. They are an output mode or a trigger that does not fit a
 * clause, operators that Spark does not run over streams, and a checkpoint of another statement.
 *
 * <p>Spark analyses the query again when it starts, with a node above it. The first analysis has the user's request, before Spark's
 * own rules see it. The second has the folder of the checkpoint.
 */
public final class StreamStart extends Rule<LogicalPlan> {
  public static final String STATEMENT = "_sparkcep/statement.json"; // next to an operator's state: that of the first micro-batch
  public static final String LATER = "_sparkcep/statements/"; // next to it: a file for each micro-batch from which another statement ran
  private static final Pattern OPERATOR_NAME = Pattern.compile("\"operatorName\":\"([^\"]*)\""); // in Spark's metadata of a state

  private final org.apache.spark.sql.classic.SparkSession session;

  public StreamStart(org.apache.spark.sql.classic.SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof WriteToStreamStatement asked && StreamMark.isBelow(asked.inputQuery())) {
      StreamChecks.checkBranches(asked.inputQuery(), null, StreamChecks.defined(asked.inputQuery(), new HashMap<>()));
      ObjectNode request = JsonNodeFactory.instance.objectNode().put("kind", "started").put("mode", asked.outputMode().toString());
      request.put("trigger", asked.trigger().getClass().getSimpleName()).put("plan", StreamMark.plans(asked.inputQuery()).get(0));
      request.put("aggregated", isAggregated(asked.inputQuery())).put("over", StreamChecks.over(asked.inputQuery(), false));
      request.put("untimed", untimed(asked.inputQuery())).put("refused", refused(asked));
      Rewriter.granted(request);
      return replaced(asked, Now.class, now -> new CurrentTimestamp());
    }
    if (plan instanceof WriteToStream write && StreamMark.isBelow(write.inputQuery())) {
      check(write);
    }
    return plan;
  }

  /** Returns Spark's objection to a query without the plan that Spark would show; "" if there is none. */
  private static String refused(WriteToStreamStatement asked) {
    try {
      if (SQLConf.get().isUnsupportedOperationCheckEnabled()) {
        UnsupportedOperationChecker$.MODULE$.checkForStreaming(asked.inputQuery(), asked.outputMode());
      }
      return "";
    } catch (Exception e) { // Scala declares no exceptions
      if (e instanceof AnalysisException objection) {
        return objection.getSimpleMessage();
      }
      throw Reflection.<RuntimeException>unchecked(e);
    }
  }

  /** Returns a plan with expressions of one kind replaced. */
  private static LogicalPlan replaced(LogicalPlan plan, Class<? extends Expression> kind, UnaryOperator<Expression> by) {
    return (LogicalPlan) plan.transformAllExpressions(Replacement.of(kind::isInstance, by));
  }

  /**
   * Returns a query with the micro-batch's time instead of the current time, as Spark makes it for each micro-batch. Spark does not
   * do so for {@code now()}, which has become {@code current_timestamp()} by then. Spark considers such an expression
   * non-deterministic, so it stays above a clause.
   */
  private static LogicalPlan timed(LogicalPlan plan) {
    Option<String> zone = Option.apply(SQLConf.get().sessionLocalTimeZone());
    for (Class<? extends Expression> kind : List.of(CurrentTimestamp.class, LocalTimestamp.class, CurrentDate.class)) {
      plan = replaced(plan, kind, time -> new CurrentBatchTimestamp(0L, time.dataType(), zone));
    }
    return plan;
  }

  /** Compares the statements with those in the checkpoint. */
  private void check(WriteToStream write) {
    // the optimizer's rule reports stateful nodes that do not fit a clause
    LogicalPlan optimized = session.sessionState().optimizer().execute(timed(write.inputQuery()));
    ArrayNode before = before(new Path(write.resolvedCheckpointLocation()));
    if (before == null) {
      return;
    }
    ObjectNode request = JsonNodeFactory.instance.objectNode().put("kind", "restarted");
    ArrayNode now = request.putArray("now");
    calls(optimized, new ArrayList<>()).forEach(call -> now.add(StreamStatement.statement(call, StreamMark.input(call.table())).toString()));
    Rewriter.granted(request.set("before", before));
  }

  /** Returns the statements in a checkpoint, in the order of its operators; null before its first micro-batch. */
  private ArrayNode before(Path checkpoint) {
    try {
      FileSystem files = checkpoint.getFileSystem(session.sessionState().newHadoopConf());
      List<Path> commits = numbered(files, new Path(checkpoint, "commits"));
      if (commits.isEmpty()) {
        return null;
      }
      long next = Long.parseLong(commits.get(commits.size() - 1).getName()) + 1;
      ArrayNode found = JsonNodeFactory.instance.arrayNode();
      for (Path operator : numbered(files, new Path(checkpoint, "state"))) {
        found.add(kept(files, operator, next));
      }
      return found;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Returns the statement that wrote the state of an operator before a micro-batch. It has the {@code file}, its {@code text}
   * (null if it is missing, "" if it cannot be read), and the {@code operator}'s name. The name distinguishes a missing file from
   * a state that is not sparkcep's.
   */
  public static ObjectNode kept(FileSystem files, Path operator, long batchId) throws IOException {
    // a statement whose first micro-batch failed has not changed the state
    Path statement = numbered(files, new Path(operator, LATER)).stream().filter(path -> Long.parseLong(path.getName()) < batchId)
        .reduce((one, later) -> later).orElse(new Path(operator, STATEMENT));
    String text = null;
    try {
      text = read(files, statement);
    } catch (FileNotFoundException e) { // the operator's name says whether that is right
    } catch (ChecksumException e) {
      text = "";
    }
    return JsonNodeFactory.instance.objectNode().put("file", statement.toString()).put("text", text).put("operator", operatorName(files, new Path(operator, "_metadata")));
  }

  /** Returns the name of the operator with this state; "" if Spark has not written it. */
  private static String operatorName(FileSystem files, Path metadata) throws IOException {
    List<Path> versions = new ArrayList<>(numbered(files, new Path(metadata, "v2")));
    versions.add(new Path(metadata, "metadata"));
    for (Path path : versions) {
      try {
        Matcher name = OPERATOR_NAME.matcher(read(files, path));
        if (name.find()) {
          return name.group(1);
        }
      } catch (FileNotFoundException e) { // it has another version of Spark's layout
      }
    }
    return "";
  }

  private static String read(FileSystem files, Path path) throws IOException {
    try (FSDataInputStream in = files.open(path)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  /** Returns the entries of a folder whose names are numbers, in order. */
  public static List<Path> numbered(FileSystem files, Path folder) throws IOException {
    FileStatus[] found;
    try {
      found = files.listStatus(folder);
    } catch (FileNotFoundException e) {
      return List.of();
    }
    return Arrays.stream(found).map(FileStatus::getPath).filter(path -> path.getName().matches("\\d{1,18}"))
        .sorted(Comparator.comparing(path -> Long.valueOf(path.getName()))).toList();
  }

  /** Whether Spark aggregates the output of each clause of an analysed query. */
  private static boolean isAggregated(LogicalPlan node) {
    List<LogicalPlan> children = CollectionConverters.asJava(node.children());
    return node instanceof Aggregate || (!(node instanceof StreamInput) && children.stream().filter(StreamMark::isBelow).allMatch(StreamStart::isAggregated));
  }

  /** Returns an aggregate above a clause without a watermark column among its keys; "" without one. */
  private static String untimed(LogicalPlan node) {
    if (!StreamMark.isBelow(node)) {
      return "";
    }
    boolean distinct = node instanceof Distinct || (node instanceof Except except && !except.isAll()); // all columns are keys
    Seq<? extends Expression> keys = node instanceof Aggregate aggregate ? aggregate.groupingExpressions() : distinct ? node.output() : null;
    if (keys != null && CollectionConverters.asJava(keys).stream().noneMatch(StreamChecks::isMarked)) {
      return node.nodeName();
    }
    return CollectionConverters.asJava(node.children()).stream().map(StreamStart::untimed).filter(name -> !name.isEmpty()).findFirst().orElse("");
  }

  /** Returns the calls over streams in an optimized plan, from its top. */
  private static List<Call> calls(LogicalPlan node, List<Call> found) {
    LogicalPlan alone = node instanceof ArrowEvalPythonUDTF moved ? StreamPlanning.alone(moved) : node;
    if (alone != node) {
      return calls(alone, found);
    }
    Call call = node instanceof ArrowEvalPythonUDTF planned ? Call.of(planned.udtf(), planned.child()) : null;
    if (call != null && StreamMark.input(call.table()) != null) {
      found.add(call);
    }
    CollectionConverters.asJava(node.children()).forEach(child -> calls(child, found));
    return found;
  }
}
