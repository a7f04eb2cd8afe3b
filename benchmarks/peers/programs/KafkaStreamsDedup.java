import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Passes each key on once. Arguments: SERVERS INPUT OUTPUT STATE_DIR TASKS COMMIT_MS ID_HEADER, then
 * client properties of the producer, each as name=value. If ID_HEADER is not empty, records have no
 * key, and each id in the header of that name is passed on once.
 */
public class KafkaStreamsDedup {
  private static final String STORE = "seen";
  private static final byte[] SEEN = {1};

  public static void main(String[] args) throws InterruptedException {
    // Bytes as they are: nothing is parsed, so nothing is paid for parsing.
    Serde<byte[]> bytes = Serdes.ByteArray();
    StreamsBuilder builder = new StreamsBuilder();
    // A persistent store is RocksDB with a Bloom filter, logged to a compacted changelog topic. It
    // is not cached: a cache is for keys that are written again, and these are written once.
    builder.addStateStore(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.Bytes(), bytes));
    KStream<byte[], byte[]> messages = builder.stream(args[1], Consumed.with(bytes, bytes));
    boolean keyed = args[6].isEmpty();
    if (!keyed) {
      // Copies of an id meet in a repartition topic, with the id as the key.
      messages = messages.process(() -> new IdAsKey(args[6])).repartition(
          Repartitioned.with(bytes, bytes).withNumberOfPartitions(Integer.parseInt(args[4])));
    }
    messages.process(() -> new Dedup(keyed), STORE).to(args[2], Produced.with(bytes, bytes));

    KafkaStreams streams = new KafkaStreams(builder.build(), properties(args));
    // By default an error that nobody catches ends the client: a supervisor within it starts the thread anew.
    streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
    streams.start();
    Thread.currentThread().join();
  }

  private static Properties properties(String[] args) {
    Properties p = new Properties();
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, "kafka-streams-" + args[2]);
    p.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[4]);
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, args[5]);
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    // More records a poll than the default of 1,000 mean fewer polls, without a cost in memory.
    p.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), "2000");
    // After a SIGKILL the group waits for this long before it gives the partitions away.
    p.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), "10000");
    for (int i = 7; i < args.length; i++) {
      String[] property = args[i].split("=", 2);
      p.put(StreamsConfig.producerPrefix(property[0]), property[1]);
    }
    return p;
  }

  private static class IdAsKey implements Processor<byte[], byte[], byte[], byte[]> {
    private final String header;
    private ProcessorContext<byte[], byte[]> context;

    IdAsKey(String header) {
      this.header = header;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      this.context = context;
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      context.forward(record.withKey(record.headers().lastHeader(header).value()));
    }
  }

  private static class Dedup implements Processor<byte[], byte[], byte[], byte[]> {
    private final boolean keyed;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<Bytes, byte[]> seen;

    Dedup(boolean keyed) {
      this.keyed = keyed;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      this.context = context;
      seen = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      if (seen.putIfAbsent(Bytes.wrap(record.key()), SEEN) == null) {
        context.forward(keyed ? record : record.withKey(null));
      }
    }
  }
}
