package org.sparkcep.stream.exec;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.sparkcep.rewriter.Rewriter;
import org.sparkcep.stream.StreamStart;

/** The statements of a clause next to its state in a checkpoint. They prevent another statement from resuming from that state. */
final class StatementFile {
  private StatementFile() {}

  /**
   * Writes the statement before the first micro-batch of a checkpoint. Before a later one, raises an error if the statement cannot
   * resume, and writes it if it differs: from then on the state is its own.
   */
  static void check(StatefulOperatorStateInfo info, String statement, long batchId, Configuration conf) {
    Path operator = new Path(info.checkpointLocation() + "/" + info.operatorId());
    try {
      if (batchId == 0) {
        write(new Path(operator, StreamStart.STATEMENT), statement, conf);
        return;
      }
      FileSystem files = operator.getFileSystem(conf);
      ObjectNode kept = StreamStart.kept(files, operator, batchId);
      ObjectNode request = JsonNodeFactory.instance.objectNode();
      request.put("kind", "restarted").putArray("now").add(statement);
      request.putArray("before").add(kept);
      Rewriter.granted(request);
      Path own = new Path(operator, StreamStart.LATER + batchId);
      if (!statement.equals(kept.path("text").asText())) {
        write(own, statement, conf);
      } else if (files.exists(own)) { // of another statement, which failed in this micro-batch
        files.delete(own, false);
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
