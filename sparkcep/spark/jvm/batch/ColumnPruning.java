package org.sparkcep.batch;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SparkPartitionID;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Call;
import org.sparkcep.functions.Shipment;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Drops columns of the table function that nothing above reads, and their inputs. A column with several names is exchanged once.
 */
final class ColumnPruning {
  private static final Set<String> VALUES = Set.of("nav", "agg", "cls", "rows", "mno", "register", "emit", "match_from", "match_to", "change", "change_number", "changed_by", "match_id"); // leaves that do not affect the search
  private static final Set<String> NOT_READ = Set.of("inputs", "ordered_inputs", "letters", "variables", "outputs", "places", "leaf_places", "failing", "given");

  private ColumnPruning() {}

  /** Returns a call without the columns that are not {@code read}, as far as they can be left out. */
  static Generate pruned(Generate generate, AttributeSet read) {
    Call call = GeneratedCall.call(generate);
    // If a measure of a match changes, the match is reported again, even if nobody reads the measure.
    boolean compared = call != null && call.plan().path("changes").path("report").asText().equals("CHANGES");
    if (call == null || compared || !call.plan().get("ranking").isNull() || readsInput(generate, read)) {
      return generate;
    }
    Set<String> droppable = new HashSet<>();
    for (JsonNode leaf : call.plan().get("leaves")) {
      if (VALUES.contains(leaf.get("spec").get("kind").asText())) {
        droppable.add(leaf.get("name").asText());
      }
    }
    List<Integer> users = call.users(); // the output's first columns are the user's, in the input's order
    Set<Integer> given = new HashSet<>();
    Set<String> dropped = new HashSet<>();
    List<Attribute> kept = new ArrayList<>();
    List<StructField> fields = new ArrayList<>();
    StructType schema = call.function().elementSchema();
    for (int i = 0; i < schema.length(); i++) {
      Attribute attribute = generate.generatorOutput().apply(i);
      String name = schema.apply(i).name();
      boolean isUsers = i < users.size();
      boolean last = i == schema.length() - 1 && kept.isEmpty(); // counting matches needs at least one column
      if (!read.contains(attribute) && (isUsers || droppable.contains(name)) && !last) {
        if (!isUsers) {
          dropped.add(name);
        }
        continue;
      }
      kept.add(attribute);
      fields.add(schema.apply(i));
      if (isUsers) {
        given.add(users.get(i));
      }
    }
    ObjectNode plan = call.plan().deepCopy();
    ArrayNode remaining = plan.putArray("leaves");
    for (JsonNode leaf : call.plan().get("leaves")) {
      if (!dropped.contains(leaf.get("name").asText())) {
        remaining.add(leaf);
      }
    }
    // The engine returns exactly these columns, in this order, for any input columns.
    ArrayNode names = plan.putArray("given");
    fields.forEach(field -> names.add(field.name()));
    List<Expression> columns = columns(call, plan, given);
    if (columns.size() == 2 * call.size() && kept.size() == schema.length()) {
      return generate;
    }
    return GeneratedCall.over(call, generate, columns, kept, new StructType(fields.toArray(new StructField[0])));
  }

  /**
   * Exchanges and sorts a column of the call's table once, for all its names. The planner could do this too, but then the exchange
   * would be above a node that the logical plan lacks (see {@link MatchStrategy}).
   */
  static LogicalPlan exchangedOnce(Generate generate) {
    if (!(generate.child() instanceof Project packing)) {
      return generate;
    }
    LogicalPlan table = exchangedOnce(packing.child());
    return table == packing.child() || GeneratedCall.call(generate) == null
        ? generate
        : GeneratedCall.with(generate, generate.generator(), generate.generatorOutput(), new Project(packing.projectList(), table));
  }

  private static LogicalPlan exchangedOnce(LogicalPlan table) {
    if (table instanceof Project project) {
      LogicalPlan child = exchangedOnce(project.child());
      return child == project.child() ? project : new Project(project.projectList(), child);
    }
    // without PARTITION BY the rows go to one partition, by a constant
    if (!(table instanceof Sort sort && !sort.global() && sort.child() instanceof RepartitionByExpression asked && asked.child() instanceof Project columns)) {
      return table;
    }
    Map<ExprId, Attribute> same = new HashMap<>();
    List<NamedExpression> distinct = Shipment.distinct(CollectionConverters.asJava(columns.projectList()), same);
    if (same.isEmpty()) {
      return table;
    }
    List<NamedExpression> named = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(columns.output())) {
      Attribute before = same.get(column.exprId());
      named.add(before == null ? column : Expressions.alias(before, column.name(), column.exprId()));
    }
    List<Expression> keys = new ArrayList<>();
    List<SortOrder> order = new ArrayList<>();
    CollectionConverters.asJava(asked.partitionExpressions()).forEach(key -> keys.add(Expressions.replaced(key, same)));
    CollectionConverters.asJava(sort.order()).forEach(by -> order.add((SortOrder) Expressions.replaced(by, same)));
    RepartitionByExpression once = new RepartitionByExpression(
        Scala.seq(keys), new Project(Scala.seq(distinct), columns.child()), asked.optNumPartitions(), asked.optAdvisoryPartitionSize());
    return new Project(Scala.seq(named), new Sort(Scala.seq(order), sort.global(), once, sort.hint()));
  }

  private static boolean readsInput(Generate generate, AttributeSet read) {
    return CollectionConverters.asJava(generate.child().output()).stream().anyMatch(read::contains);
  }

  /**
   * Returns names and values of the columns that the pruned plan still reads, and of the user's columns that it returns. The plan
   * itself is the name of the last column.
   *
   * <p>Spark must not be able to compute the value of the last column. If all remaining columns turned out constant, even later,
   * Spark would fold them into one literal, and the strategy would not find the plan.
   */
  private static List<Expression> columns(Call call, ObjectNode plan, Set<Integer> given) {
    Set<String> read = new HashSet<>();
    plan.fields().forEachRemaining(member -> {
      if (!NOT_READ.contains(member.getKey()) && !(call.oneRow() && member.getKey().equals("order"))) {
        collect(member.getValue(), read);
      }
    });
    if (!plan.get("letters").isEmpty()) {
      read.add(Call.LETTERS);
    }
    List<Expression> columns = new ArrayList<>();
    for (int i = 0; i < call.size() - 1; i++) {
      if (call.isUsers(i) ? given.contains(i) : read.contains(call.name(i))) {
        columns.add(call.columns().nameExprs().apply(i));
        columns.add(call.value(i));
      }
    }
    columns.add(new Literal(UTF8String.fromString(plan.toString()), DataTypes.StringType));
    columns.add(new SparkPartitionID());
    return columns;
  }

  private static void collect(JsonNode value, Set<String> names) {
    if (value.isTextual() && value.asText().startsWith("__")) {
      names.add(value.asText());
    }
    value.forEach(inner -> collect(inner, names));
  }
}
