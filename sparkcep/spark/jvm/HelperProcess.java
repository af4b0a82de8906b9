package org.sparkcep;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.function.Function;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkException;

/**
 * The rewriter for a JVM without a Python driver: one Python process, length-prefixed JSON both ways.
 *
 * <p>It ends when its input does, so it cannot outlive this JVM, however that ends.
 */
final class HelperProcess implements Function<String, String> {
  /** The helper could not be started or asked. */
  static final class HelperException extends SparkException {
    private static final long serialVersionUID = 1L;

    HelperException(String message, Throwable cause) {
      super(message, cause);
    }
  }

  private static HelperProcess instance;

  private final String python;
  private final Process process;
  private final DataOutputStream to;
  private final DataInputStream from;
  private volatile boolean works; // it has answered

  private HelperProcess(String python) throws IOException {
    this.python = python;
    // -P: nothing is imported from the directory that the shell was started in
    ProcessBuilder builder = new ProcessBuilder(python, "-P", "-m", "sparkcep.spark.rewrite_server");
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    process = builder.start();
    to = new DataOutputStream(process.getOutputStream());
    from = new DataInputStream(process.getInputStream());
  }

  static synchronized HelperProcess running() throws HelperException {
    if (instance == null || !instance.process.isAlive()) {
      String python = python();
      try {
        instance = new HelperProcess(python);
      } catch (IOException e) {
        throw new HelperException(
            "Cannot start " + python + ", the Python that rewrites MATCH_RECOGNIZE; spark.sparkcep.python names another.", e);
      }
    }
    return instance;
  }

  /** From the application's configuration alone: what a session may SET must not choose a program to run. */
  private static String python() {
    SparkConf conf = SparkEnv.get().conf();
    for (String key :
        new String[] {"spark.sparkcep.python", "spark.pyspark.driver.python", "spark.pyspark.python"}) {
      if (conf.contains(key)) {
        return conf.get(key);
      }
    }
    for (String name : new String[] {"PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"}) {
      String value = System.getenv(name);
      if (value != null && !value.isEmpty()) {
        return value;
      }
    }
    return "python3";
  }

  @Override
  public String apply(String request) {
    try {
      return answered(request);
    } catch (IOException e) {
      if (!works) {
        throw new IllegalStateException(
            "The process that rewrites MATCH_RECOGNIZE ended; is sparkcep installed for " + python
                + "? spark.sparkcep.python names another Python.",
            e);
      }
      return successor().apply(request); // killed from outside, and the JVM had not noticed yet
    }
  }

  private HelperProcess successor() {
    synchronized (HelperProcess.class) {
      if (instance == this) {
        instance = null;
      }
    }
    try {
      return running();
    } catch (HelperException e) {
      throw new IllegalStateException(e);
    }
  }

  private synchronized String answered(String request) throws IOException {
    boolean answered = false;
    try {
      byte[] bytes = request.getBytes(StandardCharsets.UTF_8);
      to.writeInt(bytes.length);
      to.write(bytes);
      to.flush();
      byte[] answer = new byte[from.readInt()];
      from.readFully(answer);
      answered = true;
      works = true;
      return new String(answer, StandardCharsets.UTF_8);
    } finally {
      if (!answered) {
        process.destroy(); // the next statement starts a new one, rather than reading the rest of this answer
      }
    }
  }
}
