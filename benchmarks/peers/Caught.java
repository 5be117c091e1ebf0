import java.time.Duration;
import java.util.Properties;
import java.util.function.ToLongFunction;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/** What the programs for Kafka Streams share: a topology runs, exactly once, until so many records are committed. */
final class Caught {
    private Caught() {}

    /**
     * Prints one line of JSON: when it began, when the last record was committed (milliseconds since 1970), the rows of a store, and the sum of
     * their amounts.
     */
    static <V> void up(long began, StreamsBuilder builder, String store, ToLongFunction<V> amount, String servers, String folder, long records,
            String application) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put("auto.offset.reset", "earliest");
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings);
                Admin admin = Admin.create(clientOf(servers))) {
            streams.start();
            while (committed(admin, application) < records) {
                Thread.sleep(20);
            }
            long done = System.currentTimeMillis();
            long rows = 0;
            long sum = 0;
            var kept = StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.<String, V>keyValueStore());
            try (var all = streams.store(kept).all()) {
                while (all.hasNext()) {
                    rows++;
                    sum += amount.applyAsLong(all.next().value);
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
