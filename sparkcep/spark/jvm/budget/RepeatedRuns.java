package org.sparkcep.budget;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LateralSubquery;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LateralJoin;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.sparkcep.functions.Call;
import org.sparkcep.rewriter.Rewriter;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Refuses BUDGET INTERVAL by a real clock in LATERAL, DELETE, UPDATE and MERGE, which may run a clause more than once. The rewriter
 * refuses it by the statement's text, and this rule by the analysed plan: through views, which the text only names.
 */
public final class RepeatedRuns extends Rule<LogicalPlan> {
  private static final String PACED = "\"pace\":{"; // in a plan, as Python writes it without spaces

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!plan.containsPattern(TreePattern.LATERAL_JOIN())) { // each call of the table function is one until it is optimized
      return plan;
    }
    Map<Long, LogicalPlan> shared = new HashMap<>();
    nodes(plan, Map.of()).filter(CTERelationDef.class::isInstance).forEach(node -> shared.put(((CTERelationDef) node).id(), ((CTERelationDef) node).child()));
    nodes(plan, Map.of()).forEach(node -> {
      String where = where(node);
      LogicalPlan repeated = node instanceof LateralJoin join ? ((LateralSubquery) join.right()).plan() : node;
      String paced = where == null ? null : nodes(repeated, shared).map(RepeatedRuns::paced).filter(Objects::nonNull).findFirst().orElse(null);
      if (paced != null) {
        Rewriter.granted(JsonNodeFactory.instance.objectNode().put("kind", "repeated").put("where", where).put("plan", paced));
      }
    });
    return plan;
  }

  /** Returns the word of a node that may run its queries more than once; null for any other node. */
  private static String where(LogicalPlan node) {
    if (node instanceof RowLevelWrite write) {
      return write.operation().command().toString();
    }
    return node instanceof LateralJoin ? "LATERAL" : node instanceof DeleteFromTable ? "DELETE" : node instanceof UpdateTable ? "UPDATE" : node instanceof MergeIntoTable ? "MERGE" : null;
  }

  /** Returns the plan of a clause whose rows a node computes, if its rows may differ between two runs; else null. */
  private static String paced(LogicalPlan node) {
    if (!(node instanceof Project project)) {
      return null;
    }
    for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
      if (column instanceof Alias && column.name().startsWith(Call.PLAN_HEAD) && column.name().contains(PACED)) {
        JsonNode pace = Call.plan(column.name()).path("approximate").path("budget").path("pace");
        if (!"counted".equals(pace.path("clock").asText())) {
          return column.name();
        }
      }
    }
    return null;
  }

  /** Returns a plan's nodes with those of its subqueries, and of the WITH queries in {@code shared} that it reads. */
  private static Stream<LogicalPlan> nodes(LogicalPlan plan, Map<Long, LogicalPlan> shared) {
    Stream<LogicalPlan> below = CollectionConverters.asJava(plan.children()).stream();
    Stream<LogicalPlan> inner = CollectionConverters.asJava(plan.expressions()).stream().flatMap(RepeatedRuns::subqueries);
    LogicalPlan read = plan instanceof CTERelationRef reference ? shared.get(reference.cteId()) : null;
    Stream<LogicalPlan> all = Stream.of(below, inner, Stream.ofNullable(read)).flatMap(some -> some);
    return Stream.concat(Stream.of(plan), all.flatMap(one -> nodes(one, shared)));
  }

  private static Stream<LogicalPlan> subqueries(Expression value) {
    Stream<LogicalPlan> own = value instanceof SubqueryExpression query ? Stream.of(query.plan()) : Stream.empty();
    List<Expression> parts = CollectionConverters.asJava(value.children());
    return Stream.concat(own, parts.stream().flatMap(RepeatedRuns::subqueries));
  }
}
