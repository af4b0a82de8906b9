package org.sparkcep.stream;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.functions.Call;
import scala.jdk.javaapi.CollectionConverters;

/** Describes a clause over a stream as it is stored next to its state in a checkpoint. */
public final class StreamStatement {
  public static final int STATE_FORMAT = 2; // of the values in the state store

  private StreamStatement() {}

  /** Returns the texts of the rewriter's row expressions, without qualifiers and without the columns {@code beside}. */
  static ObjectNode texts(LogicalPlan rows, Set<String> beside) {
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

  /**
   * Returns the conditions on keys that were above the clause. Rows of other keys are not kept, so the conditions belong to the
   * statement.
   */
  private static String where(LogicalPlan table, String above) {
    if (table instanceof StreamInput) {
      return above;
    }
    String own = table instanceof Filter filter && !StreamMark.NEEDED.equals(name(filter.condition())) ? Expressions.unqualified(filter.condition()).sql() : "";
    return where(table.children().head(), above + own);
  }

  private static String name(Expression value) {
    return value instanceof Attribute attribute ? attribute.name() : "";
  }

  /** Returns a clause as it is stored next to its state in a checkpoint, to recognise another clause. */
  static ObjectNode statement(Call call, StreamInput input) {
    return statement(call, input, StreamPlanning.parts(call, input, Math.max(1, call.size() - 1)), call.given());
  }

  static ObjectNode statement(Call call, StreamInput input, StreamPlanning.Parts parts, ObjectNode plan) {
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
}
