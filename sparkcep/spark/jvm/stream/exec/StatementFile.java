package org.sparkcep.stream.exec;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.sparkcep.rewriter.Rewriter;
import org.sparkcep.stream.StreamChecks;
import org.sparkcep.stream.StreamStart;

/** The statement of a clause next to its state in a checkpoint. It prevents another statement from resuming from that state. */
final class StatementFile {
  private StatementFile() {}

  /**
   * Writes the statement before the first micro-batch of a checkpoint. Before a later one, raises an error if the statement
   * differs.
   */
  static void check(StatefulOperatorStateInfo info, String statement, long batchId, Configuration conf) {
    Path operator = new Path(info.checkpointLocation() + "/" + info.operatorId());
    Path path = new Path(operator, StreamStart.STATEMENT);
    try {
      if (batchId > 0) {
        ObjectNode request = JsonNodeFactory.instance.objectNode();
        request.put("kind", "restarted").putArray("now").add(statement);
        request.putArray("before").add(StreamStart.kept(path.getFileSystem(conf), operator));
        Rewriter.granted(request);
      } else {
        write(path, statement, conf);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Writes a file atomically: completely or not at all. */
  private static void write(Path path, String text, Configuration conf) throws IOException {
    CheckpointFileManager manager = CheckpointFileManager.create(path.getParent(), conf);
    manager.mkdirs(path.getParent());
    var out = manager.createAtomic(path, true);
    try {
      out.write(text.getBytes(StandardCharsets.UTF_8));
      out.close();
    } catch (IOException | RuntimeException e) {
      out.cancel();
      throw e;
    }
  }
}
