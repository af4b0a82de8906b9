package org.sparkcep;

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
 * A Python process that rewrites statements: length-prefixed JSON both ways, one request at a time.
 *
 * <p>It ends when its input does, and a request that takes longer than its time limit ends it, so it cannot outlive this JVM,
 * however that ends.
 */
final class HelperProcess {
  /** A helper could not be started or asked. */
  static final class HelperException extends SparkException {
    private static final long serialVersionUID = 1L;

    HelperException(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** The helper had ended before it was given the request. */
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

  private static final long GRACE_MILLISECONDS = 2_000; // the helper's own clock is for a JVM that has ended
  private static final long START_MILLISECONDS = 60_000; // a busy machine needs several seconds

  private static final String ENDED = "{\"ended\""; // how the answer of a helper begins that ends with it

  private final long milliseconds;
  private final Process process;
  private final DataOutputStream to;
  private final DataInputStream from;
  private volatile boolean ended; // before the system says so

  /** Starts {@code python} as a helper. Throws IOException if it does not say that it is ready. */
  HelperProcess(String python, long milliseconds, long bytes) throws IOException, TimeoutException {
    this.milliseconds = milliseconds;
    // -P: nothing is imported from the directory that the shell was started in
    ProcessBuilder builder =
        new ProcessBuilder(
            python, "-P", "-m", "sparkcep.spark.session.rewrite_service", Long.toString(milliseconds + GRACE_MILLISECONDS), Long.toString(bytes));
    // memory that libraries set aside for threads and arrays counts against the limit
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
   * The answer to a request. Throws TimeoutException if it takes too long, GoneException if the process had ended before, and
   * IOException if it ends meanwhile; it has ended then.
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

  /** Runs {@code talk} under a time limit. The process has ended if it throws, so that nobody reads the rest of an answer. */
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
