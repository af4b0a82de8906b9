package org.sparkcep.functions;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Chr;
import org.apache.spark.sql.catalyst.expressions.EndsWith;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.OctetLength;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SortPrefix;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;

/**
 * The columns that a call ships to Python. A column with several names in the plan is shipped once. Strings that split partitions
 * are shipped as numbers, because writing a string into an Arrow batch costs as much as four numbers. columns/from_jvm.py makes the
 * plan's input of them.
 *
 * @param columns the shipped columns, each with a name of its own
 * @param names for each input column: its name in the engine, its shipped name, and the name of the number of its first bytes or ""
 */
public record Shipment(List<NamedExpression> columns, ArrayNode names) {
  private static final int BYTES = 8;

  /** Returns the shipment of the first {@code count} columns of a call. {@code beside}: names of columns that arrive otherwise. */
  public static Shipment of(Call call, int count, Set<String> beside) {
    List<NamedExpression> columns = new ArrayList<>();
    Map<ExprId, String[]> sent = new HashMap<>(); // a column's name, and the name of its number
    Set<String> taken = new HashSet<>();
    Set<String> keys = keys(call);
    String[][] sources = new String[count][];
    for (boolean first : new boolean[] {true, false}) { // keys are shipped unchanged, so that Spark knows the rows' distribution
      for (int i = 0; i < count; i++) {
        Expression value = call.value(i);
        boolean isKey = keys.contains(call.name(i)) && !call.isUsers(i);
        if (first != isKey || isBeside(call, i, beside)) {
          continue;
        }
        ExprId id = value instanceof Attribute attribute ? attribute.exprId() : NamedExpression.newExprId();
        sources[i] = sent.get(id);
        if (sources[i] == null) {
          boolean numbered = isKey && isPlainString(value);
          // An unchanged attribute needs no copy of the row, and lets Spark know the rows' distribution.
          String name = own(value instanceof Attribute attribute ? attribute.name() : sentName(call, i), taken);
          String number = numbered ? own(call.name(i) + " number", taken) : "";
          columns.addAll(numbered ? numbered(value, name, number) : List.of(Expressions.named(value, name)));
          sources[i] = new String[] {name, number};
          sent.put(id, sources[i]);
        }
      }
    }
    ArrayNode names = JsonNodeFactory.instance.arrayNode();
    for (int i = 0; i < count; i++) {
      if (isBeside(call, i, beside)) {
        continue;
      }
      names.addArray().add(engineName(call, i)).add(sources[i][0]).add(sources[i][1]);
    }
    return new Shipment(columns, names);
  }

  private static boolean isBeside(Call call, int i, Set<String> beside) {
    return !call.isUsers(i) && beside.contains(call.name(i));
  }

  /** Returns the engine's name of an input column. The user's columns may have any names, even equal ones. */
  static String engineName(Call call, int i) {
    return call.isUsers(i) ? "__u" + i : sentName(call, i);
  }

  /** Returns the shipped name. The engine knows the plan, so its column is only shipped if rows would otherwise lack columns. */
  private static String sentName(Call call, int i) {
    return i == call.size() - 1 ? "__row" : call.name(i);
  }

  /** Returns {@code name}, or a variant of it, that no other column has. */
  public static String own(String name, Set<String> taken) {
    String own = name;
    while (!taken.add(own)) {
      own += "_";
    }
    return own;
  }

  /** Returns the names of the input columns that split partitions. */
  private static Set<String> keys(Call call) {
    Set<String> names = new HashSet<>();
    call.plan().get("partition").forEach(key -> names.add(key.get("column").asText()));
    call.plan().get("equal_keys").forEach(key -> names.add(key.get("column").asText()));
    return names;
  }

  /** Whether equal values have equal bytes, which a collation may violate. */
  private static boolean isPlainString(Expression value) {
    return value.dataType().equals(DataTypes.StringType);
  }

  private static List<NamedExpression> numbered(Expression value, String name, String number) {
    // The column keeps an attribute's identity, so that Spark knows the rows' distribution.
    ExprId id = value instanceof Attribute attribute ? attribute.exprId() : NamedExpression.newExprId();
    return List.of(Expressions.alias(prefix(value), number, NamedExpression.newExprId()), Expressions.alias(rest(value), name, id));
  }

  /** Returns the number of a string's first eight bytes. */
  public static Expression prefix(Expression value) {
    return new SortPrefix(new SortOrder(value, Ascending$.MODULE$, NullsFirst$.MODULE$, Scala.seq(List.<Expression>of())));
  }

  /**
   * Returns a string, or NULL if the number of its first bytes represents it completely: it is short enough and does not end in a
   * zero byte ({@link #isInPrefix}).
   */
  public static Expression rest(Expression value) {
    Expression longer = new GreaterThan(new OctetLength(value), new Literal(BYTES, DataTypes.IntegerType));
    Expression zero = new EndsWith(value, new Chr(new Literal(0L, DataTypes.LongType))); // EXPLAIN would print a literal as a NUL character
    return new If(new Or(longer, zero), value, new Literal(null, DataTypes.StringType));
  }

  /** Whether the number of a string's first bytes represents it completely. */
  public static boolean isInPrefix(UTF8String text) {
    int bytes = text.numBytes();
    return bytes <= BYTES && (bytes == 0 || text.getByte(bytes - 1) != 0);
  }

  /** Returns {@code columns} without those that repeat an earlier column under another name. These go to {@code same}. */
  public static List<NamedExpression> distinct(List<NamedExpression> columns, Map<ExprId, Attribute> same) {
    Map<Expression, Attribute> first = new HashMap<>();
    List<NamedExpression> kept = new ArrayList<>();
    for (NamedExpression column : columns) {
      Expression source = column instanceof Alias alias ? alias.child() : (Expression) column;
      Attribute before = source.deterministic() ? first.putIfAbsent(source.canonicalized(), column.toAttribute()) : null;
      if (before == null) {
        kept.add(column);
      } else {
        same.put(column.exprId(), before);
      }
    }
    return kept;
  }
}
