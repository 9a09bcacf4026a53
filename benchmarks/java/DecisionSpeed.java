// Times the shedders of Pulsar's own release on the cluster of benchmarks/bench_input.py and says what they decide.
//
// Arguments: how many calls are timed; strategies, separated by commas; sizes as BROKERSxBUNDLES, separated by commas.
// Prints one line of JSON per size and strategy. CPU time is that of the calling thread: collecting garbage elsewhere is not in it.
// Every call gets a new strategy object, because a strategy remembers its last round; the just-in-time compiler is warm by then.

import com.google.common.collect.Multimap;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.models.TopKBundles;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadDecision;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;
import org.apache.pulsar.broker.loadbalance.impl.OverloadShedder;
import org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder;
import org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.ResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.SystemResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageMessageData;

public class DecisionSpeed {
    private static final long WARM_UP_NANOS = 3_000_000_000L;
    private static final int UNTIMED = 2;
    private static final int HOT = 5;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final ServiceConfiguration CONFIGURATION = configuration();

    /** One strategy object and what it looks at; only `answer` is timed. */
    private interface Strategy<T> {
        T answer();

        /** Triples of source, bundle and destination as JSON, in the order in which Pulsar would carry them out. */
        List<String> told(T answer);
    }

    public static void main(String[] arguments) throws Exception {
        int calls = Integer.parseInt(arguments[0]);
        String[] names = arguments[1].split(",");
        Cluster small = new Cluster(50, 5_000);
        for (String name : names) {
            long until = System.nanoTime() + WARM_UP_NANOS;
            while (System.nanoTime() < until) {
                fresh(name, small).answer();
            }
        }
        for (String size : arguments[2].split(",")) {
            int brokers = Integer.parseInt(size.split("x")[0]);
            Cluster cluster = new Cluster(brokers, Integer.parseInt(size.split("x")[1]));
            for (String name : names) {
                System.out.println(measure(name, cluster, calls));
            }
        }
    }

    private static ServiceConfiguration configuration() {
        ServiceConfiguration configuration = new ServiceConfiguration();
        // These two would wait for several rounds; so they act at once.
        configuration.setLoadBalancerAvgShedderHitCountHighThreshold(1);
        configuration.setLoadBalancerAvgShedderHighThreshold(35);
        configuration.setLoadBalancerAvgShedderHitCountLowThreshold(1000);
        configuration.setLoadBalancerSheddingConditionHitCountThreshold(0);
        return configuration;
    }

    private static Strategy<?> fresh(String name, Cluster cluster) {
        return switch (name) {
            case "threshold" -> new Modular(new ThresholdShedder(), cluster);
            case "avg" -> new Modular(new AvgShedder(), cluster);
            case "overload" -> new Modular(new OverloadShedder(), cluster);
            case "uniform" -> new Modular(new UniformLoadShedder(), cluster);
            case "transfer" -> new Extensible(cluster);
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static String measure(String name, Cluster cluster, int calls) {
        List<String> times = new ArrayList<>();
        String decided = "";
        for (int call = 0; call < UNTIMED + calls; call++) {
            decided = measureOnce(fresh(name, cluster), call < UNTIMED ? new ArrayList<>() : times);
        }
        return String.format(
                "{\"strategy\":\"%s\",\"brokers\":%d,\"bundles\":%d,\"input\":\"%s\",\"cpu_ms\":%s,\"decided\":[%s]}",
                name, cluster.brokers, cluster.bundles, cluster.digest, times, decided);
    }

    private static <T> String measureOnce(Strategy<T> strategy, List<String> times) {
        System.gc();
        long started = THREADS.getCurrentThreadCpuTime();
        T answer = strategy.answer();
        times.add(Double.toString((THREADS.getCurrentThreadCpuTime() - started) / 1e6));
        return String.join(",", strategy.told(answer));
    }

    private static String triple(String source, String bundle, Optional<String> destination) {
        return String.format("[\"%s\",\"%s\",%s]", source, bundle, destination.map(it -> '"' + it + '"').orElse("null"));
    }

    /** A strategy of the modular load manager. */
    private record Modular(LoadSheddingStrategy strategy, Cluster cluster) implements Strategy<Multimap<String, String>> {
        public Multimap<String, String> answer() {
            return strategy.findBundlesForUnloading(cluster.load, CONFIGURATION);
        }

        public List<String> told(Multimap<String, String> answer) {
            List<String> triples = new ArrayList<>();
            answer.asMap().forEach((source, bundles) ->
                    bundles.forEach(bundle -> triples.add(triple(source, bundle, destination(bundle)))));
            return triples;
        }

        private Optional<String> destination(String bundle) {
            if (!(strategy instanceof AvgShedder avg)) {
                return Optional.empty();
            }
            BundleData data = cluster.load.getBundleData().get(bundle);
            return avg.selectBroker(cluster.load.getBrokerData().keySet(), data, cluster.load, CONFIGURATION);
        }
    }

    /** The strategy of the extensible load manager. Its decisions are a set: their order means nothing. */
    private record Extensible(TransferShedder strategy, Cluster cluster) implements Strategy<Set<UnloadDecision>> {
        Extensible(Cluster cluster) {
            this(new TransferShedder(new UnloadCounter()), cluster);
        }

        public Set<UnloadDecision> answer() {
            return strategy.findBundlesForUnloading(cluster.context, new HashMap<>(), new HashMap<>());
        }

        public List<String> told(Set<UnloadDecision> answer) {
            return answer.stream().map(UnloadDecision::getUnload)
                    .map(unload -> triple(unload.sourceBroker(), unload.serviceUnit(), unload.destBroker())).sorted().toList();
        }
    }

    /** The made-up cluster as what a leader knows: load data of the modular, stores of the extensible load manager. */
    private static final class Cluster {
        final int brokers;
        final int bundles;
        final String digest;
        final LoadData load = new LoadData();
        final LoadManagerContext context;
        private final Map<String, BrokerLoadData> brokerStore = new ConcurrentHashMap<>();
        private final Map<String, TopBundlesLoadData> topStore = new ConcurrentHashMap<>();
        private final MessageDigest seen = MessageDigest.getInstance("SHA-256");
        private long state = 42;

        Cluster(int brokers, int bundles) throws Exception {
            this.brokers = brokers;
            this.bundles = bundles;
            for (int broker = 0; broker < brokers; broker++) {
                add(broker, bundles / brokers, broker < HOT);
            }
            digest = HexFormat.of().formatHex(seen.digest());
            context = context();
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
            Map<String, NamespaceBundleStats> stats = new ConcurrentHashMap<>();
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
                stats.put(name, stats(drawn));
                load.getBundleData().put(name, averages(drawn));
            }
            data.setBundles(new HashSet<>(stats.keySet()));
            data.setMsgThroughputIn(throughputIn);
            data.setMsgThroughputOut(throughputOut);
            data.setMsgRateIn(rateIn);
            data.setMsgRateOut(rateOut);
            String broker = "broker-" + index + ".pulsar.local:8080";
            load.getBrokerData().put(broker, new BrokerData(data));
            BrokerLoadData reported = new BrokerLoadData();
            reported.update(usage(data), throughputIn, throughputOut, rateIn, rateOut, perBroker, 0, CONFIGURATION);
            brokerStore.put(broker, reported);
            topStore.put(broker, top(stats));
        }

        private static SystemResourceUsage usage(LocalBrokerData data) {
            SystemResourceUsage usage = new SystemResourceUsage();
            usage.setCpu(data.getCpu());
            usage.setMemory(data.getMemory());
            usage.setDirectMemory(data.getDirectMemory());
            usage.setBandwidthIn(data.getBandwidthIn());
            usage.setBandwidthOut(data.getBandwidthOut());
            return usage;
        }

        /** What a broker picks of its bundles for its report, as TopKBundles does: the lightest comes first. */
        private static TopBundlesLoadData top(Map<String, NamespaceBundleStats> stats) {
            List<Map.Entry<String, ? extends Comparable>> all = new ArrayList<>(stats.entrySet());
            int most = Math.min(CONFIGURATION.getLoadBalancerMaxNumberOfBundlesInBundleLoadReport(), all.size());
            TopKBundles.partitionSort(all, most);
            TopBundlesLoadData top = new TopBundlesLoadData();
            for (int rank = most - 1; rank >= 0; rank--) {
                String bundle = all.get(rank).getKey();
                top.getTopBundlesLoadData().add(new TopBundlesLoadData.BundleLoadData(bundle, stats.get(bundle)));
            }
            return top;
        }

        private LoadManagerContext context() {
            Map<String, BrokerLookupData> available = new HashMap<>();
            brokerStore.keySet().forEach(broker -> available.put(broker, null));
            Object registry = answering(BrokerRegistry.class, Map.of(
                    "getAvailableBrokerLookupDataAsync", words -> CompletableFuture.completedFuture(available)));
            Object brokers = store(brokerStore);
            Object tops = store(topStore);
            return answering(LoadManagerContext.class, Map.of(
                    "brokerConfiguration", words -> CONFIGURATION,
                    "brokerRegistry", words -> registry,
                    "brokerLoadDataStore", words -> brokers,
                    "topBundleLoadDataStore", words -> tops));
        }

        private static Object store(Map<String, ?> values) {
            return answering(LoadDataStore.class, Map.of(
                    "get", words -> Optional.ofNullable(values.get((String) words[0])),
                    "entrySet", words -> values.entrySet(),
                    "size", words -> values.size()));
        }

        /** An object with these methods, and no others. */
        private static <T> T answering(Class<T> type, Map<String, Function<Object[], Object>> methods) {
            return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
                    (self, method, words) -> methods.get(method.getName()).apply(words)));
        }

        private static NamespaceBundleStats stats(double[] drawn) {
            NamespaceBundleStats stats = new NamespaceBundleStats();
            stats.msgThroughputIn = drawn[0];
            stats.msgThroughputOut = drawn[1];
            stats.msgRateIn = drawn[2];
            stats.msgRateOut = drawn[3];
            return stats;
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
