package org.sparkcep;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ref.WeakReference;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.FunctionTableSubqueryArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDTFAnalyzeResult;
import org.apache.spark.sql.catalyst.expressions.UnresolvedPolymorphicPythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Function0;
import scala.Function2;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.AbstractPartialFunction;

/**
 * The functions {@code match_recognize}, {@code expand_matches}, ... for a JVM without a Python driver.
 *
 * <p>They become built-in functions, which every new session has and permanent views may use. At their first use the rewriter
 * supplies their code: it pickles references to functions of the installed package.
 */
final class PythonFunctions {
  private static final String[] SCALARS = {"expand_matches", "count_matches", "sample_matches"};
  private static final String FAILED = "TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE_IN_PYTHON";

  // usage and examples of each function, in the form of Spark's own functions
  private static final Map<String, String[]> USAGE = Map.of(
      Call.TABLE_FUNCTION,
      new String[] {
        "_FUNC_(TABLE(t) PARTITION BY (k) ORDER BY (ts), clause) - Gives what MATCH_RECOGNIZE gives for the text of its clause. In a statement "
            + "the clause itself is shorter: FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES ... PATTERN (...) DEFINE ...).",
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

  private static final Map<String, WeakReference<byte[]>> RESULTS = new HashMap<>();
  private static Map<String, Definition> definitions;

  private PythonFunctions() {}

  /** A function as Python describes it; {@code returns} is null for the table function. */
  private record Definition(PythonFunction function, int evalType, DataType returns) {}

  /** Adds the functions to the registries that each new session copies. */
  static void publish() {
    register(TableFunctionRegistry.builtin(), Call.TABLE_FUNCTION, "python_udtf", new TableBuilder());
    for (String name : SCALARS) {
      register(FunctionRegistry.builtin(), name, "python_udf", new ScalarBuilder(name));
    }
  }

  private static <T> void register(
      FunctionRegistryBase<T> registry, String name, String source, AbstractFunction1<Seq<Expression>, T> builder) {
    replace(registry, identifier(name), info(name, source), builder);
  }

  /** Registers a function. Spark warns if a function is replaced, but not if it was dropped before. */
  private static <T> void replace(
      FunctionRegistryBase<T> registry, FunctionIdentifier name, ExpressionInfo info, scala.Function1<Seq<Expression>, T> builder) {
    synchronized (registry) { // like Spark's own look-ups, so that no query sees the gap
      registry.dropFunction(name);
      registry.registerFunction(name, info, builder);
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

  private static final class TableBuilder extends AbstractFunction1<Seq<Expression>, LogicalPlan> {
    @Override
    public LogicalPlan apply(Seq<Expression> arguments) {
      Definition d = definition(Call.TABLE_FUNCTION);
      Object udtf = Reflection.construct(
          "org.apache.spark.sql.execution.python.UserDefinedPythonTableFunction", Call.TABLE_FUNCTION, d.function, d.evalType, true);
      return analysedHere((LogicalPlan) build(udtf, StreamMark.marked(arguments)));
    }
  }

  /** Spark's own builder of a registered table function. The calls it builds are analysed here. */
  private static final class AnalysingBuilder extends AbstractFunction1<Seq<Expression>, LogicalPlan> {
    private final scala.Function1<Seq<Expression>, LogicalPlan> spark;

    AnalysingBuilder(scala.Function1<Seq<Expression>, LogicalPlan> spark) {
      this.spark = spark;
    }

    @Override
    public LogicalPlan apply(Seq<Expression> arguments) {
      return analysedHere(spark.apply(StreamMark.marked(arguments)));
    }
  }

  /**
   * Makes the rewriter's process analyse calls of the table function that a Python driver registered, without starting a worker.
   */
  static void analyse(FunctionRegistryBase<LogicalPlan> registry) {
    FunctionIdentifier name = identifier(Call.TABLE_FUNCTION);
    Option<scala.Function1<Seq<Expression>, LogicalPlan>> builder = registry.lookupFunctionBuilder(name);
    if (builder.isDefined() && !(builder.get() instanceof AnalysingBuilder)) {
      replace(registry, name, info(Call.TABLE_FUNCTION, "python_udtf"), new AnalysingBuilder(builder.get()));
    }
  }

  /** Adds usage texts to the functions over match graphs that a Python driver registered. */
  static void describe(FunctionRegistryBase<Expression> registry) {
    for (String scalar : SCALARS) {
      FunctionIdentifier name = identifier(scalar);
      Option<scala.Function1<Seq<Expression>, Expression>> builder = registry.lookupFunctionBuilder(name);
      if (builder.isDefined()) {
        replace(registry, name, info(scalar, "python_udf"), builder.get());
      }
    }
  }

  private static LogicalPlan analysedHere(LogicalPlan call) {
    return (LogicalPlan) call.transformExpressions(new OwnAnalysis());
  }

  private static final class ScalarBuilder extends AbstractFunction1<Seq<Expression>, Expression> {
    private final String name;

    ScalarBuilder(String name) {
      this.name = name;
    }

    @Override
    public Expression apply(Seq<Expression> arguments) {
      Definition d = definition(name);
      Object udf = Reflection.construct(
          "org.apache.spark.sql.execution.python.UserDefinedPythonFunction", name, d.function, d.returns, d.evalType, true);
      return (Expression) build(udf, arguments);
    }
  }

  /**
   * Calls that the rewriter's process analyses. A Python worker analyses calls with a clause's text; its errors become sparkcep's
   * own.
   */
  private static final class OwnAnalysis extends AbstractPartialFunction<Expression, Expression> {
    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof UnresolvedPolymorphicPythonUDTF;
    }

    @Override
    public <A extends Expression, B> B applyOrElse(A expression, scala.Function1<A, B> otherwise) {
      if (!isDefinedAt(expression)) {
        return otherwise.apply(expression);
      }
      UnresolvedPolymorphicPythonUDTF udtf = (UnresolvedPolymorphicPythonUDTF) expression;
      Analyze analyze = new Analyze(udtf.resolveElementMetadata());
      @SuppressWarnings("unchecked")
      B told = (B) withAnalyze(udtf, analyze);
      return told;
    }
  }

  /** Returns {@code udtf} with another analyze function. Its other fields, whose number grows with Spark versions, are kept. */
  private static Expression withAnalyze(UnresolvedPolymorphicPythonUDTF udtf, Analyze analyze) {
    Object[] fields = new Object[udtf.productArity()];
    for (int i = 0; i < fields.length; i++) {
      Object field = udtf.productElement(i);
      fields[i] = field instanceof Function2 ? analyze : field;
    }
    return (Expression) Reflection.construct(UnresolvedPolymorphicPythonUDTF.class.getName(), fields);
  }

  private static final class Analyze
      extends AbstractFunction2<PythonFunction, Seq<Expression>, PythonUDTFAnalyzeResult> {
    private final Function2<PythonFunction, Seq<Expression>, PythonUDTFAnalyzeResult> spark;

    Analyze(Function2<PythonFunction, Seq<Expression>, PythonUDTFAnalyzeResult> spark) {
      this.spark = spark;
    }

    @Override
    public PythonUDTFAnalyzeResult apply(PythonFunction function, Seq<Expression> arguments) {
      PythonUDTFAnalyzeResult known = planned(arguments);
      if (known != null) {
        return known;
      }
      try {
        return shared(spark.apply(function, arguments));
      } catch (Throwable raised) { // Scala does not declare its exceptions
        throw Reflection.<RuntimeException>unchecked(told(raised));
      }
    }

    /**
     * Returns the analysis of a call in the rewriter's form; null for another form. Raises the call's errors, and an error for any
     * other call over a stream.
     */
    private static PythonUDTFAnalyzeResult planned(Seq<Expression> arguments) {
      if (arguments.isEmpty() || !(arguments.head() instanceof FunctionTableSubqueryArgumentExpression table)) {
        return null;
      }
      StructType schema = table.plan().schema();
      boolean streaming = table.plan().isStreaming();
      boolean planned = !schema.isEmpty() && schema.apply(schema.length() - 1).name().startsWith(Call.PLAN_HEAD);
      if (!planned && !streaming) {
        return null;
      }
      ObjectNode request = JsonNodeFactory.instance.objectNode();
      // Spark's own operator for table functions cannot send two columns with one name.
      request.put("kind", "analyze").put("schema", schema.json()).put("distinct", !Configured.mapsInArrow()).put("streaming", streaming);
      Option<String> statement = CurrentOrigin.get().sqlText();
      request.put("sql", statement.isDefined() ? statement.get() : "").set("application", Configured.application());
      JsonNode answer = Rewriter.granted(request);
      StructType result = (StructType) DataType.fromJson(answer.get("schema").asText());
      Seq<?> none = Scala.seq(List.of());
      return (PythonUDTFAnalyzeResult) Reflection.construct(
          PythonUDTFAnalyzeResult.class.getName(), result, false, none, none, none, shared(bytes(answer.get("result"))));
    }

    private static Throwable told(Throwable raised) {
      if (!(raised instanceof AnalysisException) || !FAILED.equals(((AnalysisException) raised).getCondition())) {
        return raised;
      }
      ObjectNode request = JsonNodeFactory.instance.objectNode();
      request.put("kind", "told").put("text", raised.getMessage());
      try {
        JsonNode answer = Rewriter.ask(request);
        return answer.has("error") ? new ClauseException(null, answer.get("error")) : raised;
      } catch (ClauseException | HelperProcess.HelperException | JsonProcessingException e) {
        raised.addSuppressed(e);
        return raised;
      }
    }
  }

  /** Returns the pickled function that runs the engine for a clause's plan under {@code mapInArrow}. */
  static Seq<Object> mapper(ObjectNode plan, Shipment shipment) {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("kind", "mapper").put("plan", plan.toString()).set("columns", shipment.names());
    request.set("workers", Configured.workers());
    ArrayNode sent = request.putArray("sent");
    shipment.columns().forEach(column -> sent.add(column.name()));
    return command(Rewriter.granted(request));
  }

  /** Returns the pickled function in an answer. */
  static Seq<Object> command(JsonNode answer) {
    return list(bytes(answer.get("command")));
  }

  private static byte[] bytes(JsonNode base64) {
    try {
      return base64.binaryValue();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Seq<Object> list(byte[] bytes) {
    List<Object> out = new ArrayList<>();
    for (byte b : bytes) {
      out.add(b);
    }
    return Scala.seq(out);
  }

  /** Returns {@code analysis} with the array that all equal analyses share. */
  private static PythonUDTFAnalyzeResult shared(PythonUDTFAnalyzeResult analysis) {
    Object[] fields = new Object[analysis.productArity()];
    for (int i = 0; i < fields.length; i++) {
      Object field = analysis.productElement(i);
      fields[i] = field instanceof byte[] result ? shared(result) : field;
    }
    return (PythonUDTFAnalyzeResult) Reflection.construct(PythonUDTFAnalyzeResult.class.getName(), fields);
  }

  /**
   * Returns one array for all equal arrays in use. Spark compares arrays by identity. If each analysis of a view had its own array,
   * Spark would never find the view's plan among cached plans.
   */
  private static byte[] shared(byte[] result) {
    String key = new String(result, StandardCharsets.ISO_8859_1);
    synchronized (RESULTS) {
      WeakReference<byte[]> before = RESULTS.get(key);
      byte[] known = before == null ? null : before.get();
      if (known != null) {
        return known;
      }
      RESULTS.values().removeIf(unused -> unused.get() == null);
      RESULTS.put(key, new WeakReference<>(result));
      return result;
    }
  }

  private static synchronized Definition definition(String name) {
    if (definitions == null) {
      ObjectNode request = JsonNodeFactory.instance.objectNode();
      request.put("kind", "functions");
      definitions = read(Rewriter.asked(request));
    }
    return definitions.get(name);
  }

  private static Map<String, Definition> read(JsonNode answer) {
    Map<String, Definition> out = new HashMap<>();
    for (JsonNode one : answer.get("functions")) {
      Map<String, String> environment = new HashMap<>();
      environment.put("PYTHONHASHSEED", "0"); // as a Python driver sets it for its workers
      PythonFunction function = new SimplePythonFunction(
          list(bytes(one.get("command"))), environment, new ArrayList<>(), workerPython(answer.get("python").asText()), answer.get("version").asText(),
          new ArrayList<>(), null);
      DataType returns = one.get("returns").isNull() ? null : DataType.fromJson(one.get("returns").asText());
      out.put(one.get("name").asText(), new Definition(function, one.get("eval_type").asInt(), returns));
    }
    return out;
  }

  /**
   * Returns the Python of workers: on this machine the rewriter's own unless another was chosen. Elsewhere its path is meaningless.
   */
  private static String workerPython(String rewriters) {
    SparkConf conf = SparkEnv.get().conf();
    String chosen = conf.get("spark.pyspark.python", System.getenv("PYSPARK_PYTHON"));
    if (chosen != null && !chosen.isEmpty()) {
      return chosen;
    }
    return conf.get("spark.master", "").startsWith("local") ? rewriters : "python3";
  }

  private static Object build(Object function, Seq<Expression> arguments) {
    try {
      for (Method method : function.getClass().getMethods()) {
        if (method.getName().equals("builder")) {
          return method.getParameterCount() == 1
              ? method.invoke(function, arguments)
              : method.invoke(function, arguments, parser());
        }
      }
      throw new IllegalStateException("this Spark's " + function.getClass() + " has no builder");
    } catch (InvocationTargetException e) {
      throw Reflection.<RuntimeException>unchecked(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns the session's parser: {@code analyze} may return expressions as text. */
  private static Function0<Object> parser() {
    return new AbstractFunction0<>() {
      @Override
      public Object apply() {
        return org.apache.spark.sql.classic.SparkSession.active().sessionState().sqlParser();
      }
    };
  }
}
