package org.sparkcep;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;

/** The statement of a clause beside its state in a checkpoint, so that another one is known before it goes on with that state. */
final class StatementFile {
  private StatementFile() {}

  /** Writes the statement before the first micro-batch of a checkpoint; before a later one raises an error where it is another. */
  static void check(StatefulOperatorStateInfo info, String statement, long batchId, Configuration conf) {
    Path path = new Path(info.checkpointLocation() + "/" + info.operatorId() + "/" + StreamStart.STATEMENT);
    try {
      FileSystem files = path.getFileSystem(conf);
      ObjectNode request = JsonNodeFactory.instance.objectNode();
      request.put("kind", "restarted").putArray("now").add(statement);
      ArrayNode before = request.putArray("before");
      if (batchId > 0) {
        if (files.exists(path)) {
          before.add(read(files, path));
        }
        Streams.raise(PythonFunctions.asked(request));
      }
      if (batchId == 0) {
        try (FSDataOutputStream out = files.create(path, true)) {
          out.write(statement.getBytes(StandardCharsets.UTF_8));
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String read(FileSystem files, Path path) throws IOException {
    try (FSDataInputStream in = files.open(path)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
