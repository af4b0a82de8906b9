package org.sparkcep.stream.exec;

import java.io.IOException;
import java.io.Serializable;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;
import org.sparkcep.stream.StreamStart;
import org.sparkcep.versions.ReadStore;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads the states of a query's keys from its checkpoint, without affecting the query. Spark does not manage the stores that it
 * opens.
 */
final class KeptStates {
  private KeptStates() {}

  /** Returns the last committed version of the states; -1 without one, or if Spark does not name versions by numbers. */
  static long committed(MatchStateExec operator) throws IOException {
    StatefulOperatorStateInfo info = operator.getStateInfo();
    Path folder = new Path(new Path(info.checkpointLocation()).getParent(), "commits");
    List<Path> commits = StreamStart.numbered(folder.getFileSystem(configuration(operator)), folder);
    return commits.isEmpty() || info.stateStoreCkptIds().isDefined() ? -1 : Long.parseLong(commits.get(commits.size() - 1).getName()) + 1;
  }

  /** Returns the inputs of the reader in Python: the operator's pickled command, in base64, and the type of its rows. */
  static String[] reader(MatchStateExec operator) {
    List<Object> command = CollectionConverters.asJava(((PythonUDF) operator.functionExpr()).func().command());
    byte[] bytes = new byte[command.size()];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (Byte) command.get(i);
    }
    return new String[] {Base64.getEncoder().encodeToString(bytes), operator.sent().json()};
  }

  /** Returns the keys as texts, the states as bytes, and the keys as values. A task reads each partition of the states. */
  static Dataset<Row> read(MatchStateExec operator, long version) {
    StatefulOperatorStateInfo info = operator.getStateInfo();
    List<Integer> parts = IntStream.range(0, info.numPartitions()).boxed().toList();
    org.apache.spark.sql.classic.SparkSession session = operator.session();
    Part read = new Part(
        info.checkpointLocation(), info.operatorId(), version, operator.keySchema(),
        new StateStoreConf(session.sessionState().conf(), Map$.MODULE$.<String, String>empty()), new SerializableConfiguration(configuration(operator)));
    JavaRDD<Row> rows = JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(parts, parts.size()).flatMap(read);
    StructType schema = new StructType()
        .add("key", DataTypes.createArrayType(DataTypes.StringType)).add("state", DataTypes.BinaryType).add("values", operator.keySchema());
    return session.createDataFrame(rows, schema);
  }

  private static Configuration configuration(MatchStateExec operator) {
    return operator.session().sessionState().newHadoopConf();
  }

  /** Reads one partition. */
  private record Part(String location, long operator, long version, StructType keys, StateStoreConf stores, SerializableConfiguration hadoop)
      implements FlatMapFunction<Integer, Row>, Serializable {
    @Override
    public Iterator<Row> call(Integer part) {
      StateStoreProviderId id = new StateStoreProviderId(new StateStoreId(location, operator, part, "default"), UUID.randomUUID());
      NoPrefixKeyStateEncoderSpec encoder = new NoPrefixKeyStateEncoderSpec(keys);
      StateStoreProvider provider = StateStoreProvider$.MODULE$.createAndInit(
          id, keys, StateLayout.valueSchema(), encoder, true, stores, hadoop.value(), false, Option.empty());
      atEnd(context -> provider.close());
      ReadStateStore store = ReadStore.opened(provider, version, StateLayout.STATE, keys, StateLayout.valueSchema(), encoder);
      atEnd(context -> store.abort()); // the last listener is called first
      StateStoreIterator<UnsafeRowPair> pairs = store.iterator(StateLayout.STATE);
      atEnd(context -> pairs.close());
      return new Iterator<>() {
        @Override
        public boolean hasNext() {
          return pairs.hasNext();
        }

        @Override
        public Row next() {
          if (!pairs.hasNext()) {
            throw new NoSuchElementException();
          }
          UnsafeRowPair pair = pairs.next();
          Object[] values = values(pair.key());
          return RowFactory.create(texts(values), pair.value().getBinary(2), RowFactory.create(values));
        }
      };
    }

    private static void atEnd(TaskCompletionListener listener) {
      TaskContext.get().addTaskCompletionListener(listener);
    }

    private Object[] values(UnsafeRow key) {
      Object[] out = new Object[keys.length()];
      for (int i = 0; i < out.length; i++) {
        out[i] = CatalystTypeConverters.convertToScala(key.get(i, keys.apply(i).dataType()), keys.apply(i).dataType());
      }
      return out;
    }

    private static String[] texts(Object[] values) {
      String[] out = new String[values.length];
      for (int i = 0; i < out.length; i++) {
        out[i] = values[i] == null ? null : values[i].toString();
      }
      return out;
    }
  }
}
