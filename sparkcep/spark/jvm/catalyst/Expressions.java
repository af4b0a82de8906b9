package org.sparkcep.catalyst;

import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.CodeGeneratorWithInterpretedFallback;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.GeneratePredicate;
import org.apache.spark.sql.catalyst.expressions.codegen.GeneratePredicate$;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.collection.immutable.Seq;

/** Builds and changes Spark's expressions. */
public final class Expressions {
  private Expressions() {}

  /** Returns a column with this name: the attribute itself if it has the name, else an alias. */
  public static NamedExpression named(Expression value, String name) {
    if (value instanceof Attribute attribute && attribute.name().equals(name)) {
      return attribute;
    }
    return alias(value, name, NamedExpression.newExprId());
  }

  /** Returns a column with this name and identity. */
  public static Alias alias(Expression value, String name, ExprId id) {
    return new Alias(value, name, id, Scala.seq(List.<String>of()), Option.empty(), Scala.seq(List.<String>of()));
  }

  /** Returns a new column without watermark metadata, because the operator itself detects late rows. */
  public static NamedExpression plain(Expression value, String name) {
    return described(value, name, Metadata.empty());
  }

  /** Returns a new column with this metadata. */
  public static NamedExpression described(Expression value, String name, Metadata metadata) {
    return new Alias(
        value, name, NamedExpression.newExprId(), Scala.seq(List.<String>of()), Option.apply(metadata), Scala.seq(List.<String>of()));
  }

  /** Adds the conjuncts of a condition to {@code found}, which is returned. */
  public static List<Expression> conjuncts(Expression condition, List<Expression> found) {
    if (condition instanceof And and) {
      conjuncts(and.left(), found);
      conjuncts(and.right(), found);
    } else {
      found.add(condition);
    }
    return found;
  }

  /** Returns the conjunction of conditions, of which there is at least one. */
  public static Expression all(List<Expression> conjuncts) {
    return conjuncts.stream().reduce(And::new).orElseThrow();
  }

  /** Returns {@code condition} with attributes replaced by {@code values}. */
  public static Expression replaced(Expression condition, Map<ExprId, ? extends Expression> values) {
    return (Expression) condition.transformUp(Replacement.of(e -> e instanceof Attribute a && values.containsKey(a.exprId()), e -> values.get(((Attribute) e).exprId())));
  }

  /** Returns {@code expression} with {@code change} applied to each part, bottom up. */
  public static Expression replaced(Expression expression, UnaryOperator<Expression> change) {
    return (Expression) expression.transformUp(Replacement.of(part -> true, change));
  }

  /** Returns {@code value} with attributes that have no qualifier. */
  public static Expression unqualified(Expression value) {
    return (Expression) value.transformUp(Replacement.of(e -> e instanceof Attribute, e -> ((Attribute) e).withQualifier(Scala.seq(List.<String>of()))));
  }

  /**
   * Returns a condition over rows of these columns as code. Spark's {@code Predicate} evaluates a part that occurs twice ahead of
   * both places, even if AND or OR guards them. Spark's filter does not, and neither does this code.
   */
  public static BasePredicate predicate(Expression condition, Seq<Attribute> columns) {
    return new CodeGeneratorWithInterpretedFallback<Expression, BasePredicate>() {
      @Override
      public BasePredicate createCodeGeneratedObject(Expression bound) {
        return GeneratePredicate.generate(bound, false);
      }

      @Override
      public BasePredicate createInterpretedObject(Expression bound) {
        return new InterpretedPredicate(bound);
      }
    }.createObject(GeneratePredicate$.MODULE$.bind(condition, columns));
  }
}
