// Times the shedders of Pulsar's own release on the cluster of benchmarks/bench_input.py and says what they decide.
//
// Arguments: how many calls are timed; strategies, separated by commas; sizes as BROKERSxBUNDLES, separated by commas.
// Prints one line of JSON per size and strategy. CPU time is that of the calling thread: collecting garbage elsewhere is not in it.
// Every call gets a new strategy object, because a strategy remembers its last round; the just-in-time compiler is warm by then.

import com.google.common.collect.Multimap;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;
import org.apache.pulsar.broker.loadbalance.impl.OverloadShedder;
import org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder;
import org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.ResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageMessageData;

public class DecisionSpeed {
    private static final Map<String, Supplier<LoadSheddingStrategy>> STRATEGIES = Map.of(
            "threshold", ThresholdShedder::new,
            "avg", AvgShedder::new,
            "overload", OverloadShedder::new,
            "uniform", UniformLoadShedder::new);
    private static final long WARM_UP_NANOS = 3_000_000_000L;
    private static final int UNTIMED = 2;
    private static final int HOT = 5;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    public static void main(String[] arguments) throws Exception {
        int calls = Integer.parseInt(arguments[0]);
        String[] names = arguments[1].split(",");
        ServiceConfiguration configuration = configuration();
        Cluster small = new Cluster(50, 5_000);
        for (String name : names) {
            long until = System.nanoTime() + WARM_UP_NANOS;
            while (System.nanoTime() < until) {
                STRATEGIES.get(name).get().findBundlesForUnloading(small.load, configuration);
            }
        }
        for (String size : arguments[2].split(",")) {
            int brokers = Integer.parseInt(size.split("x")[0]);
            Cluster cluster = new Cluster(brokers, Integer.parseInt(size.split("x")[1]));
            for (String name : names) {
                System.out.println(measure(name, cluster, configuration, calls));
            }
        }
    }

    private static ServiceConfiguration configuration() {
        ServiceConfiguration configuration = new ServiceConfiguration();
        // AvgShedder would wait for several rounds; so it acts at once.
        configuration.setLoadBalancerAvgShedderHitCountHighThreshold(1);
        configuration.setLoadBalancerAvgShedderHighThreshold(35);
        configuration.setLoadBalancerAvgShedderHitCountLowThreshold(1000);
        return configuration;
    }

    private static String measure(String name, Cluster cluster, ServiceConfiguration configuration, int calls) {
        List<String> times = new ArrayList<>();
        String decided = "";
        for (int call = 0; call < UNTIMED + calls; call++) {
            LoadSheddingStrategy strategy = STRATEGIES.get(name).get();
            System.gc();
            long started = THREADS.getCurrentThreadCpuTime();
            Multimap<String, String> unloads = strategy.findBundlesForUnloading(cluster.load, configuration);
            long took = THREADS.getCurrentThreadCpuTime() - started;
            if (call >= UNTIMED) {
                times.add(Double.toString(took / 1e6));
                decided = inOrder(unloads, strategy, cluster, configuration);
            }
        }
        return String.format(
                "{\"strategy\":\"%s\",\"brokers\":%d,\"bundles\":%d,\"input\":\"%s\",\"cpu_ms\":%s,\"decided\":[%s]}",
                name, cluster.brokers, cluster.bundles, cluster.digest, times, decided);
    }

    /** Triples of source, bundle and destination, in the order in which the load manager would unload them. */
    private static String inOrder(
            Multimap<String, String> unloads, LoadSheddingStrategy strategy, Cluster cluster, ServiceConfiguration configuration) {
        List<String> triples = new ArrayList<>();
        Set<String> everywhere = cluster.load.getBrokerData().keySet();
        unloads.asMap().forEach((source, bundles) -> bundles.forEach(bundle -> {
            String destination = "null";
            if (strategy instanceof AvgShedder avg) {
                BundleData data = cluster.load.getBundleData().get(bundle);
                destination = avg.selectBroker(everywhere, data, cluster.load, configuration).map(it -> '"' + it + '"').orElse("null");
            }
            triples.add(String.format("[\"%s\",\"%s\",%s]", source, bundle, destination));
        }));
        return String.join(",", triples);
    }

    /** The made-up cluster as the leader's load data. */
    private static final class Cluster {
        final int brokers;
        final int bundles;
        final String digest;
        final LoadData load = new LoadData();
        private final MessageDigest seen = MessageDigest.getInstance("SHA-256");
        private long state = 42;

        Cluster(int brokers, int bundles) throws Exception {
            this.brokers = brokers;
            this.bundles = bundles;
            for (int broker = 0; broker < brokers; broker++) {
                add(broker, bundles / brokers, broker < HOT);
            }
            digest = HexFormat.of().formatHex(seen.digest());
        }

        private void add(int index, int perBroker, boolean hot) {
            double cpu = seen(hot ? 90 + 8 * draw() : 40 + 20 * draw());
            LocalBrokerData data = new LocalBrokerData();
            data.setCpu(new ResourceUsage(cpu * 8, 800));
            data.setMemory(new ResourceUsage());
            data.setDirectMemory(new ResourceUsage());
            data.setBandwidthIn(new ResourceUsage());
            data.setBandwidthOut(new ResourceUsage());
            int factor = hot ? 2 : 1;
            double throughputIn = 0;
            double throughputOut = 0;
            double rateIn = 0;
            double rateOut = 0;
            Set<String> names = new HashSet<>();
            for (int row = 0; row < perBroker; row++) {
                double[] drawn = {factor * 4e6 * draw(), factor * 8e6 * draw(), factor * 3000 * draw(), factor * 6000 * draw()};
                for (double figure : drawn) {
                    seen(figure);
                }
                throughputIn += drawn[0];
                throughputOut += drawn[1];
                rateIn += drawn[2];
                rateOut += drawn[3];
                String name = String.format("tenant-%d/ns-%d/%s", index % 50, index, range(row, perBroker));
                names.add(name);
                load.getBundleData().put(name, averages(drawn));
            }
            data.setBundles(names);
            data.setMsgThroughputIn(throughputIn);
            data.setMsgThroughputOut(throughputOut);
            data.setMsgRateIn(rateIn);
            data.setMsgRateOut(rateOut);
            load.getBrokerData().put("broker-" + index + ".pulsar.local:8080", new BrokerData(data));
        }

        private static String range(int row, int perBroker) {
            long width = (1L << 32) / perBroker;
            long end = row == perBroker - 1 ? 0xffffffffL : (row + 1) * width;
            return String.format("0x%08x_0x%08x", row * width, end);
        }

        private static BundleData averages(double[] drawn) {
            BundleData bundle = new BundleData(10, 1000);
            for (TimeAverageMessageData average : List.of(bundle.getShortTermData(), bundle.getLongTermData())) {
                average.update(drawn[0], drawn[1], drawn[2], drawn[3]);
            }
            return bundle;
        }

        private double draw() {
            state = (state * 25214903917L + 11) & ((1L << 48) - 1);
            return (state >>> 16) / 4294967296.0;
        }

        private double seen(double figure) {
            seen.update(ByteBuffer.allocate(8).putDouble(0, figure));
            return figure;
        }
    }
}
