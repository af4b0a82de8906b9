package org.sparkcep;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDTF;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SparkPartitionID;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Optimizes around the table function as Spark's optimizer does around any operator. It pushes filters on partition keys below the
 * function. It drops columns that nothing above reads, and their inputs. A column with several names is exchanged once.
 *
 * <p>It runs among Spark's own rules, which push both further towards the scan.
 */
final class MatchPruning extends Rule<LogicalPlan> {
  private static final Set<String> VALUES = Set.of("nav", "agg", "cls", "rows", "mno", "register", "emit", "match_from", "match_to", "change", "change_number", "changed_by", "match_id"); // leaves that do not affect the search
  private static final Set<String> NOT_READ = Set.of("inputs", "ordered_inputs", "letters", "variables", "outputs", "places", "leaf_places", "failing", "given");

  static final class Builder extends AbstractFunction1<SparkSession, Rule<LogicalPlan>> {
    @Override
    public Rule<LogicalPlan> apply(SparkSession session) {
      return new MatchPruning();
    }
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    StreamChecks.checkChained(plan);
    return (LogicalPlan) StreamMark.numbered(plan).transformDown(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan node) {
        return node instanceof Project || node instanceof Filter || node instanceof Generate || node instanceof CTERelationDef;
      }

      @Override
      @SuppressWarnings("unchecked")
      public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
        return isDefinedAt(node) ? (B) improved(node) : otherwise.apply(node);
      }
    });
  }

  private static LogicalPlan improved(LogicalPlan node) {
    if (node instanceof CTERelationDef definition) {
      return withOwnColumns(definition);
    }
    if (node instanceof Filter filter && filter.child() instanceof Generate generate) {
      return withKeysFiltered(filter, generate);
    }
    if (!Configured.mapsInArrow()) {
      return node; // the table function itself cannot drop unused columns
    }
    if (node instanceof Generate generate) {
      return exchangedOnce(generate);
    }
    if (!(node instanceof Project given)) {
      return node;
    }
    Project project = stepwise(given);
    if (project.child() instanceof Generate generate) {
      Generate pruned = pruned(generate, project.references());
      return pruned == generate ? project : new Project(project.projectList(), pruned);
    }
    if (project.child() instanceof Filter filter && filter.child() instanceof Generate generate) {
      Generate pruned = pruned(generate, project.references().$plus$plus(filter.references()));
      return pruned == generate ? project : new Project(project.projectList(), new Filter(filter.condition(), pruned));
    }
    return project;
  }

  /**
   * Returns the definition of a CTE with its present plan instead of its first one, if their columns have different ids.
   *
   * <p>Spark prunes the columns of a CTE that is read several times and is not deterministic, and then reads them by their places.
   * It keeps the first plan, to filter it once more. If a rule removes a redundant alias in between, the filter names columns that
   * the first plan lacks, and the first plan comes back with all its columns: wrong columns are read.
   */
  private static LogicalPlan withOwnColumns(CTERelationDef definition) {
    LogicalPlan first = definition.originalPlanWithPredicates().isEmpty() ? null : definition.originalPlanWithPredicates().get()._1();
    if (first == null || definition.child().outputSet().subsetOf(first.outputSet()) || !first.exists(node -> node instanceof Generate generate && call(generate) != null)) {
      return definition;
    }
    List<Object> arguments = new ArrayList<>(CollectionConverters.asJava(definition.productIterator().toSeq()));
    arguments.set(2, Option.apply(new Tuple2<>(definition.child(), Scala.seq(List.<Expression>of()))));
    return definition.makeCopy(arguments.toArray());
  }

  private static Call call(Generate generate) {
    return generate.generator() instanceof PythonUDTF function && !generate.outer() ? Call.of(function, generate.child()) : null;
  }

  private static LogicalPlan withKeysFiltered(Filter filter, Generate generate) {
    Call call = call(generate);
    if (call == null || "false".equalsIgnoreCase(Configured.get("sparkcep.prefilter", "true"))) {
      return filter;
    }
    Map<ExprId, Expression> keys = keys(call, generate.generatorOutput());
    boolean streaming = StreamMark.input(call.table()) != null;
    List<Expression> below = new ArrayList<>();
    List<Expression> above = new ArrayList<>();
    for (Expression conjunct : Expressions.conjuncts(filter.condition(), new ArrayList<>())) {
      List<Attribute> read = CollectionConverters.asJava(conjunct.references().toSeq());
      boolean goes = conjunct.deterministic() && !read.isEmpty() && read.stream().allMatch(a -> keys.containsKey(a.exprId()));
      goes = goes && !(streaming && isComputedApart(conjunct));
      (goes ? below : above).add(conjunct);
    }
    if (below.isEmpty()) {
      return filter;
    }
    LogicalPlan table = filtered(Expressions.replaced(Expressions.all(below), keys), call.table());
    if (table == null) {
      return filter;
    }
    Project packing = new Project(((Project) generate.child()).projectList(), table);
    Generate over = with(generate, generate.generator(), generate.generatorOutput(), packing);
    return above.isEmpty() ? over : new Filter(Expressions.all(above), over);
  }

  /**
   * Whether Spark computes a condition with nodes of its own, as it does subqueries and Python functions. Over a stream these nodes
   * would be between a call and its mark. Besides, the keys to keep would not follow a table that changes.
   */
  private static boolean isComputedApart(Expression condition) {
    return condition.containsPattern(TreePattern.PLAN_EXPRESSION()) || condition.containsPattern(TreePattern.PYTHON_UDF());
  }

  /**
   * Returns the rows of {@code table} that satisfy the condition. If the rows are numbered in the task, because the first row
   * carries a history, other rows must be dropped before they are numbered. Returns null if that is impossible.
   */
  private static LogicalPlan filtered(Expression condition, LogicalPlan table) {
    if (!(table instanceof Project numbered) || CollectionConverters.asJava(numbered.projectList()).stream().allMatch(e -> ((Expression) e).deterministic())) {
      return new Filter(condition, table);
    }
    boolean below = condition.references().subsetOf(numbered.child().outputSet());
    return below ? new Project(numbered.projectList(), new Filter(condition, numbered.child())) : null;
  }

  /** Returns the output columns that are partition keys, each with its input expression. */
  static Map<ExprId, Expression> keys(Call call, scala.collection.immutable.Seq<Attribute> output) {
    Map<ExprId, Expression> found = new HashMap<>();
    for (JsonNode key : call.plan().get("partition")) {
      boolean asWritten = !call.oneRow() && key.get("plain").asBoolean();
      List<Attribute> named = new ArrayList<>();
      for (Attribute attribute : CollectionConverters.asJava(output)) {
        if (attribute.name().equalsIgnoreCase(key.get(asWritten ? "name" : "column").asText())) {
          named.add(attribute);
        }
      }
      for (int i = 0; i < call.size() && named.size() == 1; i++) {
        Expression value = call.value(i);
        if (call.name(i).equals(key.get("column").asText()) && isExact(value.dataType()) && value.dataType().equals(named.get(0).dataType())) {
          found.put(named.get(0).exprId(), value);
        }
      }
    }
    return found;
  }

  /** Whether equal keys are identical in every respect, unlike 0.0 and -0.0. */
  private static boolean isExact(DataType type) {
    return Set.of(
                DataTypes.BooleanType, DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType,
                DataTypes.DateType, DataTypes.TimestampType, DataTypes.TimestampNTZType, DataTypes.BinaryType)
            .contains(type)
        || type instanceof StringType
        || type instanceof org.apache.spark.sql.types.DecimalType;
  }

  private static Generate pruned(Generate generate, AttributeSet read) {
    Call call = call(generate);
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
    return over(call, generate, columns, kept, new StructType(fields.toArray(new StructField[0])));
  }

  /**
   * Exchanges and sorts a column of the call's table once, for all its names. The planner could do this too, but then the exchange
   * would be above a node that the logical plan lacks (see {@link MatchStrategy}).
   */
  private static LogicalPlan exchangedOnce(Generate generate) {
    if (!(generate.child() instanceof Project packing)) {
      return generate;
    }
    LogicalPlan table = exchangedOnce(packing.child());
    return table == packing.child() || call(generate) == null
        ? generate
        : with(generate, generate.generator(), generate.generatorOutput(), new Project(packing.projectList(), table));
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
   * Returns the projection over a stepwise call if it and the projections below only need arrays of new rows. A leaf that a
   * projection passes on counts by its uses above.
   */
  private static Project stepwise(Project project) {
    List<Expression> above = new ArrayList<>();
    CollectionConverters.asJava(project.projectList()).forEach(column -> above.add((Expression) column));
    LogicalPlan node = project.child();
    while (node instanceof Project || node instanceof Filter) {
      if (node instanceof Project below) {
        CollectionConverters.asJava(below.projectList()).stream().filter(column -> !(column instanceof Attribute)).forEach(column -> above.add((Expression) column));
      } else {
        above.add(((Filter) node).condition());
      }
      node = node.children().head();
    }
    Generate made = node instanceof Generate generate ? stepwise(generate, above) : null;
    return made == null || made == node ? project : (Project) over(project, node, made);
  }

  /** Returns {@code node} with {@code made} instead of {@code from}, which is below it. */
  private static LogicalPlan over(LogicalPlan node, LogicalPlan from, LogicalPlan made) {
    LogicalPlan child = node.children().head();
    return (LogicalPlan) node.withNewChildren(Scala.seq(List.of(child == from ? made : over(child, from, made))).toIndexedSeq());
  }

  /** Returns the call with arrays of new rows if {@code above}, all its readers, need no other arrays. */
  private static Generate stepwise(Generate generate, List<Expression> above) {
    Call call = call(generate);
    ObjectNode plan = call == null ? null : MatchAggregates.asStepwise(call, generate, above);
    if (plan == null) {
      return generate;
    }
    List<Expression> columns = new ArrayList<>(CollectionConverters.asJava(call.columns().children()));
    columns.set(columns.size() - 2, new Literal(UTF8String.fromString(plan.toString()), DataTypes.StringType));
    List<Attribute> output = CollectionConverters.asJava(generate.generatorOutput());
    return over(call, generate, columns, output, call.function().elementSchema());
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

  private static Generate over(Call call, Generate generate, List<Expression> columns, List<Attribute> output, StructType schema) {
    Alias before = (Alias) ((Project) generate.child()).projectList().head();
    Alias packed = new Alias(
        new CreateNamedStruct(Scala.seq(columns)), before.name(), NamedExpression.newExprId(),
        Scala.seq(List.<String>of()), Option.empty(), Scala.seq(List.<String>of()));
    PythonUDTF function = call.function();
    Object[] members = new Object[function.productArity()];
    for (int i = 0; i < members.length; i++) {
      Object member = function.productElement(i);
      members[i] = member == function.elementSchema() ? schema : member == function.children() ? arguments(function, before, packed) : member;
    }
    PythonUDTF fewer = (PythonUDTF) Reflection.construct(PythonUDTF.class.getName(), members);
    Project packing = new Project(Scala.seq(List.<NamedExpression>of(packed)), call.table());
    return with(generate, fewer, Scala.seq(output), packing);
  }

  private static scala.collection.immutable.Seq<Expression> arguments(PythonUDTF function, Alias before, Alias packed) {
    List<Expression> arguments = new ArrayList<>();
    for (Expression argument : CollectionConverters.asJava(function.children())) {
      boolean table = argument instanceof Attribute attribute && attribute.exprId().equals(before.exprId());
      arguments.add(table ? packed.toAttribute() : argument);
    }
    return Scala.seq(arguments);
  }

  private static Generate with(
      Generate generate, org.apache.spark.sql.catalyst.expressions.Generator generator,
      scala.collection.immutable.Seq<Attribute> output, LogicalPlan child) {
    return new Generate(generator, generate.unrequiredChildIndex(), generate.outer(), generate.qualifier(), output, child);
  }
}
