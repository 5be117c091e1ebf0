import java.nio.charset.StandardCharsets;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * Kafka Streams joins a stream with a table by their key, exactly once, and keeps the last joined record of each key.
 *
 * <p>Arguments: bootstrap servers, the stream's topic, the table's, state folder, records of both, the application's id. The values are
 * put side by side as they are: nothing is parsed. What it prints: see Caught.
 */
public final class JoinTable {
    private static final String AMOUNT = "\"amount\": ";

    private JoinTable() {}

    public static void main(String[] arguments) throws Exception {
        long began = System.currentTimeMillis();
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, byte[]> table = builder.table(arguments[2]);
        builder.<String, byte[]>stream(arguments[1]).join(table, JoinTable::both).toTable(Materialized.as("joined"));
        long records = Long.parseLong(arguments[4]);
        Caught.<byte[]>up(began, builder, "joined", JoinTable::amount, arguments[0], arguments[3], records, arguments[5]);
    }

    private static byte[] both(byte[] left, byte[] right) {
        byte[] made = new byte[left.length + right.length];
        System.arraycopy(left, 0, made, 0, left.length);
        System.arraycopy(right, 0, made, left.length, right.length);
        return made;
    }

    private static long amount(byte[] stored) {
        String value = new String(stored, StandardCharsets.UTF_8);
        int from = value.indexOf(AMOUNT) + AMOUNT.length();
        int to = from;
        while (Character.isDigit(value.charAt(to))) {
            to++;
        }
        return Long.parseLong(value.substring(from, to));
    }
}
