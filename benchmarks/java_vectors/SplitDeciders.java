import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadManager;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerWrapper;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateChannel;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateData;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitDecision;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.DefaultNamespaceBundleSplitStrategyImpl;
import org.apache.pulsar.broker.loadbalance.impl.BundleSplitterTask;
import org.apache.pulsar.common.policies.data.stats.TopicStatsImpl;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;

/** Which bundles the two load managers split. */
final class SplitDeciders {
    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("splits/BundleSplitterTask", SplitDeciders::modular);
        suites.put("splits/DefaultNamespaceBundleSplitStrategyImpl", SplitDeciders::extensible);
    }

    private static ObjectNode modular(ObjectNode given) throws Exception {
        Pulsar pulsar = new Pulsar(Given.conf(given.path("conf")));
        BundleSplitterTask task = new BundleSplitterTask();
        ObjectNode expect = Given.object();
        ArrayNode rounds = expect.putArray("rounds");
        for (JsonNode round : given.path("rounds")) {
            pulsar.bundleCount = namespace -> round.path("bundleCounts").path(namespace).asInt(1);
            LoadData data = Shedding.loadData(Map.of(), fields(round.path("bundleData")), round);
            fields(round.path("brokers")).forEach((name, broker) -> {
                LocalBrokerData local = new LocalBrokerData();
                local.setLastStats(stats(broker.path("lastStats"), new LinkedHashMap<>()));
                data.getBrokerData().put(name, new BrokerData(local));
            });
            ArrayNode splits = rounds.addObject().putArray("splits");
            task.findBundlesToSplit(data, pulsar.service).forEach((bundle, broker) -> splits.addArray().add(bundle).add(broker));
        }
        return expect;
    }

    private static Map<String, JsonNode> fields(JsonNode object) {
        Map<String, JsonNode> fields = new LinkedHashMap<>();
        object.fields().forEachRemaining(entry -> fields.put(entry.getKey(), entry.getValue()));
        return fields;
    }

    private static Map<String, NamespaceBundleStats> stats(JsonNode given, Map<String, NamespaceBundleStats> into) {
        fields(given).forEach((name, stats) -> into.put(name, Given.stats(stats)));
        return into;
    }

    private static ObjectNode extensible(ObjectNode given) throws Exception {
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        SplitCounter counter = new SplitCounter();
        DefaultNamespaceBundleSplitStrategyImpl strategy = new DefaultNamespaceBundleSplitStrategyImpl(counter);
        ObjectNode expect = Given.object();
        ArrayNode rounds = expect.putArray("rounds");
        for (JsonNode round : given.path("rounds")) {
            Pulsar pulsar = surroundings(conf, round);
            Map<String, Long> before = counted(counter);
            Set<SplitDecision> decisions = strategy.findBundlesToSplit(context(), pulsar.service);
            ObjectNode answer = rounds.addObject();
            answer.set("decisions", listed(decisions));
            answer.set("counted", Given.grown(before, counted(counter)));
            Map<String, Integer> hits = Inside.get(strategy, "splitConditionHitCounts");
            ObjectNode hitCounts = answer.putObject("hitCounts");
            new TreeMap<>(hits).forEach(hitCounts::put);
        }
        return expect;
    }

    private static Pulsar surroundings(ServiceConfiguration conf, JsonNode round) {
        Pulsar pulsar = new Pulsar(conf);
        pulsar.bundleCount = namespace -> round.path("bundleCounts").path(namespace).asInt(1);
        pulsar.bundleStats = stats(round.path("bundleStats"), new ConcurrentHashMap<>());
        List<String> topics = Given.names(round.path("topics"));
        pulsar.topics = bundle -> new ArrayList<>(topics.stream()
                .filter(topic -> bundle.getKeyRange().contains(pulsar.factory.getLongHashCode(topic))).toList());
        Map<String, TopicStatsImpl> stats = Splits.stats(round.path("topicStats"));
        pulsar.topicStats = bundle -> stats;
        ExtensibleLoadManagerImpl manager = Inside.bare(ExtensibleLoadManagerImpl.class);
        Inside.set(manager, "serviceUnitStateChannel", channel(round));
        Inside.set(pulsar.service, "loadManager", new AtomicReference<LoadManager>(new ExtensibleLoadManagerWrapper(manager)));
        return pulsar;
    }

    private static ServiceUnitStateChannel channel(JsonNode round) {
        Set<String> elsewhere = new HashSet<>(Given.names(round.path("notOwned")));
        Map<String, ServiceUnitStateData> owned = new LinkedHashMap<>();
        Given.names(round.path("splitting")).forEach(
                bundle -> owned.put(bundle, new ServiceUnitStateData(ServiceUnitState.Splitting, null, "self:1", 1)));
        return Inside.answering(ServiceUnitStateChannel.class, (self, method, words) -> switch (method.getName()) {
            case "getOwnershipEntrySet" -> owned.entrySet();
            case "isOwner" -> !elsewhere.contains((String) words[0]);
            default -> throw new UnsupportedOperationException(method.getName());
        });
    }

    private static LoadManagerContext context() {
        BrokerRegistry registry = Inside.answering(BrokerRegistry.class, (self, method, words) -> "self:1");
        return Inside.answering(LoadManagerContext.class, (self, method, words) -> registry);
    }

    private static Map<String, Long> counted(SplitCounter counter) {
        Map<SplitDecision.Label, Map<SplitDecision.Reason, AtomicLong>> counters = Inside.get(counter, "breakdownCounters");
        Map<String, Long> counted = new TreeMap<>();
        counters.forEach((label, reasons) -> reasons.forEach((reason, count) -> counted.put(label + "/" + reason, count.get())));
        return counted;
    }

    private static ArrayNode listed(Set<SplitDecision> decisions) {
        Map<String, SplitDecision> byBundle = new TreeMap<>();
        decisions.forEach(decision -> byBundle.put(decision.getSplit().serviceUnit(), decision));
        ArrayNode listed = Given.array();
        byBundle.forEach((bundle, decision) -> listed.addArray().add(bundle)
                .add(Given.array(new TreeSet<>(decision.getSplit().splitServiceUnitToDestBroker().keySet())))
                .add(decision.getLabel().toString()).add(decision.getReason().toString()));
        return listed;
    }

    private SplitDeciders() {
    }
}
