import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.HashingScheme;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionMode;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.v5.Checkpoint;
import org.apache.pulsar.client.api.v5.CheckpointConsumer;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** Plain topics: the client of before (v4) in the same process, and readers from a checkpoint of V5. */
final class Regular {
    private final String url;
    private final PulsarClient client;
    private org.apache.pulsar.client.api.PulsarClient old;
    private final Map<String, org.apache.pulsar.client.api.Producer<String>> producers = new HashMap<>();
    private final Map<String, CheckpointConsumer<String>> marks = new HashMap<>();

    Regular(String url, PulsarClient client) {
        this.url = url;
        this.client = client;
    }

    /** null: it is for somebody else. */
    String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "old-producer": return produce(words);
            case "old-send": producers.get(words[1]).newMessage().key(words[2]).value(words[3]).send(); return "";
            case "old-close": producers.remove(words[1]).close(); return "";
            case "old-read": return read(words);
            case "old-seek": return seek(words);
            case "old-rollback": return rollback(words);
            case "old-nondurable": return nonDurable(words);
            case "old-pattern": return pattern(words);
            case "mark": return mark(words);
            case "mark-read": return markRead(words);
            default: return null;
        }
    }

    private org.apache.pulsar.client.api.PulsarClient old() throws Exception {
        if (old == null) {
            old = org.apache.pulsar.client.api.PulsarClient.builder().serviceUrl(url)
                    .operationTimeout(20, TimeUnit.SECONDS).build();
        }
        return old;
    }

    // old-producer NAME TOPIC: of v4, with the hash that V5 has
    private String produce(String[] words) throws Exception {
        producers.put(words[1], old().newProducer(org.apache.pulsar.client.api.Schema.STRING).topic(words[2])
                .producerName(words[1]).hashingScheme(HashingScheme.Murmur3_32Hash).enableBatching(false).create());
        return "";
    }

    // old-read TOPIC SUBSCRIPTION COUNT MILLIS: what a v4 consumer gets, each with the partition it came from
    private String read(String[] words) throws Exception {
        StringBuilder values = new StringBuilder();
        try (Consumer<String> consumer = old().newConsumer(org.apache.pulsar.client.api.Schema.STRING).topic(words[1])
                .subscriptionName(words[2]).subscriptionType(SubscriptionType.Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int left = Integer.parseInt(words[3]); left > 0; left--) {
                org.apache.pulsar.client.api.Message<String> message =
                        consumer.receive(Integer.parseInt(words[4]), TimeUnit.MILLISECONDS);
                if (message == null) {
                    break;
                }
                values.append(values.isEmpty() ? "" : " ").append(message.getKey()).append("@")
                        .append(message.getTopicName().replaceAll(".*/", ""));
                consumer.acknowledge(message);
            }
        }
        return values.toString();
    }

    // old-seek TOPIC PUBLISHED-MS COUNT MILLIS: what a v4 reader from the earliest gets after a seek to that time
    private String seek(String[] words) throws Exception {
        try (Reader<String> reader = old().newReader(org.apache.pulsar.client.api.Schema.STRING).topic(words[1])
                .startMessageId(MessageId.earliest).create()) {
            reader.readNext(Integer.parseInt(words[4]), TimeUnit.MILLISECONDS);
            reader.seek(Long.parseLong(words[2]));
            return values(reader, words);
        }
    }

    // old-rollback TOPIC SECONDS COUNT MILLIS: a v4 reader that starts so long ago
    private String rollback(String[] words) throws Exception {
        try (Reader<String> reader = old().newReader(org.apache.pulsar.client.api.Schema.STRING).topic(words[1])
                .startMessageFromRollbackDuration(Long.parseLong(words[2]), TimeUnit.SECONDS).create()) {
            return values(reader, words);
        }
    }

    private static String values(Reader<String> reader, String[] words) throws Exception {
        StringBuilder values = new StringBuilder();
        for (int left = Integer.parseInt(words[3]); left > 0; left--) {
            org.apache.pulsar.client.api.Message<String> message =
                    reader.readNext(Integer.parseInt(words[4]), TimeUnit.MILLISECONDS);
            if (message == null) {
                break;
            }
            values.append(values.isEmpty() ? "" : " ").append(message.getValue());
        }
        return values.toString();
    }

    // old-nondurable TOPIC - COUNT MILLIS: a v4 consumer without a durable cursor, from the earliest
    private String nonDurable(String[] words) throws Exception {
        try (Consumer<String> consumer = old().newConsumer(org.apache.pulsar.client.api.Schema.STRING).topic(words[1])
                .subscriptionName("loose").subscriptionMode(SubscriptionMode.NonDurable)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            return received(consumer, words);
        }
    }

    // old-pattern PATTERN - COUNT MILLIS: a v4 consumer of all topics that the pattern names
    private String pattern(String[] words) throws Exception {
        try (Consumer<String> consumer = old().newConsumer(org.apache.pulsar.client.api.Schema.STRING)
                .topicsPattern(words[1]).subscriptionName("pattern")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            return received(consumer, words);
        }
    }

    private static String received(Consumer<String> consumer, String[] words) throws Exception {
        StringBuilder values = new StringBuilder();
        for (int left = Integer.parseInt(words[3]); left > 0; left--) {
            org.apache.pulsar.client.api.Message<String> message =
                    consumer.receive(Integer.parseInt(words[4]), TimeUnit.MILLISECONDS);
            if (message == null) {
                break;
            }
            values.append(values.isEmpty() ? "" : " ").append(message.getValue());
        }
        return values.toString();
    }

    // mark NAME TOPIC: a checkpoint consumer from the beginning
    private String mark(String[] words) throws Exception {
        marks.put(words[1], client.newCheckpointConsumer(Schema.string()).topic(words[2])
                .startPosition(Checkpoint.earliest()).create());
        return "";
    }

    // mark-read NAME COUNT MILLIS
    private String markRead(String[] words) throws Exception {
        StringBuilder values = new StringBuilder();
        for (int left = Integer.parseInt(words[2]); left > 0; left--) {
            Message<String> message = marks.get(words[1]).receive(Duration.ofMillis(Long.parseLong(words[3])));
            if (message == null) {
                break;
            }
            values.append(values.isEmpty() ? "" : " ").append(message.value());
        }
        return values.toString();
    }
}
