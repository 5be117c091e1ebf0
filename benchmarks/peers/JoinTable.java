import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Kafka Streams joins a stream with a table by their key, exactly once, and keeps the last joined record of each key.
 *
 * <p>Arguments: bootstrap servers, the stream's topic, the table's, state folder, records of both, the application's id. The values are
 * put side by side as they are: nothing is parsed. Prints one line of JSON: when it began, when the last record was committed (milliseconds
 * since 1970), the rows, and the sum of their amounts.
 */
public final class JoinTable {
    private static final String AMOUNT = "\"amount\": ";

    private JoinTable() {}

    public static void main(String[] arguments) throws Exception {
        long began = System.currentTimeMillis();
        String servers = arguments[0];
        long records = Long.parseLong(arguments[4]);
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, byte[]> table = builder.table(arguments[2]);
        builder.<String, byte[]>stream(arguments[1]).join(table, JoinTable::both).toTable(Materialized.as("joined"));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[5]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put("auto.offset.reset", "earliest");
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings);
                Admin admin = Admin.create(clientOf(servers))) {
            streams.start();
            while (committed(admin, arguments[5]) < records) {
                Thread.sleep(20);
            }
            long done = System.currentTimeMillis();
            long rows = 0;
            long sum = 0;
            // Stored with their timestamps, which the view takes off.
            var store = StoreQueryParameters.fromNameAndType("joined", QueryableStoreTypes.<String, byte[]>keyValueStore());
            try (var all = streams.store(store).all()) {
                while (all.hasNext()) {
                    rows++;
                    sum += amount(new String(all.next().value, StandardCharsets.UTF_8));
                }
            }
            System.out.printf("{\"began\": %d, \"done\": %d, \"rows\": %d, \"sum\": %d}%n", began, done, rows, sum);
            streams.close(Duration.ofSeconds(20));
        }
    }

    private static byte[] both(byte[] left, byte[] right) {
        byte[] made = new byte[left.length + right.length];
        System.arraycopy(left, 0, made, 0, left.length);
        System.arraycopy(right, 0, made, left.length, right.length);
        return made;
    }

    private static long amount(String value) {
        int from = value.indexOf(AMOUNT) + AMOUNT.length();
        int to = from;
        while (Character.isDigit(value.charAt(to))) {
            to++;
        }
        return Long.parseLong(value.substring(from, to));
    }

    private static Properties clientOf(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        return settings;
    }

    private static long committed(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values().stream()
                .mapToLong(found -> found == null ? 0 : found.offset())
                .sum();
    }
}
