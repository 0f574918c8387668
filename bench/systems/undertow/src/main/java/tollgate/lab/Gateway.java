package tollgate.lab;

import io.undertow.Undertow;
import io.undertow.UndertowOptions;
import io.undertow.server.HttpHandler;
import io.undertow.server.handlers.ResponseCodeHandler;
import io.undertow.server.handlers.accesslog.AccessLogHandler;
import io.undertow.server.handlers.accesslog.AccessLogReceiver;
import io.undertow.server.handlers.accesslog.DefaultAccessLogReceiver;
import io.undertow.server.handlers.proxy.LoadBalancingProxyClient;
import io.undertow.server.handlers.proxy.ProxyHandler;
import java.io.File;
import java.net.URI;
import org.xnio.OptionMap;
import org.xnio.Options;
import org.xnio.Xnio;
import org.xnio.XnioWorker;

/** A gateway of Undertow's own proxy handler. Its settings come from the environment, see system.yaml. */
public final class Gateway {
    private Gateway() {}

    public static void main(String[] arguments) throws Exception {
        int workers = number("WORKERS");
        int idle = number("IDLE_SECONDS") * 1000;
        // Connections belong to the thread that opened them: the two bounds, of open and of idle ones, are for a thread.
        LoadBalancingProxyClient pool = new LoadBalancingProxyClient()
                .setConnectionsPerThread(number("CLIENTS"))
                .setSoftMaxConnectionsPerThread(Math.max(1, number("KEEPALIVE") / workers))
                .setTtl(idle);
        for (String origin : text("ORIGINS").split(",")) {
            pool.addHost(URI.create("http://" + origin));
        }
        HttpHandler gateway = ProxyHandler.builder()
                .setProxyClient(pool)
                .setMaxRequestTime(number("RESPONSE_SECONDS") * 1000)
                .setMaxConnectionRetries("on".equals(System.getenv("RETRIES")) ? 1 : 0)
                .setNext(ResponseCodeHandler.HANDLE_404)
                .build();
        String log = System.getenv("ACCESS_LOG");
        if (log != null) {
            gateway = logged(gateway, new File(log).getAbsoluteFile());
        }
        // Work never leaves the threads that read and write: the worker pool stays at its least.
        Undertow.builder()
                .addHttpListener(number("PORT"), text("HOST"))
                .setIoThreads(workers)
                .setWorkerThreads(1)
                .setServerOption(UndertowOptions.NO_REQUEST_TIMEOUT, idle)
                .setServerOption(UndertowOptions.RECORD_REQUEST_START_TIME, log != null)
                .setHandler(gateway)
                .build()
                .start();
    }

    /** Undertow writes its log on threads of XNIO: one of its own, so that the I/O threads stay as they are. */
    private static HttpHandler logged(HttpHandler next, File file) throws Exception {
        XnioWorker writer = Xnio.getInstance()
                .createWorker(OptionMap.create(Options.WORKER_IO_THREADS, 1, Options.WORKER_TASK_CORE_THREADS, 1));
        AccessLogReceiver receiver = DefaultAccessLogReceiver.builder()
                .setLogWriteExecutor(writer)
                .setOutputDirectory(file.getParentFile().toPath())
                .setLogBaseName(file.getName())
                .setLogNameSuffix("")
                .setRotate(false)
                .build();
        return new AccessLogHandler(next, receiver, "%t \"%r\" %s %D", Gateway.class.getClassLoader());
    }

    private static String text(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is not set in the environment");
        }
        return value;
    }

    private static int number(String name) {
        try {
            return Integer.parseInt(text(name));
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException(name + " must be a whole number", error);
        }
    }
}
