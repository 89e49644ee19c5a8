import java.security.MessageDigest;
import java.util.Enumeration;
import java.util.HexFormat;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** BookKeeper's Java client as a peer: `write` and close, `leave` open and end, `read`, `recover` and read. */
public class BookKeeperPeer {
    public static void main(String[] words) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(words[0]);
        conf.setThrottleValue(0);
        conf.setUseV2WireProtocol(true);
        BookKeeper client = new BookKeeper(conf);
        int number = Integer.parseInt(words[2]);
        switch (words[1]) {
            case "write", "leave" -> {
                LedgerHandle ledger = client.createLedger(3, 3, 2, DigestType.CRC32C, new byte[0]);
                for (int entry = 0; entry < number; entry++) {
                    ledger.addEntry(("java-" + entry).getBytes());
                }
                System.out.println("RESULT " + ledger.getId());
                System.out.flush();
                if (words[1].equals("leave")) {
                    Runtime.getRuntime().halt(0);
                }
                ledger.close();
            }
            default -> {
                LedgerHandle ledger = words[1].equals("recover")
                    ? client.openLedger(number, DigestType.CRC32C, new byte[0])
                    : client.openLedgerNoRecovery(number, DigestType.CRC32C, new byte[0]);
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                long last = ledger.getLastAddConfirmed();
                if (last >= 0) {
                    Enumeration<LedgerEntry> entries = ledger.readEntries(0, last);
                    while (entries.hasMoreElements()) {
                        digest.update(entries.nextElement().getEntry());
                    }
                }
                String sum = HexFormat.of().formatHex(digest.digest());
                System.out.println("RESULT " + (last + 1) + " " + ledger.getLength() + " " + sum);
                System.out.flush();
            }
        }
        client.close();
        Runtime.getRuntime().halt(0);
    }
}
