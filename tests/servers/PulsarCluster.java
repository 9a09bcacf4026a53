import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.pulsar.PulsarClusterMetadataSetup;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.zookeeper.LocalBookkeeperEnsemble;

/** ZooKeeper, one bookie and a broker for each configuration file, in this JVM, until it is killed. */
public class PulsarCluster {
    /** Arguments: cluster name, ports of ZooKeeper and bookie, folder for their data, configuration files. */
    public static void main(String[] given) throws Exception {
        startStorage(given);
        startBrokers(Arrays.asList(given).subList(4, given.length));
        stay("The Pulsar cluster is ready");
    }

    static void startStorage(String[] given) throws Exception {
        int zooKeeper = Integer.parseInt(given[1]);
        int bookie = Integer.parseInt(given[2]);
        new LocalBookkeeperEnsemble(1, zooKeeper, bookie, given[3] + "/zookeeper", given[3] + "/bookie", true, "127.0.0.1").start(false);
        String store = "zk:127.0.0.1:" + zooKeeper;
        // The two addresses are for other clusters, of which there are none.
        PulsarClusterMetadataSetup.main(new String[] {
            "--cluster", given[0], "--metadata-store", store, "--configuration-metadata-store", store,
            "--web-service-url", "http://127.0.0.1:1", "--broker-service-url", "pulsar://127.0.0.1:2",
        });
    }

    static void startBrokers(List<String> files) throws Exception {
        for (String file : files) {
            ServiceConfiguration settings = PulsarConfigurationLoader.create(file, ServiceConfiguration.class);
            new PulsarService(settings, Optional.empty(), code -> { }).start();
        }
    }

    static void stay(String ready) throws Exception {
        System.out.println(ready);
        Thread.sleep(Long.MAX_VALUE);
    }
}

/** ZooKeeper and one bookie alone. Arguments: as for the cluster, without configuration files. */
class PulsarStorage {
    public static void main(String[] given) throws Exception {
        PulsarCluster.startStorage(given);
        PulsarCluster.stay("The storage is ready");
    }
}

/** One broker. Argument: its configuration file. */
class PulsarBroker {
    public static void main(String[] given) throws Exception {
        PulsarCluster.startBrokers(Arrays.asList(given));
        PulsarCluster.stay("The broker is ready");
    }
}
