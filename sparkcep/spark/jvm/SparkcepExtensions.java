package org.sparkcep;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.NamedParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.PositionalParameterContext;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SessionState;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * Gives Spark's parser the MATCH_RECOGNIZE clause, by rewriting the text before Spark parses it.
 *
 * <p>Two ways in: named in {@code spark.sql.extensions} when the JVM starts, or {@link #install} on a running
 * session. The rewriting itself is Python's work; it is reached through a function from a JSON request to a JSON
 * answer (see sparkcep/spark/rewrite_server.py): a Py4J callback where a Python driver lives ({@link #setRewriter}),
 * else a helper process that is started with the first statement that needs it.
 */
public final class SparkcepExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  private static final Pattern MENTION = Pattern.compile("match_recognize", Pattern.CASE_INSENSITIVE);
  private static final ObjectMapper JSON = new ObjectMapper();

  private static volatile Function<String, String> rewriter;
  private static volatile boolean active = true;

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(new ParserBuilder());
    return BoxedUnit.UNIT;
  }

  /** The function that answers requests; null goes back to the helper process. */
  public static void setRewriter(Function<String, String> function) {
    rewriter = function;
  }

  /** Rewriting on or off for the whole JVM; off, every text reaches Spark's parser as it is. */
  public static void setActive(boolean on) {
    active = on;
  }

  /**
   * Gives a session that is already running, and every session made from it later, the rewriting parser.
   *
   * <p>Sessions read their extensions once, when their state is built, hence both steps.
   */
  public static void install(org.apache.spark.sql.classic.SparkSession session) throws ReflectiveOperationException {
    SessionState state = session.sessionState();
    ParserInterface parser = state.sqlParser();
    if (isOurs(parser)) {
      return;
    }
    ParserInterface wrapped = wrap(parser);
    // the catalog parses what EXECUTE IMMEDIATE and SQL functions hold
    replaceParser(state.catalog(), parser, wrapped);
    replaceParser(state, parser, wrapped);
    synchronized (session.extensions()) {
      if (!isOurs(session.extensions().buildParser(session, parser))) {
        session.extensions().injectParser(new ParserBuilder());
      }
    }
  }

  /** Whether this session's statements pass through the rewriter. */
  public static boolean isInstalled(org.apache.spark.sql.classic.SparkSession session) {
    return active && isOurs(session.sessionState().sqlParser());
  }

  private static boolean isOurs(ParserInterface parser) {
    return Proxy.isProxyClass(parser.getClass()) && Proxy.getInvocationHandler(parser) instanceof RewritingParser;
  }

  private static ParserInterface wrap(ParserInterface parser) {
    return (ParserInterface)
        Proxy.newProxyInstance(
            SparkcepExtensions.class.getClassLoader(),
            new Class<?>[] {ParserInterface.class},
            new RewritingParser(parser));
  }

  private static void replaceParser(Object holder, ParserInterface from, ParserInterface to)
      throws ReflectiveOperationException {
    for (Class<?> c = holder.getClass(); c != null; c = c.getSuperclass()) {
      for (Field field : c.getDeclaredFields()) {
        if (field.getType() == ParserInterface.class) {
          field.setAccessible(true);
          if (field.get(holder) == from) {
            field.set(holder, to);
          }
        }
      }
    }
  }

  private static final class ParserBuilder
      extends AbstractFunction2<SparkSession, ParserInterface, ParserInterface> {
    @Override
    public ParserInterface apply(SparkSession session, ParserInterface parser) {
      return isOurs(parser) ? parser : wrap(parser);
    }
  }

  /** Rewrites the text of statements, leaves all other calls to Spark's parser. */
  private static final class RewritingParser implements InvocationHandler {
    private final ParserInterface spark;

    RewritingParser(ParserInterface spark) {
      this.spark = spark;
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] args) throws Throwable {
      if (active && args != null && args.length > 0 && takesStatement(method) && args[0] instanceof String) {
        String text = (String) args[0];
        if (MENTION.matcher(text).find()) {
          args = rewritten(text, args);
        }
      }
      try {
        return method.invoke(spark, args);
      } catch (InvocationTargetException e) {
        throw e.getCause();
      }
    }

    private static boolean takesStatement(Method method) {
      return method.getName().startsWith("parsePlan") || method.getName().equals("parseQuery");
    }
  }

  private static Object[] rewritten(String text, Object[] args) throws IOException, ParseException {
    boolean positional = args.length > 1 && args[1] instanceof PositionalParameterContext;
    SQLConf conf = SQLConf.get();
    ObjectNode request = JSON.createObjectNode();
    request.put("sql", text);
    ObjectNode settings = request.putObject("settings");
    settings.put("spark.sql.caseSensitive", String.valueOf(conf.caseSensitiveAnalysis()));
    settings.put("spark.sql.ansi.enabled", String.valueOf(conf.ansiEnabled()));
    CollectionConverters.asJava(conf.getAllConfs())
        .forEach((key, value) -> { if (key.startsWith("sparkcep.")) settings.put(key, value); });
    request.put("named_markers", positional);
    Function<String, String> function = rewriter;
    if (function == null) {
      function = HelperProcess.running();
    }
    JsonNode answer = JSON.readTree(function.apply(JSON.writeValueAsString(request)));
    if (answer.has("error")) {
      throw new ClauseException(text, answer.get("error"));
    }
    String sql = answer.get("sql").asText();
    if (sql.equals(text)) {
      return args;
    }
    Object[] out = args.clone();
    out[0] = sql;
    if (positional) {
      out[1] = named((PositionalParameterContext) args[1], answer.get("marker_prefix").asText());
    }
    return out;
  }

  private static NamedParameterContext named(PositionalParameterContext context, String prefix) {
    Map<String, Expression> named = new HashMap<>();
    for (int i = 0; i < context.params().size(); i++) {
      named.put(prefix + (i + 1), context.params().apply(i));
    }
    return new NamedParameterContext(toScala(named));
  }

  private static <V> scala.collection.immutable.Map<String, V> toScala(Map<String, V> map) {
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(map));
  }

  /** An error in the clause, as one of Spark's own parse errors. */
  public static final class ClauseException extends ParseException {
    private static final long serialVersionUID = 1L;

    private final String text;
    private final JsonNode error;

    ClauseException(String text, JsonNode error) {
      // the error class given here is Spark's nearest one: its constructor looks it up, and ours is not in its list
      super(
          Option.apply(text),
          CurrentOrigin.get(),
          "PARSE_SYNTAX_ERROR",
          toScala(Map.of("error", error.get("message").asText(), "hint", "")),
          new QueryContext[0]);
      this.text = text;
      this.error = error;
    }


    @Override
    public String getMessage() {
      return error.get("description").asText();
    }

    @Override
    public String message() {
      return getMessage();
    }

    @Override
    public String getSimpleMessage() {
      return getMessage();
    }

    @Override
    public String getCondition() {
      return error.get("error_class").asText();
    }

    @Override
    public String getSqlState() {
      return error.get("sqlstate").asText();
    }

    @Override
    public Map<String, String> getMessageParameters() {
      Map<String, String> out = new HashMap<>();
      for (String field : new String[] {"message", "line", "column", "fragment"}) {
        out.put(field, error.get(field).asText());
      }
      return out;
    }

    @Override
    public ParseException withCommand(String command) {
      return this;
    }

    /** The whole statement as the user wrote it. */
    public String statement() {
      return text;
    }
  }

  /** The rewriter for a JVM without a Python driver: one Python process, length-prefixed JSON both ways. */
  private static final class HelperProcess implements Function<String, String> {
    private static HelperProcess instance;

    private final Process process;
    private final DataOutputStream to;
    private final DataInputStream from;

    private HelperProcess() throws IOException {
      ProcessBuilder builder = new ProcessBuilder(python(), "-m", "sparkcep.spark.rewrite_server");
      builder.redirectError(ProcessBuilder.Redirect.INHERIT);
      process = builder.start();
      to = new DataOutputStream(process.getOutputStream());
      from = new DataInputStream(process.getInputStream());
    }

    static synchronized HelperProcess running() throws IOException {
      if (instance == null || !instance.process.isAlive()) {
        instance = new HelperProcess();
      }
      return instance;
    }

    private static String python() {
      SQLConf conf = SQLConf.get();
      for (String key : new String[] {"spark.pyspark.driver.python", "spark.pyspark.python"}) {
        if (conf.contains(key)) {
          return conf.getConfString(key);
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
    public synchronized String apply(String request) {
      try {
        byte[] bytes = request.getBytes(StandardCharsets.UTF_8);
        to.writeInt(bytes.length);
        to.write(bytes);
        to.flush();
        byte[] answer = new byte[from.readInt()];
        from.readFully(answer);
        return new String(answer, StandardCharsets.UTF_8);
      } catch (IOException e) {
        process.destroy();
        throw new IllegalStateException(
            "The process that rewrites MATCH_RECOGNIZE ended; is sparkcep installed for the Python that"
                + " PYSPARK_PYTHON names (" + python() + ")?",
            e);
      }
    }
  }
}
