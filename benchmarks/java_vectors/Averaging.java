import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.SystemResourceUsage;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageMessageData;

/** The data classes: averages of bundles, sums of brokers, percentages, the smoothed load, orders. */
final class Averaging {
    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("averaging/BundleData", Averaging::bundles);
        suites.put("averaging/TimeAverageBrokerData", Averaging::sums);
        suites.put("averaging/ResourceUsage", Averaging::usages);
        suites.put("averaging/BrokerLoadData", Averaging::smoothed);
        suites.put("averaging/Compare", Averaging::signs);
    }

    private static ObjectNode bundles(ObjectNode given) {
        int shortSamples = given.path("shortSamples").asInt(10);
        int longSamples = given.path("longSamples").asInt(1000);
        BundleData data = given.has("default")
                ? new BundleData(shortSamples, longSamples, Given.stats(given.path("default")))
                : new BundleData(shortSamples, longSamples);
        ObjectNode expect = Given.object();
        ArrayNode states = expect.putArray("states");
        for (JsonNode sample : given.path("samples")) {
            data.update(Given.stats(sample));
            ObjectNode state = states.addObject();
            state.set("shortTerm", average(data.getShortTermData()));
            state.set("longTerm", average(data.getLongTermData()));
            state.put("topics", data.getTopics());
        }
        Given.put(expect, "totalMsgRate", data.getLongTermData().totalMsgRate());
        Given.put(expect, "totalMsgThroughput", data.getLongTermData().totalMsgThroughput());
        return expect;
    }

    private static ObjectNode average(TimeAverageMessageData data) {
        ObjectNode average = Given.object().put("numSamples", data.getNumSamples());
        Given.put(average, "msgThroughputIn", data.getMsgThroughputIn());
        Given.put(average, "msgThroughputOut", data.getMsgThroughputOut());
        Given.put(average, "msgRateIn", data.getMsgRateIn());
        Given.put(average, "msgRateOut", data.getMsgRateOut());
        return average;
    }

    private static ObjectNode sums(ObjectNode given) {
        Map<String, BundleData> data = new ConcurrentHashMap<>();
        given.path("bundleData").fields().forEachRemaining(entry -> data.put(entry.getKey(), Given.bundle(entry.getValue())));
        Set<String> bundles = new LinkedHashSet<>(Given.names(given.path("bundles")));
        TimeAverageBrokerData sums = new TimeAverageBrokerData(bundles, data, Given.stats(given.path("default")));
        ObjectNode expect = Given.object();
        Given.put(expect, "shortTermMsgThroughputIn", sums.getShortTermMsgThroughputIn());
        Given.put(expect, "shortTermMsgThroughputOut", sums.getShortTermMsgThroughputOut());
        Given.put(expect, "shortTermMsgRateIn", sums.getShortTermMsgRateIn());
        Given.put(expect, "shortTermMsgRateOut", sums.getShortTermMsgRateOut());
        Given.put(expect, "longTermMsgThroughputIn", sums.getLongTermMsgThroughputIn());
        Given.put(expect, "longTermMsgThroughputOut", sums.getLongTermMsgThroughputOut());
        Given.put(expect, "longTermMsgRateIn", sums.getLongTermMsgRateIn());
        Given.put(expect, "longTermMsgRateOut", sums.getLongTermMsgRateOut());
        return expect;
    }

    private static ObjectNode usages(ObjectNode given) throws Exception {
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        ObjectNode expect = Given.object();
        ArrayNode brokers = expect.putArray("brokers");
        for (JsonNode broker : given.path("brokers")) {
            LocalBrokerData data = Given.broker(broker);
            ObjectNode answer = brokers.addObject();
            Given.put(answer, "cpu", data.getCpu().percentUsage());
            Given.put(answer, "memory", data.getMemory().percentUsage());
            Given.put(answer, "directMemory", data.getDirectMemory().percentUsage());
            Given.put(answer, "bandwidthIn", data.getBandwidthIn().percentUsage());
            Given.put(answer, "bandwidthOut", data.getBandwidthOut().percentUsage());
            Given.put(answer, "maxResourceUsage", data.getMaxResourceUsage());
            Given.put(answer, "maxResourceUsageWithWeight", data.getMaxResourceUsageWithWeight(
                    conf.getLoadBalancerCPUResourceWeight(), conf.getLoadBalancerDirectMemoryResourceWeight(),
                    conf.getLoadBalancerBandwidthInResourceWeight(), conf.getLoadBalancerBandwidthOutResourceWeight()));
        }
        return expect;
    }

    private static ObjectNode smoothed(ObjectNode given) throws Exception {
        ServiceConfiguration conf = Given.conf(given.path("conf"));
        BrokerLoadData data = new BrokerLoadData();
        ObjectNode expect = Given.object();
        ArrayNode states = expect.putArray("states");
        for (JsonNode sample : given.path("samples")) {
            if (sample.path("clear").asBoolean()) {
                data.clear();
            } else {
                update(data, sample, conf);
            }
            ObjectNode state = states.addObject();
            Given.put(state, "maxResourceUsage", data.getMaxResourceUsage());
            Given.put(state, "weightedMaxEMA", data.getWeightedMaxEMA());
            Given.put(state, "msgThroughputEMA", data.getMsgThroughputEMA());
        }
        return expect;
    }

    private static void update(BrokerLoadData data, JsonNode sample, ServiceConfiguration conf) {
        SystemResourceUsage usage = new SystemResourceUsage();
        usage.setCpu(Given.usage(sample.path("cpu")));
        usage.setMemory(Given.usage(sample.path("memory")));
        usage.setDirectMemory(Given.usage(sample.path("directMemory")));
        usage.setBandwidthIn(Given.usage(sample.path("bandwidthIn")));
        usage.setBandwidthOut(Given.usage(sample.path("bandwidthOut")));
        data.update(usage, Given.number(sample, "msgThroughputIn"), Given.number(sample, "msgThroughputOut"),
                Given.number(sample, "msgRateIn"), Given.number(sample, "msgRateOut"),
                sample.path("bundleCount").asLong(), sample.path("topics").asLong(), conf);
    }

    private static ObjectNode signs(ObjectNode given) {
        ObjectNode expect = Given.object();
        ArrayNode signs = expect.putArray("signs");
        for (JsonNode pair : given.path("pairs")) {
            NamespaceBundleStats left = Given.stats(pair.get(0));
            NamespaceBundleStats right = Given.stats(pair.get(1));
            signs.addArray().add(Integer.signum(left.compareTo(right)))
                    .add(Integer.signum(new BundleData(10, 1000, left).compareTo(new BundleData(10, 1000, right))));
        }
        return expect;
    }

    private Averaging() {
    }
}
