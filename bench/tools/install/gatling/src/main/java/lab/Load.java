package lab;

import static io.gatling.javaapi.core.CoreDsl.*;
import static io.gatling.javaapi.http.HttpDsl.*;

import io.gatling.javaapi.core.ChainBuilder;
import io.gatling.javaapi.core.PopulationBuilder;
import io.gatling.javaapi.core.Simulation;
import io.gatling.javaapi.http.HttpProtocolBuilder;
import io.gatling.javaapi.http.HttpRequestActionBuilder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.LongAccumulator;

/**
 * The laboratory's load, from files in the working directory. "load" has a line for each setting, its name, a blank
 * and its value: url, method, connections, timeout-ms, and either time-ms or requests (for each connection), and
 * where they are wanted rate, status and any number of header lines. "body" holds the body.
 */
public final class Load extends Simulation {
  private static final List<String> LINES = read();

  private static final long ORIGIN = System.nanoTime();
  private static final LongAccumulator FIRST = new LongAccumulator(Math::min, Long.MAX_VALUE);
  private static final LongAccumulator LAST = new LongAccumulator(Math::max, 0);

  private static ChainBuilder mark(LongAccumulator time) {
    return exec(
        session -> {
          time.accumulate(System.nanoTime() - ORIGIN);
          return session;
        });
  }

  private static List<String> read() {
    try {
      return Files.readAllLines(Path.of("load"));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static List<String> all(String name) {
    String start = name + " ";
    return LINES.stream().filter(line -> line.startsWith(start)).map(line -> line.substring(start.length())).toList();
  }

  private static String one(String name) {
    List<String> values = all(name);
    if (values.size() != 1) {
      throw new IllegalArgumentException("expected one line '" + name + "' in the file 'load', not " + values.size());
    }
    return values.get(0);
  }

  private static boolean has(String name) {
    return !all(name).isEmpty();
  }

  private static HttpRequestActionBuilder request() {
    HttpRequestActionBuilder request = http("request").httpRequest(one("method"), one("url"));
    for (String header : all("header")) {
      int colon = header.indexOf(':');
      request = request.header(header.substring(0, colon), header.substring(colon + 1).strip());
    }
    if (Files.exists(Path.of("body"))) {
      request = request.body(RawFileBody(Path.of("body").toAbsolutePath().toString()));
    }
    request = request.requestTimeout(Duration.ofMillis(Long.parseLong(one("timeout-ms"))));
    return has("status")
        ? request.check(status().is(Integer.parseInt(one("status"))))
        : request.check(status().gte(200), status().lt(300));
  }

  private static PopulationBuilder population(int connections) {
    ChainBuilder once = exec(request());
    if (has("rate")) {
      Duration time = Duration.ofMillis(Long.parseLong(one("time-ms")));
      return scenario("load")
          .exec(mark(FIRST), once, mark(LAST))
          .injectOpen(constantUsersPerSec(Double.parseDouble(one("rate"))).during(time));
    }
    ChainBuilder loop =
        has("requests")
            ? repeat(Integer.parseInt(one("requests"))).on(once)
            : during(Duration.ofMillis(Long.parseLong(one("time-ms")))).on(once);
    return scenario("load").exec(mark(FIRST), loop, mark(LAST)).injectOpen(atOnceUsers(connections));
  }

  /** From the first user's start to the last one's end; Gatling's own figure is in whole seconds. */
  @Override
  public void after() {
    System.out.printf(Locale.ROOT, "lab-seconds %.6f%n", (LAST.get() - FIRST.get()) / 1e9);
  }

  /** Without its warm-up, which is a request to a host of Gatling's, and without following redirects. */
  public Load() {
    int connections = Integer.parseInt(one("connections"));
    HttpProtocolBuilder plain = http.disableWarmUp().disableFollowRedirect().disableCaching();
    // An arrival is a user of its own: without sharing, each would open a connection.
    setUp(
        population(connections)
            .protocols(has("rate") ? plain.shareConnections().maxConnectionsPerHost(connections) : plain));
  }
}
