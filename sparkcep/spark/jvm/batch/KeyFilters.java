package org.sparkcep.batch;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.functions.Call;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.stream.StreamMark;
import scala.jdk.javaapi.CollectionConverters;

/** Moves filters on partition keys below the table function. */
final class KeyFilters {
  private KeyFilters() {}

  /** Returns the plan of a filter over a call, with the conjuncts that only read partition keys below the call. */
  static LogicalPlan withKeysFiltered(Filter filter, Generate generate) {
    Call call = GeneratedCall.call(generate);
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
    Generate over = GeneratedCall.with(generate, generate.generator(), generate.generatorOutput(), packing);
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
    boolean cased = call.plan().path("case_sensitive").asBoolean(); // then k and K are two columns
    for (JsonNode key : call.plan().get("partition")) {
      boolean asWritten = !call.oneRow() && key.get("plain").asBoolean();
      String name = key.get(asWritten ? "name" : "column").asText();
      List<Attribute> named = new ArrayList<>();
      for (Attribute attribute : CollectionConverters.asJava(output)) {
        if (cased ? attribute.name().equals(name) : attribute.name().equalsIgnoreCase(name)) {
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
}
