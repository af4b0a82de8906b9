package org.sparkcep.functions;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.sparkcep.catalyst.Reflection;
import scala.Function0;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * The functions {@code match_recognize}, {@code expand_matches}, ... for a JVM without a Python driver.
 *
 * <p>They become built-in functions, which every new session has and permanent views may use. At their first use the rewriter
 * supplies their code: it pickles references to functions of the installed package.
 */
public final class PythonFunctions {
  private static final String[] SCALARS = {"expand_matches", "count_matches", "sample_matches"};

  // usage and examples of each function, in the form of Spark's own functions
  private static final Map<String, String[]> USAGE = Map.of(
      Call.TABLE_FUNCTION,
      new String[] {
        "_FUNC_(TABLE(t) PARTITION BY (k) ORDER BY (ts), clause) - Returns the rows of MATCH_RECOGNIZE for the text of its clause. In a statement, "
            + "write the clause itself: FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES ... PATTERN (...) DEFINE ...).",
        examples("SELECT * FROM _FUNC_(TABLE(ticks) PARTITION BY (symbol) ORDER BY (day), "
            + "'MEASURES LAST(price) AS top PATTERN (A UP+) DEFINE UP AS price > PREV(price)')",
            "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES LAST(price) AS top PATTERN (A UP+) "
            + "DEFINE UP AS price > PREV(price))")
      },
      "expand_matches",
      new String[] {
        "_FUNC_(graph, limit) - Lists the matches in a graph of MATCH_GRAPH(), at most `limit` of them (NULL: all), each an array of position and variable.",
        examples("SELECT _FUNC_(g, 10) FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_GRAPH() AS g PATTERN (A B+) WINDOW 5 ROWS "
            + "EVENT SELECTION SKIP TILL ANY MATCH DEFINE A AS x > 1, B AS x > 2)")
      },
      "count_matches",
      new String[] {
        "_FUNC_(graph) - Counts the matches in a graph of MATCH_GRAPH() without listing them.", examples("SELECT _FUNC_(g) FROM graphs")
      },
      "sample_matches",
      new String[] {
        "_FUNC_(graph, n, seed) - Draws `n` matches from a graph of MATCH_GRAPH(), each equally likely; the same ones for the same seed.",
        examples("SELECT _FUNC_(g, 3, 42) FROM graphs")
      });

  private PythonFunctions() {}

  /**
   * Adds the functions to the registries that each new session copies. {@code marked} changes the arguments of calls of the table
   * function.
   */
  public static void publish(UnaryOperator<Seq<Expression>> marked) {
    replace(TableFunctionRegistry.builtin(), Call.TABLE_FUNCTION, "python_udtf", arguments -> table(marked.apply(arguments)));
    for (String name : SCALARS) {
      replace(FunctionRegistry.builtin(), name, "python_udf", arguments -> scalar(name, arguments));
    }
  }

  /** Registers a function. Spark warns if a function is replaced, but not if it was dropped before. */
  private static <T> void replace(FunctionRegistryBase<T> registry, String name, String source, Function1<Seq<Expression>, T> builder) {
    FunctionIdentifier known = identifier(name);
    synchronized (registry) { // like Spark's own look-ups, so that no query sees the gap
      registry.dropFunction(known);
      registry.registerFunction(known, info(name, source), builder);
    }
  }

  /** Returns the text of DESCRIBE FUNCTION. */
  private static ExpressionInfo info(String name, String source) {
    String[] texts = USAGE.get(name);
    return new ExpressionInfo(PythonFunctions.class.getName(), null, name, texts[0], "", texts[1], "", "", "", "", source);
  }

  private static String examples(String... statements) {
    StringBuilder text = new StringBuilder("\n    Examples:\n");
    for (String statement : statements) {
      text.append("      > ").append(statement).append(";\n");
    }
    return text.append("  ").toString();
  }

  private static FunctionIdentifier identifier(String name) {
    try {
      // Spark 4.3 has three-part names
      Object functions = Class.forName(FunctionRegistry.class.getName() + "$").getField("MODULE$").get(null);
      Method qualified = functions.getClass().getMethod("builtinFunctionIdentifier", String.class);
      return (FunctionIdentifier) qualified.invoke(functions, name);
    } catch (NoSuchMethodException e) {
      return new FunctionIdentifier(name);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns a call of the table function. */
  private static LogicalPlan table(Seq<Expression> arguments) {
    FunctionCode.Definition d = FunctionCode.definition(Call.TABLE_FUNCTION);
    Object udtf = Reflection.construct(
        "org.apache.spark.sql.execution.python.UserDefinedPythonTableFunction", Call.TABLE_FUNCTION, d.function(), d.evalType(), true);
    return CallAnalysis.analysedHere((LogicalPlan) build(udtf, arguments));
  }

  /** Spark's own builder of a registered table function. The calls it builds are analysed here. */
  private record AnalysingBuilder(Function1<Seq<Expression>, LogicalPlan> spark, UnaryOperator<Seq<Expression>> marked)
      implements Function1<Seq<Expression>, LogicalPlan> {
    @Override
    public LogicalPlan apply(Seq<Expression> arguments) {
      return CallAnalysis.analysedHere(spark.apply(marked.apply(arguments)));
    }
  }

  /**
   * Makes the rewriter's process analyse calls of the table function that a Python driver registered, without starting a worker.
   * {@code marked} changes the calls' arguments.
   */
  public static void analyse(FunctionRegistryBase<LogicalPlan> registry, UnaryOperator<Seq<Expression>> marked) {
    Option<Function1<Seq<Expression>, LogicalPlan>> builder = registry.lookupFunctionBuilder(identifier(Call.TABLE_FUNCTION));
    if (builder.isDefined() && !(builder.get() instanceof AnalysingBuilder)) {
      replace(registry, Call.TABLE_FUNCTION, "python_udtf", new AnalysingBuilder(builder.get(), marked));
    }
  }

  /** Adds usage texts to the functions over match graphs that a Python driver registered. */
  public static void describe(FunctionRegistryBase<Expression> registry) {
    for (String name : SCALARS) {
      Option<Function1<Seq<Expression>, Expression>> builder = registry.lookupFunctionBuilder(identifier(name));
      if (builder.isDefined()) {
        replace(registry, name, "python_udf", builder.get());
      }
    }
  }

  /** Returns a call of a function over match graphs. */
  private static Expression scalar(String name, Seq<Expression> arguments) {
    FunctionCode.Definition d = FunctionCode.definition(name);
    Object udf = Reflection.construct(
        "org.apache.spark.sql.execution.python.UserDefinedPythonFunction", name, d.function(), d.returns(), d.evalType(), true);
    return (Expression) build(udf, arguments);
  }

  private static Object build(Object function, Seq<Expression> arguments) {
    // the session's parser: analyze may return expressions as text
    Function0<Object> parser = () -> org.apache.spark.sql.classic.SparkSession.active().sessionState().sqlParser();
    try {
      for (Method method : function.getClass().getMethods()) {
        if (method.getName().equals("builder")) {
          return method.getParameterCount() == 1
              ? method.invoke(function, arguments)
              : method.invoke(function, arguments, parser);
        }
      }
      throw new IllegalStateException("this Spark's " + function.getClass() + " has no builder");
    } catch (InvocationTargetException e) {
      throw Reflection.<RuntimeException>unchecked(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
