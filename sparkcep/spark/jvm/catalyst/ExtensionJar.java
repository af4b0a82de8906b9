package org.sparkcep.catalyst;

/** The jar that contains these classes. */
public final class ExtensionJar {
  private static String shipped = ""; // the application whose executors have the jar

  private ExtensionJar() {}

  /** Ships the classes of this jar to executors, once. */
  public static synchronized void ship() {
    org.apache.spark.SparkContext context = org.apache.spark.sql.classic.SparkSession.active().sparkContext();
    if (!shipped.equals(context.applicationId())) {
      context.addJar(ExtensionJar.class.getProtectionDomain().getCodeSource().getLocation().getPath());
      shipped = context.applicationId();
    }
  }
}
