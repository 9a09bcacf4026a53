import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.google.common.hash.Hashing;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.resources.LocalPoliciesResources;
import org.apache.pulsar.broker.resources.NamespaceResources;
import org.apache.pulsar.broker.resources.PulsarResources;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.policies.data.BundlesData;
import org.apache.pulsar.common.policies.data.LocalPolicies;
import org.apache.pulsar.common.policies.data.NamespaceIsolationDataImpl;
import org.apache.pulsar.common.policies.data.stats.TopicStatsImpl;
import org.apache.pulsar.common.policies.impl.NamespaceIsolationPolicies;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.metadata.api.CacheGetResult;
import org.apache.pulsar.metadata.api.Stat;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;

/** A PulsarService that was never started: it has what the load managers ask it for, and nothing else. */
final class Pulsar {
    /** Namespace → its boundaries; others have one bundle. */
    Function<String, List<String>> boundaries = namespace -> List.of("0x00000000", "0xffffffff");
    /** Namespace → how many bundles it has; null asks the boundaries. */
    Function<String, Integer> bundleCount;
    /** Bundle → the topics that the namespace service reports for it. */
    Function<NamespaceBundle, List<String>> topics = bundle -> null;
    Function<NamespaceBundle, Map<String, TopicStatsImpl>> topicStats = bundle -> Map.of();
    Map<String, NamespaceBundleStats> bundleStats = Map.of();
    Map<String, String> antiAffinityGroups = Map.of();
    Optional<NamespaceIsolationPolicies> isolation = Optional.empty();

    final PulsarService service = Inside.bare(PulsarService.class);
    final Namespaces namespaces = Inside.bare(Namespaces.class);
    final NamespaceBundleFactory factory;

    Pulsar(ServiceConfiguration conf) {
        Inside.set(service, "config", conf);
        Inside.set(service, "pulsarResources", resources());
        Inside.set(service, "localMetadataStore",
                Inside.answering(MetadataStoreExtended.class, (self, method, words) -> null));
        factory = new NamespaceBundleFactory(service, Hashing.crc32());
        namespaces.given = this;
        Inside.set(namespaces, "config", conf);
        Inside.set(namespaces, "pulsar", service);
        Inside.set(namespaces, "bundleFactory", factory);
        Inside.set(service, "nsService", namespaces);
        Brokers brokers = Inside.bare(Brokers.class);
        brokers.given = this;
        Inside.set(service, "brokerService", brokers);
    }

    private PulsarResources resources() {
        PulsarResources resources = Inside.bare(PulsarResources.class);
        LocalResources local = Inside.bare(LocalResources.class);
        local.given = this;
        Inside.set(resources, "localPolicies", local);
        IsolationResources isolationResources = Inside.bare(IsolationResources.class);
        isolationResources.given = this;
        NamespaceResources namespaceResources = Inside.bare(NamespaceResources.class);
        Inside.set(namespaceResources, "isolationPolicies", isolationResources);
        Inside.set(resources, "namespaceResources", namespaceResources);
        return resources;
    }

    /** Isolation policies as the admin API writes them; absent or null: none were ever stored. */
    void isolation(JsonNode policies) {
        isolation = policies.isObject()
                ? Optional.of(new NamespaceIsolationPolicies(ObjectMapperFactory.getMapper().getObjectMapper().convertValue(policies,
                        new TypeReference<Map<String, NamespaceIsolationDataImpl>>() { })))
                : Optional.empty();
    }

    /** Namespace → anti-affinity group. */
    void groups(JsonNode groups) {
        antiAffinityGroups = new HashMap<>();
        groups.fields().forEachRemaining(entry -> antiAffinityGroups.put(entry.getKey(), entry.getValue().asText()));
    }

    private LocalPolicies localPolicies(NamespaceName namespace) {
        List<String> found = boundaries.apply(namespace.toString());
        BundlesData bundles = BundlesData.builder().boundaries(found).numBundles(found.size() - 1).build();
        return new LocalPolicies(bundles, null, antiAffinityGroups.get(namespace.toString()));
    }

    static final class LocalResources extends LocalPoliciesResources {
        Pulsar given;

        LocalResources() {
            super(null, 0);
        }

        @Override
        public Optional<LocalPolicies> getLocalPolicies(NamespaceName namespace) {
            return Optional.of(given.localPolicies(namespace));
        }

        @Override
        public CompletableFuture<Optional<LocalPolicies>> getLocalPoliciesAsync(NamespaceName namespace) {
            return CompletableFuture.completedFuture(getLocalPolicies(namespace));
        }

        @Override
        public CompletableFuture<Optional<CacheGetResult<LocalPolicies>>> getLocalPoliciesWithVersion(NamespaceName namespace) {
            Stat stat = new Stat("", 0, 0, 0, false, false);
            return CompletableFuture.completedFuture(Optional.of(new CacheGetResult<>(given.localPolicies(namespace), stat)));
        }
    }

    static final class IsolationResources extends NamespaceResources.IsolationPolicyResources {
        Pulsar given;

        IsolationResources() {
            super(null, 0);
        }

        @Override
        public Optional<NamespaceIsolationPolicies> getIsolationDataPolicies(String cluster) {
            return given.isolation;
        }

        @Override
        public CompletableFuture<Optional<NamespaceIsolationPolicies>> getIsolationDataPoliciesAsync(String cluster) {
            return CompletableFuture.completedFuture(given.isolation);
        }
    }

    static final class Namespaces extends NamespaceService {
        Pulsar given;

        Namespaces() {
            super(null);
        }

        @Override
        public CompletableFuture<List<String>> getOwnedTopicListForNamespaceBundle(NamespaceBundle bundle) {
            return CompletableFuture.completedFuture(given.topics.apply(bundle));
        }

        @Override
        public int getBundleCount(NamespaceName namespace) throws Exception {
            return given.bundleCount == null ? super.getBundleCount(namespace) : given.bundleCount.apply(namespace.toString());
        }
    }

    static final class Brokers extends BrokerService {
        Pulsar given;

        Brokers() throws Exception {
            super(null, null);
        }

        @Override
        public Map<String, TopicStatsImpl> getTopicStats(NamespaceBundle bundle) {
            return given.topicStats.apply(bundle);
        }

        @Override
        public Map<String, NamespaceBundleStats> getBundleStats() {
            return given.bundleStats;
        }
    }
}
