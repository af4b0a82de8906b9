package org.sparkcep.catalyst;

import scala.Product;

/** A node of a tree of Spark's, which lists the arguments of its constructor. Spark compares and prints nodes by them. */
public interface Members extends Product {
  /** Returns the arguments of the constructor, in order. */
  Object[] members();

  @Override
  default int productArity() {
    return members().length;
  }

  @Override
  default Object productElement(int i) {
    return members()[i];
  }

  @Override
  default boolean canEqual(Object other) {
    return getClass().isInstance(other);
  }
}
