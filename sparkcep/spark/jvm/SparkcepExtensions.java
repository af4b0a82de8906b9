package org.sparkcep;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.internal.SessionState;
import org.sparkcep.aggregate.MatchAggregates;
import org.sparkcep.aggregate.StreamAggregates;
import org.sparkcep.batch.Marks;
import org.sparkcep.batch.MatchPruning;
import org.sparkcep.batch.MatchStrategy;
import org.sparkcep.budget.RepeatedRuns;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.exchange.BlockExchange;
import org.sparkcep.functions.PythonFunctions;
import org.sparkcep.parse.Rewording;
import org.sparkcep.parse.RewritingParser;
import org.sparkcep.rewriter.Rewriter;
import org.sparkcep.rewriter.TokenClient;
import org.sparkcep.stream.StreamMark;
import org.sparkcep.stream.StreamOperator;
import org.sparkcep.stream.StreamStart;
import org.sparkcep.stream.StreamWindows;
import py4j.JavaServer;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Adds the MATCH_RECOGNIZE clause to Spark by rewriting text before Spark parses it.
 *
 * <p>There are two entry points. If {@code spark.sql.extensions} names this class when the JVM starts, it adds the functions too.
 * {@link #install} adds it to a running session, whose Python driver registers the functions. Python does the rewriting, through a
 * function from a JSON request to a JSON answer (see sparkcep/spark/session/rewrite_service.py). It is a Py4J callback if there is
 * a Python driver ({@link #setRewriter}), otherwise a helper process. The first statement that needs a helper starts it ({@link
 * Rewriter}).
 */
public final class SparkcepExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser((session, parser) -> rewriting(parser));
    injectPlanning(extensions);
    extensions.injectHintResolutionRule(session -> new Rewording((org.apache.spark.sql.classic.SparkSession) session));
    PythonFunctions.publish(StreamMark::marked);
    return BoxedUnit.UNIT;
  }

  private static void injectPlanning(SparkSessionExtensions extensions) {
    extensions.injectOptimizerRule(session -> new MatchPruning());
    extensions.injectPlannerStrategy(session -> new MatchStrategy());
    extensions.injectColumnar(session -> new Marks());
    extensions.injectQueryStagePrepRule(session -> new BlockExchange());
    extensions.injectPostHocResolutionRule(session -> new MatchAggregates());
    extensions.injectPostHocResolutionRule(session -> new StreamAggregates()); // for the remaining aggregates
    extensions.injectPostHocResolutionRule(session -> new StreamWindows());
    extensions.injectPostHocResolutionRule(session -> new RepeatedRuns());
    extensions.injectPostHocResolutionRule(session -> new StreamStart((org.apache.spark.sql.classic.SparkSession) session));
    extensions.injectHintResolutionRule(session -> new StreamStart((org.apache.spark.sql.classic.SparkSession) session)); // before Spark's rules
  }

  /** Sets the function that answers requests; null returns to helper processes. */
  public static void setRewriter(Function<String, String> function) {
    Rewriter.set(function);
  }

  /** From now on callbacks into the Python driver send it this token. */
  public static void setToken(JavaServer server, String token) throws ReflectiveOperationException {
    TokenClient.install(server, token);
  }

  /** Turns rewriting on or off for the whole JVM. If it is off, every text reaches Spark's parser unchanged. */
  public static void setActive(boolean on) {
    Rewriter.setActive(on);
  }

  /** Whether this Spark can run a clause over a stream with the operator. */
  public static boolean hasOperator() {
    return StreamOperator.isKnown();
  }

  /**
   * Adds the rewriting parser to a running session, and to every session created from it later.
   *
   * <p>Sessions read their extensions once, when their state is built, hence both steps.
   */
  public static void install(org.apache.spark.sql.classic.SparkSession session) throws ReflectiveOperationException {
    SessionState state = session.sessionState();
    ParserInterface parser = state.sqlParser();
    if (isOurs(parser)) {
      return;
    }
    ParserInterface wrapped = rewriting(parser);
    // The catalog parses the texts of EXECUTE IMMEDIATE and SQL functions.
    replaceParser(state.catalog(), parser, wrapped);
    replaceParser(state, parser, wrapped);
    Marks.install(state);
    add(state.analyzer(), "postHocResolutionRules", state.analyzer().postHocResolutionRules(), List.of(new MatchAggregates(), new StreamAggregates(), new StreamWindows(), new RepeatedRuns(), new StreamStart(session)));
    add(state.analyzer(), "hintResolutionRules", state.analyzer().hintResolutionRules(), List.of(new StreamStart(session)));
    analyse(session);
    synchronized (session.extensions()) {
      if (!isOurs(session.extensions().buildParser(session, parser))) {
        session.extensions().injectParser((later, own) -> rewriting(own));
        injectPlanning(session.extensions()); // read again for each query
      }
    }
  }

  /**
   * Makes the JVM analyse calls of the table function itself, and describe the functions. To be called each time a Python driver
   * has registered them in a session.
   */
  public static void analyse(org.apache.spark.sql.classic.SparkSession session) {
    PythonFunctions.analyse(session.sessionState().tableFunctionRegistry(), StreamMark::marked);
    PythonFunctions.analyse(TableFunctionRegistry.builtin(), StreamMark::marked);
    PythonFunctions.describe(session.sessionState().functionRegistry());
    PythonFunctions.describe(org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin());
  }

  /** Whether this session's statements pass through the rewriter. */
  public static boolean isInstalled(org.apache.spark.sql.classic.SparkSession session) {
    return Rewriter.isActive() && isOurs(session.sessionState().sqlParser());
  }

  private static boolean isOurs(ParserInterface parser) {
    return Proxy.isProxyClass(parser.getClass()) && Proxy.getInvocationHandler(parser) instanceof RewritingParser;
  }

  /** Returns a parser that rewrites text for this one; this one if it does so already. */
  private static ParserInterface rewriting(ParserInterface parser) {
    if (isOurs(parser)) {
      return parser;
    }
    return (ParserInterface)
        Proxy.newProxyInstance(
            SparkcepExtensions.class.getClassLoader(),
            new Class<?>[] {ParserInterface.class},
            new RewritingParser(parser));
  }

  /** Adds rules to an existing analyzer, whose member {@code name} has the rules {@code before}. */
  private static void add(Analyzer analyzer, String name, Seq<Rule<LogicalPlan>> before, List<Rule<LogicalPlan>> more)
      throws ReflectiveOperationException {
    List<Rule<LogicalPlan>> rules = new ArrayList<>(CollectionConverters.asJava(before));
    for (Rule<LogicalPlan> rule : more) {
      if (rules.stream().noneMatch(there -> there.getClass() == rule.getClass())) {
        rules.add(rule);
      }
    }
    for (Field field : fields(analyzer)) {
      if (field.getName().equals(name)) {
        field.setAccessible(true);
        field.set(analyzer, Scala.seq(rules));
      }
    }
  }

  private static void replaceParser(Object holder, ParserInterface from, ParserInterface to)
      throws ReflectiveOperationException {
    for (Field field : fields(holder)) {
      if (field.getType() == ParserInterface.class) {
        field.setAccessible(true);
        if (field.get(holder) == from) {
          field.set(holder, to);
        }
      }
    }
  }

  /** Returns the fields of an object, with those of its superclasses. */
  private static List<Field> fields(Object holder) {
    List<Field> fields = new ArrayList<>();
    for (Class<?> c = holder.getClass(); c != null; c = c.getSuperclass()) {
      fields.addAll(List.of(c.getDeclaredFields()));
    }
    return fields;
  }
}
