import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.collect.Multimap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.BrokerSelectionStrategy;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;
import org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate;
import org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight;
import org.apache.pulsar.broker.loadbalance.impl.RoundRobinBrokerSelector;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageBrokerData;

/** Which broker a bundle gets: the placement strategies of both load managers. */
final class Placement {
    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("placement/LeastLongTermMessageRate", given -> play(given, new LeastLongTermMessageRate()));
        suites.put("placement/LeastResourceUsageWithWeight", given -> play(given, new LeastResourceUsageWithWeight()));
        suites.put("placement/RoundRobinBrokerSelector", given -> play(given, new RoundRobinBrokerSelector()));
        suites.put("placement/AvgShedder", Placement::planned);
        suites.put("placement/ExtLeastResourceUsageWithWeight", Placement::extensible);
    }

    private static ObjectNode play(ObjectNode given, ModularLoadManagerStrategy placer) throws Exception {
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        Given.Kept brokers = new Given.Kept();
        ObjectNode expect = Given.object();
        ArrayNode rounds = expect.putArray("rounds");
        for (JsonNode round : given.path("rounds")) {
            LoadData data = loadData(brokers.advance(round, "brokers"));
            if (round.has("activeBrokers")) {
                placer.onActiveBrokersChange(Given.set(round.path("activeBrokers")));
            }
            try {
                Set<String> candidates = Given.set(round.path("candidates"));
                Optional<String> chosen = placer.selectBroker(candidates, new BundleData(10, 1000), data, conf);
                boolean deterministic = placer instanceof RoundRobinBrokerSelector;
                ObjectNode answer = rounds.addObject();
                answer.set("best", best(chosen, deterministic ? null : () -> Inside.get(placer, "bestBrokers")));
                if (placer instanceof LeastResourceUsageWithWeight) {
                    answer.set("ema", Given.doubles(Inside.get(placer, "brokerAvgResourceUsageWithWeight")));
                }
            } catch (RuntimeException error) {
                rounds.add(Given.thrown(error));
            }
        }
        return expect;
    }

    private static ArrayNode best(Optional<String> chosen, Supplier<List<String>> drawnFrom) {
        if (chosen.isEmpty()) {
            return Given.array();
        }
        return Given.sorted(drawnFrom == null ? List.of(chosen.get()) : drawnFrom.get());
    }

    private static LoadData loadData(Map<String, JsonNode> brokers) {
        LoadData data = new LoadData();
        brokers.forEach((name, broker) -> {
            BrokerData known = new BrokerData(Given.broker(broker));
            TimeAverageBrokerData average = new TimeAverageBrokerData();
            average.setLongTermMsgRateIn(Given.number(broker.path("timeAverage"), "longTermMsgRateIn"));
            average.setLongTermMsgRateOut(Given.number(broker.path("timeAverage"), "longTermMsgRateOut"));
            known.setTimeAverageData(average);
            broker.path("preallocated").fields().forEachRemaining(
                    entry -> known.getPreallocatedBundleData().put(entry.getKey(), Given.bundle(entry.getValue())));
            data.getBrokerData().put(name, known);
        });
        return data;
    }

    private static ObjectNode extensible(ObjectNode given) throws Exception {
        BrokerSelectionStrategy placer =
                new org.apache.pulsar.broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight();
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        Given.Kept brokers = new Given.Kept();
        ObjectNode expect = Given.object();
        ArrayNode rounds = expect.putArray("rounds");
        for (JsonNode round : given.path("rounds")) {
            Stores stores = new Stores(conf);
            brokers.advance(round, "brokers").forEach((name, broker) -> stores.broker(name, broker, 0));
            ThreadLocal<List<String>> drawnFrom = Inside.get(placer, "bestBrokers");
            Optional<String> chosen = placer.select(Given.set(round.path("candidates")), null, stores.context());
            rounds.addObject().set("best", best(chosen, drawnFrom::get));
        }
        return expect;
    }

    private static ObjectNode planned(ObjectNode given) throws Exception {
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        AvgShedder shedder = new AvgShedder();
        Shedding.Targets targets = new Shedding.Targets(shedder);
        Given.Kept brokers = new Given.Kept();
        Given.Kept bundles = new Given.Kept();
        ObjectNode expect = Given.object();
        ArrayNode rounds = expect.putArray("rounds");
        for (JsonNode round : given.path("rounds")) {
            LoadData data = Shedding.loadData(brokers.advance(round, "brokers"), bundles.advance(round, "bundleData"), round);
            ObjectNode answer = rounds.addObject();
            if (round.path("shed").asBoolean(true)) {
                Multimap<String, String> unloads = shedder.findBundlesForUnloading(data, conf);
                answer.set("unloads", Shedding.pairs(unloads));
                answer.set("targets", targets.of(unloads, data));
            }
            ArrayNode placed = answer.putArray("placed");
            for (JsonNode lookUp : round.path("place")) {
                placed.add(lookUp(lookUp, shedder, targets, data, conf));
            }
        }
        return expect;
    }

    private static ObjectNode lookUp(JsonNode lookUp, AvgShedder shedder, Shedding.Targets targets, LoadData data,
                                     ServiceConfiguration conf) {
        BundleData bundle = lookUp.has("data") ? Given.bundle(lookUp.path("data"))
                : data.getBundleData().get(lookUp.path("bundle").asText());
        if (lookUp.has("sample")) {
            bundle.update(Given.stats(lookUp.path("sample")));
        }
        Set<String> candidates = Given.set(lookUp.path("candidates"));
        String before = targets.planned(bundle);
        String chosen = shedder.selectBroker(candidates, bundle, data, conf).orElseThrow();
        boolean random = before == null || !candidates.contains(before);
        if (random && lookUp.has("drawn")) {  // what Java drew when this case was recorded
            chosen = lookUp.path("drawn").asText();
            targets.plan.put(bundle, chosen);
        }
        return Given.object().put("random", random).put("chosen", chosen);
    }

    private Placement() {
    }
}
