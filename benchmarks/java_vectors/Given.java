import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.ResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageMessageData;

/** The pieces of a case, read into Pulsar's classes, and answers written as JSON. */
final class Given {
    private static final int SHORT_SAMPLES = 10;
    private static final int LONG_SAMPLES = 1000;

    /** Keyed inputs between the rounds of a case: null removes, a known key keeps its place, a new one goes to the end. */
    static final class Kept {
        private final Map<String, JsonNode> values = new LinkedHashMap<>();

        Map<String, JsonNode> advance(JsonNode round, String field) {
            if (!round.path("patch").asBoolean()) {
                values.clear();
            }
            round.path(field).fields().forEachRemaining(entry -> {
                if (entry.getValue().isNull()) {
                    values.remove(entry.getKey());
                } else {
                    values.put(entry.getKey(), entry.getValue());
                }
            });
            return values;
        }
    }

    /** A number; absent means 0, NaN and the infinities are written as text. */
    static double number(JsonNode node) {
        return node.isTextual() ? Double.parseDouble(node.asText()) : node.asDouble();
    }

    static double number(JsonNode parent, String field) {
        return number(parent.path(field));
    }

    /** The names whose count has grown, each as often as it has. */
    static ArrayNode grown(Map<String, Long> before, Map<String, Long> after) {
        ArrayNode grown = array();
        after.forEach((name, count) -> {
            for (long more = before.get(name); more < count; more++) {
                grown.add(name);
            }
        });
        return grown;
    }

    static List<String> names(JsonNode array) {
        List<String> names = new ArrayList<>();
        array.forEach(name -> names.add(name.asText()));
        return names;
    }

    /** A fresh HashSet, filled one by one in the order of the list. */
    static Set<String> set(JsonNode array) {
        Set<String> set = new HashSet<>();
        array.forEach(name -> set.add(name.asText()));
        return set;
    }

    /** broker.conf, read by Pulsar's own loader. */
    static ServiceConfiguration conf(JsonNode conf) throws Exception {
        Properties properties = new Properties();
        conf.fields().forEachRemaining(entry -> properties.setProperty(entry.getKey(), text(entry.getValue())));
        return PulsarConfigurationLoader.create(properties, ServiceConfiguration.class);
    }

    private static String text(JsonNode value) {
        if (value.isLong()) {
            return Integer.toString(value.intValue());  // no key takes more than 32 bits; the loader would refuse it
        }
        return value.isArray() ? String.join(",", names(value)) : value.asText();
    }

    static ResourceUsage usage(JsonNode resource) {
        return new ResourceUsage(number(resource, "usage"), number(resource, "limit"));
    }

    static LocalBrokerData broker(JsonNode given) {
        LocalBrokerData data = new LocalBrokerData();
        data.setCpu(usage(given.path("cpu")));
        data.setMemory(usage(given.path("memory")));
        data.setDirectMemory(usage(given.path("directMemory")));
        data.setBandwidthIn(usage(given.path("bandwidthIn")));
        data.setBandwidthOut(usage(given.path("bandwidthOut")));
        data.setMsgThroughputIn(number(given, "msgThroughputIn"));
        data.setMsgThroughputOut(number(given, "msgThroughputOut"));
        data.setMsgRateIn(number(given, "msgRateIn"));
        data.setMsgRateOut(number(given, "msgRateOut"));
        data.setBundles(set(given.path("bundles")));
        return data;
    }

    static BundleData bundle(JsonNode given) {
        BundleData data = new BundleData(SHORT_SAMPLES, LONG_SAMPLES);
        JsonNode shortTerm = given.path("shortTerm");
        average(data.getShortTermData(), shortTerm, shortTerm, SHORT_SAMPLES);
        JsonNode longTerm = given.path("longTerm");
        average(data.getLongTermData(), longTerm.isObject() ? longTerm : shortTerm, longTerm, LONG_SAMPLES);
        data.setTopics(given.path("topics").asInt());
        return data;
    }

    private static void average(TimeAverageMessageData data, JsonNode figures, JsonNode counts, int samples) {
        data.setMsgThroughputIn(number(figures, "msgThroughputIn"));
        data.setMsgThroughputOut(number(figures, "msgThroughputOut"));
        data.setMsgRateIn(number(figures, "msgRateIn"));
        data.setMsgRateOut(number(figures, "msgRateOut"));
        data.setMaxSamples(counts.path("maxSamples").asInt(samples));
        data.setNumSamples(counts.path("numSamples").asInt(data.getMaxSamples()));
    }

    static NamespaceBundleStats stats(JsonNode given) {
        NamespaceBundleStats stats = new NamespaceBundleStats();
        stats.msgThroughputIn = number(given, "msgThroughputIn");
        stats.msgThroughputOut = number(given, "msgThroughputOut");
        stats.msgRateIn = number(given, "msgRateIn");
        stats.msgRateOut = number(given, "msgRateOut");
        stats.consumerCount = given.path("consumerCount").asInt();
        stats.producerCount = given.path("producerCount").asInt();
        stats.topics = given.path("topics").asLong();
        stats.cacheSize = given.path("cacheSize").asLong();
        return stats;
    }

    static ObjectNode object() {
        return Oracle.JSON.createObjectNode();
    }

    static ArrayNode array() {
        return Oracle.JSON.createArrayNode();
    }

    static ArrayNode array(Collection<String> texts) {
        ArrayNode array = array();
        texts.forEach(array::add);
        return array;
    }

    static ArrayNode sorted(Collection<String> texts) {
        return array(new TreeSet<>(texts));
    }

    static ObjectNode thrown(Throwable error) {
        return object().put("error", error.getClass().getName());
    }

    /** Doubles by key; what JSON has no number for becomes text. */
    static ObjectNode doubles(Map<String, Double> values) {
        ObjectNode object = object();
        values.forEach((key, value) -> put(object, key, value));
        return object;
    }

    static void put(ObjectNode object, String key, double value) {
        if (Double.isFinite(value)) {
            object.put(key, value);
        } else {
            object.put(key, Double.toString(value));
        }
    }

    private Given() {
    }
}
