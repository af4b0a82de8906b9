package org.sparkcep.parse;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.SQLQueryContext;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.errors.ClauseException;
import org.sparkcep.errors.RewordedException;
import org.sparkcep.rewriter.Rewriter;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Raises Spark's own errors about a statement with the clause in the rewriter's words: for the user's text, without the plan.
 *
 * <p>Spark's rules raise most errors themselves, and Spark checks the rest. A rule cannot catch an error of another rule. Therefore
 * this rule, which runs before those that resolve names, analyses the whole statement and returns the result, which Spark's later
 * rules leave unchanged.
 */
public final class Rewording extends Rule<LogicalPlan> {
  /** Analyses in the context of the calling rule, which has the statement's references; null if Spark lacks the method. */
  private static final Method ANALYSIS = analysis();

  private static final ThreadLocal<Boolean> UNDER_WAY = ThreadLocal.withInitial(() -> false);

  private final org.apache.spark.sql.classic.SparkSession session;

  public Rewording(org.apache.spark.sql.classic.SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    // the enclosing query may yet resolve the plan of a subquery
    if (ANALYSIS == null || UNDER_WAY.get() || plan.analyzed() || AnalysisContext.get().outerPlan().isDefined()) {
      return plan;
    }
    String statement = statement(plan);
    if (statement == null) {
      return plan;
    }
    UNDER_WAY.set(true);
    try {
      return analysed(plan);
    } catch (AnalysisException error) {
      Throwable reworded = error instanceof ClauseException ? error : reworded(error, statement);
      throw Reflection.<RuntimeException>unchecked(reworded == null ? error : reworded);
    } finally {
      UNDER_WAY.set(false);
    }
  }

  private LogicalPlan analysed(LogicalPlan plan) throws AnalysisException {
    Analyzer analyzer = session.sessionState().analyzer();
    try {
      LogicalPlan analysed = (LogicalPlan) ANALYSIS.invoke(analyzer, plan);
      analyzer.checkAnalysis(analysed);
      return analysed;
    } catch (InvocationTargetException e) {
      throw Reflection.<RuntimeException>unchecked(e.getCause());
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Method analysis() {
    for (Method method : Analyzer.class.getMethods()) {
      if (method.getName().endsWith("executeSameContext") && method.getParameterCount() == 1) {
        return method;
      }
    }
    return null;
  }

  /** Returns the user's text with a clause that {@code plan} was made of; null for another plan. */
  private static String statement(LogicalPlan plan) {
    Option<String> text = plan.origin().sqlText();
    if (text.isDefined() && RewritingParser.MENTION.matcher(text.get()).find()) {
      return text.get();
    }
    return Stream.concat(CollectionConverters.asJava(plan.children()).stream(), CollectionConverters.asJava(plan.subqueries()).stream())
        .map(Rewording::statement).filter(Objects::nonNull).findFirst().orElse(null);
  }

  /**
   * Returns {@code error} of {@code statement} in the rewriter's words; null if its text was not rewritten, so that Spark raises it
   * itself.
   */
  private static Throwable reworded(AnalysisException error, String statement) {
    String text = error.getQueryContext().length == 0 ? statement : null;
    for (QueryContext context : error.getQueryContext()) {
      if (context instanceof SQLQueryContext sql && sql.sqlText().isDefined()) {
        text = sql.sqlText().get();
      }
    }
    if (text == null) {
      return null;
    }
    JsonNode answer = answer(text, error);
    if (answer.has("error")) {
      return new ClauseException(text, answer.get("error"));
    }
    return answer.has("message") ? new RewordedException(error, answer.get("message").asText()) : null;
  }

  private static JsonNode answer(String text, AnalysisException error) {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("kind", "reword").put("sql", text).put("condition", error.getCondition()).put("message", error.getMessage());
    ArrayNode spots = request.putArray("spots");
    for (QueryContext context : error.getQueryContext()) {
      if (context instanceof SQLQueryContext sql && sql.sqlText().isDefined()) {
        spots.addArray().add(sql.fragment()).add(sql.startIndex());
      }
    }
    ObjectNode parameters = request.putObject("parameters");
    error.getMessageParameters().forEach(parameters::put);
    return Rewriter.asked(request);
  }

  /** Returns the message for an error that Spark found when it parsed the rewritten text of {@code text}. */
  static String message(String text, AnalysisException error) {
    JsonNode message = answer(text, error).get("message");
    return message == null ? error.getMessage() : message.asText();
  }
}
