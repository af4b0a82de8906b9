package org.sparkcep.exchange;

import java.io.IOException;
import java.io.Serializable;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.memory.MemoryConsumer;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.util.TaskCompletionListener;
import org.sparkcep.blocks.BlockPage;

/** The blocks of a task's rows. Collects rows within a budget of memory, and then returns their blocks, partition by partition. */
final class BlockRows implements Iterator<InternalRow> {
  /** The metrics of the operator. */
  record Counts(SQLMetric rows, SQLMetric blocks, SQLMetric bytes, SQLMetric nanos) implements Serializable {}

  /** Rows that become blocks. */
  interface Input {
    boolean hasNext();

    /** Adds the next rows to a page that has space: at least one, and at most as many as there is space for. */
    void add(BlockPage page);
  }

  private static final long LEAST = 1L << 20; // bytes that a page may have without asking, as a page of Spark's: smaller blocks cost more
  private static final long MOST = 1L << 30; // bytes of all arrays, so that each of them and the next rows stay below 2 GB

  private final Input input;
  private final BlockPage page;
  private final int[] numbers;
  private final long budget;
  private final Counts counts;
  private final Room room;
  private boolean giving;
  private UnsafeRow ready;

  BlockRows(Input input, BlockPage page, int[] numbers, long budget, Counts counts) {
    this.input = input;
    this.page = page;
    this.numbers = numbers;
    this.budget = Math.min(budget, MOST);
    this.counts = counts;
    TaskContext task = TaskContext.get();
    room = new Room(task);
    room.take(page.bytes(), 0);
    task.addTaskCompletionListener((TaskCompletionListener) ended -> room.free());
  }

  @Override
  public boolean hasNext() {
    while (ready == null) {
      if (!giving) {
        if (!input.hasNext()) {
          room.free();
          return false;
        }
        collect();
        giving = true;
      }
      long began = System.nanoTime();
      ready = page.take(numbers);
      counts.nanos().add(System.nanoTime() - began);
      giving = ready != null;
    }
    return true;
  }

  @Override
  public InternalRow next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    UnsafeRow row = ready;
    ready = null;
    counts.blocks().add(1);
    counts.bytes().add(row.getSizeInBytes());
    return row;
  }

  /** Collects rows until they make large blocks, the budget is used up, Spark has no more memory, or there are no more rows. */
  private void collect() {
    while (!page.isComplete() && input.hasNext()) {
      input.add(page);
      if (page.hasGrown() && (!isGranted(page.bytes()) || page.bytes() > budget)) {
        break;
      }
      if (page.space() == 0) {
        if (2 * page.bytes() > budget || !isGranted(2 * page.bytes())) {
          break;
        }
        page.grow();
      }
    }
    counts.rows().add(page.rows());
    long began = System.nanoTime();
    page.close();
    counts.nanos().add(System.nanoTime() - began);
  }

  /** Whether all arrays may have this many bytes. Spark's exchange of the blocks needs memory of the task, too. */
  private boolean isGranted(long bytes) {
    return room.take(bytes - room.getUsed(), page.blockBytes(bytes)) || bytes <= LEAST;
  }

  /** The share of the task's memory that Spark granted. */
  private static final class Room extends MemoryConsumer {
    Room(TaskContext task) {
      super(task.taskMemoryManager(), MemoryMode.ON_HEAP);
    }

    /**
     * Asks for more bytes, and for those of a block and of a page in which the exchange collects blocks. Whether Spark granted all
     * of them. The latter, or a part of them all, are given back.
     */
    boolean take(long bytes, long block) {
      if (bytes <= 0) {
        return true;
      }
      long left = block == 0 ? 0 : Math.max(block, taskMemoryManager.pageSizeBytes());
      long granted = acquireMemory(bytes + left);
      boolean isEnough = granted >= bytes + left;
      freeMemory(isEnough ? left : granted);
      return isEnough;
    }

    void free() {
      freeMemory(getUsed());
    }

    /** Rows cannot leave before their blocks are asked for. */
    @Override
    public long spill(long size, MemoryConsumer trigger) throws IOException {
      return 0;
    }
  }
}
