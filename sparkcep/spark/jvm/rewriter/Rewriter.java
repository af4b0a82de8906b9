package org.sparkcep.rewriter;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.UncheckedIOException;
import java.util.function.Function;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.errors.ClauseException;

/**
 * The rewriter in Python, as a function from requests to answers. It is a Py4J callback of a Python driver, or a pool of helper
 * processes ({@link Helpers}).
 */
public final class Rewriter {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static volatile Function<String, String> function;
  private static volatile boolean active = true;

  private Rewriter() {}

  /** Sets the callback that answers requests; null returns to helper processes. */
  public static void set(Function<String, String> callback) {
    function = callback;
  }

  /** Turns rewriting on or off. */
  public static void setActive(boolean on) {
    active = on;
  }

  /** Returns the rewriter's answer to a request of any kind. */
  public static JsonNode ask(ObjectNode request) throws ClauseException, HelperProcess.HelperException, JsonProcessingException {
    String sql = request.path("sql").asText();
    Helpers helpers = null;
    JsonNode answer;
    try {
      Function<String, String> rewriter = running();
      if (rewriter instanceof Helpers some) {
        helpers = some;
        ObjectNode before = request.has("kind") ? helpers.request(sql) : null;
        if (before != null) {
          request.set("earlier", before); // for a helper that did not rewrite the statement
        }
        Configured.redaction().ifPresent(pattern -> request.put("redact", pattern)); // a Python driver redacts its own errors
      }
      answer = JSON.readTree(rewriter.apply(JSON.writeValueAsString(request)));
    } catch (Helpers.Refusal e) {
      ClauseException error = new ClauseException(request.has("kind") ? null : sql, e.fields());
      error.addSuppressed(e);
      throw error;
    }
    if (answer.has("ended")) {
      throw new ClauseException(null, answer.get("ended"));
    }
    if (answer.has("failure")) {
      throw new HelperProcess.HelperException("sparkcep's rewriter failed:\n" + answer.get("failure").asText(), null);
    }
    if (helpers != null && answer.path("placed").asBoolean()) {
      helpers.remember(request, answer.get("sql").asText());
    } else if (helpers != null && "places".equals(request.path("kind").asText())) {
      helpers.restored(sql);
    }
    return answer;
  }

  /** Returns the answer to a request, which may be an error. Exceptions are unchecked. */
  public static JsonNode asked(ObjectNode request) {
    try {
      return ask(request);
    } catch (JsonProcessingException e) {
      throw new UncheckedIOException(e);
    } catch (ClauseException | HelperProcess.HelperException e) {
      throw Reflection.<RuntimeException>unchecked(e);
    }
  }

  /** Returns the answer to a request. Raises the error in it. Exceptions are unchecked. */
  public static JsonNode granted(ObjectNode request) {
    JsonNode answer = asked(request);
    if (answer.has("error")) {
      throw Reflection.<RuntimeException>unchecked(new ClauseException(null, answer.get("error")));
    }
    return answer;
  }

  private static Function<String, String> running() {
    Function<String, String> callback = function;
    return callback == null ? Helpers.running() : callback;
  }

  /** Whether statements are rewritten. */
  public static boolean isActive() {
    return active;
  }
}
