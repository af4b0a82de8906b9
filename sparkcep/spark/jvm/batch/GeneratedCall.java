package org.sparkcep.batch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDTF;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.StructType;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Reflection;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.functions.Call;
import scala.jdk.javaapi.CollectionConverters;

/** A call of the table function as a generator in a logical plan: recognises it, and replaces its parts. */
final class GeneratedCall {
  private GeneratedCall() {}

  /** Returns the call of the table function that a node makes; null for any other node. */
  static Call call(Generate generate) {
    return generate.generator() instanceof PythonUDTF function && !generate.outer() ? Call.of(function, generate.child()) : null;
  }

  /** Returns a call with other input {@code columns} (names and values in turn), whose {@code output} has a {@code schema}. */
  static Generate over(Call call, Generate generate, List<Expression> columns, List<Attribute> output, StructType schema) {
    Alias before = (Alias) ((Project) generate.child()).projectList().head();
    Alias packed = Expressions.alias(new CreateNamedStruct(Scala.seq(columns)), before.name(), NamedExpression.newExprId());
    PythonUDTF function = call.function();
    Object[] members = new Object[function.productArity()];
    for (int i = 0; i < members.length; i++) {
      Object member = function.productElement(i);
      members[i] = member == function.elementSchema() ? schema : member == function.children() ? arguments(function, before, packed) : member;
    }
    PythonUDTF fewer = (PythonUDTF) Reflection.construct(PythonUDTF.class.getName(), members);
    Project packing = new Project(Scala.seq(List.<NamedExpression>of(packed)), call.table());
    return with(generate, fewer, Scala.seq(output), packing);
  }

  private static scala.collection.immutable.Seq<Expression> arguments(PythonUDTF function, Alias before, Alias packed) {
    List<Expression> arguments = new ArrayList<>();
    for (Expression argument : CollectionConverters.asJava(function.children())) {
      boolean table = argument instanceof Attribute attribute && attribute.exprId().equals(before.exprId());
      arguments.add(table ? packed.toAttribute() : argument);
    }
    return Scala.seq(arguments);
  }

  /** Returns a node with another generator, output and child. */
  static Generate with(
      Generate generate, org.apache.spark.sql.catalyst.expressions.Generator generator,
      scala.collection.immutable.Seq<Attribute> output, LogicalPlan child) {
    return new Generate(generator, generate.unrequiredChildIndex(), generate.outer(), generate.qualifier(), output, child);
  }
}
