package org.sparkcep.catalyst;

import java.util.List;
import java.util.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Converts Java's collections to Scala's. */
public final class Scala {
  private Scala() {}

  /** Returns the elements of a list as an immutable sequence. */
  public static <T> Seq<T> seq(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  /** Returns the entries of a map as an immutable map. */
  public static <K, V> scala.collection.immutable.Map<K, V> map(Map<K, V> map) {
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(map));
  }
}
