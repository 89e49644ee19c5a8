import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.Messages;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.ProducerBuilder;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.StreamConsumer;
import org.apache.pulsar.client.api.v5.config.BatchingPolicy;
import org.apache.pulsar.client.api.v5.config.CompressionPolicy;
import org.apache.pulsar.client.api.v5.config.CompressionType;
import org.apache.pulsar.client.api.v5.config.ProducerAccessMode;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** What Pulsar's own tests ask of this client, a line each: schemas, codecs, metadata, numbers, access modes. */
final class Rows {
    /** A value with two fields, for schemas that have fields. */
    public static final class Point {
        public int x;
        public String name;
    }

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final PulsarClient client;
    private final Map<String, CompletableFuture<Producer<String>>> pending = new HashMap<>();

    Rows(PulsarClient client) {
        this.client = client;
    }

    /** Null: not a line of ours. */
    String obey(String[] words, Map<String, Producer<String>> producers, Map<String, StreamConsumer<String>> streams)
            throws Exception {
        switch (words[0]) {
            case "typed": return typed(words[1], words[2]);
            case "compressed": return compressed(words[1], words[2]);
            case "annotated": return annotated(words[1]);
            case "batching": return batching(words, producers);
            case "access": producers.put(words[1], asked(words).get(20, TimeUnit.SECONDS)); return "";
            case "pend": pending.put(words[1], asked(words)); return "";
            case "settled": return settled(words[1], producers);
            case "number": return "" + producers.get(words[1]).lastSequenceId();
            case "numbered":
                producers.get(words[1]).newMessage().sequenceId(Long.parseLong(words[2])).key(words[3]).value(words[4]).send();
                return "";
            case "detail": return detail(streams.get(words[1]));
            case "multi": return multi(streams.get(words[1]), Integer.parseInt(words[2]));
            case "flushed": return flushed(producers.get(words[1]), Integer.parseInt(words[2]));
            case "asyncread": return asyncRead(streams.get(words[1]), Integer.parseInt(words[2]));
            case "about":
                StreamConsumer<String> one = streams.get(words[1]);
                return one.topic() + " " + one.subscription() + " " + one.consumerName();
            default: return null;
        }
    }

    private <T> StreamConsumer<T> reader(Schema<T> schema, String topic) throws Exception {
        return client.newStreamConsumer(schema).topic(topic).subscriptionName("rows")
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
    }

    private <T> T through(Schema<T> schema, String topic, T value) throws Exception {
        try (StreamConsumer<T> stream = reader(schema, topic);
                Producer<T> producer = client.newProducer(schema).topic(topic).create()) {
            producer.newMessage().key("k").value(value).send();
            Message<T> message = stream.receive(PATIENCE);
            stream.acknowledgeCumulative(message.id());
            return message.value();
        }
    }

    private String typed(String kind, String topic) throws Exception {
        switch (kind) {
            case "bytes":
                return "" + Arrays.equals(new byte[] {0, -1, 7}, through(Schema.bytes(), topic, new byte[] {0, -1, 7}));
            case "string": return "" + "hé".equals(through(Schema.string(), topic, "hé"));
            case "bool": return "" + through(Schema.bool(), topic, true);
            case "int8": return "" + (through(Schema.int8(), topic, (byte) -5) == -5);
            case "int16": return "" + (through(Schema.int16(), topic, (short) -500) == -500);
            case "int32": return "" + (through(Schema.int32(), topic, 1 << 30) == 1 << 30);
            case "int64": return "" + (through(Schema.int64(), topic, 1L << 60) == 1L << 60);
            case "float32": return "" + (through(Schema.float32(), topic, 1.5f) == 1.5f);
            case "float64": return "" + (through(Schema.float64(), topic, 2.5) == 2.5);
            case "json": return "" + same(through(Schema.json(Point.class), topic, point()));
            case "avro": return "" + same(through(Schema.avro(Point.class), topic, point()));
            default: throw new IllegalArgumentException(kind);
        }
    }

    private static Point point() {
        Point made = new Point();
        made.x = 42;
        made.name = "p";
        return made;
    }

    private static boolean same(Point found) {
        return found.x == 42 && found.name.equals("p");
    }

    private String compressed(String type, String topic) throws Exception {
        String value = "abc".repeat(5000);
        try (StreamConsumer<String> stream = reader(Schema.string(), topic);
                Producer<String> producer = client.newProducer(Schema.string()).topic(topic)
                        .compressionPolicy(CompressionPolicy.of(CompressionType.valueOf(type))).create()) {
            producer.newMessage().key("k").value(value).send();
            return "" + value.equals(stream.receive(PATIENCE).value());
        }
    }

    // Event time and properties as they were set; the second message has neither.
    private String annotated(String topic) throws Exception {
        try (StreamConsumer<String> stream = reader(Schema.string(), topic);
                Producer<String> producer = client.newProducer(Schema.string()).topic(topic).create()) {
            producer.newMessage().key("k").value("a").eventTime(Instant.ofEpochMilli(1234))
                    .property("one", "1").properties(Map.of("two", "2", "three", "3")).send();
            producer.newMessage().key("k").value("b").send();
            Message<String> first = stream.receive(PATIENCE);
            Message<String> second = stream.receive(PATIENCE);
            return first.eventTime().map(Instant::toEpochMilli).orElse(-1L) + " " + new TreeMap<>(first.properties())
                    + " " + second.eventTime().isPresent() + " " + second.properties().size();
        }
    }

    // batching NAME TOPIC DELAY_MS MESSAGES
    private String batching(String[] words, Map<String, Producer<String>> producers) throws Exception {
        BatchingPolicy policy = BatchingPolicy.builder().maxPublishDelay(Duration.ofMillis(Long.parseLong(words[3])))
                .maxMessages(Integer.parseInt(words[4])).build();
        producers.put(words[1], client.newProducer(Schema.string()).topic(words[2]).producerName(words[1])
                .batchingPolicy(policy).create());
        return "";
    }

    // NAME TOPIC MODE
    private CompletableFuture<Producer<String>> asked(String[] words) {
        ProducerBuilder<String> made = client.newProducer(Schema.string()).topic(words[2])
                .accessMode(ProducerAccessMode.valueOf(words[3]));
        return (words[1].startsWith("unnamed") ? made : made.producerName(words[1])).createAsync();
    }

    private String settled(String name, Map<String, Producer<String>> producers) throws Exception {
        CompletableFuture<Producer<String>> one = pending.get(name);
        if (!one.isDone()) {
            return "no";
        }
        producers.put(name, one.get());
        return "yes";
    }

    private static String detail(StreamConsumer<String> stream) throws Exception {
        Message<String> message = stream.receive(PATIENCE);
        stream.acknowledgeCumulative(message.id());
        return message.value() + " " + message.sequenceId() + " " + message.producerName().orElse("-");
    }

    private static String multi(StreamConsumer<String> stream, int most) throws Exception {
        Messages<String> found = stream.receiveMulti(most, Duration.ofSeconds(2));
        StringBuilder values = new StringBuilder();
        for (Message<String> one : found) {
            values.append(values.isEmpty() ? "" : " ").append(one.value());
        }
        if (found.count() > 0) {
            stream.acknowledgeCumulative(found.lastId());
        }
        return values.toString();
    }

    // How many of the sends were done when flush was, and how many of them have an id. This client's flush waits for what it
    // keeps of each send; what it handed out is completed from that a moment later, so a moment is granted.
    private static String flushed(Producer<String> producer, int count) throws Exception {
        List<CompletableFuture<org.apache.pulsar.client.api.v5.MessageId>> sent = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            sent.add(producer.async().newMessage().key("k" + number % 5).value("k" + number % 5 + ":" + number / 5).send());
        }
        producer.async().flush().get(20, TimeUnit.SECONDS);
        int done = 0;
        int ids = 0;
        for (CompletableFuture<org.apache.pulsar.client.api.v5.MessageId> one : sent) {
            ids += one.get(20, TimeUnit.SECONDS) != null ? 1 : 0;
            done++;
        }
        return done + " " + ids;
    }

    private static String asyncRead(StreamConsumer<String> stream, int count) throws Exception {
        StringBuilder values = new StringBuilder();
        for (int left = count; left > 0; left--) {
            Message<String> message = stream.async().receive().get(30, TimeUnit.SECONDS);
            values.append(values.isEmpty() ? "" : " ").append(message.value());
            stream.async().acknowledgeCumulative(message.id());
        }
        return values.toString();
    }
}
