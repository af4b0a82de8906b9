package org.sparkcep;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;

/**
 * A call of the table function in the rewriter's form, as Spark has it in a plan: one table argument, packed into a struct, whose last
 * column is named by the clause's plan.
 */
record Call(PythonUDTF function, CreateNamedStruct columns, LogicalPlan table, ObjectNode plan) {
  static final String PLAN_HEAD = "{\"variables\":"; // as in pattern/plan.py
  private static final ObjectMapper JSON = new ObjectMapper();

  /** The call of {@code function} over {@code input}; null where it is another function, or has another form. */
  static Call of(PythonUDTF function, LogicalPlan input) {
    if (!PythonFunctions.TABLE_FUNCTION.equals(function.name())
        || !(input instanceof Project project)
        || project.projectList().size() != 1
        || !(project.projectList().head() instanceof Alias packed)
        || !(packed.child() instanceof CreateNamedStruct columns)) {
      return null;
    }
    int last = columns.nameExprs().size() - 1;
    String name = name(columns, last);
    if (!name.startsWith(PLAN_HEAD)) {
      return null;
    }
    try {
      return new Call(function, columns, project.child(), (ObjectNode) JSON.readTree(name));
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("The plan of a clause cannot be read: " + name, e);
    }
  }

  static String name(CreateNamedStruct columns, int i) {
    return ((Literal) columns.nameExprs().apply(i)).value().toString();
  }

  int size() {
    return columns.nameExprs().size();
  }

  String name(int i) {
    return name(columns, i);
  }

  Expression value(int i) {
    return columns.valExprs().apply(i);
  }
}
