import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** The Java client's half of `benchmarks.reshape gap`: see paced.py, which speaks the same lines. */
public final class Paced {
    private final PulsarClient client;
    private final String payload = "x".repeat(100);
    private final AtomicLong stored = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private long last;
    private long longest;
    private long slowest;
    private volatile Thread load;

    private Paced(String url) throws Exception {
        client = PulsarClient.builder().serviceUrl(url).operationTimeout(Duration.ofSeconds(20)).build();
    }

    public static void main(String[] arguments) throws Exception {
        Paced sender = new Paced(arguments[0]);
        System.out.println("ok");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok " + sender.obey(line.split(" "));
            } catch (Throwable error) {
                answer = "error " + error.toString().replace('\n', ' ');
            }
            System.out.println(answer);
        }
        Runtime.getRuntime().halt(0);  // a close of this client takes seconds
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "open": return open(words[1], Integer.parseInt(words[2]));
            case "mark": return mark();
            case "felt": return felt();
            case "stop": load = null; return "";
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    private String open(String topic, int rate) throws Exception {
        Producer<String> producer = client.newProducer(Schema.string()).topic(topic).create();
        synchronized (this) {
            last = System.nanoTime();
        }
        Thread thread = new Thread(() -> run(producer, rate));
        load = thread;
        thread.setDaemon(true);
        thread.start();
        return "";
    }

    private void run(Producer<String> producer, int rate) {
        long begun = System.nanoTime();
        long sent = 0;
        while (load == Thread.currentThread()) {
            long due = (System.nanoTime() - begun) * rate / 1_000_000_000L;
            for (; sent < due; sent++) {
                long at = System.nanoTime();
                producer.async().newMessage().key("key-" + sent % 100).value(payload).send()
                        .whenComplete((id, error) -> done(at, error));
            }
            try {
                Thread.sleep(1);
            } catch (InterruptedException ended) {
                return;
            }
        }
    }

    private synchronized void done(long at, Throwable error) {
        long now = System.nanoTime();
        slowest = Math.max(slowest, now - at);
        longest = Math.max(longest, now - last);
        last = now;
        (error == null ? stored : failed).incrementAndGet();
    }

    private synchronized String mark() {
        longest = slowest = 0;
        return "";
    }

    private synchronized String felt() {
        long pause = Math.max(longest, System.nanoTime() - last);
        return String.format("%.3f %.3f %d %d", pause / 1e6, slowest / 1e6, stored.get(), failed.get());
    }
}
