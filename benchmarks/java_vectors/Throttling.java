import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.qos.AsyncTokenBucket;
import org.apache.pulsar.broker.qos.MonotonicClock;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.broker.service.persistent.DispatchRateLimiter;
import org.apache.pulsar.broker.service.persistent.DispatchRateLimiterAsyncTokenBucketImpl;
import org.apache.pulsar.broker.service.persistent.DispatchRateLimiterClassicImpl;
import org.apache.pulsar.broker.service.persistent.PersistentTopic;
import org.apache.pulsar.common.policies.data.impl.DispatchRateImpl;

/** The token bucket and both dispatch limiters, in virtual time. */
final class Throttling {
    static void register(Map<String, Oracle.Suite> suites) {
        suites.put("throttling/AsyncTokenBucket", Throttling::bucket);
        suites.put("throttling/DispatchRateLimiterAsyncTokenBucket", given -> limiter(given, false));
        suites.put("throttling/DispatchRateLimiterClassic", given -> limiter(given, true));
    }

    /** Virtual time, and the periodic tasks that fire as it passes. */
    private static final class Timeline {
        private static final class Task {
            Runnable action;
            long due;
            long period;
            boolean cancelled;
        }

        final List<Task> tasks = new ArrayList<>();
        long now;

        void advance(long to) {
            for (Task next = next(to); next != null; next = next(to)) {
                now = next.due;
                next.due += next.period;
                next.action.run();
            }
            now = to;
        }

        private Task next(long to) {
            Task next = null;
            for (Task task : tasks) {
                if (!task.cancelled && task.due <= to && (next == null || task.due < next.due)) {
                    next = task;
                }
            }
            return next;
        }

        ScheduledExecutorService executor() {
            return Inside.answering(ScheduledExecutorService.class, (self, method, words) -> {
                if (!method.getName().equals("scheduleAtFixedRate")) {
                    throw new UnsupportedOperationException(method.getName());
                }
                if ((Long) words[2] <= 0) {
                    throw new IllegalArgumentException();  // as ScheduledThreadPoolExecutor does
                }
                Task task = new Task();
                TimeUnit unit = (TimeUnit) words[3];
                task.action = (Runnable) words[0];
                task.due = now + unit.toNanos((Long) words[1]);
                task.period = unit.toNanos((Long) words[2]);
                tasks.add(task);
                return Inside.answering(ScheduledFuture.class, (future, called, arguments) -> {
                    task.cancelled = called.getName().equals("cancel");
                    return true;
                });
            });
        }
    }

    private static ObjectNode bucket(ObjectNode given) {
        Timeline time = new Timeline();
        time.now = given.path("startNanos").asLong();
        long[] rate = {given.path("rate").asLong()};
        AsyncTokenBucket bucket = built(given, () -> time.now, rate);
        ObjectNode expect = Given.object();
        ArrayNode results = expect.putArray("results");
        for (JsonNode operation : given.path("ops")) {
            long value = operation.path(1).asLong();
            switch (operation.get(0).asText()) {
                case "at" -> time.now = value;
                case "rate" -> rate[0] = value;
                case "consume" -> bucket.consumeTokens(value);
                default -> {
                    results.addPOJO(asked(bucket, operation.get(0).asText(), value));
                    continue;
                }
            }
            results.addNull();
        }
        return expect;
    }

    private static Object asked(AsyncTokenBucket bucket, String name, long value) {
        return switch (name) {
            case "tokens" -> bucket.getTokens();
            case "contains" -> bucket.containsTokens();
            case "consumeAndCheck" -> bucket.consumeTokensAndCheckIfContainsTokens(value);
            case "throttle" -> bucket.calculateThrottlingDuration();
            case "throttleFor" -> bucket.calculateThrottlingDuration(value);
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static AsyncTokenBucket built(ObjectNode given, MonotonicClock clock, long[] rate) {
        long period = given.path("ratePeriodNanos").asLong();
        long resolution = given.path("resolutionNanos").asLong();
        if (given.path("dynamic").asBoolean()) {
            return AsyncTokenBucket.builderForDynamicRate().clock(clock).addTokensResolutionNanos(resolution)
                    .rateFunction(() -> rate[0]).ratePeriodNanosFunction(() -> period).build();
        }
        var builder = AsyncTokenBucket.builder().clock(clock).addTokensResolutionNanos(resolution).rate(rate[0]).ratePeriodNanos(period);
        if (given.has("capacity")) {
            builder.capacity(given.path("capacity").asLong());
        }
        if (given.has("initialTokens")) {
            builder.initialTokens(given.path("initialTokens").asLong());
        }
        return builder.build();
    }

    /** A topic that knows its policy and how much is published to it. */
    private static final class Topic extends PersistentTopic {
        BrokerService brokers;
        DispatchRateImpl rate;
        double messages;
        double bytes;

        private Topic() {
            super(null, null, null);
        }

        @Override
        public String getName() {
            return "persistent://t/ns/topic";
        }

        @Override
        public BrokerService getBrokerService() {
            return brokers;
        }

        @Override
        public DispatchRateImpl getDispatchRate() {
            return rate;
        }

        @Override
        public double getLastUpdatedAvgPublishRateInMsg() {
            return messages;
        }

        @Override
        public double getLastUpdatedAvgPublishRateInByte() {
            return bytes;
        }
    }

    private static ObjectNode limiter(ObjectNode given, boolean classic) throws Exception {
        Timeline time = new Timeline();
        time.now = given.path("startNanos").asLong();
        Topic topic = Inside.bare(Topic.class);
        topic.brokers = brokers(Given.conf(given.path("conf")), time);
        published(topic, given.path("publish").path("msg"), given.path("publish").path("byte"));
        ObjectNode expect = Given.object();
        ArrayNode results = expect.putArray("results");
        try {
            DispatchRateLimiter limiter = limiter(given, topic, classic);
            for (JsonNode operation : given.path("ops")) {
                play(operation, limiter, topic, time, results);
            }
        } catch (RuntimeException error) {
            expect.put("error", error.getClass().getName());
        }
        return expect;
    }

    private static BrokerService brokers(ServiceConfiguration conf, Timeline time) {
        Pulsar pulsar = new Pulsar(conf);
        MonotonicClock clock = () -> time.now;
        Inside.set(pulsar.service, "monotonicClock", clock);
        Inside.set(pulsar.service, "executor", time.executor());
        BrokerService brokers = Inside.bare(BrokerService.class);
        Inside.set(brokers, "pulsar", pulsar.service);
        return brokers;
    }

    private static DispatchRateLimiter limiter(ObjectNode given, Topic topic, boolean classic) {
        if (!given.has("rate")) {
            return classic ? new DispatchRateLimiterClassicImpl(topic.brokers)
                    : new DispatchRateLimiterAsyncTokenBucketImpl(topic.brokers);
        }
        topic.rate = rate(given.path("rate"));
        return classic ? new DispatchRateLimiterClassicImpl(topic, DispatchRateLimiter.Type.TOPIC)
                : new DispatchRateLimiterAsyncTokenBucketImpl(topic, DispatchRateLimiter.Type.TOPIC);
    }

    private static DispatchRateImpl rate(JsonNode given) {
        return DispatchRateImpl.builder()
                .dispatchThrottlingRateInMsg(given.path("msg").asInt(-1))
                .dispatchThrottlingRateInByte(given.path("byte").asLong(-1))
                .ratePeriodInSecond(given.path("period").asInt(1))
                .relativeToPublishRate(given.path("relative").asBoolean())
                .build();
    }

    private static void published(Topic topic, JsonNode messages, JsonNode bytes) {
        topic.messages = messages.asDouble();
        topic.bytes = bytes.asDouble();
    }

    private static void play(JsonNode operation, DispatchRateLimiter limiter, Topic topic, Timeline time, ArrayNode results) {
        ArrayNode answer = Given.array();
        switch (operation.get(0).asText()) {
            case "at" -> time.advance(operation.get(1).asLong());
            case "consume" -> limiter.consumeDispatchQuota(operation.get(1).asLong(), operation.get(2).asLong());
            case "publish" -> published(topic, operation.get(1), operation.get(2));
            case "update" -> limiter.updateDispatchRate(rate(operation.get(1)));
            case "available" -> answer.add(limiter.getAvailableDispatchRateLimitOnMsg())
                    .add(limiter.getAvailableDispatchRateLimitOnByte());
            case "rates" -> answer.add(limiter.getDispatchRateOnMsg()).add(limiter.getDispatchRateOnByte())
                    .add(limiter.isDispatchRateLimitingEnabled());
            default -> throw new UnsupportedOperationException(operation.toString());
        }
        if (answer.isEmpty()) {
            results.addNull();
        } else {
            results.add(answer);
        }
    }

    private Throttling() {
    }
}
