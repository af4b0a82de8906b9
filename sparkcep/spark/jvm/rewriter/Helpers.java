package org.sparkcep.rewriter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.sparkcep.catalyst.Reflection;

/**
 * The rewriter for a JVM without a Python driver: a pool of helper processes. A new helper is started only if all others are busy.
 *
 * <p>A session has one request at a time, so that a slow session does not block the others. A request that ends its helper is an
 * error of its statement and is not repeated, because it would end the next helper too.
 */
public final class Helpers implements Function<String, String> {
  static final String PYTHON = "spark.sparkcep.python";
  static final String PROCESSES = "spark.sparkcep.rewriter.processes";
  static final String TIMEOUT = "spark.sparkcep.rewriter.timeout";
  static final String MEMORY = "spark.sparkcep.rewriter.memory";

  /** A statement exceeded a limit, or a setting is wrong: an error of the clause of class {@code errorClass}. */
  static final class Refusal extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String errorClass;
    private final String sqlState;

    Refusal(String errorClass, String sqlState, String message, Throwable cause) {
      super(message, cause);
      this.errorClass = "SPARKCEP." + errorClass;
      this.sqlState = sqlState;
    }

    /** Returns the fields that spark/session/rewrite_service.py uses for an error. */
    JsonNode fields() {
      ObjectNode out = JsonNodeFactory.instance.objectNode();
      out.put("error_class", errorClass).put("message", getMessage()).put("sqlstate", sqlState).put("line", 0).put("column", 0).put("fragment", "");
      return out.put("description", "[" + errorClass + "] " + getMessage() + " SQLSTATE: " + sqlState);
    }
  }

  /** A recently rewritten statement: its text, its rewritten text and the request. */
  private record Statement(String text, String rewritten, ObjectNode request) {
    int length() {
      return text.length() + rewritten.length();
    }
  }

  private static final String LIMIT = "54000"; // SQLSTATE: program limit exceeded
  private static final String SYNTAX = "42601";
  private static final int STATEMENTS = 64; // as many as a helper remembers
  private static final int CHARACTERS = 16 << 20;

  private static Helpers instance;

  private final String python = python();
  private final String timeout = given(TIMEOUT, "60s");
  private final String memory = given(MEMORY, "1g");
  private final long milliseconds;
  private final long bytes;
  private final int most;
  private final Deque<HelperProcess> idle = new ArrayDeque<>(); // the most recently used comes first
  private final Set<HelperProcess> busy = new HashSet<>();
  private final Set<Object> asking = Collections.newSetFromMap(new IdentityHashMap<>()); // sessions with a request
  private int starting;

  private final Deque<Statement> statements = new ArrayDeque<>(); // the latest comes first

  private Helpers() {
    milliseconds = bounded(TIMEOUT, timeout, "100ms to 1d, such as 60s", 100, 86_400_000L, JavaUtils::timeStringAsMs);
    bytes = bounded(MEMORY, memory, "512m to 1t, such as 1g", 512L << 20, 1L << 40, JavaUtils::byteStringAsBytes);
    most = (int) bounded(PROCESSES, given(PROCESSES, "4"), "1 to 64", 1, 64, Long::parseLong);
  }

  static synchronized Helpers running() {
    if (instance == null) {
      instance = new Helpers();
    }
    return instance;
  }

  private static String given(String key, String otherwise) {
    return SparkEnv.get().conf().get(key, otherwise).trim();
  }

  private interface Reader {
    long read(String text);
  }

  private static long bounded(String key, String text, String range, long least, long most, Reader reader) {
    try {
      long found = reader.read(text);
      if (least <= found && found <= most) {
        return found;
      }
    } catch (IllegalArgumentException e) { // also for a number that cannot be parsed
      throw new Refusal("SETTING", SYNTAX, key + " must be " + range + ", not " + shown(text), e);
    }
    throw new Refusal("SETTING", SYNTAX, key + " must be " + range + ", not " + shown(text), null);
  }

  private static String shown(String text) {
    return "'" + (text.length() > 60 ? text.substring(0, 57) + "..." : text) + "'";
  }

  /** Reads only the application's configuration: a session's SET must not choose a program to run. */
  private static String python() {
    SparkConf conf = SparkEnv.get().conf();
    for (String key : new String[] {PYTHON, "spark.pyspark.driver.python", "spark.pyspark.python"}) {
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
    Object session = SQLConf.get();
    begin(session);
    try {
      return answered(request);
    } finally {
      end(session);
    }
  }

  /** Waits until the session's other request has finished and a helper is available. */
  private synchronized void begin(Object session) {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
    while (asking.contains(session) || busy.size() + starting >= most) {
      long left = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
      if (left <= 0) {
        throw new Refusal(
            "REWRITER_BUSY", LIMIT,
            "the processes that rewrite MATCH_RECOGNIZE were busy with other statements for " + timeout
                + "; run the statement again later, or let the operator set " + PROCESSES + " above " + most,
            null);
      }
      try {
        wait(left);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while it waited for the rewriter", e);
      }
    }
    asking.add(session);
    starting++; // reserves the slot of the helper that is taken or started now
  }

  private synchronized void end(Object session) {
    asking.remove(session);
    notifyAll();
  }

  private String answered(String request) {
    while (true) {
      HelperProcess helper = taken();
      try {
        return helper.answer(request);
      } catch (HelperProcess.GoneException e) {
        again(helper); // it was killed from outside while idle
      } catch (TimeoutException e) {
        throw new Refusal(
            "REWRITER_TIMEOUT", LIMIT,
            "rewriting this statement takes more than " + timeout + "; make it smaller, for example by views for its parts, or let the operator raise "
                + TIMEOUT,
            e);
      } catch (IOException e) {
        throw new Refusal(
            "REWRITER_ENDED", LIMIT,
            "the process that rewrites MATCH_RECOGNIZE ended while it read this statement; if it needs more memory than " + memory
                + ", make it smaller, for example by views for its parts, or let the operator raise " + MEMORY,
            e);
      } finally {
        back(helper);
      }
    }
  }

  /** Returns a helper for the caller, which has reserved a slot. */
  private HelperProcess taken() {
    synchronized (this) {
      while (!idle.isEmpty()) {
        HelperProcess helper = idle.pop();
        if (helper.runs()) {
          starting--;
          busy.add(helper);
          return helper;
        }
      }
    }
    HelperProcess helper = null;
    try {
      helper = new HelperProcess(python, milliseconds, bytes);
      return helper;
    } catch (IOException | TimeoutException e) {
      throw Reflection.<RuntimeException>unchecked(
          new HelperProcess.HelperException(
              "Cannot start " + python + ", the Python that rewrites MATCH_RECOGNIZE; is sparkcep installed for it? " + PYTHON
                  + " names another Python.",
              e));
    } finally {
      synchronized (this) {
        starting--;
        if (helper != null) {
          busy.add(helper);
        }
      }
    }
  }

  /** Remembers a rewritten statement. A request about it to another helper then includes the statement's own request. */
  synchronized void remember(ObjectNode request, String rewritten) {
    statements.push(new Statement(request.get("sql").asText(), rewritten, request.deepCopy()));
    int length = statements.stream().mapToInt(Statement::length).sum();
    while (statements.size() > STATEMENTS || (length > CHARACTERS && statements.size() > 1)) {
      length -= statements.removeLast().length();
    }
  }

  /** From now on the statements rewritten to {@code rewritten} have positions in the user's text. */
  synchronized void restored(String rewritten) {
    statements.stream().filter(one -> one.rewritten.equals(rewritten)).forEach(one -> one.request.put("restored", true));
  }

  /**
   * Returns the request that rewrote the statement {@code sql}, which is the user's or the rewritten text; null if it is unknown.
   */
  synchronized ObjectNode request(String sql) {
    return statements.stream().filter(one -> one.rewritten.equals(sql) || one.text.equals(sql)).map(Statement::request).findFirst().orElse(null);
  }

  private synchronized void again(HelperProcess helper) {
    busy.remove(helper);
    starting++;
  }

  private synchronized void back(HelperProcess helper) {
    if (busy.remove(helper) && helper.runs()) {
      idle.push(helper);
    }
  }
}
