package org.sparkcep.errors;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.sparkcep.catalyst.Scala;
import scala.Option;

/** An error in the clause, as a parse error of Spark's. */
public final class ClauseException extends MessageException {
  private static final long serialVersionUID = 1L;

  private final String text;
  private final String condition;
  private final String sqlState;
  private final HashMap<String, String> parameters = new HashMap<>();

  /** {@code text}: the statement, if known; {@code error}: the fields that spark/session/rewrite_service.py returns. */
  public ClauseException(String text, JsonNode error) {
    // The error class given here is Spark's nearest one: the constructor looks it up, and sparkcep's class is not in Spark's list.
    super(
        Option.apply(text),
        CurrentOrigin.get(),
        "PARSE_SYNTAX_ERROR",
        Scala.map(Map.of("error", error.get("message").asText(), "hint", "")),
        new QueryContext[0],
        error.get("description").asText());
    this.text = text;
    condition = error.get("error_class").asText();
    sqlState = error.get("sqlstate").asText();
    for (String field : new String[] {"message", "line", "column", "fragment"}) {
      parameters.put(field, error.get(field).asText());
    }
  }

  @Override
  public String getCondition() {
    return condition;
  }

  @Override
  public String getSqlState() {
    return sqlState;
  }

  @Override
  public Map<String, String> getMessageParameters() {
    return new HashMap<>(parameters);
  }

  @Override
  public AnalysisException withPosition(Origin origin) {
    return this; // a copy would be of Spark's own class, with its text
  }

  /** Returns the whole statement as the user wrote it; null if only its analysis failed. */
  public String statement() {
    return text;
  }
}
