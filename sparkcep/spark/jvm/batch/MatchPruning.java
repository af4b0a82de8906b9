package org.sparkcep.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.aggregate.MatchAggregates;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Call;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.stream.StreamChecks;
import org.sparkcep.stream.StreamMark;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Optimizes around the table function as Spark's optimizer does around any operator. It pushes filters on partition keys below the
 * function. It drops columns that nothing above reads, and their inputs. A column with several names is exchanged once.
 *
 * <p>It runs among Spark's own rules, which push both further towards the scan.
 */
public final class MatchPruning extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    StreamChecks.checkChained(plan);
    return (LogicalPlan) StreamMark.numbered(plan).transformDown(Replacement.of(node -> node instanceof Project || node instanceof Filter || node instanceof Generate || node instanceof CTERelationDef, node -> improved(node)));
  }

  private static LogicalPlan improved(LogicalPlan node) {
    if (node instanceof CTERelationDef definition) {
      return withOwnColumns(definition);
    }
    if (node instanceof Filter filter && filter.child() instanceof Generate generate) {
      return KeyFilters.withKeysFiltered(filter, generate);
    }
    if (!Configured.mapsInArrow()) {
      return node; // the table function itself cannot drop unused columns
    }
    if (node instanceof Generate generate) {
      return ColumnPruning.exchangedOnce(generate);
    }
    if (!(node instanceof Project given)) {
      return node;
    }
    Project project = stepwise(given);
    if (project.child() instanceof Generate generate) {
      Generate pruned = ColumnPruning.pruned(generate, project.references());
      return pruned == generate ? project : new Project(project.projectList(), pruned);
    }
    if (project.child() instanceof Filter filter && filter.child() instanceof Generate generate) {
      Generate pruned = ColumnPruning.pruned(generate, project.references().$plus$plus(filter.references()));
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
    if (first == null || definition.child().outputSet().subsetOf(first.outputSet()) || !first.exists(node -> node instanceof Generate generate && GeneratedCall.call(generate) != null)) {
      return definition;
    }
    List<Object> arguments = new ArrayList<>(CollectionConverters.asJava(definition.productIterator().toSeq()));
    arguments.set(2, Option.apply(new Tuple2<>(definition.child(), Scala.seq(List.<Expression>of()))));
    return definition.makeCopy(arguments.toArray());
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
    Call call = GeneratedCall.call(generate);
    ObjectNode plan = call == null ? null : MatchAggregates.asStepwise(call, generate, above);
    if (plan == null) {
      return generate;
    }
    List<Expression> columns = new ArrayList<>(CollectionConverters.asJava(call.columns().children()));
    columns.set(columns.size() - 2, new Literal(UTF8String.fromString(plan.toString()), DataTypes.StringType));
    List<Attribute> output = CollectionConverters.asJava(generate.generatorOutput());
    return GeneratedCall.over(call, generate, columns, output, call.function().elementSchema());
  }
}
