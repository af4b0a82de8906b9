package org.sparkcep.rewriter;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkException;

/**
 * A Python process that rewrites statements. It exchanges length-prefixed JSON, one request at a time.
 *
 * <p>It ends when its input ends, and a request that exceeds its time limit ends it. So it cannot outlive this JVM, even after a
 * crash.
 */
public final class HelperProcess {
  /** A helper could not be started or asked. */
  public static final class HelperException extends SparkException {
    private static final long serialVersionUID = 1L;

    HelperException(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** The helper had ended before it received the request. */
  static final class GoneException extends IOException {
    private static final long serialVersionUID = 1L;

    GoneException(IOException cause) {
      super(cause);
    }
  }

  private static final ScheduledExecutorService CLOCK =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "sparkcep-helpers");
            thread.setDaemon(true);
            return thread;
          });

  private static final long GRACE_MILLISECONDS = 2_000; // the helper's own timer is for a JVM that has ended
  private static final long START_MILLISECONDS = 60_000; // a busy machine needs several seconds

  private static final String ENDED = "{\"ended\""; // the beginning of the last answer of a helper that then ends

  private final long milliseconds;
  private final Process process;
  private final DataOutputStream to;
  private final DataInputStream from;
  private volatile boolean ended; // set before the system reports it

  /** Starts {@code python} as a helper. Throws IOException if it does not report that it is ready. */
  HelperProcess(String python, long milliseconds, long bytes) throws IOException, TimeoutException {
    this.milliseconds = milliseconds;
    // -P: nothing is imported from the shell's start directory
    ProcessBuilder builder =
        new ProcessBuilder(
            python, "-P", "-m", "sparkcep.spark.session.rewrite_service", Long.toString(milliseconds + GRACE_MILLISECONDS), Long.toString(bytes));
    // memory that libraries reserve for threads and arrays counts against the limit
    builder.environment().putAll(
        Map.of("OMP_NUM_THREADS", "1", "OPENBLAS_NUM_THREADS", "1", "ARROW_DEFAULT_MEMORY_POOL", "system"));
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    process = builder.start();
    to = new DataOutputStream(process.getOutputStream());
    from = new DataInputStream(process.getInputStream());
    ended(START_MILLISECONDS, this::text);
  }

  boolean runs() {
    return !ended && process.isAlive();
  }

  /** Ends the process. */
  void end() {
    ended = true;
    process.destroyForcibly();
  }

  /**
   * Returns the answer to a request. Throws TimeoutException if it takes too long, GoneException if the process had ended before,
   * and IOException if it ends meanwhile. After an exception the process has ended.
   */
  String answer(String request) throws IOException, TimeoutException {
    byte[] bytes = request.getBytes(StandardCharsets.UTF_8);
    try {
      to.writeInt(bytes.length);
      to.flush();
    } catch (IOException e) {
      end();
      throw new GoneException(e);
    }
    String answer = ended(milliseconds, () -> {
      to.write(bytes);
      to.flush();
      return text();
    });
    if (answer.startsWith(ENDED)) {
      end();
    }
    return answer;
  }

  private String text() throws IOException {
    byte[] answer = new byte[from.readInt()];
    from.readFully(answer);
    return new String(answer, StandardCharsets.UTF_8);
  }

  private interface Talk {
    String run() throws IOException;
  }

  /** Runs {@code talk} under a time limit. If it throws, the process has ended, so that nobody reads the rest of an answer. */
  private String ended(long limit, Talk talk) throws IOException, TimeoutException {
    ScheduledFuture<?> end = CLOCK.schedule(this::end, limit, TimeUnit.MILLISECONDS);
    boolean done = false;
    try {
      String answer = talk.run();
      done = true;
      return answer;
    } catch (IOException e) {
      if (end.isDone()) {
        throw new TimeoutException();
      }
      throw e;
    } finally {
      end.cancel(false);
      if (!done) {
        end();
      }
    }
  }
}
