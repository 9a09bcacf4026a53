import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.commons.lang3.tuple.Pair;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceBundleSplitAlgorithm;
import org.apache.pulsar.common.naming.NamespaceBundles;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.PoliciesUtil;
import org.apache.pulsar.common.policies.data.stats.TopicStatsImpl;

/** Where bundles are cut, and in which bundle a topic is. */
final class Splits {
    static final String ALGORITHM = "defaultNamespaceBundleSplitAlgorithm";

    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("splits/algorithms", Splits::algorithms);
        suites.put("splits/hashing", Splits::hashing);
    }

    private static ObjectNode algorithms(ObjectNode given) throws Exception {
        ObjectNode expect = Given.object();
        ArrayNode queries = expect.putArray("queries");
        for (JsonNode query : given.path("queries")) {
            queries.add(answer(query));
        }
        return expect;
    }

    private static ObjectNode answer(JsonNode query) throws Exception {
        ObjectNode keys = query.has("conf") ? query.get("conf").deepCopy() : Given.object();
        keys.put(ALGORITHM, query.path(query.has("defaultAlgorithm") ? "defaultAlgorithm" : "algorithm").asText());
        Pulsar pulsar = new Pulsar(Given.conf(keys));
        pulsar.boundaries = namespace -> Given.names(query.path("boundaries"));
        pulsar.topics = bundle -> query.has("topics") ? Given.names(query.path("topics")) : null;
        Map<String, TopicStatsImpl> stats = stats(query.path("topicStats"));
        pulsar.topicStats = bundle -> stats;
        NamespaceBundle bundle = bundle(pulsar, query.path("bundle").asText());
        ObjectNode answer = Given.object().put("canSplit", pulsar.factory.canSplitBundle(bundle));
        List<Long> found;
        try {
            found = pulsar.namespaces.getSplitBoundary(bundle, positions(query), algorithm(query)).get();
        } catch (Exception error) {
            return answer.put("error", cause(error).getClass().getName());
        }
        ArrayNode boundaries = found == null ? null : answer.putArray("boundaries");
        if (boundaries == null) {
            return answer.putNull("boundaries");
        }
        found.forEach(boundaries::add);
        return found.isEmpty() ? answer : applied(answer, pulsar, bundle, found);
    }

    private static List<Long> positions(JsonNode query) {
        List<Long> positions = new ArrayList<>();
        query.path("positions").forEach(position -> positions.add(position.asLong()));
        return positions;
    }

    private static NamespaceBundleSplitAlgorithm algorithm(JsonNode query) {
        return query.path("force").asBoolean() ? NamespaceBundleSplitAlgorithm.SPECIFIED_POSITIONS_DIVIDE_FORCE_ALGO
                : NamespaceBundleSplitAlgorithm.of(query.path("algorithm").asText());
    }

    private static ObjectNode applied(ObjectNode answer, Pulsar pulsar, NamespaceBundle bundle, List<Long> found) {
        try {
            Pair<NamespaceBundles, List<NamespaceBundle>> after =
                    pulsar.factory.splitBundles(bundle, found.size() + 1, new ArrayList<>(found)).get();
            if (after == null) {
                return answer.putNull("newBoundaries");
            }
            ArrayNode boundaries = answer.putArray("newBoundaries");
            for (long boundary : Inside.<long[]>get(after.getLeft(), "partitions")) {
                boundaries.add(String.format("0x%08x", boundary));
            }
            answer.set("children", Given.array(after.getRight().stream().map(NamespaceBundle::toString).toList()));
            return answer;
        } catch (Exception error) {
            return answer.put("splitError", cause(error).getClass().getName());
        }
    }

    private static Throwable cause(Exception error) {
        return error instanceof ExecutionException ? error.getCause() : error;
    }

    static NamespaceBundle bundle(Pulsar pulsar, String name) {
        int slash = name.lastIndexOf('/');
        return pulsar.factory.getBundle(name.substring(0, slash), name.substring(slash + 1));
    }

    static Map<String, TopicStatsImpl> stats(JsonNode given) {
        Map<String, TopicStatsImpl> stats = new HashMap<>();
        given.fields().forEachRemaining(entry -> {
            TopicStatsImpl topic = new TopicStatsImpl();
            topic.msgRateIn = Given.number(entry.getValue(), "msgRateIn");
            topic.msgRateOut = Given.number(entry.getValue(), "msgRateOut");
            topic.msgThroughputIn = Given.number(entry.getValue(), "msgThroughputIn");
            topic.msgThroughputOut = Given.number(entry.getValue(), "msgThroughputOut");
            stats.put(entry.getKey(), topic);
        });
        return stats;
    }

    private static ObjectNode hashing(ObjectNode given) throws Exception {
        ObjectNode expect = Given.object();
        ArrayNode initial = expect.putArray("initial");
        given.path("numBundles").forEach(count -> initial.add(Given.array(PoliciesUtil.getBundles(count.asInt()).getBoundaries())));
        ArrayNode topics = expect.putArray("topics");
        Pulsar pulsar = new Pulsar(new ServiceConfiguration());
        for (JsonNode query : given.path("topics")) {
            pulsar.boundaries = namespace -> Given.names(query.path("boundaries"));
            TopicName topic = TopicName.get(query.path("topic").asText());
            NamespaceName namespace = topic.getNamespaceObject();
            pulsar.factory.invalidateBundleCache(namespace);
            ObjectNode answer = topics.addObject().put("hash", pulsar.factory.getLongHashCode(topic.toString()));
            try {
                answer.put("bundle", pulsar.factory.getBundles(namespace).findBundle(topic).toString());
            } catch (RuntimeException error) {
                answer.putNull("bundle");
            }
        }
        return expect;
    }

    private Splits() {
    }
}
