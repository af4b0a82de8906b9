package org.sparkcep.parse;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.SupportQueryContext;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.rewriter.Rewriter;
import scala.Option;
import scala.Product;
import scala.Some;
import scala.collection.Iterable;
import scala.collection.Iterator;

/**
 * Source positions: maps the nodes of a rewritten statement's plan to the user's text. So Spark's own errors, in analysis and at
 * run time, name positions there.
 */
final class Origins {
  private static final Method POSITION_MAPPER = positionMapper();

  private Origins() {}

  /** A position in the rewritten text: offsets of the first and the last character. */
  private record Place(int start, int stop) {}

  /** Gives every node of {@code parsed} with a position in {@code rewritten} the position in the user's own text. */
  static void restore(Object parsed, String rewritten) throws ReflectiveOperationException {
    List<TreeNode<?>> nodes = new ArrayList<>();
    collect(parsed, rewritten, nodes, Collections.newSetFromMap(new IdentityHashMap<>()));
    if (nodes.isEmpty()) {
      return;
    }
    Map<Place, Origin> places = asked(nodes, rewritten);
    Field field = TreeNode.class.getDeclaredField("origin");
    field.setAccessible(true);
    for (TreeNode<?> node : nodes) {
      Origin origin = places.get(place(node.origin()));
      if (origin != null) {
        field.set(node, origin);
        if (node instanceof SupportQueryContext quoting) {
          quoting.queryContext_$eq(quoting.initQueryContext()); // the node stored its position when it was created
        }
      }
    }
  }

  private static void collect(Object value, String text, List<TreeNode<?>> into, Set<Object> seen) {
    if (value instanceof TreeNode<?> node) {
      if (!seen.add(node)) {
        return;
      }
      if (place(node.origin()) != null && text.equals(node.origin().sqlText().get())) {
        into.add(node);
      }
    }
    if (value instanceof Iterable<?> values) {
      each(values.iterator(), text, into, seen);
    } else if (value instanceof Product product) {
      each(product.productIterator(), text, into, seen);
    }
  }

  private static void each(Iterator<?> values, String text, List<TreeNode<?>> into, Set<Object> seen) {
    while (values.hasNext()) {
      collect(values.next(), text, into, seen);
    }
  }

  private static Place place(Origin origin) {
    return origin.startIndex().isEmpty() || origin.stopIndex().isEmpty() || origin.sqlText().isEmpty()
        ? null
        : new Place(offset(origin, origin.startIndex()), offset(origin, origin.stopIndex()));
  }

  /** Returns an offset in the origin's text. Spark itself may count in that text with parameter values filled in. */
  private static int offset(Origin origin, Option<Object> found) {
    try {
      Option<?> mapper = POSITION_MAPPER == null ? Option.empty() : (Option<?>) POSITION_MAPPER.invoke(origin);
      int offset = (Integer) found.get();
      return mapper.isEmpty() ? offset : (Integer) mapper.get().getClass().getMethod("mapToOriginal", int.class).invoke(mapper.get(), offset);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Method positionMapper() {
    try {
      return Origin.class.getMethod("positionMapper");
    } catch (NoSuchMethodException e) {
      return null; // before Spark 4.2
    }
  }

  /** Returns the origins in the user's text, without nodes that lack a position there. */
  private static Map<Place, Origin> asked(List<TreeNode<?>> nodes, String rewritten) {
    Map<Place, Origin> out = new LinkedHashMap<>();
    nodes.forEach(node -> out.put(place(node.origin()), node.origin()));
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("kind", "places").put("sql", rewritten);
    ArrayNode spans = request.putArray("spans");
    out.keySet().forEach(place -> spans.addArray().add(place.start).add(place.stop + 1));
    JsonNode answer = Rewriter.asked(request);
    Option<String> text = new Some<>(answer.get("text").asText());
    int i = 0;
    for (Map.Entry<Place, Origin> entry : out.entrySet()) {
      JsonNode found = answer.get("spans").get(i++);
      Origin old = entry.getValue();
      entry.setValue(found.isNull() ? null : (Origin) Reflection.construct(
          Origin.class.getName(), number(found, "line"), number(found, "position"), number(found, "start"), number(found, "stop"), text,
          old.objectType(), old.objectName()));
    }
    return out;
  }

  private static Option<Object> number(JsonNode place, String name) {
    return new Some<>(place.get(name).asInt());
  }
}
