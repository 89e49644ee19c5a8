import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.QueueConsumer;
import org.apache.pulsar.client.api.v5.StreamConsumer;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** The consumers of whole namespaces of one client: lines that begin with "ns-". */
final class Namespaces {
    private final PulsarClient client;
    private final Map<String, QueueConsumer<String>> queues = new HashMap<>();
    private final Map<String, StreamConsumer<String>> streams = new HashMap<>();
    private final Map<String, Message<String>> last = new HashMap<>();

    Namespaces(PulsarClient client) {
        this.client = client;
    }

    /** null: not a line of ours. */
    String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "ns-queue": return queue(words);
            case "ns-stream": return stream(words);
            case "ns-read": return read(words, true);
            case "ns-keep": return read(words, false);
            case "ns-ack": streams.get(words[1]).acknowledgeCumulative(last.get(words[1]).id()); return "";
            case "ns-close": return close(words[1]);
            default: return null;
        }
    }

    // ns-queue NAME NAMESPACE SUBSCRIPTION earliest|latest PROPERTY=VALUE...
    private String queue(String[] words) throws Exception {
        queues.put(words[1], client.newQueueConsumer(Schema.string()).namespace(words[2], properties(words))
                .subscriptionName(words[3]).consumerName(words[1]).acknowledgmentGroupTime(Duration.ZERO)
                .subscriptionInitialPosition(position(words[4])).subscribe());
        return "";
    }

    // ns-stream NAME NAMESPACE SUBSCRIPTION earliest|latest PROPERTY=VALUE...
    private String stream(String[] words) throws Exception {
        streams.put(words[1], client.newStreamConsumer(Schema.string()).namespace(words[2], properties(words))
                .subscriptionName(words[3]).consumerName(words[1]).acknowledgmentGroupTime(Duration.ZERO)
                .subscriptionInitialPosition(position(words[4])).subscribe());
        return "";
    }

    // ns-read | ns-keep NAME COUNT MILLIS: up to COUNT "topic|value" until nothing comes for MILLIS; kept: not acknowledged
    private String read(String[] words, boolean acknowledged) throws Exception {
        StringBuilder found = new StringBuilder();
        Duration wait = Duration.ofMillis(Long.parseLong(words[3]));
        for (int left = Integer.parseInt(words[2]); left > 0; left--) {
            QueueConsumer<String> queue = queues.get(words[1]);
            Message<String> message = queue != null ? queue.receive(wait) : streams.get(words[1]).receive(wait);
            if (message == null) {
                break;
            }
            found.append(found.isEmpty() ? "" : " ").append(message.topic()).append("|").append(message.value());
            last.put(words[1], message);
            if (acknowledged && queue != null) {
                queue.acknowledge(message.id());
            } else if (acknowledged) {
                streams.get(words[1]).acknowledgeCumulative(message.id());
            }
        }
        return found.toString();
    }

    private String close(String name) throws Exception {
        QueueConsumer<String> queue = queues.remove(name);
        if (queue != null) {
            queue.close();
        } else {
            streams.remove(name).close();
        }
        return "";
    }

    private static SubscriptionInitialPosition position(String word) {
        return word.equals("latest") ? SubscriptionInitialPosition.LATEST : SubscriptionInitialPosition.EARLIEST;
    }

    private static Map<String, String> properties(String[] words) {
        Map<String, String> found = new HashMap<>();
        for (int at = 5; at < words.length; at++) {
            String[] said = words[at].split("=", 2);
            found.put(said[0], said[1]);
        }
        return found;
    }
}
