import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.models.TopKBundles;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;

/** The report of the heaviest bundles that a broker of the extensible load manager makes. */
final class TopBundles {
    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("topk/TopKBundles", TopBundles::play);
    }

    private static ObjectNode play(ObjectNode given) throws Exception {
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        Pulsar pulsar = new Pulsar(conf);
        pulsar.isolation(given.path("isolationPolicies"));
        pulsar.groups(given.path("antiAffinityGroups"));
        TopKBundles top = new TopKBundles(pulsar.service);
        ObjectNode expect = Given.object();
        ArrayNode rounds = expect.putArray("rounds");
        for (JsonNode round : given.path("rounds")) {
            Map<String, NamespaceBundleStats> stats = new ConcurrentHashMap<>();
            round.path("bundleStats").fields().forEachRemaining(entry -> stats.put(entry.getKey(), Given.stats(entry.getValue())));
            int most = round.path("topk").asInt(conf.getLoadBalancerMaxNumberOfBundlesInBundleLoadReport());
            try {
                top.update(stats, most);
                List<TopBundlesLoadData.BundleLoadData> found = top.getLoadData().getTopBundlesLoadData();
                rounds.addObject().set("top", Given.array(found.stream().map(TopBundlesLoadData.BundleLoadData::bundleName).toList()));
            } catch (RuntimeException error) {
                rounds.add(Given.thrown(error));
            }
        }
        return expect;
    }

    private TopBundles() {
    }
}
