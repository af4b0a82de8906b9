package org.sparkcep.errors;

import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.sparkcep.catalyst.Scala;
import scala.Option;

/** An error of Spark's parser with its position in the user's text. */
public final class UnparsedException extends MessageException {
  private static final long serialVersionUID = 1L;

  public UnparsedException(String statement, AnalysisException error, String text) {
    super(
        Option.apply(statement),
        error instanceof ParseException parsing ? parsing.start() : CurrentOrigin.get(),
        error.getCondition(),
        Scala.map(error.getMessageParameters()),
        error.getQueryContext(),
        text);
  }
}
