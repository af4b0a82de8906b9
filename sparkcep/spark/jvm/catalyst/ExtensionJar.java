package org.sparkcep.catalyst;

import java.net.URI;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.JobArtifactState;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.Utils;
import scala.Function0;
import scala.Option;
import scala.collection.concurrent.Map;

/** The jar that contains these classes. */
public final class ExtensionJar {
  private static final String SHARED = "default"; // Spark's name for the jars of all sessions that share theirs

  private ExtensionJar() {}

  /**
   * Sends the classes of this jar to executors with the jars of the active session, once. Tasks of a session with jars of its own
   * load no other session's jars: each session of Spark Connect, and most others, need this jar among theirs.
   */
  public static synchronized void ship() {
    SparkSession session = SparkSession.active();
    SparkContext context = session.sparkContext();
    JobArtifactState own = session.artifactManager().state(); // null if the session shares its jars
    String jars = own == null ? SHARED : own.uuid();
    URI jar = URI.create(ExtensionJar.class.getProtectionDomain().getCodeSource().getLocation().toString());
    if (isAmong(context, jars, jar)) {
      return;
    }
    Function0<Object> add = () -> {
      context.addJar(jar.toString()); // a URI, since Spark reads a path as one, too; it logs errors and goes on
      return null;
    };
    JobArtifactSet.withActiveJobArtifactState(own, add);
    // If Java was started with the jar in its class path, so perhaps were the executors.
    boolean isLoadedHere = ExtensionJar.class.getClassLoader() instanceof URLClassLoader;
    if (isLoadedHere && !isAmong(context, jars, jar) && !Files.exists(Path.of(jar))) {
      throw new IllegalStateException("the jar of the JVM extension was deleted, so Spark cannot send it to executors: " + Path.of(jar)
          + ". Restart the application, which compiles the jar again");
    }
  }

  /** Whether a jar is among the jars that Spark has for a session. */
  private static boolean isAmong(SparkContext context, String jars, URI jar) {
    String name = Utils.encodeFileNameToURIRawPath(jar.getPath().substring(jar.getPath().lastIndexOf('/') + 1));
    Option<Map<String, Object>> added = context.addedJars().get(jars);
    return added.isDefined() && added.get().keysIterator().exists(key -> key.endsWith("/" + name));
  }
}
