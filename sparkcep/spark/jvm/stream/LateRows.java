package org.sparkcep.stream;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalog.Table;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.QuotingUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkcep.catalyst.Expressions;
import org.sparkcep.catalyst.Scala;
import org.sparkcep.rewriter.Configured;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The table that late rows of a stream are appended to: checks that it exists and fits, and selects the columns for it. A row
 * carries these columns as one additional column.
 */
final class LateRows {
  static final String SETTING = "sparkcep.stream.lateRows";
  static final String COLUMN = "__late";

  private LateRows() {}

  /** Returns the name of the session's table; "" if late rows are dropped. */
  static String table() {
    return Configured.get(SETTING, "");
  }

  /**
   * Returns the table's name, kind and columns, and the columns of the clause's rows, for the rewriter's checks; null without a
   * table.
   */
  static ObjectNode described(List<Attribute> rows) {
    if (table().isEmpty()) {
      return null;
    }
    ObjectNode late = JsonNodeFactory.instance.objectNode();
    late.put("table", table()).put("cased", SQLConf.get().caseSensitiveAnalysis());
    ArrayNode given = late.putArray("rows");
    rows.forEach(column -> given.addArray().add(column.name()).add(column.dataType().catalogString()));
    Table found = found();
    late.put("kind", found == null ? "" : found.tableType());
    ArrayNode columns = late.putArray("columns");
    if (found != null && !isView(found)) {
      for (StructField field : fields()) {
        columns.addArray().add(field.name()).add(field.dataType().catalogString());
      }
    }
    return late;
  }

  private static boolean isView(Table table) {
    return table.isTemporary() || "VIEW".equals(table.tableType()) || "METRIC_VIEW".equals(table.tableType());
  }

  private static Table found() {
    SparkSession session = SparkSession.active();
    return session.catalog().tableExists(table()) ? session.catalog().getTable(table()) : null;
  }

  /** Returns the table's name with its catalog and namespace: those of the session may change before the query starts. */
  private static String qualified() {
    Table found = found();
    List<String> parts = new ArrayList<>(List.of(found.catalog()));
    parts.addAll(List.of(found.namespace()));
    parts.add(found.name());
    return parts.stream().map(QuotingUtils::quoteIfNeeded).collect(Collectors.joining("."));
  }

  private static StructField[] fields() {
    return SparkSession.active().table(table()).schema().fields();
  }

  /** Returns the table of a clause. The setting may have changed since the statement was written. */
  static String table(StreamInput input) {
    return input.late().head().metadata().getString(StreamOperator.LATE);
  }

  /** Returns the columns of a row that the table has, in the table's order, as one column. Its metadata names the table. */
  static NamedExpression column(List<Attribute> rows) {
    boolean cased = SQLConf.get().caseSensitiveAnalysis();
    List<Expression> parts = new ArrayList<>();
    for (StructField field : fields()) {
      parts.add(new Literal(UTF8String.fromString(field.name()), DataTypes.StringType));
      parts.add(rows.stream().filter(row -> cased ? row.name().equals(field.name()) : row.name().equalsIgnoreCase(field.name())).findFirst().orElseThrow());
    }
    return Expressions.described(new CreateNamedStruct(Scala.seq(parts)), COLUMN, new MetadataBuilder().putString(StreamOperator.LATE, qualified()).build());
  }

  /** Returns the columns of the rows that a clause reads, without those that the rewriter computes. */
  static List<Attribute> rows(LogicalPlan source) {
    return new ArrayList<>(CollectionConverters.asJava(source.output()));
  }
}
