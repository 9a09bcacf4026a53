import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.collect.Multimap;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.commons.lang3.mutable.MutableInt;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;
import org.apache.pulsar.broker.loadbalance.impl.OverloadShedder;
import org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder;
import org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;

/** The shedders of the modular load manager. */
final class Shedding {
    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("shedding/OverloadShedder", given -> play(given, new OverloadShedder()));
        suites.put("shedding/ThresholdShedder", given -> play(given, new ThresholdShedder()));
        suites.put("shedding/UniformLoadShedder", given -> play(given, new UniformLoadShedder()));
        suites.put("shedding/AvgShedder", given -> play(given, new AvgShedder()));
    }

    private static ObjectNode play(ObjectNode given, LoadSheddingStrategy shedder) throws Exception {
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        Given.Kept brokers = new Given.Kept();
        Given.Kept bundles = new Given.Kept();
        Targets targets = shedder instanceof AvgShedder ? new Targets(shedder) : null;
        ObjectNode expect = Given.object();
        ArrayNode rounds = expect.putArray("rounds");
        for (JsonNode round : given.path("rounds")) {
            if (round.has("activeBrokers")) {
                shedder.onActiveBrokersChange(Given.set(round.path("activeBrokers")));
            }
            LoadData data = loadData(brokers.advance(round, "brokers"), bundles.advance(round, "bundleData"), round);
            try {
                rounds.add(answer(shedder, data, conf, targets));
            } catch (RuntimeException error) {
                rounds.add(Given.thrown(error));
            }
        }
        return expect;
    }

    static LoadData loadData(Map<String, JsonNode> brokers, Map<String, JsonNode> bundles, JsonNode round) {
        LoadData data = new LoadData();
        brokers.forEach((name, broker) -> data.getBrokerData().put(name, new BrokerData(Given.broker(broker))));
        bundles.forEach((name, bundle) -> data.getBundleData().put(name, Given.bundle(bundle)));
        round.path("recentlyUnloaded").fields().forEachRemaining(
                entry -> data.getRecentlyUnloadedBundles().put(entry.getKey(), entry.getValue().asLong()));
        return data;
    }

    private static ObjectNode answer(LoadSheddingStrategy shedder, LoadData data, ServiceConfiguration conf, Targets targets) {
        Multimap<String, String> unloads = shedder.findBundlesForUnloading(data, conf);
        ObjectNode answer = Given.object();
        answer.set("unloads", pairs(unloads));
        if (shedder instanceof ThresholdShedder) {
            answer.set("ema", Given.doubles(Inside.get(shedder, "brokerAvgResourceUsage")));
        }
        if (shedder instanceof AvgShedder avg) {
            answer.set("hitHigh", counts(Inside.get(shedder, "brokerHitCountForHigh")));
            answer.set("hitLow", counts(Inside.get(shedder, "brokerHitCountForLow")));
            if (!unloads.isEmpty()) {
                answer.set("targets", targets.of(unloads, data));
                answer.set("destinations", destinations(avg, unloads, data, conf));
            }
            answer.set("plan", targets.plan(data));
        }
        return answer;
    }

    static ArrayNode pairs(Multimap<String, String> unloads) {
        ArrayNode pairs = Given.array();
        unloads.asMap().forEach((broker, bundles) -> pairs.addArray().add(broker).add(Given.array(bundles)));
        return pairs;
    }

    private static ObjectNode counts(Map<String, MutableInt> hits) {
        ObjectNode counts = Given.object();
        hits.forEach((broker, hit) -> counts.put(broker, hit.intValue()));
        return counts;
    }

    private static ObjectNode destinations(AvgShedder avg, Multimap<String, String> unloads, LoadData data,
                                           ServiceConfiguration conf) {
        ObjectNode destinations = Given.object();
        Set<String> everybody = data.getBrokerData().keySet();
        unloads.values().forEach(bundle -> destinations.put(bundle,
                avg.selectBroker(everybody, data.getBundleData().get(bundle), data, conf).orElseThrow()));
        return destinations;
    }

    /** AvgShedder's plan, and beside it where each object was sent before an equal one overwrote its entry. */
    static final class Targets {
        private final Map<BundleData, String> decided = new IdentityHashMap<>();
        final Map<BundleData, String> plan = new HashMap<>() {
            @Override
            public String put(BundleData bundle, String broker) {
                decided.put(bundle, broker);
                return super.put(bundle, broker);
            }
        };

        Targets(Object shedder) {
            Inside.set(shedder, "bundleBrokerMap", plan);
        }

        ObjectNode of(Multimap<String, String> unloads, LoadData data) {
            ObjectNode targets = Given.object();
            unloads.values().forEach(bundle -> {
                BundleData key = data.getBundleData().get(bundle);
                boolean twice = targets.has(bundle);  // two brokers report it: where it is sent counts
                targets.put(bundle, twice ? plan.get(key) : decided.get(key));
            });
            decided.clear();
            return targets;
        }

        ObjectNode plan(LoadData data) {
            ObjectNode planned = Given.object();
            data.getBundleData().forEach((name, bundle) -> {
                if (plan.containsKey(bundle)) {
                    planned.put(name, plan.get(bundle));
                }
            });
            return planned;
        }

        /** The broker an equal object is planned for, or null. */
        String planned(BundleData bundle) {
            return plan.get(bundle);
        }
    }

    private Shedding() {
    }
}
