package org.sparkcep.stream;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Call;
import org.sparkcep.functions.Shipment;
import scala.jdk.javaapi.CollectionConverters;

/** Plans the input of the operator that runs a clause over a stream. */
public final class StreamPlanning {
  private static final String QUERY = "sql.streaming.queryId"; // a property of a streaming query's jobs

  private StreamPlanning() {}

  /** Returns {@code node} with another first child. */
  private static LogicalPlan over(LogicalPlan node, LogicalPlan child) {
    List<LogicalPlan> children = new ArrayList<>(CollectionConverters.asJava(node.children()));
    children.set(0, child);
    return (LogicalPlan) node.withNewChildren(CollectionConverters.asScala(children).toIndexedSeq());
  }

  /**
   * Returns a call over a stream below the conditions, and joins with tables, that Spark moved between the call and its mark. Spark
   * moves nodes that read no column of a generator. These nodes must apply when matches are emitted.
   */
  public static LogicalPlan alone(ArrowEvalPythonUDTF call) {
    List<UnaryOperator<LogicalPlan>> above = new ArrayList<>();
    LogicalPlan over = over(call, alone(call.child(), above));
    for (int i = above.size() - 1; i >= 0; i--) {
      over = above.get(i).apply(over);
    }
    return above.isEmpty() ? call : over;
  }

  /** Returns the input of a call without the nodes that Spark moved there. {@code above} receives these, from the top. */
  static LogicalPlan alone(LogicalPlan input, List<UnaryOperator<LogicalPlan>> above) {
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
    boolean passing = node instanceof Project || node instanceof Filter || (node instanceof Join && !StreamChecks.joins(node));
    return node instanceof StreamInput || (passing && leadsToMark(node.children().head()));
  }

  /**
   * Prevents two parts of a query from sharing an exchange if there is a stateful node below a clause. Spark looks below such an
   * exchange for the watermark of the nodes above it, and finds it for the first part only. The second part would emit nothing. A
   * query plans in its own session, and sets this there. EXPLAIN plans in the user's session.
   */
  public static void keepApart(StreamInput input) {
    boolean inQuery = org.apache.spark.sql.classic.SparkSession.active().sparkContext().getLocalProperty(QUERY) != null;
    if (inQuery && CollectionConverters.asJava(input.children()).stream().anyMatch(StreamChecks::keepsStateIn)) {
      SQLConf.get().setConfString(SQLConf.EXCHANGE_REUSE_ENABLED().key(), "false");
    }
  }

  /**
   * The parts of a stateful operator. {@code rows} has the columns that go to Python, those of ORDER BY, the keys and the column
   * for the table of late rows, in this order.
   */
  public record Parts(LogicalPlan rows, List<NamedExpression> columns, List<Attribute> keys, ArrayNode names, int ordered) {}

  /**
   * Returns the parts of the operator for a call over {@code input}. {@code carried}: how many of the call's columns go to Python.
   */
  public static Parts parts(Call call, StreamInput input, int carried) {
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
}
