import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.MessageBuilder;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.QueueConsumer;
import org.apache.pulsar.client.api.v5.QueueConsumerBuilder;
import org.apache.pulsar.client.api.v5.config.BackoffPolicy;
import org.apache.pulsar.client.api.v5.config.DeadLetterPolicy;
import org.apache.pulsar.client.api.v5.config.ProcessingTimeoutPolicy;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** The queue consumers of one client: the lines that V5 does not know itself. */
final class Queues {
    private final PulsarClient client;
    private final Map<String, QueueConsumer<String>> queues = new HashMap<>();
    private final Map<String, Map<String, Message<String>>> kept = new HashMap<>();

    Queues(PulsarClient client) {
        this.client = client;
    }

    String obey(String[] words, Map<String, Producer<String>> producers) throws Exception {
        switch (words[0]) {
            case "queue": return queue(words);
            case "queue-read": return read(words, true);
            case "queue-keep": return read(words, false);
            case "queue-async": return async(words);
            case "queue-show": return show(words);
            case "queue-ack": return acknowledge(words);
            case "queue-nack": return refuse(words);
            case "queue-names": return names(queues.get(words[1]));
            case "queue-close": queues.remove(words[1]).close(); return "";
            case "send-later": producers.get(words[1]).newMessage().key(words[2]).value(words[3])
                    .deliverAfter(Duration.ofMillis(Long.parseLong(words[4]))).send(); return "";
            case "send-with": return send(words, producers.get(words[1]));
            default: throw new IllegalArgumentException("unknown: " + words[0]);
        }
    }

    // queue NAME TOPIC SUBSCRIPTION earliest|latest [nack=MS] [timeout=MS] [dead=N] [letters=TOPIC] [size=N] [priority=N]
    // [property=NAME:VALUE]
    private String queue(String[] words) throws Exception {
        QueueConsumerBuilder<String> made = client.newQueueConsumer(Schema.string()).topic(words[2])
                .subscriptionName(words[3])
                .consumerName(words[1])
                .acknowledgmentGroupTime(Duration.ZERO)
                .subscriptionInitialPosition(words[4].equals("latest")
                        ? SubscriptionInitialPosition.LATEST : SubscriptionInitialPosition.EARLIEST);
        DeadLetterPolicy.Builder letters = null;
        for (int at = 5; at < words.length; at++) {
            String[] said = words[at].split("=", 2);
            switch (said[0]) {
                case "nack": made = made.negativeAckRedeliveryBackoff(BackoffPolicy.exponential(
                        Duration.ofMillis(Long.parseLong(said[1])), Duration.ofMillis(2 * Long.parseLong(said[1]))));
                    break;
                case "timeout": made = made.processingTimeout(
                        ProcessingTimeoutPolicy.of(Duration.ofMillis(Long.parseLong(said[1]))));
                    break;
                case "dead": letters = DeadLetterPolicy.builder().maxRedeliverCount(Integer.parseInt(said[1])); break;
                case "letters": letters = letters.deadLetterTopic(said[1]); break;
                case "size": made = made.receiverQueueSize(Integer.parseInt(said[1])); break;
                case "property": String[] pair = said[1].split(":", 2);
                    made = made.subscriptionProperties(Map.of(pair[0], pair[1]));
                    break;
                case "priority": made = made.priorityLevel(Integer.parseInt(said[1])); break;
                default: throw new IllegalArgumentException("unknown: " + said[0]);
            }
        }
        if (letters != null) {
            made = made.deadLetterPolicy(letters.build());
        }
        queues.put(words[1], made.subscribe());
        kept.put(words[1], new HashMap<>());
        return "";
    }

    // queue-read | queue-keep NAME COUNT MILLIS: up to COUNT values until nothing comes for MILLIS; kept: not acknowledged
    private String read(String[] words, boolean acknowledged) throws Exception {
        QueueConsumer<String> queue = queues.get(words[1]);
        StringBuilder values = new StringBuilder();
        for (int left = Integer.parseInt(words[2]); left > 0; left--) {
            Message<String> message = queue.receive(Duration.ofMillis(Long.parseLong(words[3])));
            if (message == null) {
                break;
            }
            values.append(values.isEmpty() ? "" : " ").append(message.value());
            if (acknowledged) {
                queue.acknowledge(message.id());
            } else {
                kept.get(words[1]).put(message.value(), message);
            }
        }
        return values.toString();
    }

    // queue-async NAME COUNT MILLIS: received and acknowledged through the asynchronous face
    private String async(String[] words) throws Exception {
        QueueConsumer<String> queue = queues.get(words[1]);
        StringBuilder values = new StringBuilder();
        for (int left = Integer.parseInt(words[2]); left > 0; left--) {
            CompletableFuture<Message<String>> next = queue.async().receive();
            try {
                Message<String> message = next.get(Long.parseLong(words[3]), TimeUnit.MILLISECONDS);
                values.append(values.isEmpty() ? "" : " ").append(message.value());
                queue.async().acknowledge(message.id());
            } catch (TimeoutException late) {
                break;
            }
        }
        return values.toString();
    }

    // queue-show NAME MILLIS: one message with all that is told of it, acknowledged; nothing if none comes
    private String show(String[] words) throws Exception {
        QueueConsumer<String> queue = queues.get(words[1]);
        Message<String> message = queue.receive(Duration.ofMillis(Long.parseLong(words[2])));
        if (message == null) {
            return "";
        }
        queue.acknowledge(message.id());
        StringBuilder text = new StringBuilder("value=" + message.value());
        text.append(" key=").append(message.key().orElse("-"));
        text.append(" topic=").append(message.topic());
        text.append(" event=").append(message.eventTime().map(Instant::toEpochMilli).orElse(-1L));
        text.append(" redelivered=").append(message.redeliveryCount());
        new TreeMap<>(message.properties()).forEach((key, value) -> text.append(" ").append(key).append("=").append(value));
        return text.toString();
    }

    // queue-ack NAME VALUE...: of those kept
    private String acknowledge(String[] words) {
        for (int at = 2; at < words.length; at++) {
            queues.get(words[1]).acknowledge(kept.get(words[1]).remove(words[at]).id());
        }
        return "";
    }

    // queue-nack NAME VALUE...
    private String refuse(String[] words) {
        for (int at = 2; at < words.length; at++) {
            queues.get(words[1]).negativeAcknowledge(kept.get(words[1]).remove(words[at]).id());
        }
        return "";
    }

    private static String names(QueueConsumer<String> queue) {
        return queue.topic() + " " + queue.subscription() + " " + queue.consumerName();
    }

    // send-with PRODUCER KEY VALUE EVENT PROPERTY=VALUE...: waits for the receipt
    private static String send(String[] words, Producer<String> producer) throws Exception {
        MessageBuilder<String> message = producer.newMessage().key(words[2]).value(words[3])
                .eventTime(Instant.ofEpochMilli(Long.parseLong(words[4])));
        for (int at = 5; at < words.length; at++) {
            String[] said = words[at].split("=", 2);
            message = message.property(said[0], said[1]);
        }
        message.send();
        return "";
    }
}
