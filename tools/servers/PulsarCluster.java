import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.pulsar.PulsarClusterMetadataSetup;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.BrokerHostUsage;
import org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl;
import org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerWrapper;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.zookeeper.LocalBookkeeperEnsemble;
import org.apache.zookeeper.ZooKeeper;

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
            startBroker(file);
        }
    }

    static PulsarService startBroker(String file) throws Exception {
        ServiceConfiguration settings = PulsarConfigurationLoader.create(file, ServiceConfiguration.class);
        PulsarService broker = new PulsarService(settings, Optional.empty(), code -> { });
        broker.start();
        return broker;
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

/** One broker. Arguments: its configuration file, and, with the modular load manager, how often it measures its CPU, in seconds. */
class PulsarBroker {
    public static void main(String[] given) throws Exception {
        awaitEndOfPredecessor(given[0]);
        PulsarService broker = start(given[0]);
        if (given.length > 1) {
            measure(broker, Long.parseLong(given[1]));
        } else {
            PulsarCluster.stay("The broker is ready");
        }
    }

    /**
     * A broker deletes the registration of a killed predecessor when it starts. Its start fails if the predecessor's
     * session expires at that moment and deletes the registration first.
     */
    static void awaitEndOfPredecessor(String file) throws Exception {
        ServiceConfiguration settings = PulsarConfigurationLoader.create(file, ServiceConfiguration.class);
        String id = settings.getAdvertisedAddress() + ":" + settings.getWebServicePort().get();
        String servers = settings.getMetadataStoreUrl().replaceFirst("^zk:", "");
        try (ZooKeeper metadata = new ZooKeeper(servers, 30_000, event -> { })) {
            while (metadata.exists("/loadbalance/brokers/" + id, false) != null) {
                Thread.sleep(100);
            }
        }
    }

    /**
     * As Pulsar's own launcher: a failed start ends the process, for threads of the failed broker run on; a signal
     * (SIGTERM) closes the broker, which gives its bundles back before its process ends.
     */
    static PulsarService start(String file) {
        try {
            PulsarService broker = PulsarCluster.startBroker(file);
            Runtime.getRuntime().addShutdownHook(new Thread(() -> close(broker), "close-broker"));
            return broker;
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            throw new AssertionError(error);
        }
    }

    static void close(PulsarService broker) {
        try {
            broker.close();
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    /** Its configuration knows only whole minutes. */
    static void measure(PulsarService broker, long seconds) throws Exception {
        Object manager = ((ModularLoadManagerWrapper) broker.getLoadManager().get()).getLoadManager();
        Field field = ModularLoadManagerImpl.class.getDeclaredField("brokerHostUsage");
        field.setAccessible(true);
        BrokerHostUsage usage = (BrokerHostUsage) field.get(manager);
        System.out.println("The broker is ready");
        while (true) {
            Thread.sleep(1000 * seconds);
            usage.calculateBrokerHostUsage();
        }
    }
}
