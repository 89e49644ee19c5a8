import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.v5.Checkpoint;
import org.apache.pulsar.client.api.v5.CheckpointConsumer;
import org.apache.pulsar.client.api.v5.CheckpointConsumerBuilder;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** The checkpoint consumers of one client: the lines that V5 does not know itself. */
final class Checkpoints {
    private final PulsarClient client;
    private final Map<String, CheckpointConsumer<String>> readers = new HashMap<>();

    Checkpoints(PulsarClient client) {
        this.client = client;
    }

    /** Null: not a line of ours. */
    String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "checkpoint": return open(words);
            case "checkpoint-read": return read(words);
            case "checkpoint-async": return async(words);
            case "checkpoint-multi": return multi(words);
            case "checkpoint-keep": return HexFormat.of().formatHex(readers.get(words[1]).checkpoint().toByteArray());
            case "checkpoint-keep-async": return HexFormat.of().formatHex(
                    readers.get(words[1]).async().checkpoint().get(20, TimeUnit.SECONDS).toByteArray());
            case "checkpoint-topic": return readers.get(words[1]).topic();
            case "checkpoint-close": readers.remove(words[1]).close(); return "";
            default: return null;
        }
    }

    // checkpoint NAME TOPIC earliest|latest|<hex of a checkpoint> [GROUP]
    private String open(String[] words) throws Exception {
        Checkpoint start;
        switch (words[3]) {
            case "earliest": start = Checkpoint.earliest(); break;
            case "latest": start = Checkpoint.latest(); break;
            default: start = Checkpoint.fromByteArray(HexFormat.of().parseHex(words[3]));
        }
        CheckpointConsumerBuilder<String> made = client.newCheckpointConsumer(Schema.string())
                .topic(words[2]).consumerName(words[1]).startPosition(start);
        if (words.length > 4) {
            made = made.consumerGroup(words[4]);
        }
        readers.put(words[1], made.create());
        return "";
    }

    // checkpoint-read NAME COUNT IDLE_MS
    private String read(String[] words) throws Exception {
        List<String> found = new ArrayList<>();
        while (found.size() < Integer.parseInt(words[2])) {
            Message<String> one = readers.get(words[1]).receive(Duration.ofMillis(Long.parseLong(words[3])));
            if (one == null) {
                break;
            }
            found.add(one.value());
        }
        return String.join(" ", found);
    }

    private String async(String[] words) throws Exception {
        List<String> found = new ArrayList<>();
        while (found.size() < Integer.parseInt(words[2])) {
            found.add(readers.get(words[1]).async().receive()
                    .get(Long.parseLong(words[3]), TimeUnit.MILLISECONDS).value());
        }
        return String.join(" ", found);
    }

    private String multi(String[] words) throws Exception {
        List<String> found = new ArrayList<>();
        for (Message<String> one : readers.get(words[1])
                .receiveMulti(Integer.parseInt(words[2]), Duration.ofMillis(Long.parseLong(words[3])))) {
            found.add(one.value());
        }
        return String.join(" ", found);
    }
}
