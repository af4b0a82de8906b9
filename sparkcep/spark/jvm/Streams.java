package org.sparkcep;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FunctionTableSubqueryArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDTF;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Clauses over streams: finds them in a plan, checks them, and plans the operator that runs them. */
final class Streams {
  static final String OPERATOR = "org.sparkcep.MatchStateExec";
  static final String STATEMENT = "sparkcep.statement"; // metadata of the operator's last column
  static final String BUDGETED = "sparkcep.budgeted";
  static final int STATE_FORMAT = 2; // of the values in the state store
  private static final String PARENT = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec";
  private static final String VERSION = "org.sparkcep.SparkVersion"; // the Spark version that the operator is compiled for
  private static final int TOLD = 12; // parameters of the operator that its plan sets
  private static final String WATERMARK = "spark.watermarkDelayMs"; // metadata of a watermark column
  private static final String PROVIDER = "spark.sql.streaming.stateStore.providerClass";
  private static final String ENCODING = "spark.sql.streaming.stateStore.encodingFormat";
  private static final String REPORTED = "\"report\":\"CHANGES\""; // in a plan
  static final String READING = "sparkcep.reading"; // metadata: the request about tables that are read in addition to the rows
  static final String LATE = "sparkcep.late"; // metadata: the table of late rows
  static final String BEHIND = "sparkcep.behind"; // metadata: how many milliseconds the watermark that it passes on trails its own
  private static final String QUERY = "sql.streaming.queryId"; // a property of a streaming query's jobs
  private static final String SEVERAL = "spark.sql.streaming.statefulOperator.allowMultiple"; // each operator has its own watermark
  private static final String NEEDED = "__needed"; // whether a variable accepts a row
  private static final int MAP_ARROW_ITER = 207; // PythonEvalType.SQL_MAP_ARROW_ITER_UDF
  private static final Set<String> PASSING = Set.of( // a clause may be above these
      "Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "StreamInput", "GlobalLimit", "LocalLimit");
  private static final Set<String> STATEFUL = Set.of(
      "Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "FlatMapGroupsWithState",
      "FlatMapGroupsInPandasWithState", "TransformWithState", "TransformWithStateInPySpark", "GlobalLimit", "LocalLimit", "Limit");

  private Streams() {}

  /**
   * Returns the arguments of a call; a table that is a stream is marked instead of sorted. Raises the errors of a clause over a
   * stream.
   */
  static Seq<Expression> marked(Seq<Expression> arguments) {
    if (arguments.isEmpty() || !(arguments.head() instanceof FunctionTableSubqueryArgumentExpression table) || !table.plan().resolved()
        || table.plan().output().isEmpty()) {
      return arguments;
    }
    String plan = table.plan().output().last().name();
    if (!plan.startsWith(Call.PLAN_HEAD)) {
      return arguments;
    }
    if (!table.plan().isStreaming()) {
      if (plan.contains(REPORTED)) { // a feature that only streams have is an error before any job
        raise(Rewriter.asked(JsonNodeFactory.instance.objectNode().put("kind", "table").put("plan", plan)));
      }
      return arguments;
    }
    LogicalPlan marked = marked(table.plan(), plan, null);
    if (marked == null) {
      return arguments;
    }
    List<Expression> out = new ArrayList<>(CollectionConverters.asJava(arguments));
    out.set(0, table.withNewPlan(marked));
    return Scala.seq(out);
  }

  /**
   * Returns {@code table} with a mark instead of distribution and order, below the columns {@code above}; null if they are not the
   * rewriter's.
   */
  private static LogicalPlan marked(LogicalPlan table, String plan, Project above) {
    if (table instanceof Project project) {
      LogicalPlan child = marked(project.child(), plan, above == null ? project : above);
      return child == null ? null : StreamTables.withoutHistory(project, child);
    }
    if (table instanceof SubqueryAlias alias) {
      LogicalPlan child = marked(alias.child(), plan, above);
      return child == null ? null : new SubqueryAlias(alias.identifier(), child);
    }
    if (!(table instanceof Sort sort) || sort.global() || !(sort.child() instanceof RepartitionByExpression asked)) {
      return null;
    }
    // The keys come before the order. Without keys the rewriter distributes by a constant.
    long keys = CollectionConverters.asJava(asked.partitionExpressions()).stream().filter(key -> key instanceof Attribute).count();
    Seq<SortOrder> order = Scala.seq(
        CollectionConverters.asJava(sort.order()).stream().skip(keys).filter(by -> !StreamTables.isBefore(by.child())).toList());
    StreamTables beside = StreamTables.of(asked.child());
    beside = above == null ? beside : beside.with(above);
    check(plan, order, beside);
    List<Attribute> condition = new ArrayList<>();
    List<Attribute> late = new ArrayList<>();
    boolean tells = tellsLate(beside.rows());
    LogicalPlan rows = unfiltered(beside.rows(), condition, tells ? late : null);
    if (tells && late.isEmpty()) {
      throw new IllegalStateException("the rows of a stream are not those that the rewriter computes");
    }
    LogicalPlan input = new StreamInput(
        asked.partitionExpressions(), order, texts(rows, StreamTables.columns(Call.plan(plan))).toString(), Scala.seq(late), 0, Scala.seq(beside.names()),
        Scala.seq(beside.tables()), rows);
    // The plan must remain the last column of the table, although the mark has columns after the rewriter's.
    LogicalPlan kept = condition.isEmpty() ? input : new Filter(condition.get(0), input);
    List<NamedExpression> before = new ArrayList<>(CollectionConverters.asJava(sort.output()));
    return condition.isEmpty() && late.isEmpty() ? input : new Project(Scala.seq(before), kept);
  }

  /**
   * Returns the rows without the rewriter's own WHERE, whose condition becomes a column. Below the mark Spark would move the
   * condition to the source, and rows that no variable accepts would not advance the watermark. {@code late} receives the column
   * for the table of late rows; it is null without such a table.
   */
  private static LogicalPlan unfiltered(LogicalPlan rows, List<Attribute> condition, List<Attribute> late) {
    if (rows instanceof SubqueryAlias alias) {
      return new SubqueryAlias(alias.identifier(), unfiltered(alias.child(), condition, late));
    }
    if (!(rows instanceof Project project)) {
      return rows;
    }
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
    if (!isComputed(project)) {
      LogicalPlan child = unfiltered(project.child(), condition, late);
      columns.addAll(condition);
      columns.addAll(late == null ? List.of() : late);
      return new Project(Scala.seq(columns), child);
    }
    LogicalPlan source = project.child();
    if (source instanceof Filter filter) {
      NamedExpression needed = Expressions.plain(filter.condition(), NEEDED);
      columns.add(needed);
      condition.add(needed.toAttribute());
      source = filter.child();
    }
    if (late != null) {
      NamedExpression carried = LateRows.column(LateRows.rows(source));
      columns.add(carried);
      late.add(carried.toAttribute());
    }
    return new Project(Scala.seq(columns), source);
  }

  /** Whether late rows of a clause over these rows go to a table. The output of another clause is never late. */
  private static boolean tellsLate(LogicalPlan rows) {
    return !LateRows.table().isEmpty() && hasSource(rows);
  }

  private static boolean hasSource(LogicalPlan node) {
    List<LogicalPlan> children = CollectionConverters.asJava(node.children());
    return node.isStreaming() && !(node instanceof StreamInput) && (children.isEmpty() || children.stream().anyMatch(Streams::hasSource));
  }

  /** Returns the plans (names of columns) of the clauses over streams in an analysed plan, without those below another clause. */
  static List<String> plans(LogicalPlan node) {
    List<Attribute> columns = CollectionConverters.asJava(node.output());
    if (isBelow(node) && !columns.isEmpty() && columns.get(columns.size() - 1).name().startsWith(Call.PLAN_HEAD)) {
      return List.of(columns.get(columns.size() - 1).name());
    }
    return CollectionConverters.asJava(node.children()).stream().flatMap(child -> plans(child).stream()).toList();
  }

  /** Whether this projection computes the rewriter's columns. */
  private static boolean isComputed(Project project) {
    return CollectionConverters.asJava(project.projectList()).stream().anyMatch(column -> column instanceof Alias alias && alias.name().equals("__o0"));
  }

  /** Returns the rows below the rewriter's columns; null if no column is a time, because ORDER BY is missing. */
  private static LogicalPlan source(LogicalPlan rows) {
    if (rows.children().isEmpty()) {
      return null;
    }
    boolean computed = rows instanceof Project project && isComputed(project);
    LogicalPlan child = rows.children().head();
    return !computed ? source(child) : child instanceof Filter filter ? filter.child() : child;
  }

  /** Asks the rewriter's process to check a clause over these rows. */
  private static void check(String plan, Seq<SortOrder> order, StreamTables beside) {
    LogicalPlan rows = beside.rows();
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("kind", "stream").put("plan", plan).put("on", Configured.mapsInArrow()).put("known", isKnown());
    Expression time = order.isEmpty() ? null : order.head().child();
    request.put("time", time == null ? "" : time.dataType().catalogString());
    request.put("marked", time != null && isMarked(time));
    request.put("provider", SQLConf.get().getConfString(PROVIDER, SQLConf.get().stateStoreProviderClass()));
    request.put("encoding", SQLConf.get().getConfString(ENCODING, "unsaferow").toLowerCase(java.util.Locale.ROOT));
    ArrayNode types = request.putArray("types");
    CollectionConverters.asJava(order).forEach(by -> types.add(by.child().dataType().catalogString()));
    ArrayNode columns = request.putArray("watermarks");
    collect(rows, columns, request.putArray("stateful"), request.putArray("unbounded"));
    ArrayNode streamed = request.putArray("streamed");
    for (int i = 0; i < beside.tables().size(); i++) {
      if (beside.tables().get(i).isStreaming()) {
        streamed.add(beside.names().get(i));
      }
    }
    ArrayNode below = request.putArray("below");
    LogicalPlan source = source(rows);
    (source == null ? List.<String>of() : plans(source)).forEach(below::add);
    if (tellsLate(rows) && source != null) {
      request.set("late", LateRows.described(LateRows.rows(source)));
    }
    raise(Rewriter.asked(request));
  }

  static void raise(JsonNode answer) {
    if (answer.has("error")) {
      throw Reflection.<RuntimeException>unchecked(new ClauseException(null, answer.get("error")));
    }
  }

  /** Whether an expression is an unchanged watermark column. */
  static boolean isMarked(Expression value) {
    return value instanceof Attribute attribute && attribute.metadata().contains(WATERMARK);
  }

  /** Returns a stateful Spark node below a clause, or "". {@code below}: whether the node is already below a clause. */
  static String over(LogicalPlan node, boolean below) {
    boolean own = node instanceof StreamInput || node instanceof EventTimeWatermark;
    if (!node.isStreaming() || (below && !own && keepsState(node))) {
      return node.isStreaming() ? node.nodeName() : "";
    }
    return CollectionConverters.asJava(node.children()).stream().map(child -> over(child, below || node instanceof StreamInput)).filter(name -> !name.isEmpty())
        .findFirst().orElse("");
  }

  /**
   * Collects the watermark columns below, the stateful nodes that a clause cannot be above, and joins that would make it wait
   * indefinitely.
   */
  private static void collect(LogicalPlan rows, ArrayNode columns, ArrayNode stateful, ArrayNode unbounded) {
    if (rows instanceof EventTimeWatermark watermark) {
      columns.add(watermark.eventTime().name());
    } else if (joins(rows) && !isBounded((Join) rows)) {
      unbounded.add(((Join) rows).joinType().sql());
    } else if (keepsState(rows) && !joins(rows) && !PASSING.contains(rows.nodeName())) {
      stateful.add(rows.nodeName());
    }
    CollectionConverters.asJava(rows.children()).forEach(child -> collect(child, columns, stateful, unbounded));
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
    CollectionConverters.asJava(rows.output()).stream().filter(Streams::isMarked).forEach(found::add);
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
  private static boolean joins(LogicalPlan node) {
    return node instanceof Join join && join.left().isStreaming() && join.right().isStreaming();
  }

  private static boolean keepsState(LogicalPlan node) {
    return joins(node) || node instanceof StreamInput || (node.isStreaming() && STATEFUL.contains(node.nodeName()));
  }

  /** Returns the texts of the rewriter's row expressions, without qualifiers and without the columns {@code beside}. */
  private static ObjectNode texts(LogicalPlan rows, Set<String> beside) {
    ObjectNode texts = JsonNodeFactory.instance.objectNode();
    for (LogicalPlan columns = rows; columns instanceof SubqueryAlias || columns instanceof Project; columns = columns.children().head()) {
      if (columns instanceof Project project) {
        for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
          if (column instanceof Alias alias && alias.name().startsWith("__") && !alias.name().equals(LateRows.COLUMN) && !beside.contains(alias.name())
              && !texts.has(alias.name())) {
            texts.put(alias.name(), text(alias.child()));
          }
        }
      }
    }
    return texts;
  }

  /** Returns an expression's text, including its subqueries, which Spark leaves out. */
  private static String text(Expression value) {
    StringBuilder text = new StringBuilder(Expressions.unqualified(value).sql());
    subqueries(value, text);
    return text.toString();
  }

  private static void subqueries(Expression value, StringBuilder text) {
    if (value instanceof SubqueryExpression subquery) {
      describe(subquery.plan(), text.append(" of "));
    }
    CollectionConverters.asJava(value.children()).forEach(child -> subqueries(child, text));
  }

  private static void describe(LogicalPlan node, StringBuilder text) {
    text.append(node instanceof SubqueryAlias alias ? alias.alias() : node.nodeName());
    text.append(node instanceof LocalRelation rows ? " " + rows.data().hashCode() : "");
    CollectionConverters.asJava(node.expressions()).forEach(part -> text.append(' ').append(text(part)));
    CollectionConverters.asJava(node.children()).forEach(child -> describe(child, text.append(" of ")));
  }

  /** Whether the operator was compiled, and extends the class that it was written for. */
  static boolean isKnown() {
    try {
      ClassLoader loader = Streams.class.getClassLoader();
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
      return Class.forName(VERSION, true, Streams.class.getClassLoader()).getDeclaredField("PARAMETERS").getInt(null);
    } catch (ReflectiveOperationException e) {
      return 0;
    }
  }

  /** Raises an error if a stateful node is above a clause over a stream and does not fit it. */
  static void checkChained(LogicalPlan plan) {
    if (isBelow(plan)) {
      checkChained(plan, null);
    }
  }

  /** {@code above}: the nearest stateful node above; null without one. */
  private static void checkChained(LogicalPlan node, LogicalPlan above) {
    if (above != null && node instanceof Generate generate && generate.generator() instanceof PythonUDTF function) {
      Call call = Call.of(function, alone(generate.child(), new ArrayList<>()));
      if (call != null && input(call.table()) != null) {
        ObjectNode request = JsonNodeFactory.instance.objectNode().put("kind", "chained").put("plan", call.plan().toString());
        request.put("above", above.nodeName()).put("several", Boolean.parseBoolean(SQLConf.get().getConfString(SEVERAL, "true")));
        raise(Rewriter.asked(request.put("timed", isTimed(above))));
      }
    }
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) {
      if (isBelow(child)) {
        checkChained(child, keepsState(node) ? node : above);
      }
    }
  }

  /** Whether a node's rows have a watermark column, which lets the node drop its state. */
  private static boolean isTimed(LogicalPlan node) {
    return CollectionConverters.asJava(node.children()).stream()
        .anyMatch(child -> CollectionConverters.asJava(child.output()).stream().anyMatch(Streams::isMarked));
  }

  /**
   * Returns the plan with a unique number for each mark. Otherwise Spark would run one exchange for two equal clauses, and its
   * stateful operators would lose rows.
   */
  static LogicalPlan numbered(LogicalPlan plan) {
    return isBelow(plan) ? numbered(plan, new int[1]) : plan;
  }

  private static LogicalPlan numbered(LogicalPlan node, int[] count) {
    List<LogicalPlan> before = CollectionConverters.asJava(node.children());
    List<LogicalPlan> children = new ArrayList<>();
    before.forEach(child -> children.add(isBelow(child) ? numbered(child, count) : child));
    LogicalPlan same = children.equals(before) ? node : (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toIndexedSeq());
    return same instanceof StreamInput input ? input.withNumber(count[0]++) : same;
  }

  /** Whether a plan has a clause over a stream. */
  static boolean isBelow(LogicalPlan plan) {
    return plan.isStreaming() && (plan instanceof StreamInput || CollectionConverters.asJava(plan.children()).stream().anyMatch(Streams::isBelow));
  }

  /**
   * Returns a call over a stream below the conditions, and joins with tables, that Spark moved between the call and its mark. Spark
   * moves nodes that read no column of a generator. These nodes must apply when matches are emitted.
   */
  static LogicalPlan alone(ArrowEvalPythonUDTF call) {
    List<UnaryOperator<LogicalPlan>> above = new ArrayList<>();
    LogicalPlan over = over(call, alone(call.child(), above));
    for (int i = above.size() - 1; i >= 0; i--) {
      over = above.get(i).apply(over);
    }
    return above.isEmpty() ? call : over;
  }

  /** Returns the input of a call without the nodes that Spark moved there. {@code above} receives these, from the top. */
  private static LogicalPlan alone(LogicalPlan input, List<UnaryOperator<LogicalPlan>> above) {
    if (!leadsToMark(input) || input instanceof StreamInput) {
      return input;
    }
    LogicalPlan child = input.children().head();
    if (input instanceof Join join) {
      above.add(rows -> over(join, rows));
      return alone(child, above);
    }
    if (!(input instanceof Filter filter)) {
      return over(input, alone(child, above));
    }
    List<Expression> own = new ArrayList<>();
    for (Expression conjunct : Expressions.conjuncts(filter.condition(), new ArrayList<>())) {
      if (conjunct.references().isEmpty()) {
        above.add(rows -> new Filter(conjunct, rows));
      } else {
        own.add(conjunct);
      }
    }
    LogicalPlan rows = alone(child, above);
    return own.isEmpty() ? rows : new Filter(Expressions.all(own), rows);
  }

  private static boolean leadsToMark(LogicalPlan node) {
    boolean passing = node instanceof Project || node instanceof Filter || (node instanceof Join && !joins(node));
    return node instanceof StreamInput || (passing && leadsToMark(node.children().head()));
  }

  /** Returns {@code node} with another first child. */
  private static LogicalPlan over(LogicalPlan node, LogicalPlan child) {
    List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(node.children()));
    children.set(0, child);
    return (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toIndexedSeq());
  }

  /**
   * Prevents two parts of a query from sharing an exchange if there is a stateful node below a clause. Spark looks below such an
   * exchange for the watermark of the nodes above it, and finds it for the first part only. The second part would emit nothing. A
   * query plans in its own session, and sets this there. EXPLAIN plans in the user's session.
   */
  static void keepApart(StreamInput input) {
    boolean inQuery = org.apache.spark.sql.classic.SparkSession.active().sparkContext().getLocalProperty(QUERY) != null;
    if (inQuery && CollectionConverters.asJava(input.children()).stream().anyMatch(Streams::keepsStateIn)) {
      SQLConf.get().setConfString(SQLConf.EXCHANGE_REUSE_ENABLED().key(), "false");
    }
  }

  private static boolean keepsStateIn(LogicalPlan rows) {
    return keepsState(rows) || CollectionConverters.asJava(rows.children()).stream().anyMatch(Streams::keepsStateIn);
  }

  /** Returns the mark below a call's table; null without one. */
  static StreamInput input(LogicalPlan table) {
    if (table instanceof StreamInput input) {
      return input;
    }
    return table instanceof Project || table instanceof Filter ? input(table.children().head()) : null;
  }

  /**
   * The parts of a stateful operator. {@code rows} has the columns that go to Python, those of ORDER BY, the keys and the column
   * for the table of late rows, in this order.
   */
  record Parts(LogicalPlan rows, List<NamedExpression> columns, List<Attribute> keys, ArrayNode names, int ordered) {}

  static Parts parts(Call call, StreamInput input, int carried) {
    Shipment shipment = Shipment.of(call, carried, StreamTables.columns(call.plan()));
    Set<ExprId> needed = new HashSet<>();
    List<Attribute> read = new ArrayList<>();
    List<Expression> readers = new ArrayList<>(CollectionConverters.asJava(input.keys()));
    CollectionConverters.asJava(input.order()).forEach(by -> readers.add(by.child()));
    for (Expression reader : readers) {
      for (Attribute attribute : CollectionConverters.asJava(reader.references().toSeq())) {
        if (needed.add(attribute.exprId())) {
          read.add(attribute);
        }
      }
    }
    List<NamedExpression> columns = new ArrayList<>();
    for (NamedExpression column : shipment.columns()) {
      columns.add(Expressions.plain(column instanceof Alias alias ? alias.child() : (Expression) column, column.name()));
    }
    int ordered = 0;
    for (SortOrder by : CollectionConverters.asJava(input.order())) {
      Expression value = ordered > 0 ? by.child() : new If(new IsNotNull(new Literal((Object) input.number(), DataTypes.IntegerType)), by.child(), by.child());
      columns.add(Expressions.plain(value, "__s" + ordered++));
    }
    List<Attribute> keys = new ArrayList<>();
    for (Expression key : CollectionConverters.asJava(input.keys())) {
      NamedExpression column = Expressions.plain(oneZero(key), "__g" + keys.size());
      columns.add(column);
      keys.add(column.toAttribute());
    }
    for (Attribute late : CollectionConverters.asJava(input.late())) { // after the keys, because it does not go to Python either
      read.add(late);
      columns.add(Expressions.plain(late, LateRows.COLUMN));
    }
    return new Parts(with(call.table(), read), columns, keys, shipment.names(), ordered);
  }

  /**
   * Returns the conditions on keys that were above the clause. Rows of other keys are not kept, so the conditions belong to the
   * statement.
   */
  private static String where(LogicalPlan table, String above) {
    if (table instanceof StreamInput) {
      return above;
    }
    String own = table instanceof Filter filter && !NEEDED.equals(name(filter.condition())) ? Expressions.unqualified(filter.condition()).sql() : "";
    return where(table.children().head(), above + own);
  }

  private static String name(Expression value) {
    return value instanceof Attribute attribute ? attribute.name() : "";
  }

  /** Returns a key that can be compared by bytes: 0.0 and -0.0 become one key, in structs and arrays too, and so do all NaN. */
  private static Expression oneZero(Expression key) {
    return org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$.MODULE$.normalize(key);
  }

  /** Returns the table without the mark, with additional columns from below it. */
  private static LogicalPlan with(LogicalPlan table, List<Attribute> read) {
    if (table instanceof StreamInput input) {
      return input.child();
    }
    if (table instanceof Filter filter) {
      return new Filter(filter.condition(), with(filter.child(), read));
    }
    Project project = (Project) table;
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(project.projectList()));
    Set<ExprId> there = new HashSet<>();
    columns.forEach(column -> there.add(column.exprId()));
    read.stream().filter(attribute -> !there.contains(attribute.exprId())).forEach(columns::add);
    return new Project(Scala.seq(columns), with(project.child(), read));
  }

  /** Returns a clause as it is stored next to its state in a checkpoint, to recognise another clause. */
  static ObjectNode statement(Call call, StreamInput input) {
    return statement(call, input, parts(call, input, Math.max(1, call.size() - 1)), call.given());
  }

  private static ObjectNode statement(Call call, StreamInput input, Parts parts, ObjectNode plan) {
    ObjectNode statement = JsonNodeFactory.instance.objectNode();
    // the state does not depend on how arrays are sent
    statement.put("format", STATE_FORMAT).put("plan", plan.deepCopy().put("stepwise", false).toString()).put("texts", input.texts()).put("where", where(call.table(), ""));
    statement.set("tables", StreamTables.described(input));
    ArrayNode columns = statement.putArray("columns");
    for (int i = 0; i < parts.columns().size() - parts.keys().size() - input.late().size(); i++) {
      columns.addArray().add(parts.columns().get(i).name()).add(((Expression) parts.columns().get(i)).dataType().catalogString());
    }
    return statement;
  }

  /**
   * Returns the operator over {@code child}, whose rows are those of {@code parts}, and the additional {@code tables}. Its last
   * columns describe states, not matches.
   */
  static SparkPlan operator(
      Call call, StreamInput input, Parts parts, Seq<Attribute> output, List<Expression> told, ObjectNode plan, SparkPlan child,
      SparkPlan tables) {
    ObjectNode statement = statement(call, input, parts, plan);
    int sent = parts.columns().size() - parts.keys().size() - input.late().size();
    List<Attribute> all = new ArrayList<>(CollectionConverters.asJava(output));
    all.add(column("__k", DataTypes.IntegerType, Metadata.empty()));
    all.add(column("__state", DataTypes.BinaryType, Metadata.empty()));
    MetadataBuilder said = new MetadataBuilder().putString(STATEMENT, statement.toString());
    boolean tells = !input.late().isEmpty();
    said = tells ? said.putString(LATE, LateRows.table()) : said;
    StructType schema = call.function().elementSchema();
    schema = schema.add("__k", DataTypes.IntegerType).add("__state", DataTypes.BinaryType).add("__due", DataTypes.LongType);
    PythonFunction like = call.function().func();
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
      said = said.putString(READING, reading(request, parts.columns().subList(0, sent)));
    }
    if (call.isBudgeted()) {
      said = said.putBoolean(BUDGETED, true);
    }
    said = answer.get("behind").isNull() ? said : said.putLong(BEHIND, answer.get("behind").asLong());
    all.add(column("__due", DataTypes.LongType, said.build()));
    List<Expression> lines = new ArrayList<>(told); // for EXPLAIN
    lines.add(new Literal(UTF8String.fromString(answer.get("kept").asText()), DataTypes.StringType));
    lines.add(new Literal(UTF8String.fromString(answer.get("passed").asText()), DataTypes.StringType));
    if (tells) {
      lines.add(new Literal(UTF8String.fromString("late rows are appended to " + LateRows.table()), DataTypes.StringType));
    }
    PythonFunction function = new SimplePythonFunction(
        PythonFunctions.command(answer), like.envVars(), like.pythonIncludes(), like.pythonExec(), like.pythonVer(), like.broadcastVars(), like.accumulator());
    Expression udf = (Expression) Reflection.construct(
        "org.apache.spark.sql.catalyst.expressions.PythonUDF",
        Call.TABLE_FUNCTION, function, schema, Scala.seq(lines), MAP_ARROW_ITER, true);
    ExtensionJar.ship();
    List<Object> given = new ArrayList<>(List.of(
        udf, Scala.seq(parts.keys()), Scala.seq(all), org.apache.spark.sql.streaming.OutputMode.Append(),
        org.apache.spark.sql.streaming.TimeMode.EventTime()));
    given.addAll(java.util.Collections.nCopies(parameters() - TOLD, Option.empty())); // set by Spark for each micro-batch
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
