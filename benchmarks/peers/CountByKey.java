import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * Kafka Streams counts a topic's records by key, exactly once, until the topic's end is committed.
 *
 * <p>Arguments: bootstrap servers, topic, state folder, records, the application's id. What it prints: see Caught.
 */
public final class CountByKey {
    private CountByKey() {}

    public static void main(String[] arguments) throws Exception {
        long began = System.currentTimeMillis();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[1]).groupByKey().count(Materialized.as("counts"));
        long records = Long.parseLong(arguments[3]);
        Caught.<Long>up(began, builder, "counts", count -> count, arguments[0], arguments[2], records, arguments[4]);
    }
}
