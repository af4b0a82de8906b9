package org.sparkcep.stream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PythonUDTF;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.internal.SQLConf;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.errors.ClauseException;
import org.sparkcep.functions.Call;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.rewriter.Rewriter;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Raises the errors of a clause over a stream: collects facts of the plan, which the rewriter's process judges. */
public final class StreamChecks {
  private static final String WATERMARK = "spark.watermarkDelayMs"; // metadata of a watermark column
  private static final String PROVIDER = "spark.sql.streaming.stateStore.providerClass";
  private static final String ENCODING = "spark.sql.streaming.stateStore.encodingFormat";
  private static final String SEVERAL = "spark.sql.streaming.statefulOperator.allowMultiple"; // each operator has its own watermark
  private static final Set<String> PASSING = Set.of( // a clause may be above these
      "Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "EventTimeWatermark", "StreamInput", "GlobalLimit", "LocalLimit");
  private static final Set<String> STATEFUL = Set.of(
      "Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "FlatMapGroupsWithState",
      "FlatMapGroupsInPandasWithState", "TransformWithState", "TransformWithStateInPySpark", "GlobalLimit", "LocalLimit", "Limit");

  private StreamChecks() {}

  /** Returns a stateful Spark node below a clause, or "". {@code below}: whether the node is already below a clause. */
  static String over(LogicalPlan node, boolean below) {
    boolean own = node instanceof StreamInput || node instanceof EventTimeWatermark;
    if (!node.isStreaming() || (below && !own && keepsState(node))) {
      return node.isStreaming() ? node.nodeName() : "";
    }
    return CollectionConverters.asJava(node.children()).stream().map(child -> over(child, below || node instanceof StreamInput)).filter(name -> !name.isEmpty())
        .findFirst().orElse("");
  }

  /** Asks the rewriter's process to check a clause over these rows. */
  static void check(String plan, Seq<SortOrder> order, StreamTables beside) {
    LogicalPlan rows = beside.rows();
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("kind", "stream").put("plan", plan).put("on", Configured.mapsInArrow()).put("known", StreamOperator.isKnown());
    Expression time = order.isEmpty() ? null : order.head().child();
    request.put("time", time == null ? "" : time.dataType().catalogString());
    request.put("marked", time != null && isMarked(time));
    request.put("unmarked", isUnmarkedInBranch(time, rows, defined(rows, new HashMap<>())));
    request.put("provider", SQLConf.get().getConfString(PROVIDER, SQLConf.get().stateStoreProviderClass()));
    request.put("encoding", SQLConf.get().getConfString(ENCODING, "unsaferow").toLowerCase(java.util.Locale.ROOT));
    ArrayNode types = request.putArray("types");
    CollectionConverters.asJava(order).forEach(by -> types.add(by.child().dataType().catalogString()));
    watermarks(rows, request.putArray("watermarks"));
    collect(rows, request.putArray("stateful"), request.putArray("unbounded"));
    ArrayNode streamed = request.putArray("streamed");
    for (int i = 0; i < beside.tables().size(); i++) {
      if (beside.tables().get(i).isStreaming()) {
        streamed.add(beside.names().get(i));
      }
    }
    ArrayNode below = request.putArray("below");
    LogicalPlan source = StreamMark.source(rows);
    (source == null ? List.<String>of() : StreamMark.plans(source)).forEach(below::add);
    if (StreamMark.keepsLate(rows) && source != null) {
      request.set("late", LateRows.described(LateRows.rows(source)));
    }
    Rewriter.granted(request);
  }

  /** Whether an expression is an unchanged watermark column. */
  static boolean isMarked(Expression value) {
    return value instanceof Attribute attribute && attribute.metadata().contains(WATERMARK);
  }

  /**
   * Raises an error if the ORDER BY column of a clause is not the watermark's in a branch of UNION ALL. When a clause is checked,
   * the definitions of WITH are not below it yet. {@code plan}: the clause's plan, null above a clause.
   */
  static void checkBranches(LogicalPlan node, String plan, Map<Long, LogicalPlan> defined) {
    List<Attribute> columns = CollectionConverters.asJava(node.output());
    String last = columns.isEmpty() ? "" : columns.get(columns.size() - 1).name();
    String own = last.startsWith(Call.PLAN_HEAD) ? last : plan;
    if (node instanceof StreamInput input && own != null && !input.order().isEmpty() && isUnmarkedInBranch(input.order().head().child(), input.child(), defined)) {
      Rewriter.granted(JsonNodeFactory.instance.objectNode().put("kind", "unmarked").put("plan", own));
    }
    CollectionConverters.asJava(node.children()).forEach(child -> checkBranches(child, own, defined));
  }

  /** Adds the definitions of WITH in a plan, by their numbers. */
  static Map<Long, LogicalPlan> defined(LogicalPlan node, Map<Long, LogicalPlan> found) {
    if (node instanceof CTERelationDef definition) {
      found.put(definition.id(), definition.child());
    }
    CollectionConverters.asJava(node.children()).forEach(child -> defined(child, found));
    return found;
  }

  private static boolean isUnmarkedInBranch(Expression time, LogicalPlan rows, Map<Long, LogicalPlan> defined) {
    return time instanceof Attribute column && isMarked(column) && !isMarked(column, true, rows, defined);
  }

  /**
   * Whether a column is a watermark column in each branch of the UNION ALL below. Spark gives the union the marks of its first
   * branch. A branch may add a constant interval, because its rows are then never later than the watermark.
   *
   * <p>{@code marked}: whether the column has a mark above {@code rows}.
   */
  private static boolean isMarked(Attribute column, boolean marked, LogicalPlan rows, Map<Long, LogicalPlan> defined) {
    if (rows instanceof EventTimeWatermark watermark && watermark.eventTime().exprId().equals(column.exprId())) {
      return true;
    }
    boolean here = marked || isMarked(column);
    if (rows instanceof CTERelationRef reference && defined.containsKey(reference.cteId())) {
      LogicalPlan definition = defined.get(reference.cteId());
      return isMarked(at(place(column, rows), definition), here, definition, defined);
    }
    if (rows instanceof Union) {
      int place = place(column, rows);
      return CollectionConverters.asJava(rows.children()).stream().allMatch(branch -> isMarked(at(place, branch), false, branch, defined));
    }
    for (Expression expression : CollectionConverters.asJava(rows.expressions())) {
      if (expression instanceof Alias alias && alias.exprId().equals(column.exprId())) {
        Attribute source = unchangedOrLater(alias.child());
        return source == null ? here : isMarkedBelow(source, here, rows, defined);
      }
    }
    return isMarkedBelow(column, here, rows, defined);
  }

  private static boolean isMarkedBelow(Attribute column, boolean marked, LogicalPlan rows, Map<Long, LogicalPlan> defined) {
    List<LogicalPlan> below = CollectionConverters.asJava(rows.children()).stream().filter(child -> place(column, child) >= 0).toList();
    return below.isEmpty() ? marked : below.stream().allMatch(child -> isMarked(at(place(column, child), child), marked, child, defined));
  }

  private static int place(Attribute column, LogicalPlan rows) {
    return CollectionConverters.asJava(rows.output()).stream().map(Attribute::exprId).toList().indexOf(column.exprId());
  }

  private static Attribute at(int place, LogicalPlan rows) {
    return CollectionConverters.asJava(rows.output()).get(place);
  }

  /** Returns the column that an expression is, or to which it adds a constant interval; null for any other expression. */
  private static Attribute unchangedOrLater(Expression value) {
    if (value instanceof Cast cast && cast.dataType().equals(cast.child().dataType())) {
      return unchangedOrLater(cast.child());
    }
    boolean moved = value.getClass().getSimpleName().equals("TimestampAddInterval") && value.children().apply(1) instanceof Literal literal
        && literal.value() instanceof Long micros && micros >= 0;
    return moved ? unchangedOrLater(value.children().head()) : value instanceof Attribute column ? column : null;
  }

  /** Collects the watermark columns of rows. A watermark replaces those below it. */
  private static void watermarks(LogicalPlan rows, ArrayNode columns) {
    if (rows instanceof EventTimeWatermark watermark) {
      columns.add(watermark.eventTime().name());
    } else {
      CollectionConverters.asJava(rows.children()).forEach(child -> watermarks(child, columns));
    }
  }

  /** Collects the stateful nodes below that a clause cannot be above, and joins that would make it wait indefinitely. */
  private static void collect(LogicalPlan rows, ArrayNode stateful, ArrayNode unbounded) {
    if (joins(rows) && !isBounded((Join) rows)) {
      unbounded.add(((Join) rows).joinType().sql());
    } else if (keepsState(rows) && !joins(rows) && !PASSING.contains(rows.nodeName())) {
      stateful.add(rows.nodeName());
    }
    CollectionConverters.asJava(rows.children()).forEach(child -> collect(child, stateful, unbounded));
  }

  /**
   * Whether a join limits how long a row of either side waits for the other, by their watermark columns. Then no row is later than
   * the watermark of the joined rows. A full outer join does not qualify: with NULL keys it returns other rows than over tables.
   */
  private static boolean isBounded(Join join) {
    List<Expression> left = marked(join.left());
    List<Expression> right = marked(join.right());
    if (left.size() != 1 || right.size() != 1 || join.joinType().sql().equals("FULL OUTER")) {
      return false;
    }
    if (StreamingJoinHelper.isWatermarkInJoinKeys(join)) {
      return join.condition().isDefined() && equal(join.condition().get(), left.get(0), right.get(0));
    }
    return isBounded(join.left(), left, right, join) && isBounded(join.right(), right, left, join);
  }

  /** Whether the bound of a side is that of its watermark column; Spark accepts a bound of any column. */
  private static boolean isBounded(LogicalPlan side, List<Expression> own, List<Expression> other, Join join) {
    AttributeSet others = AttributeSet.apply(CollectionConverters.asScala(other));
    Option<Object> some = Option.apply((Object) 1_000_000L);
    Option<Object> found = StreamingJoinHelper.getStateValueWatermark(AttributeSet.apply(CollectionConverters.asScala(own)), others, join.condition(), some);
    return found.isDefined() && found.equals(StreamingJoinHelper.getStateValueWatermark(side.outputSet(), others, join.condition(), some));
  }

  private static List<Expression> marked(LogicalPlan rows) {
    List<Expression> found = new ArrayList<>();
    CollectionConverters.asJava(rows.output()).stream().filter(StreamChecks::isMarked).forEach(found::add);
    return found;
  }

  /** Whether a condition requires two columns to be equal. */
  private static boolean equal(Expression condition, Expression one, Expression other) {
    if (condition instanceof And and) {
      return equal(and.left(), one, other) || equal(and.right(), one, other);
    }
    return condition instanceof EqualTo to
        && ((to.left().semanticEquals(one) && to.right().semanticEquals(other)) || (to.left().semanticEquals(other) && to.right().semanticEquals(one)));
  }

  /** Whether a node joins streams. */
  static boolean joins(LogicalPlan node) {
    return node instanceof Join join && join.left().isStreaming() && join.right().isStreaming();
  }

  private static boolean keepsState(LogicalPlan node) {
    return joins(node) || node instanceof StreamInput || (node.isStreaming() && STATEFUL.contains(node.nodeName()));
  }

  static boolean keepsStateIn(LogicalPlan rows) {
    return keepsState(rows) || CollectionConverters.asJava(rows.children()).stream().anyMatch(StreamChecks::keepsStateIn);
  }

  /** Raises an error if a stateful node is above a clause over a stream and does not fit it. */
  public static void checkChained(LogicalPlan plan) {
    if (StreamMark.isBelow(plan)) {
      checkChained(plan, null);
    }
  }

  /** {@code above}: the nearest stateful node above; null without one. */
  private static void checkChained(LogicalPlan node, LogicalPlan above) {
    if (above != null && node instanceof Generate generate && generate.generator() instanceof PythonUDTF function) {
      Call call = Call.of(function, StreamPlanning.alone(generate.child(), new ArrayList<>()));
      if (call != null && StreamMark.input(call.table()) != null) {
        ObjectNode request = JsonNodeFactory.instance.objectNode().put("kind", "chained").put("plan", call.plan().toString());
        request.put("above", above.nodeName()).put("several", Boolean.parseBoolean(SQLConf.get().getConfString(SEVERAL, "true")));
        Rewriter.granted(request.put("timed", isTimed(above)));
      }
    }
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) {
      if (StreamMark.isBelow(child)) {
        checkChained(child, keepsState(node) ? node : above);
      }
    }
  }

  /** Whether a node's rows have a watermark column, which lets the node drop its state. */
  private static boolean isTimed(LogicalPlan node) {
    return CollectionConverters.asJava(node.children()).stream()
        .anyMatch(child -> CollectionConverters.asJava(child.output()).stream().anyMatch(StreamChecks::isMarked));
  }
}
