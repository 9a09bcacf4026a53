import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.models.Unload;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadDecision;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;

/** The shedder of the extensible load manager. */
final class Transfer {
    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("transfer/TransferShedder", Transfer::play);
    }

    private static ObjectNode play(ObjectNode given) throws Exception {
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        UnloadCounter counter = new UnloadCounter();
        TransferShedder shedder = new TransferShedder(counter);
        Given.Kept brokers = new Given.Kept();
        Given.Kept top = new Given.Kept();
        ObjectNode expect = Given.object();
        ArrayNode rounds = expect.putArray("rounds");
        for (JsonNode round : given.path("rounds")) {
            long now = System.currentTimeMillis();
            Stores stores = new Stores(conf);
            brokers.advance(round, "brokers").forEach((name, broker) -> stores.broker(name, broker, now));
            top.advance(round, "topBundles").forEach(stores::top);
            List<String> available = round.has("available") ? Given.names(round.path("available"))
                    : List.copyOf(stores.brokers.keySet());
            available.forEach(broker -> stores.available.put(broker, null));
            rounds.add(answer(shedder, counter, stores, ages(round, "recentlyUnloadedBundles", now),
                    ages(round, "recentlyUnloadedBrokers", now)));
        }
        return expect;
    }

    private static Map<String, Long> ages(JsonNode round, String field, long now) {
        Map<String, Long> ages = new ConcurrentHashMap<>();
        round.path(field).fields().forEachRemaining(entry -> ages.put(entry.getKey(), now - entry.getValue().asLong()));
        return ages;
    }

    private static ObjectNode answer(TransferShedder shedder, UnloadCounter counter, Stores stores,
                                     Map<String, Long> unloadedBundles, Map<String, Long> unloadedBrokers) {
        Map<String, Long> before = counted(counter);
        Set<UnloadDecision> decisions = shedder.findBundlesForUnloading(stores.context(), unloadedBundles, unloadedBrokers);
        ObjectNode answer = Given.object();
        answer.set("decisions", listed(decisions));
        answer.set("counted", Given.grown(before, counted(counter)));
        Object stats = Inside.get(shedder, "stats");
        answer.put("hitCount", Inside.<Integer>get(shedder, "unloadConditionHitCount"));
        Given.put(answer, "avg", Inside.<Double>get(stats, "avg"));
        Given.put(answer, "std", Inside.<Double>get(stats, "std"));
        Given.put(answer, "loadAvg", counter.getLoadAvg());
        Given.put(answer, "loadStd", counter.getLoadStd());
        answer.set("recentlyUnloadedBrokers", Given.sorted(unloadedBrokers.keySet()));
        return answer;
    }

    private static Map<String, Long> counted(UnloadCounter counter) {
        Map<String, Long> counted = new TreeMap<>();
        counter.getBreakdownCounters().forEach((label, reasons) ->
                reasons.forEach((reason, count) -> counted.put(label + "/" + reason, count.get())));
        return counted;
    }

    private static ArrayNode listed(Set<UnloadDecision> decisions) {
        List<String[]> rows = new ArrayList<>();
        for (UnloadDecision decision : decisions) {
            Unload unload = decision.getUnload();
            rows.add(new String[] {unload.sourceBroker(), unload.serviceUnit(), unload.destBroker().orElse(null),
                    decision.getLabel().toString(), decision.getReason().toString()});
        }
        Comparator<String[]> order = Comparator.comparing(row -> row[0]);
        for (int column = 1; column < 5; column++) {
            int at = column;
            order = order.thenComparing(row -> row[at] == null ? "" : row[at]);
        }
        rows.sort(order);
        ArrayNode listed = Given.array();
        rows.forEach(row -> {
            ArrayNode cells = listed.addArray();
            for (String cell : row) {
                cells.add(cell);
            }
        });
        return listed;
    }

    private Transfer() {
    }
}
