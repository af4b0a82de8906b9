package org.sparkcep;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Set;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.expressions.PythonUDTF;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.SQLQueryContext;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Raises Spark's own error over a statement with the clause ahead of Spark, once nothing more can be resolved: told over the user's
 * text, without the plan, which Spark appends when it checks the plan itself.
 */
final class Telling extends Rule<LogicalPlan> {
  static final class Builder extends AbstractFunction1<SparkSession, Rule<LogicalPlan>> {
    @Override
    public Rule<LogicalPlan> apply(SparkSession session) {
      return new Telling((org.apache.spark.sql.classic.SparkSession) session);
    }
  }

  /** Errors of resolved plans that no later rule of Spark's mends. */
  private static final Set<String> LASTING = Set.of(
      "UNSUPPORTED_FEATURE.PARTITION_BY_VARIANT", "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_PYTHON_UDF");

  private final org.apache.spark.sql.classic.SparkSession session;

  private Telling(org.apache.spark.sql.classic.SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    // the plan of a subquery may yet be resolved by what is around it
    if (AnalysisContext.get().outerPlan().isEmpty() && (!plan.resolved() || hasCall(plan))) {
      try {
        session.sessionState().analyzer().checkAnalysis0(plan);
      } catch (Throwable raised) { // Scala does not declare what it throws
        boolean lasting = raised instanceof AnalysisException error && (!plan.resolved() || LASTING.contains(error.getCondition()));
        Throwable told = lasting ? told((AnalysisException) raised) : null;
        if (told != null) {
          throw PythonFunctions.<RuntimeException>unchecked(told);
        }
      }
    }
    return plan;
  }

  private static boolean hasCall(LogicalPlan plan) {
    if (plan instanceof Generate call && call.generator() instanceof PythonUDTF function && PythonFunctions.TABLE_FUNCTION.equals(function.name())) {
      return true;
    }
    return CollectionConverters.asJava(plan.children()).stream().anyMatch(Telling::hasCall)
        || CollectionConverters.asJava(plan.subqueries()).stream().anyMatch(Telling::hasCall);
  }

  /**
   * {@code error} as the rewriter tells it; null where its statement is none that was rewritten, so that Spark raises it itself.
   */
  private static Throwable told(AnalysisException error) {
    String text = null;
    ArrayNode spots = JsonNodeFactory.instance.arrayNode();
    for (QueryContext context : error.getQueryContext()) {
      if (context instanceof SQLQueryContext sql && sql.sqlText().isDefined()) {
        text = sql.sqlText().get();
        spots.addArray().add(sql.fragment()).add(sql.startIndex());
      }
    }
    if (text == null) {
      return null;
    }
    JsonNode answer = answer(text, error, spots);
    if (answer.has("error")) {
      return new ClauseException(text, answer.get("error"));
    }
    return answer.has("message") ? new Told(error, answer.get("message").asText()) : null;
  }

  private static JsonNode answer(String text, AnalysisException error, ArrayNode spots) {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("kind", "tell").put("sql", text).put("condition", error.getCondition()).put("message", error.getMessage()).set("spots", spots);
    ObjectNode parameters = request.putObject("parameters");
    error.getMessageParameters().forEach(parameters::put);
    return PythonFunctions.asked(request);
  }

  /** What is told of a syntax error that Spark found in the rewriting of {@code text}. */
  static String message(String text, ParseException error) {
    JsonNode told = answer(text, error, JsonNodeFactory.instance.arrayNode()).get("message");
    return told == null ? error.getMessage() : told.asText();
  }

  /** A syntax error with its place in the user's text. */
  static final class Unparsed extends ParseException {
    private static final long serialVersionUID = 1L;

    private final String text;

    Unparsed(String statement, ParseException error, String text) {
      super(
          Option.apply(statement),
          error.start(),
          error.getCondition(),
          scala.collection.immutable.Map.from(CollectionConverters.asScala(error.getMessageParameters())),
          error.getQueryContext());
      this.text = text;
    }

    @Override
    public String getMessage() {
      return text;
    }

    @Override
    public String message() {
      return text;
    }

    @Override
    public String getSimpleMessage() {
      return text;
    }

    @Override
    public ParseException withCommand(String command) {
      return this;
    }
  }

  /** An error of Spark's with another message. */
  private static final class Told extends AnalysisException {
    private static final long serialVersionUID = 1L;

    private final String text;

    Told(AnalysisException error, String text) {
      super(
          error.getCondition(),
          scala.collection.immutable.Map.from(CollectionConverters.asScala(error.getMessageParameters())),
          error.getQueryContext(),
          Option.apply(error.getCause()));
      this.text = text;
      setStackTrace(error.getStackTrace());
    }

    @Override
    public String getMessage() {
      return text;
    }

    @Override
    public String message() {
      return text;
    }

    @Override
    public String getSimpleMessage() {
      return text;
    }

    @Override
    public AnalysisException withPosition(Origin origin) {
      return this;
    }
  }
}
