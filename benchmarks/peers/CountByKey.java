import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Kafka Streams counts a topic's records by key, exactly once, until the topic's end is committed.
 *
 * <p>Arguments: bootstrap servers, topic, state folder, records, the application's id. Prints one line of JSON: when it began, when the last
 * record was committed (milliseconds since 1970), the rows, and the sum of the counts.
 */
public final class CountByKey {
    private CountByKey() {}

    public static void main(String[] arguments) throws Exception {
        long began = System.currentTimeMillis();
        String servers = arguments[0];
        long records = Long.parseLong(arguments[3]);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[1]).groupByKey().count(Materialized.as("counts"));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[4]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put("auto.offset.reset", "earliest");
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings);
                Admin admin = Admin.create(clientOf(servers))) {
            streams.start();
            while (committed(admin, arguments[4]) < records) {
                Thread.sleep(20);
            }
            long done = System.currentTimeMillis();
            long rows = 0;
            long sum = 0;
            var store = StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.<String, Long>keyValueStore());
            try (var all = streams.store(store).all()) {
                while (all.hasNext()) {
                    rows++;
                    sum += all.next().value;
                }
            }
            System.out.printf("{\"began\": %d, \"done\": %d, \"rows\": %d, \"sum\": %d}%n", began, done, rows, sum);
            streams.close(Duration.ofSeconds(20));
        }
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
