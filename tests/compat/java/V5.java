import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.ProducerBuilder;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.StreamConsumer;
import org.apache.pulsar.client.api.v5.config.BatchingPolicy;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/**
 * The Java client of scalable topics, driven by lines: one request in, one answer out ("ok ..." or "error ...").
 * Words are parted by one blank; what is made has a name that later lines use.
 */
public final class V5 {
    private static final PrintStream OUT = System.out;

    private final PulsarClient client;
    private final Queues queues;
    private final Rows rows;
    private final Namespaces namespaces;
    private final Checkpoints checkpoints;
    private final Regular regular;
    private final Map<String, Producer<String>> producers = new HashMap<>();
    private final Map<String, StreamConsumer<String>> streams = new HashMap<>();
    private final Map<String, Message<String>> last = new HashMap<>();
    private final Map<String, Thread> loads = new HashMap<>();
    private final Map<String, String> outcomes = new java.util.concurrent.ConcurrentHashMap<>();

    private V5(String url) throws Exception {
        client = PulsarClient.builder().serviceUrl(url).operationTimeout(Duration.ofSeconds(20)).build();
        queues = new Queues(client);
        rows = new Rows(client);
        namespaces = new Namespaces(client);
        checkpoints = new Checkpoints(client);
        regular = new Regular(url, client);
    }

    public static void main(String[] arguments) throws Exception {
        V5 driver = new V5(arguments[0]);
        OUT.println("ok ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok " + driver.obey(line.split(" "));
            } catch (Throwable error) {
                answer = "error " + chain(error);
            }
            OUT.println(answer.strip().replace('\n', ' '));
            OUT.flush();
        }
        Runtime.getRuntime().halt(0);  // a close of this client takes seconds
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "producer": return producer(words);
            case "send": return send(words);
            case "load": return load(words);
            case "pipeline": return pipeline(words);
            case "wait": return finish(words[1]);
            case "stream": return stream(words);
            case "receive": return receive(words);
            case "read": return read(words);
            case "readlate": return readLate(words);
            case "ack": streams.get(words[1]).acknowledgeCumulative(last.get(words[1]).id()); return "";
            case "close": return close(words[1]);
            default:
                String found = rows.obey(words, producers, streams);
                found = found != null ? found : namespaces.obey(words);
                found = found != null ? found : checkpoints.obey(words);
                found = found != null ? found : regular.obey(words);
                return found != null ? found : queues.obey(words, producers);
        }
    }

    // producer NAME TOPIC [unbatched] [sequence=N]
    private String producer(String[] words) throws Exception {
        ProducerBuilder<String> made = client.newProducer(Schema.string()).topic(words[2]).producerName(words[1]);
        for (String word : words) {
            if (word.equals("unbatched")) {
                made = made.batchingPolicy(BatchingPolicy.ofDisabled());
            } else if (word.startsWith("sequence=")) {
                made = made.initialSequenceId(Long.parseLong(word.substring(9)));
            }
        }
        producers.put(words[1], made.create());
        return "";
    }

    // send NAME KEY VALUE
    private String send(String[] words) throws Exception {
        producers.get(words[1]).newMessage().key(words[2]).value(words[3]).send();
        return "";
    }

    // load NAME KEYS COUNT FIRST: in the background, each message waited for; values are <key>:<counter>
    private String load(String[] words) {
        Producer<String> producer = producers.get(words[1]);
        int keys = Integer.parseInt(words[2]);
        int count = Integer.parseInt(words[3]);
        int first = Integer.parseInt(words[4]);
        return background(words[1], () -> {
            for (int number = first; number < first + count; number++) {
                String key = "k" + number % keys;
                producer.newMessage().key(key).value(key + ":" + number / keys).send();
            }
            return "" + count;
        });
    }

    // pipeline NAME KEYS COUNT FIRST: the same without waiting for each
    private String pipeline(String[] words) {
        Producer<String> producer = producers.get(words[1]);
        int keys = Integer.parseInt(words[2]);
        int count = Integer.parseInt(words[3]);
        int first = Integer.parseInt(words[4]);
        return background(words[1], () -> {
            List<CompletableFuture<?>> sent = new ArrayList<>();
            for (int number = first; number < first + count; number++) {
                String key = "k" + number % keys;
                sent.add(producer.async().newMessage().key(key).value(key + ":" + number / keys).send());
            }
            for (CompletableFuture<?> one : sent) {
                one.get();
            }
            return "" + count;
        });
    }

    private interface Work {
        String run() throws Exception;
    }

    private String background(String name, Work work) {
        Thread thread = new Thread(() -> {
            try {
                outcomes.put(name, work.run());
            } catch (Throwable error) {
                outcomes.put(name, "failed " + chain(error));
            }
        });
        loads.put(name, thread);
        thread.start();
        return "";
    }

    private String finish(String name) throws Exception {
        loads.remove(name).join();
        return outcomes.remove(name);
    }

    // stream NAME TOPIC SUBSCRIPTION earliest|latest
    private String stream(String[] words) throws Exception {
        streams.put(words[1], client.newStreamConsumer(Schema.string()).topic(words[2]).subscriptionName(words[3])
                .consumerName(words[1])
                .acknowledgmentGroupTime(Duration.ZERO)
                .subscriptionInitialPosition(words[4].equals("latest")
                        ? SubscriptionInitialPosition.LATEST : SubscriptionInitialPosition.EARLIEST)
                .subscribe());
        return "";
    }

    // receive NAME MILLIS: key and value, or nothing
    private String receive(String[] words) throws Exception {
        Message<String> message = streams.get(words[1]).receive(Duration.ofMillis(Long.parseLong(words[2])));
        if (message == null) {
            return "";
        }
        last.put(words[1], message);
        return message.key().orElse("-") + " " + message.value();
    }

    // read NAME COUNT MILLIS: up to COUNT values, each acknowledged, until nothing comes for MILLIS
    private String read(String[] words) throws Exception {
        StreamConsumer<String> stream = streams.get(words[1]);
        StringBuilder values = new StringBuilder();
        for (int left = Integer.parseInt(words[2]); left > 0; left--) {
            Message<String> message = stream.receive(Duration.ofMillis(Long.parseLong(words[3])));
            if (message == null) {
                break;
            }
            values.append(values.isEmpty() ? "" : " ").append(message.value());
            stream.acknowledgeCumulative(message.id());
        }
        return values.toString();
    }

    // readlate NAME COUNT MILLIS EVERY SECONDS: as read, but acknowledges after EVERY messages or SECONDS, 0: neither;
    // "ack" acknowledges the rest
    private String readLate(String[] words) throws Exception {
        StreamConsumer<String> stream = streams.get(words[1]);
        int every = Integer.parseInt(words[4]);
        long nanos = (long) (Double.parseDouble(words[5]) * 1e9);
        StringBuilder values = new StringBuilder();
        int count = 0;
        long since = System.nanoTime();
        for (int left = Integer.parseInt(words[2]); left > 0; left--) {
            Message<String> message = stream.receive(Duration.ofMillis(Long.parseLong(words[3])));
            if (message == null) {
                break;
            }
            values.append(values.isEmpty() ? "" : " ").append(message.value());
            last.put(words[1], message);
            count++;
            if ((every > 0 && count >= every) || (nanos > 0 && System.nanoTime() - since >= nanos)) {
                stream.acknowledgeCumulative(message.id());
                count = 0;
                since = System.nanoTime();
            }
        }
        return values.toString();
    }

    private String close(String name) throws Exception {
        if (producers.containsKey(name)) {
            producers.remove(name).close();
        } else {
            streams.remove(name).close();
        }
        return "";
    }

    private static String chain(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable at = error; at != null && at != at.getCause(); at = at.getCause()) {
            text.append(text.isEmpty() ? "" : " <- ").append(at.getClass().getSimpleName()).append(": ").append(at.getMessage());
        }
        return text.toString();
    }
}
