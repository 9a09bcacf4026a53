import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;

/** What the extensible load manager knows, without its topics. */
final class Stores {
    final Map<String, BrokerLoadData> brokers = new ConcurrentHashMap<>();
    final Map<String, TopBundlesLoadData> top = new ConcurrentHashMap<>();
    final Map<String, BrokerLookupData> available = new HashMap<>();
    private final ServiceConfiguration conf;

    Stores(ServiceConfiguration conf) {
        this.conf = conf;
    }

    void broker(String name, JsonNode given, long now) {
        BrokerLoadData data = new BrokerLoadData();
        Inside.set(data, "weightedMaxEMA", Given.number(given, "weightedMaxEMA"));
        Inside.set(data, "msgThroughputEMA", Given.number(given, "msgThroughputEMA"));
        Inside.set(data, "msgThroughputIn", Given.number(given, "msgThroughputIn"));
        Inside.set(data, "msgThroughputOut", Given.number(given, "msgThroughputOut"));
        Inside.set(data, "updatedAt", now - given.path("ageMs").asLong());
        brokers.put(name, data);
    }

    void top(String broker, JsonNode bundles) {
        TopBundlesLoadData data = new TopBundlesLoadData();
        bundles.forEach(bundle -> data.getTopBundlesLoadData().add(
                new TopBundlesLoadData.BundleLoadData(bundle.path("bundle").asText(), Given.stats(bundle))));
        top.put(broker, data);
    }

    LoadManagerContext context() {
        BrokerRegistry registry = Inside.answering(BrokerRegistry.class, (self, method, words) -> switch (method.getName()) {
            case "getAvailableBrokerLookupDataAsync" -> CompletableFuture.completedFuture(available);
            default -> throw new UnsupportedOperationException(method.getName());
        });
        LoadDataStore<?> brokerStore = store(brokers);
        LoadDataStore<?> topStore = store(top);
        return Inside.answering(LoadManagerContext.class, (self, method, words) -> switch (method.getName()) {
            case "brokerConfiguration" -> conf;
            case "brokerRegistry" -> registry;
            case "brokerLoadDataStore" -> brokerStore;
            case "topBundleLoadDataStore" -> topStore;
            default -> throw new UnsupportedOperationException(method.getName());
        });
    }

    private static LoadDataStore<?> store(Map<String, ?> values) {
        return Inside.answering(LoadDataStore.class, (self, method, words) -> switch (method.getName()) {
            case "get" -> Optional.ofNullable(values.get((String) words[0]));
            case "entrySet" -> values.entrySet();
            case "size" -> values.size();
            default -> throw new UnsupportedOperationException(method.getName());
        });
    }
}
