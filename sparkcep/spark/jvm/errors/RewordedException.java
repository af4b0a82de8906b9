package org.sparkcep.errors;

import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.sparkcep.catalyst.Scala;
import scala.Option;

/** A Spark error with another message. */
public final class RewordedException extends AnalysisException {
  private static final long serialVersionUID = 1L;

  private final String text;

  public RewordedException(AnalysisException error, String text) {
    super(
        error.getCondition(),
        Scala.map(error.getMessageParameters()),
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
