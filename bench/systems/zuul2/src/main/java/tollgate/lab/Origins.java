package tollgate.lab;

import com.netflix.appinfo.InstanceInfo;
import com.netflix.client.config.CommonClientConfigKey;
import com.netflix.client.config.IClientConfig;
import com.netflix.loadbalancer.AbstractServerList;
import com.netflix.niws.loadbalancer.DiscoveryEnabledServer;
import java.util.List;
import java.util.stream.Stream;

/** The addresses of origin.ribbon.listOfServers. Ribbon's own such list has servers of a type that Zuul 2 does not take. */
public final class Origins extends AbstractServerList<DiscoveryEnabledServer> {
    private List<DiscoveryEnabledServer> servers = List.of();

    @Override
    public void initWithNiwsConfig(IClientConfig config) {
        String[] addresses = config.get(CommonClientConfigKey.ListOfServers).split(",");
        servers = Stream.of(addresses).map(Origins::server).toList();
    }

    private static DiscoveryEnabledServer server(String address) {
        int colon = address.lastIndexOf(':');
        String host = address.substring(0, colon);
        InstanceInfo instance = InstanceInfo.Builder.newBuilder()
                .setAppName("origin")
                .setInstanceId(address)
                .setHostName(host)
                .setIPAddr(host)
                .setPort(Integer.parseInt(address.substring(colon + 1)))
                .build();
        return new DiscoveryEnabledServer(instance, false, true);
    }

    @Override
    public List<DiscoveryEnabledServer> getInitialListOfServers() {
        return servers;
    }

    @Override
    public List<DiscoveryEnabledServer> getUpdatedListOfServers() {
        return servers;
    }
}
