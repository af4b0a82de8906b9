package org.sparkcep.functions;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.errors.ClauseException;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A call of the table function in the rewriter's form, as it is in a Spark plan. It has one table argument, packed into a struct;
 * the clause's plan is the name of the struct's last column.
 */
public record Call(PythonUDTF function, CreateNamedStruct columns, LogicalPlan table, ObjectNode plan, Set<String> plans) {
  public static final String PLAN_HEAD = "{\"variables\":"; // as in plan/plan.py
  public static final String LETTERS = "__letters"; // as in plan/plan.py
  static final int FORMAT = 18; // the format of a plan's JSON, as in plan/json.py
  private static final ObjectMapper JSON = new ObjectMapper();
  public static final String TABLE_FUNCTION = "match_recognize";

  /** Returns the call of {@code function} over {@code input}; null for another function or another form. */
  public static Call of(PythonUDTF function, LogicalPlan input) {
    if (input instanceof Project project
        && project.projectList().size() == 1
        && project.projectList().head() instanceof Alias packed
        && packed.child() instanceof CreateNamedStruct columns) {
      return of(function, columns, project.child());
    }
    return null;
  }

  /** Returns the call if all columns are constants that Spark has folded into one literal; else null. */
  public static Call ofConstants(PythonUDTF function, LogicalPlan input) {
    for (Expression argument : CollectionConverters.asJava(function.children())) {
      if (argument instanceof Literal table && table.value() instanceof InternalRow row && table.dataType() instanceof StructType type) {
        return of(function, unfolded(row, type), input);
      }
    }
    return null;
  }

  private static CreateNamedStruct unfolded(InternalRow row, StructType type) {
    List<Expression> columns = new ArrayList<>();
    for (int i = 0; i < type.length(); i++) {
      columns.add(new Literal(UTF8String.fromString(type.apply(i).name()), DataTypes.StringType));
      columns.add(new Literal(row.get(i, type.apply(i).dataType()), type.apply(i).dataType()));
    }
    return new CreateNamedStruct(Scala.seq(columns));
  }

  private static Call of(PythonUDTF function, CreateNamedStruct columns, LogicalPlan table) {
    String name = columns.nameExprs().isEmpty() ? "" : name(columns, columns.nameExprs().size() - 1);
    if (!TABLE_FUNCTION.equals(function.name()) || !name.startsWith(PLAN_HEAD)) {
      return null;
    }
    ObjectNode plan = (ObjectNode) plan(name);
    if (plan.path("format").asInt() != FORMAT) {
      throw otherFormat(plan);
    }
    return new Call(function, columns, table, plan, inputs(plan));
  }

  /** Parses a plan from the name of a column. */
  public static JsonNode plan(String name) {
    try {
      return JSON.readTree(name);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("The plan of a clause cannot be read: " + name, e);
    }
  }

  /** Returns the error for a plan made by another version of sparkcep, whose members may be different. */
  private static RuntimeException otherFormat(ObjectNode plan) {
    String message = "a plan made by " + plan.path("made_by").asText("an older sparkcep") + " (format " + plan.path("format").asText("without a number")
        + ") was given to a JVM that reads format " + FORMAT + "; the driver and its JVM need the same version of sparkcep";
    ObjectNode error = JSON.createObjectNode();
    error.put("error_class", "SPARKCEP.VERSION").put("sqlstate", "0A000").put("message", message).put("line", 0).put("column", 0).put("fragment", "");
    error.put("description", "[SPARKCEP.VERSION] " + message + " SQLSTATE: 0A000");
    return Reflection.<RuntimeException>unchecked(new ClauseException(null, error));
  }

  /** Returns the names of the columns that the rewriter computed for the plan. All other columns are the user's. */
  private static Set<String> inputs(JsonNode plan) {
    Set<String> names = new HashSet<>(Set.of(LETTERS));
    for (String member : List.of("inputs", "ordered_inputs")) {
      plan.get(member).forEach(column -> names.add(column.get("name").asText()));
    }
    plan.path("arcs").path("columns").forEach(column -> names.add(column.asText()));
    return names;
  }

  private static String name(CreateNamedStruct columns, int i) {
    return ((Literal) columns.nameExprs().apply(i)).value().toString();
  }

  /** Returns the number of input columns. */
  public int size() {
    return columns.nameExprs().size();
  }

  /** Returns the name of an input column. */
  public String name(int i) {
    return name(columns, i);
  }

  /** Returns the expression of an input column. */
  public Expression value(int i) {
    return columns.valExprs().apply(i);
  }

  /** Whether column {@code i} is the user's and ALL ROWS PER MATCH returns it. The last column is the plan's own. */
  public boolean isUsers(int i) {
    return i < size() - 1 && !oneRow() && !plans.contains(name(i));
  }

  /** Whether the clause has ONE ROW PER MATCH. */
  public boolean oneRow() {
    return plan.get("rows").asText().equals("one");
  }

  /** Returns the indexes of the user's input columns, in the order of the function's output. */
  public List<Integer> users() {
    List<Integer> found = new ArrayList<>();
    for (int i = 0; i < size(); i++) {
      if (isUsers(i)) {
        found.add(i);
      }
    }
    return found;
  }

  /** Returns the plan with the names of the columns that Spark expects, in order: Spark reads them by position. */
  public ObjectNode given() {
    ObjectNode given = plan.deepCopy();
    ArrayNode names = given.putArray("given");
    List<Integer> users = users();
    StructType schema = function.elementSchema();
    for (int i = 0; i < schema.length(); i++) {
      names.add(i < users.size() ? Shipment.engineName(this, users.get(i)) : schema.apply(i).name());
    }
    return given;
  }

  /** Whether the clause has BUDGET. */
  public boolean isBudgeted() {
    return plan.path("approximate").path("budget").isObject();
  }

  /** Returns the clock of BUDGET INTERVAL; "" without an interval. */
  public String clock() {
    JsonNode pace = plan.path("approximate").path("budget").path("pace");
    String counts = "counted".equals(pace.path("clock").asText()) ? ":" + pace.path("row").asText() + "," + pace.path("check").asText() : "";
    return pace.path("clock").asText() + counts;
  }
}
