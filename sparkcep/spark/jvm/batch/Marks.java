package org.sparkcep.batch;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveRulesHolder;
import org.apache.spark.sql.internal.SessionState;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.exchange.BlockExchange;
import org.sparkcep.exchange.Clustered;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Removes {@link Clustered} from a plan after Spark has planned exchanges and sorts for it, because executors lack the class.
 *
 * <p>Spark offers this extension point, after that planning, for rules about columnar operators.
 */
public final class Marks extends ColumnarRule {
  /** Whether the session of the query being planned has this rule. */
  static boolean areTakenOut() {
    return areTakenOut(org.apache.spark.sql.classic.SparkSession.active().sessionState());
  }

  private static boolean areTakenOut(SessionState state) {
    return CollectionConverters.asJava(state.columnarRules()).stream().anyMatch(rule -> rule instanceof Marks);
  }

  /** Adds the rule to a running session, which read its extensions at its start. */
  public static void install(SessionState state) throws ReflectiveOperationException {
    if (areTakenOut(state)) {
      return;
    }
    List<ColumnarRule> rules = new ArrayList<>(CollectionConverters.asJava(state.columnarRules()));
    rules.add(new Marks());
    Field field = SessionState.class.getDeclaredField("columnarRules");
    field.setAccessible(true);
    field.set(state, Scala.seq(rules));
    AdaptiveRulesHolder adaptive = state.adaptiveRulesHolder();
    List<Rule<SparkPlan>> preparing = new ArrayList<>(CollectionConverters.asJava(adaptive.queryStagePrepRules()));
    preparing.add(new BlockExchange());
    Field prepared = AdaptiveRulesHolder.class.getDeclaredField("queryStagePrepRules");
    prepared.setAccessible(true);
    prepared.set(adaptive, Scala.seq(preparing));
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
        return (SparkPlan) plan.transformUp(Replacement.of(node -> node instanceof Clustered, node -> node.children().head()));
      }
    };
  }
}
