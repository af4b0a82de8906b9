package org.sparkcep.exchange;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.IntNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SortPrefix;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.python.MapInArrowExec;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import org.sparkcep.blocks.ColumnType;
import org.sparkcep.catalyst.Clustered;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.ExtensionJar;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.exchange.shuffle.BlockShuffle;
import org.sparkcep.functions.Call;
import org.sparkcep.functions.Shipment;
import org.sparkcep.rewriter.Configured;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Replaces the exchange and the sort of rows below a clause by an exchange of blocks of columns, which the worker orders.
 *
 * <p>It runs after Spark has planned exchanges and sorts, because only then it is known whether the rows need them. All new
 * operators belong to the clause's node of the logical plan, as the parts of an aggregate do. So an adaptive query that has run the
 * exchange replaces that node, and not the node below it.
 */
public final class BlockExchange extends Rule<SparkPlan> {
  private static final int OF_WORKER = 8; // bytes of a worker for one that is exchanged: blocks are compressed, and copied once

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return (SparkPlan) plan.transformUp(Replacement.of(node -> node instanceof MapInArrowExec, node -> replaced((MapInArrowExec) node)));
  }

  /**
   * Makes blocks of batches of columns where a plan has them, and has the engine return columns. For plans with {@link
   * ColumnarToRowExec}.
   */
  public static SparkPlan overBatches(SparkPlan plan) {
    SparkPlan made = (SparkPlan) plan.transformUp(Replacement.of(
        node -> node instanceof SearchBlocksExec && !node.supportsColumnar(), node -> ((SearchBlocksExec) node).overColumns()));
    return (SparkPlan) made.transformUp(Replacement.of(node -> node instanceof BlocksExec, node -> BatchBlocksExec.of((BlocksExec) node)));
  }

  private static SparkPlan replaced(MapInArrowExec operator) {
    if (!(operator.func() instanceof PythonUDF function && function.name().equals(Call.TABLE_FUNCTION)) || operator.logicalLink().isEmpty()) {
      return operator;
    }
    if (!Configured.exchangesColumns()) {
      return explained(operator, "SET sparkcep.exchange = columns would exchange blocks of columns");
    }
    Below below = Below.of(operator.child());
    if (below == null) {
      return explained(operator, "no exchange is needed");
    }
    Blocks blocks = Blocks.of(below);
    if (!blocks.unfit().isEmpty()) {
      return explained(operator, blocks.unfit());
    }
    ExtensionJar.ship();
    LogicalPlan node = operator.logicalLink().get();
    int partitions = below.exchange().outputPartitioning().numPartitions();
    List<Attribute> output = new ArrayList<>(List.of(attribute("block_partition", DataTypes.IntegerType), attribute("block", DataTypes.BinaryType)));
    if (blocks.sent() == output.size()) { // Python tells blocks from rows by the number of columns: a user's columns may have any names
      output.add(attribute("nothing", DataTypes.IntegerType));
    }
    SparkPlan made = linked(
        new BlocksExec(partitions, blocks.description().toString(), Configured.taskBytes(), Scala.seq(output), blocks.columns(below, node, partitions)), node);
    Partitioning by = partitions == 1
        ? SinglePartition$.MODULE$
        : new HashPartitioning(Scala.seq(List.<Expression>of((Expression) output.get(0))), partitions);
    SparkPlan exchange = linked(
        BlockShuffle.of((ShuffleExchangeExec) Reflection.construct(ShuffleExchangeExec.class.getName(), by, made, below.exchange().shuffleOrigin(), advisory(below.exchange()))), node);
    SparkPlan keyed = linked(new KeyedBlocks(Scala.seq(below.keys()), exchange), node);
    return linked(new SearchBlocksExec((MapInArrowExec) operator.withNewChildren(Scala.seq(List.of(keyed))), keyed), node);
  }

  /** Returns how many bytes adaptive execution may bring together for one task, so that its worker can order the rows in memory. */
  private static Option<Object> advisory(ShuffleExchangeExec rows) {
    long session = (long) rows.conf().getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES());
    return Option.apply(Math.max(1, Math.min(session, Configured.workerBytes() / OF_WORKER)));
  }

  /** Returns the operator over the same plan, in which {@link Clustered} says why rows are exchanged. */
  private static SparkPlan explained(MapInArrowExec operator, String reason) {
    SparkPlan plan = operator.child();
    List<SparkPlan> above = new ArrayList<>(List.of(operator));
    while (plan instanceof ProjectExec projection) {
      above.add(projection);
      plan = projection.child();
    }
    if (!(plan instanceof Clustered clustered) || clustered.exists(below -> below instanceof QueryStageExec)) {
      return operator; // a part of an adaptive query that has run
    }
    plan = clustered.because(reason);
    for (int i = above.size() - 1; i >= 0; i--) {
      plan = (SparkPlan) above.get(i).withNewChildren(Scala.seq(List.of(plan)));
    }
    return plan;
  }

  private static SparkPlan linked(SparkPlan made, LogicalPlan node) {
    made.setTagValue(org.apache.spark.sql.execution.SparkPlan$.MODULE$.LOGICAL_PLAN_TAG(), node);
    return made;
  }

  private static Attribute attribute(String name, DataType type) {
    return new AttributeReference(name, type, true, Metadata.empty(), NamedExpression.newExprId(), Scala.seq(List.<String>of()));
  }

  /**
   * What is below the operator: projections, then a sort of rows, then an exchange.
   *
   * @param projections from the top
   * @param keys by which rows are exchanged; empty if all rows go to one task
   * @param order of the rows with equal keys
   */
  private record Below(List<ProjectExec> projections, List<Expression> keys, List<SortOrder> order, ShuffleExchangeExec exchange) {
    /** Returns null if the plan has another form. */
    static Below of(SparkPlan plan) {
      List<ProjectExec> projections = new ArrayList<>();
      while (plan instanceof ProjectExec projection) {
        projections.add(projection);
        plan = projection.child();
      }
      SparkPlan sorted = plan instanceof Clustered clustered ? clustered.children().head() : plan;
      if (!(sorted instanceof SortExec sort && !sort.global() && sort.child() instanceof ShuffleExchangeExec exchange)) {
        return null;
      }
      List<SortOrder> order = CollectionConverters.asJava(sort.sortOrder());
      List<Expression> keys = new ArrayList<>();
      if (exchange.outputPartitioning() instanceof HashPartitioning hashed && plan instanceof Clustered) {
        keys.addAll(CollectionConverters.asJava(hashed.expressions()));
      } else if (exchange.outputPartitioning().numPartitions() != 1) {
        return null;
      }
      for (int i = 0; i < keys.size(); i++) {
        if (i >= order.size() || !order.get(i).child().semanticEquals(keys.get(i))) {
          return null;
        }
      }
      return new Below(projections, keys, order.subList(keys.size(), order.size()), exchange);
    }
  }

  /**
   * The columns of the blocks.
   *
   * @param values expressions over the exchange's input: the columns of which the engine's consist, then those that only order rows
   * @param sent how many columns go to the engine
   * @param description for the worker, which columns/blocks.py reads
   * @param unfit why blocks cannot hold these columns, of which the description is not complete then; "" if they can
   */
  private record Blocks(List<Expression> values, int sent, ObjectNode description, String unfit) {
    private static final int MOST_COLUMNS = 64; // wide rows are copied more often in blocks than one by one

    static Blocks of(Below below) {
      List<Expression> values = new ArrayList<>();
      List<Expression> sent = sent(below);
      ObjectNode description = JsonNodeFactory.instance.objectNode();
      ArrayNode output = description.putArray("output");
      sent.forEach(value -> output.add(parts(value, values)));
      description.put("sent", values.size());
      String unfit = values.size() > MOST_COLUMNS ? values.size() + " columns, more than " + MOST_COLUMNS : "";
      ArrayNode keys = description.putArray("keys");
      for (Expression key : below.keys()) {
        int prefix = prefix(key, values);
        if (prefix >= 0) {
          keys.add(prefix).add(prefix + 1);
        } else {
          keys.add(place(key, values));
        }
      }
      ArrayNode order = description.putArray("order");
      for (SortOrder by : below.order()) {
        order.addArray().add(place(by.child(), values)).add(by.direction() == Descending$.MODULE$).add(by.nullOrdering() == NullsFirst$.MODULE$);
      }
      ArrayNode types = description.putArray("types");
      for (Expression value : values) {
        ColumnType type = ColumnType.of(value.dataType());
        if (unfit.isEmpty() && type == null) {
          unfit = "a column of the type " + value.dataType().catalogString();
        } else if (unfit.isEmpty() && !value.deterministic()) {
          unfit = "a column that is not deterministic";
        }
        types.add(type == null ? "" : type.name());
      }
      description.put("zone", below.exchange().conf().sessionLocalTimeZone()).put("large", below.exchange().conf().arrowUseLargeVarTypes());
      description.put("held", Configured.workerBytes());
      return new Blocks(values, sent.size(), description, unfit);
    }

    /**
     * Adds the columns of a value: itself, or for a struct a column that is NULL where the struct is, and those of its fields.
     * Returns their places as columns/blocks.py reads them.
     */
    private static JsonNode parts(Expression value, List<Expression> values) {
      if (!(value.dataType() instanceof StructType type) || type.isEmpty()) {
        values.add(value);
        return new IntNode(values.size() - 1);
      }
      ObjectNode found = JsonNodeFactory.instance.objectNode().put("present", values.size());
      values.add(new If(new IsNull(value), Literal.create(null, DataTypes.BooleanType), new Literal(true, DataTypes.BooleanType)));
      ArrayNode fields = found.putArray("fields");
      Set<String> names = new HashSet<>(); // Arrow's struct in the JVM has one field of a name, and Spark reads fields by position
      for (int i = 0; i < type.length(); i++) {
        JsonNode part = parts(new GetStructField(value, i, Option.empty()), values);
        fields.addArray().add(Shipment.own(type.apply(i).name(), names)).add(type.apply(i).nullable()).add(part);
      }
      return found;
    }

    /** Returns the place of a value among the columns, where it is added if it is missing. */
    private static int place(Expression value, List<Expression> values) {
      for (int i = 0; i < values.size(); i++) {
        if (values.get(i).semanticEquals(value)) {
          return i;
        }
      }
      values.add(value);
      return values.size() - 1;
    }

    /** Returns the place of a key's first bytes, if it is sent as these and its rest (Shipment); else -1. */
    private static int prefix(Expression key, List<Expression> values) {
      for (int i = 0; i + 1 < values.size(); i++) {
        if (values.get(i) instanceof SortPrefix first && first.child().child().semanticEquals(key) && values.get(i + 1) instanceof If) {
          return i;
        }
      }
      return -1;
    }

    /** Returns the columns that go to the engine, as expressions over the exchange's input. */
    private static List<Expression> sent(Below below) {
      List<Expression> values = new ArrayList<>(CollectionConverters.asJava(below.exchange().child().output()));
      Map<ExprId, Expression> known = new HashMap<>();
      for (int i = below.projections().size() - 1; i >= 0; i--) {
        Map<ExprId, Expression> made = new HashMap<>();
        values.clear();
        for (NamedExpression column : CollectionConverters.asJava(below.projections().get(i).projectList())) {
          Expression value = Expressions.replaced(column instanceof Alias alias ? alias.child() : (Expression) column, known);
          made.put(column.exprId(), value);
          values.add(value);
        }
        known = made;
      }
      return values;
    }

    /** Plans the columns, and last the target partition, over the exchange's input. */
    SparkPlan columns(Below below, LogicalPlan node, int partitions) {
      List<NamedExpression> list = new ArrayList<>();
      for (Expression value : values) {
        list.add(Expressions.alias(value, "column_" + list.size(), NamedExpression.newExprId()));
      }
      Expression target = below.keys().isEmpty() // Spark's hash needs arguments
          ? new Literal(0, DataTypes.IntegerType)
          : new HashPartitioning(Scala.seq(below.keys()), partitions).partitionIdExpression();
      list.add(Expressions.alias(target, "target", NamedExpression.newExprId()));
      return linked(new ProjectExec(Scala.seq(list), below.exchange().child()), node);
    }
  }
}
