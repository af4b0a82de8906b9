package org.sparkcep.functions;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FunctionTableSubqueryArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDTFAnalyzeResult;
import org.apache.spark.sql.catalyst.expressions.UnresolvedPolymorphicPythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Replacement;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.errors.ClauseException;
import org.sparkcep.rewriter.Configured;
import org.sparkcep.rewriter.HelperProcess;
import org.sparkcep.rewriter.Rewriter;
import scala.Function2;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction2;

/**
 * Analyses calls of the table function. The rewriter's process analyses calls in the rewriter's form, without starting a worker. A
 * Python worker analyses calls with a clause's text; its errors become sparkcep's own.
 */
final class CallAnalysis {
  private static final String FAILED = "TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE_IN_PYTHON";

  private static final Map<String, WeakReference<byte[]>> RESULTS = new HashMap<>();

  private CallAnalysis() {}

  /** Returns a plan whose calls of the table function are analysed here. */
  static LogicalPlan analysedHere(LogicalPlan plan) {
    return (LogicalPlan) plan.transformExpressions(Replacement.of(
        expression -> expression instanceof UnresolvedPolymorphicPythonUDTF, expression -> withAnalyze((UnresolvedPolymorphicPythonUDTF) expression)));
  }

  /**
   * Returns {@code udtf} with {@link Analyze} as its analyze function. Its other fields, whose number grows with Spark versions,
   * are kept.
   */
  private static Expression withAnalyze(UnresolvedPolymorphicPythonUDTF udtf) {
    Analyze analyze = new Analyze(udtf.resolveElementMetadata());
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
        return shared(spark.apply(function, withSettings(arguments)));
      } catch (Throwable raised) { // Scala does not declare its exceptions
        throw Reflection.<RuntimeException>unchecked(reworded(raised));
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
          PythonUDTFAnalyzeResult.class.getName(), result, false, none, none, none, shared(FunctionCode.bytes(answer.get("result"))));
    }

    /**
     * Returns the arguments with the session's settings beside the clause's text, as JSON. Only the analysis gets them: Spark would
     * send an argument of the call with every row.
     */
    private static Seq<Expression> withSettings(Seq<Expression> arguments) {
      List<Expression> all = new ArrayList<>();
      for (Expression argument : CollectionConverters.asJava(arguments)) {
        Expression value = argument instanceof NamedArgumentExpression named ? named.value() : argument;
        Object text = value.foldable() && value.dataType() instanceof StringType ? value.eval(null) : null;
        Expression given = text == null ? value : new Literal(UTF8String.fromString(withSettings(text.toString())), DataTypes.StringType);
        all.add(argument instanceof NamedArgumentExpression named ? new NamedArgumentExpression(named.key(), given) : given);
      }
      return Scala.seq(all);
    }

    private static String withSettings(String text) {
      ObjectNode given = JsonNodeFactory.instance.objectNode().put("clause", text);
      given.set("settings", Configured.session());
      given.set("application", Configured.application());
      return given.toString();
    }

    private static Throwable reworded(Throwable raised) {
      if (!(raised instanceof AnalysisException) || !FAILED.equals(((AnalysisException) raised).getCondition())) {
        return raised;
      }
      ObjectNode request = JsonNodeFactory.instance.objectNode();
      request.put("kind", "clause_error").put("text", raised.getMessage());
      try {
        JsonNode answer = Rewriter.ask(request);
        return answer.has("error") ? new ClauseException(null, answer.get("error")) : raised;
      } catch (ClauseException | HelperProcess.HelperException | JsonProcessingException e) {
        raised.addSuppressed(e);
        return raised;
      }
    }
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
}
