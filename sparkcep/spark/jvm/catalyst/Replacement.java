package org.sparkcep.catalyst;

import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import scala.PartialFunction;

/** Replaces the wanted nodes of a tree of Spark's: the argument of {@code transformUp} and similar methods. */
public record Replacement<T>(Predicate<T> wanted, UnaryOperator<T> by) implements PartialFunction<T, T> {
  /** Returns the function that replaces nodes that are {@code wanted} {@code by} others. */
  public static <T> Replacement<T> of(Predicate<T> wanted, UnaryOperator<T> by) {
    return new Replacement<>(wanted, by);
  }

  @Override
  public boolean isDefinedAt(T node) {
    return wanted.test(node);
  }

  @Override
  public T apply(T node) {
    return by.apply(node);
  }
}
