package org.sparkcep.errors;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.trees.Origin;
import scala.Option;
import scala.collection.immutable.Map;

/** A parse error of Spark's with a message of its own instead of the one that Spark makes of its error class. */
public abstract class MessageException extends ParseException {
  private static final long serialVersionUID = 1L;

  private final String text;

  /** {@code statement}: the statement, if known; {@code condition}: Spark's error class; {@code text}: the message. */
  MessageException(Option<String> statement, Origin start, String condition, Map<String, String> parameters, QueryContext[] context, String text) {
    super(statement, start, condition, parameters, context);
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
