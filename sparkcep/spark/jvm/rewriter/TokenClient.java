package org.sparkcep.rewriter;

import java.lang.reflect.Field;
import java.net.InetAddress;
import javax.net.SocketFactory;
import py4j.Gateway;
import py4j.JavaServer;
import py4j.Py4JJavaServer;
import py4j.Py4JPythonClient;
import py4j.PythonClient;

/**
 * Py4J's client for callbacks into a Python driver, which sends the token that the driver requires.
 *
 * <p>Py4J supports tokens on both sides, but its own client loses the token when it is given the driver's port, so PySpark uses
 * none.
 */
public final class TokenClient extends PythonClient {
  private TokenClient(Gateway gateway, InetAddress address, int port, Py4JJavaServer server, String token) {
    super(
        gateway, null, port, address, DEFAULT_MIN_CONNECTION_TIME, DEFAULT_MIN_CONNECTION_TIME_UNIT,
        SocketFactory.getDefault(), server, true, 0, token);
  }

  /** Replaces the client of {@code server} by one with a token, for the same port. */
  public static void install(JavaServer server, String token) throws ReflectiveOperationException {
    Gateway gateway = server.getGateway();
    Py4JPythonClient before = gateway.getCallbackClient();
    Field client = Gateway.class.getDeclaredField("cbClient");
    client.setAccessible(true);
    client.set(gateway, new TokenClient(gateway, before.getAddress(), before.getPort(), server, token));
    before.shutdown();
  }

  @Override
  public Py4JPythonClient copyWith(InetAddress address, int port) {
    return new TokenClient(gateway, address, port, javaServer, authToken);
  }
}
