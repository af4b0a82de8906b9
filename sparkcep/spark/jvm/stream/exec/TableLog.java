package org.sparkcep.stream.exec;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import java.util.zip.CheckedInputStream;
import java.util.zip.CheckedOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.sparkcep.stream.StreamStart;

/**
 * A log of the tables that a stream's micro-batches have read, in files next to the operator's state. A retried micro-batch reads
 * the same content, even if the tables have changed since. Files are written atomically.
 *
 * <p>If nothing has changed since the previous micro-batch, the file names the micro-batch whose file has the content.
 */
final class TableLog {
  static final long NONE = Long.MIN_VALUE;
  private static final int FORMAT = 2;
  private static final int UNCHECKED = 1; // the previous format, without a checksum
  private static final int SAME = -1; // replaces a length

  /**
   * One micro-batch. Bytes are in Arrow's format.
   *
   * @param since the micro-batch that read the content
   * @param largest the largest time of all rows up to its end; NONE without rows
   * @param again whether keys without new rows have to be searched
   * @param read the content of each table
   * @param given the part of each table's content that the engine gets
   */
  record Entry(long since, long largest, boolean again, List<byte[]> read, List<byte[]> given) {}

  private final Path folder;
  private final FileSystem files;
  private final CheckpointFileManager manager;

  TableLog(StatefulOperatorStateInfo info, Configuration conf) throws IOException {
    folder = new Path(info.checkpointLocation() + "/" + info.operatorId() + "/_sparkcep/tables");
    files = folder.getFileSystem(conf);
    manager = CheckpointFileManager.create(folder, conf);
  }

  private Path path(long batch) {
    return new Path(folder, Long.toString(batch));
  }

  /** Returns the tables that a micro-batch has read; null if it has not. */
  Entry read(long batch) throws IOException {
    try (CheckedInputStream checked = new CheckedInputStream(manager.open(path(batch)), new CRC32());
        DataInputStream in = new DataInputStream(checked)) {
      int format = in.readInt();
      if (format != FORMAT && format != UNCHECKED) {
        throw new IllegalStateException(
            "what was read of tables is of format " + format + " in " + path(batch) + ", and this version of sparkcep reads formats " + UNCHECKED + " and " + FORMAT);
      }
      long since = in.readLong();
      long largest = in.readLong();
      boolean again = in.readBoolean();
      if (since != batch) {
        check(checked, in, format, batch);
        Entry content = since < batch ? read(since) : null;
        if (content == null) {
          throw new IllegalStateException("what was read of tables in micro-batch " + since + " is missing in " + folder);
        }
        return new Entry(since, largest, again, content.read(), content.given());
      }
      List<byte[]> read = new ArrayList<>();
      List<byte[]> given = new ArrayList<>();
      for (int count = in.readInt(); count > 0; count--) {
        read.add(read(in, in.readInt()));
        int length = in.readInt();
        given.add(length == SAME ? read.get(read.size() - 1) : read(in, length));
      }
      check(checked, in, format, batch);
      return new Entry(since, largest, again, read, given);
    } catch (FileNotFoundException e) {
      return null;
    } catch (EOFException e) {
      throw damaged(batch);
    }
  }

  private static byte[] read(DataInputStream in, int length) throws IOException {
    byte[] bytes = in.readNBytes(Math.max(length, 0)); // allocates no more memory than there are bytes
    if (bytes.length != length) {
      throw new EOFException();
    }
    return bytes;
  }

  /** Compares the checksum at the end of a file with that of the bytes read. */
  private void check(CheckedInputStream checked, DataInputStream in, int format, long batch) throws IOException {
    long sum = checked.getChecksum().getValue();
    if (format != UNCHECKED && in.readLong() != sum) {
      throw damaged(batch);
    }
  }

  private IllegalStateException damaged(long batch) {
    return new IllegalStateException("[SPARKCEP.STATE_FORMAT] what was read of tables is damaged in " + path(batch) + "; restore the checkpoint, or begin with a new one");
  }

  void write(long batch, Entry entry) throws IOException {
    manager.mkdirs(folder);
    var out = manager.createAtomic(path(batch), true);
    try {
      CheckedOutputStream checked = new CheckedOutputStream(out, new CRC32());
      DataOutputStream data = new DataOutputStream(checked);
      data.writeInt(FORMAT);
      data.writeLong(entry.since());
      data.writeLong(entry.largest());
      data.writeBoolean(entry.again());
      if (entry.since() == batch) {
        data.writeInt(entry.read().size());
        for (int i = 0; i < entry.read().size(); i++) {
          write(data, entry.read().get(i));
          if (entry.given().get(i) == entry.read().get(i)) {
            data.writeInt(SAME);
          } else {
            write(data, entry.given().get(i));
          }
        }
      }
      data.writeLong(checked.getChecksum().getValue());
      data.flush();
      out.close();
    } catch (IOException | RuntimeException e) {
      out.cancel();
      throw e;
    }
  }

  private static void write(DataOutputStream data, byte[] bytes) throws IOException {
    data.writeInt(bytes.length);
    data.write(bytes);
  }

  /** Removes the files of micro-batches before {@code first}, except the one that later files name. */
  void purge(long first) throws IOException {
    List<Path> there = first <= 0 ? List.of() : StreamStart.numbered(files, folder);
    if (there.isEmpty() || number(there.get(0)) >= first) {
      return;
    }
    Entry kept = read(first);
    for (Path path : there) {
      if (kept != null && number(path) < first && number(path) != kept.since()) {
        manager.delete(path);
      }
    }
  }

  private static long number(Path path) {
    return Long.parseLong(path.getName());
  }
}
