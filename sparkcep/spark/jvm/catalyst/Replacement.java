package org.sparkcep.catalyst;

import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** Replaces the wanted nodes of a tree of Spark's: the argument of {@code transformUp} and similar methods. */
public final class Replacement<T> extends AbstractPartialFunction<T, T> {
  private final Predicate<T> wanted;
  private final UnaryOperator<T> by;

  private Replacement(Predicate<T> wanted, UnaryOperator<T> by) {
    this.wanted = wanted;
    this.by = by;
  }

  /** Returns the function that replaces nodes that are {@code wanted} {@code by} others. */
  public static <T> Replacement<T> of(Predicate<T> wanted, UnaryOperator<T> by) {
    return new Replacement<>(wanted, by);
  }

  @Override
  public boolean isDefinedAt(T node) {
    return wanted.test(node);
  }

  @Override
  @SuppressWarnings("unchecked")
  public <A extends T, B> B applyOrElse(A node, Function1<A, B> otherwise) {
    return wanted.test(node) ? (B) by.apply(node) : otherwise.apply(node);
  }
}
