package org.sparkcep.batch;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveRulesHolder;
import org.apache.spark.sql.internal.SessionState;
import org.sparkcep.catalyst.Clustered;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.exchange.BlockExchange;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rules after Spark has planned exchanges and sorts: {@link BlockExchange}, then the removal of {@link Clustered}, because
 * executors lack the class, and blocks of batches ({@link BlockExchange#overBatches}).
 *
 * <p>Spark offers this extension point for rules about columnar operators. An adaptive query needs {@link BlockExchange} earlier,
 * as a rule that prepares query stages.
 */
public final class Marks extends ColumnarRule {
  /** Whether the session of the query being planned has this rule. */
  static boolean areTakenOut() {
    return areTakenOut(org.apache.spark.sql.classic.SparkSession.active().sessionState());
  }

  private static boolean areTakenOut(SessionState state) {
    return CollectionConverters.asJava(state.columnarRules()).stream().anyMatch(rule -> rule instanceof Marks);
  }

  /** Adds the rules to a running session, which read its extensions at its start. */
  public static void install(SessionState state) throws ReflectiveOperationException {
    if (areTakenOut(state)) {
      return;
    }
    append(SessionState.class, state, "columnarRules", state.columnarRules(), new Marks());
    AdaptiveRulesHolder adaptive = state.adaptiveRulesHolder();
    append(AdaptiveRulesHolder.class, adaptive, "queryStagePrepRules", adaptive.queryStagePrepRules(), new BlockExchange());
  }

  /** Appends a rule to {@code rules}, which {@code holder} has in a field of that name. */
  private static <H, T> void append(Class<H> type, H holder, String name, Seq<T> rules, T rule) throws ReflectiveOperationException {
    List<T> all = new ArrayList<>(CollectionConverters.asJava(rules));
    all.add(rule);
    Field field = type.getDeclaredField(name);
    field.setAccessible(true);
    field.set(holder, Scala.seq(all));
  }

  /** Without adaptive execution this is the first extension point after exchanges and sorts are planned. */
  @Override
  public Rule<SparkPlan> preColumnarTransitions() {
    return new BlockExchange();
  }

  @Override
  public Rule<SparkPlan> postColumnarTransitions() {
    return new Rule<>() {
      @Override
      public SparkPlan apply(SparkPlan plan) {
        return BlockExchange.overBatches((SparkPlan) plan.transformUp(Replacement.of(node -> node instanceof Clustered, node -> node.children().head())));
      }
    };
  }
}
