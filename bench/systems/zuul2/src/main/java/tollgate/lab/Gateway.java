package tollgate.lab;

import com.netflix.appinfo.ApplicationInfoManager;
import com.netflix.config.ConfigurationManager;
import com.netflix.config.DynamicPropertyFactory;
import com.netflix.discovery.EurekaClient;
import com.netflix.netty.common.accesslog.AccessLogPublisher;
import com.netflix.netty.common.channel.config.ChannelConfig;
import com.netflix.netty.common.channel.config.CommonChannelConfigKeys;
import com.netflix.netty.common.metrics.EventLoopGroupMetrics;
import com.netflix.netty.common.status.ServerStatusManager;
import com.netflix.spectator.api.DefaultRegistry;
import com.netflix.spectator.api.NoopRegistry;
import com.netflix.spectator.api.Registry;
import com.netflix.zuul.BasicRequestCompleteHandler;
import com.netflix.zuul.DefaultFilterFactory;
import com.netflix.zuul.DynamicFilterLoader;
import com.netflix.zuul.FilterLoader;
import com.netflix.zuul.context.ZuulSessionContextDecorator;
import com.netflix.zuul.filters.MutableFilterRegistry;
import com.netflix.zuul.netty.server.BaseServerStartup;
import com.netflix.zuul.netty.server.DefaultEventLoopConfig;
import com.netflix.zuul.netty.server.DirectMemoryMonitor;
import com.netflix.zuul.netty.server.NamedSocketAddress;
import com.netflix.zuul.netty.server.ZuulServerChannelInitializer;
import com.netflix.zuul.origins.BasicNettyOriginManager;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.group.ChannelGroup;
import java.net.InetSocketAddress;
import java.util.Map;

/**
 * Zuul 2 with one filter, wired by hand, without Eureka. Its settings are Zuul's own properties, in the
 * gateway.properties that system.yaml renders; those that begin with "lab." are ours.
 */
public final class Gateway extends BaseServerStartup {
    private static final EurekaClient NO_EUREKA = null;
    private static final ApplicationInfoManager NO_INSTANCE = null;

    private Gateway(Registry registry, AccessLogPublisher accessLog) {
        super(
                new ServerStatusManager(NO_INSTANCE),
                filters(),
                new ZuulSessionContextDecorator(new BasicNettyOriginManager(registry)),
                (filter, status) -> {},
                new BasicRequestCompleteHandler(),
                registry,
                new DirectMemoryMonitor(),
                new EventLoopGroupMetrics(registry),
                new DefaultEventLoopConfig(),
                NO_EUREKA,
                NO_INSTANCE,
                accessLog);
    }

    /** Zuul's static loader takes no set without an outbound filter, and we have none. */
    private static FilterLoader filters() {
        DynamicFilterLoader loader =
                new DynamicFilterLoader(new MutableFilterRegistry(), null, new DefaultFilterFactory());
        try {
            loader.putFilterForClassName(Routes.class.getName());
        } catch (Exception error) {
            throw new IllegalStateException("cannot load the filter Routes", error);
        }
        return loader;
    }

    public static void main(String[] arguments) throws Exception {
        ConfigurationManager.loadPropertiesFromResources("gateway.properties");
        DynamicPropertyFactory properties = DynamicPropertyFactory.getInstance();
        Registry registry =
                properties.getBooleanProperty("lab.statistics", false).get() ? new DefaultRegistry() : new NoopRegistry();
        AccessLogPublisher accessLog = properties.getBooleanProperty("lab.access-log", false).get()
                ? new AccessLogPublisher("access", (channel, request) -> null)
                : null;
        Gateway gateway = new Gateway(registry, accessLog);
        gateway.init();
        gateway.server().start();
        gateway.server().awaitTermination();
    }

    @Override
    protected Map<NamedSocketAddress, ChannelInitializer<?>> chooseAddrsAndChannels(ChannelGroup clients) {
        DynamicPropertyFactory properties = DynamicPropertyFactory.getInstance();
        NamedSocketAddress address = new NamedSocketAddress(
                "http",
                new InetSocketAddress(
                        properties.getStringProperty("lab.host", null).get(),
                        properties.getIntProperty("lab.port", 0).get()));
        // By default Zuul expects a load balancer of Amazon's before it.
        ChannelConfig config = defaultChannelConfig("http");
        config.set(CommonChannelConfigKeys.withProxyProtocol, false);
        config.set(CommonChannelConfigKeys.preferProxyProtocolForClientIp, false);
        return Map.of(
                address,
                new ZuulServerChannelInitializer("http", config, defaultChannelDependencies("http"), clients));
    }
}
