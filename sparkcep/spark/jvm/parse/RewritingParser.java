package org.sparkcep.parse;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.HybridParameterContext;
import org.apache.spark.sql.catalyst.parser.NamedParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.PositionalParameterContext;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.exceptions.SqlScriptingException;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.VariableSubstitution;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.errors.ClauseException;
import org.sparkcep.errors.UnparsedException;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.rewriter.HelperProcess;
import org.sparkcep.rewriter.Rewriter;
import scala.Option;
import scala.collection.immutable.Seq;

/** Rewrites the text of statements and expressions, and leaves all other calls to Spark's parser. */
public record RewritingParser(ParserInterface spark) implements InvocationHandler {
  static final Pattern MENTION = Pattern.compile("match_recognize", Pattern.CASE_INSENSITIVE);
  private static final Pattern PATTERN = Pattern.compile("\\bpattern\\s*\\(", Pattern.CASE_INSENSITIVE);
  private static final Logger LOG = LoggerFactory.getLogger("org.sparkcep.SparkcepExtensions");
  private static final Set<String> LOGGED = ConcurrentHashMap.newKeySet(); // the logged messages about unknown settings
  private static final ObjectMapper JSON = new ObjectMapper();

  @Override
  public Object invoke(Object proxy, Method method, Object[] args) throws Throwable {
    boolean placed = false; // whether the rewritten text has a source map to the user's text
    String own = null; // the user's text, if it was rewritten here
    if (Rewriter.isActive() && mayHaveClause(method, args)) {
      String text = substituted((String) args[0]);
      if (MENTION.matcher(text).find()) {
        JsonNode answer = asked(text, args);
        args = rewritten(text, args, answer);
        placed = answer.get("placed").asBoolean();
        own = text.equals(answer.get("sql").asText()) ? null : text;
      }
    }
    try {
      Object parsed = method.invoke(spark, args);
      if (placed) {
        Origins.restore(parsed, (String) args[0]);
      }
      return parsed;
    } catch (InvocationTargetException e) {
      Throwable cause = e.getCause();
      if (cause instanceof SqlScriptingException error) {
        cause = asParseException(error, error.origin(), args);
      }
      if (own != null && cause instanceof AnalysisException error && !(cause instanceof ClauseException)) {
        throw new UnparsedException(own, error, Rewording.message(own, error));
      }
      if (own == null && cause instanceof ParseException && Rewriter.isActive() && mayHaveClause(method, args)) {
        raiseUnbegun((String) args[0]);
      }
      boolean declared = !(cause instanceof AnalysisException) || cause instanceof ParseException;
      throw declared ? cause : asParseException((AnalysisException) cause, CurrentOrigin.get(), args);
    }
  }

  /** Raises the error of a statement that Spark cannot parse if it was meant to have a clause. */
  private static void raiseUnbegun(String text)
      throws ClauseException, HelperProcess.HelperException, JsonProcessingException {
    if (PATTERN.matcher(text).find()) {
      ObjectNode request = JSON.createObjectNode();
      JsonNode answer = Rewriter.ask(request.put("kind", "unbegun").put("sql", text));
      if (answer.has("error")) {
        throw new ClauseException(text, answer.get("error"));
      }
    }
  }

  /**
   * Returns {@code error} as the exception that the parser's methods declare: a proxy may not throw any other checked exception.
   */
  private static <E extends Exception & SparkThrowable> ParseException asParseException(E error, Origin origin, Object[] args) {
    ParseException out =
        new ParseException(
            Option.apply(args != null && args.length > 0 && args[0] instanceof String ? (String) args[0] : null),
            origin,
            error.getCondition(),
            Scala.map(error.getMessageParameters()),
            error.getQueryContext());
    out.addSuppressed(error); // its cause is already set
    return out;
  }

  /** Whether a method parses a statement, or an expression, whose subqueries may have clauses. */
  private static boolean mayHaveClause(Method method, Object[] args) {
    return args != null
        && args.length > 0
        && args[0] instanceof String
        && (method.getName().startsWith("parsePlan") || method.getName().equals("parseQuery") || method.getName().equals("parseExpression"));
  }

  /** Returns the text with its {@code ${variables}} substituted. Spark would substitute them later, and {@code ${} is not SQL. */
  private static String substituted(String text) {
    boolean wanted = text.contains("${") && SQLConf.get().variableSubstituteEnabled();
    return wanted ? new VariableSubstitution().substitute(text) : text;
  }

  /**
   * Returns the values that Spark would bind to {@code ?} markers by position, or null without such values. EXECUTE IMMEDIATE
   * passes values with and without names, which it binds by position or by name, depending on the statement's markers.
   */
  private static Seq<Expression> positional(Object[] args) {
    Object context = args.length > 1 ? args[1] : null;
    if (context instanceof HybridParameterContext hybrid) {
      return hybrid.args();
    }
    return context instanceof PositionalParameterContext positional ? positional.params() : null;
  }

  private static JsonNode asked(String text, Object[] args)
      throws ClauseException, HelperProcess.HelperException, JsonProcessingException {
    JsonNode answer = Rewriter.ask(request(text, positional(args) != null));
    answer.path("unknown").forEach(setting -> { if (LOGGED.add(setting.asText())) LOG.warn(setting.asText()); });
    if (answer.has("error")) {
      throw new ClauseException(text, answer.get("error"));
    }
    return answer;
  }

  private static Object[] rewritten(String text, Object[] args, JsonNode answer) {
    String sql = answer.get("sql").asText();
    if (sql.equals(text)) {
      return args;
    }
    Object[] out = args.clone();
    out[0] = sql;
    String prefix = answer.get("marker_prefix").asText();
    if (positional(args) != null && sql.contains(":" + prefix)) {
      out[1] = named(positional(args), prefix);
    }
    return out;
  }

  private static ObjectNode request(String text, boolean namedMarkers) {
    ObjectNode request = JSON.createObjectNode();
    request.put("sql", text);
    request.set("settings", Configured.session());
    request.set("application", Configured.application());
    request.put("named_markers", namedMarkers);
    return request;
  }

  private static NamedParameterContext named(Seq<Expression> values, String prefix) {
    Map<String, Expression> named = new HashMap<>();
    for (int i = 0; i < values.size(); i++) {
      named.put(prefix + (i + 1), values.apply(i));
    }
    return new NamedParameterContext(Scala.map(named));
  }
}
