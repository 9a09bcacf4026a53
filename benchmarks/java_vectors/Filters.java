import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerMaxTopicCountFilter;
import org.apache.pulsar.broker.loadbalance.impl.BundleRangeCache;
import org.apache.pulsar.broker.loadbalance.impl.LoadManagerShared;
import org.apache.pulsar.broker.loadbalance.impl.SimpleResourceAllocationPolicies;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;

/** Which brokers may take a bundle. */
final class Filters {
    private interface Query {
        ObjectNode answer(JsonNode query) throws Exception;
    }

    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("filters/antiAffinity", given -> ask(given, Filters::antiAffinity));
        suites.put("filters/evenDistribution", given -> ask(given, Filters::evenDistribution));
        suites.put("filters/isolation", given -> ask(given, Filters::isolation));
        suites.put("filters/topicCount", given -> ask(given, Filters::topicCount));
    }

    private static ObjectNode ask(ObjectNode given, Query query) throws Exception {
        ObjectNode expect = Given.object();
        ArrayNode queries = expect.putArray("queries");
        for (JsonNode one : given.path("queries")) {
            queries.add(query.answer(one));
        }
        return expect;
    }

    private static ObjectNode survivors(Set<String> candidates) {
        ObjectNode answer = Given.object();
        answer.set("candidates", Given.sorted(candidates));
        return answer;
    }

    private static BundleRangeCache ranges(JsonNode query) {
        BundleRangeCache ranges = new BundleRangeCache();
        query.path("brokerBundles").fields().forEachRemaining(
                entry -> ranges.reloadFromBundles(entry.getKey(), Given.names(entry.getValue()).stream()));
        return ranges;
    }

    private static ObjectNode evenDistribution(JsonNode query) {
        Set<String> candidates = Given.set(query.path("candidates"));
        LoadManagerShared.removeMostServicingBrokersForNamespace(query.path("bundle").asText(), candidates, ranges(query));
        return survivors(candidates);
    }

    private static ObjectNode antiAffinity(JsonNode query) throws Exception {
        Pulsar pulsar = new Pulsar(Given.conf(query.path("conf")));
        pulsar.groups(query.path("groups"));
        Map<String, String> domains = new HashMap<>();
        query.path("domains").fields().forEachRemaining(entry -> domains.put(entry.getKey(), entry.getValue().asText()));
        String bundle = query.path("bundle").asText();
        String namespace = LoadManagerShared.getNamespaceNameFromBundleName(bundle);
        Set<String> candidates = Given.set(query.path("candidates"));
        Set<String> everybody = new HashSet<>(candidates);
        String current = query.path("current").asText(null);
        Boolean leaves = null;
        if (query.path("manager").asText().equals("modular")) {
            LoadManagerShared.filterAntiAffinityGroupOwnedBrokers(pulsar.service, bundle, candidates, ranges(query), domains);
            if (current != null) {
                leaves = LoadManagerShared.shouldAntiAffinityNamespaceUnload(
                        namespace, current, pulsar.service, ranges(query), everybody);
            }
        } else {
            Set<Map.Entry<String, ServiceUnitStateData>> owned = ownership(query).entrySet();
            LoadManagerShared.filterAntiAffinityGroupOwnedBrokersAsync(pulsar.service, bundle, candidates, owned, domains).get();
            if (current != null) {
                leaves = LoadManagerShared.shouldAntiAffinityNamespaceUnload(
                        namespace, bundle, current, pulsar.service, owned, everybody);
            }
        }
        return survivors(candidates).put("shouldUnload", leaves);
    }

    private static Map<String, ServiceUnitStateData> ownership(JsonNode query) {
        Map<String, ServiceUnitStateData> owned = new LinkedHashMap<>();
        for (JsonNode row : query.path("ownership")) {
            ServiceUnitState state = ServiceUnitState.valueOf(row.get(1).asText());
            String broker = row.get(2).isNull() ? null : row.get(2).asText();
            String source = broker == null || broker.isBlank() ? "elsewhere:1" : null;
            owned.put(row.get(0).asText(), new ServiceUnitStateData(state, broker, source, 1));
        }
        return owned;
    }

    private static ObjectNode isolation(JsonNode query) throws Exception {
        Pulsar pulsar = new Pulsar(new ServiceConfiguration());
        pulsar.isolation(query.path("policies"));
        SimpleResourceAllocationPolicies policies = new SimpleResourceAllocationPolicies(pulsar.service);
        NamespaceBundle bundle = Splits.bundle(pulsar, query.path("bundle").asText());
        bundle.setHasNonPersistentTopic(query.path("nonPersistent").asBoolean());
        Set<String> persistentDisabled = Given.set(query.path("persistentDisabled"));
        Set<String> nonPersistentDisabled = Given.set(query.path("nonPersistentDisabled"));
        Set<String> candidates = new HashSet<>();
        LoadManagerShared.applyNamespacePolicies(bundle, policies, candidates, Given.set(query.path("brokers")),
                new LoadManagerShared.BrokerTopicLoadingPredicate() {
                    @Override
                    public boolean isEnablePersistentTopics(String broker) {
                        return !persistentDisabled.contains(broker);
                    }

                    @Override
                    public boolean isEnableNonPersistentTopics(String broker) {
                        return !nonPersistentDisabled.contains(broker);
                    }
                });
        NamespaceName namespace = bundle.getNamespaceObject();
        ObjectNode answer = survivors(candidates).put("governed", policies.areIsolationPoliciesPresent(namespace));
        ObjectNode roles = answer.putObject("roles");
        for (String broker : Given.names(query.path("brokers"))) {
            String host = broker.substring(0, broker.lastIndexOf(':'));
            roles.put(broker, (policies.isPrimaryBroker(namespace, host) ? "P" : "")
                    + (policies.isSecondaryBroker(namespace, host) ? "S" : "") + (policies.isSharedBroker(host) ? "H" : ""));
        }
        return answer;
    }

    private static ObjectNode topicCount(JsonNode query) throws Exception {
        ServiceConfiguration conf = Given.conf(query.path("conf"));
        List<String> names = Given.names(query.path("candidates"));
        if (query.path("manager").asText().equals("modular")) {
            Set<String> candidates = Given.set(query.path("candidates"));
            LoadManagerShared.filterBrokersWithLargeTopicCount(candidates, topics(query), conf.getLoadBalancerBrokerMaxTopics());
            return survivors(candidates);
        }
        Stores stores = new Stores(conf);
        query.path("brokers").fields().forEachRemaining(entry -> {
            BrokerLoadData data = new BrokerLoadData();
            Inside.set(data, "topics", entry.getValue().path("numTopics").asLong());
            stores.brokers.put(entry.getKey(), data);
        });
        Map<String, BrokerLookupData> candidates = new HashMap<>();
        names.forEach(name -> candidates.put(name, null));
        new BrokerMaxTopicCountFilter().filterAsync(candidates, null, stores.context()).get();
        return survivors(candidates.keySet());
    }

    private static LoadData topics(JsonNode query) {
        LoadData data = new LoadData();
        query.path("brokers").fields().forEachRemaining(entry -> {
            LocalBrokerData local = new LocalBrokerData();
            local.setNumTopics(entry.getValue().path("numTopics").asInt());
            BrokerData broker = new BrokerData(local);
            entry.getValue().path("preallocated").fields().forEachRemaining(
                    bundle -> broker.getPreallocatedBundleData().put(bundle.getKey(), Given.bundle(bundle.getValue())));
            data.getBrokerData().put(entry.getKey(), broker);
        });
        return data;
    }

    private Filters() {
    }
}
