package org.sparkcep.errors;

import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** An error of Spark's parser with its position in the user's text. */
public final class UnparsedException extends ParseException {
  private static final long serialVersionUID = 1L;

  private final String text;

  public UnparsedException(String statement, AnalysisException error, String text) {
    super(
        Option.apply(statement),
        error instanceof ParseException parsing ? parsing.start() : CurrentOrigin.get(),
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
