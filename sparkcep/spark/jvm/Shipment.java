package org.sparkcep;

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

/**
 * The columns that go to Python for a call: one that the plan has under several names once, and strings by which partitions are cut
 * as numbers, since writing a string into an Arrow batch costs as much as four of them. columns/from_jvm.py makes the plan's input
 * of it.
 *
 * @param columns what is sent, each under a name of its own
 * @param names of each input column: its name to the engine, that under which it is sent, and that of the number of its first bytes
 * or ""
 */
record Shipment(List<NamedExpression> columns, ArrayNode names) {
  private static final int BYTES = 8;

  /** Of the first {@code count} columns of a call; {@code beside}: names of columns that come otherwise. */
  static Shipment of(Call call, int count, Set<String> beside) {
    List<NamedExpression> columns = new ArrayList<>();
    Map<ExprId, String[]> sent = new HashMap<>(); // of a column: its name and that of its number
    Set<String> taken = new HashSet<>();
    Set<String> keys = keys(call);
    String[][] sources = new String[count][];
    for (boolean first : new boolean[] {true, false}) { // keys are sent as such: by them Spark knows how rows are distributed
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
          // an attribute as it is needs no copy of the row, and Spark knows by it how rows are distributed
          String name = own(value instanceof Attribute attribute ? attribute.name() : sentName(call, i), taken);
          String number = numbered ? own(call.name(i) + " number", taken) : "";
          columns.addAll(numbered ? numbered(value, name, number) : List.of(MatchStrategy.named(value, name)));
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

  /** The engine's name of an input column: the user's may be called as they like, even alike. */
  static String engineName(Call call, int i) {
    return call.isUsers(i) ? "__u" + i : sentName(call, i);
  }

  /** The plan is a name that the engine has already: its column is sent only where rows would have no column without it. */
  private static String sentName(Call call, int i) {
    return i == call.size() - 1 ? "__row" : call.name(i);
  }

  /** {@code name}, or one like it, that no other column has. */
  private static String own(String name, Set<String> taken) {
    String own = name;
    while (!taken.add(own)) {
      own += "_";
    }
    return own;
  }

  /** Names of the input columns that cut partitions. */
  private static Set<String> keys(Call call) {
    Set<String> names = new HashSet<>();
    call.plan().get("partition").forEach(key -> names.add(key.get("column").asText()));
    call.plan().get("equal_keys").forEach(key -> names.add(key.get("column").asText()));
    return names;
  }

  /** Whether equal values have equal bytes: not under a collation. */
  private static boolean isPlainString(Expression value) {
    return value.dataType().equals(DataTypes.StringType);
  }

  /**
   * The number of a string's first bytes; and the string, where these are not all of it, or end in a zero, which a number does not
   * tell.
   */
  private static List<NamedExpression> numbered(Expression value, String name, String number) {
    Expression prefix = new SortPrefix(new SortOrder(value, Ascending$.MODULE$, NullsFirst$.MODULE$, MatchStrategy.seq(List.<Expression>of())));
    Expression longer = new GreaterThan(new OctetLength(value), new Literal(BYTES, DataTypes.IntegerType));
    Expression zero = new EndsWith(value, new Chr(new Literal(0L, DataTypes.LongType))); // EXPLAIN would print a literal as a NUL character
    Expression rest = new If(new Or(longer, zero), value, new Literal(null, DataTypes.StringType));
    // it keeps the identity of an attribute, by which Spark knows how rows are distributed
    ExprId id = value instanceof Attribute attribute ? attribute.exprId() : NamedExpression.newExprId();
    return List.of(MatchStrategy.alias(prefix, number, NamedExpression.newExprId()), MatchStrategy.alias(rest, name, id));
  }

  /** {@code columns} without those that say the same as one before under a further name, which go to {@code same}. */
  static List<NamedExpression> distinct(List<NamedExpression> columns, Map<ExprId, Attribute> same) {
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
