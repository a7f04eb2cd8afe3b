import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Passes each key on once, by the query that Flink's documentation gives for deduplication, which
 * its planner turns into one boolean of state a key. Arguments: SERVERS INPUT OUTPUT STATE_DIR TASKS
 * ID_HEADER, then client properties of the producer, each as name=value. If ID_HEADER is not empty,
 * records have no key, and each id in the header of that name is passed on once.
 */
public class FlinkDedup {
  private static final String QUERY =
      "INSERT INTO clean SELECT %1$s FROM (SELECT %1$s, ROW_NUMBER() OVER "
          + "(PARTITION BY %2$s ORDER BY arrived ASC) AS row_num FROM messages) WHERE row_num = 1";

  public static void main(String[] args) throws Exception {
    Path state = Path.of(args[3]);
    int tasks = Integer.parseInt(args[4]);
    StreamExecutionEnvironment env =
        StreamExecutionEnvironment.createLocalEnvironment(tasks, configuration(state, tasks));
    StreamTableEnvironment tables = StreamTableEnvironment.create(env);
    // `raw` formats pass bytes on as they are: nothing is parsed.
    boolean keyed = args[5].isEmpty();
    String columns = (keyed ? "k BYTES, " : "") + "v BYTES, h MAP<STRING, BYTES> METADATA FROM 'headers'";
    String computed = ", arrived AS PROCTIME()" + (keyed ? "" : ", id AS h['" + args[5] + "']");
    String common =
        "'connector'='kafka', 'properties.bootstrap.servers'='" + args[0] + "', 'value.format'='raw', "
            + (keyed ? "'key.format'='raw', 'key.fields'='k', 'value.fields-include'='EXCEPT_KEY', " : "");
    tables.executeSql("CREATE TABLE messages (" + columns + computed + ") WITH (" + common
        + "'topic'='" + args[1] + "', 'properties.group.id'='flink-" + args[2]
        + "', 'scan.startup.mode'='earliest-offset')");
    StringBuilder producer = new StringBuilder();
    for (int i = 6; i < args.length; i++) {
      String[] property = args[i].split("=", 2);
      producer.append(", 'properties." + property[0] + "'='" + property[1] + "'");
    }
    // Transactions outlive a restart, as the documentation asks: 10 minutes, below the broker's 15.
    tables.executeSql("CREATE TABLE clean (" + columns + ") WITH (" + common
        + "'topic'='" + args[2] + "', 'sink.delivery-guarantee'='exactly-once', "
        + "'sink.transactional-id-prefix'='flink-" + args[2]
        + "', 'properties.transaction.timeout.ms'='600000'" + producer + ")");
    String fields = keyed ? "k, v, h" : "v, h";
    tables.executeSql(String.format(QUERY, fields, keyed ? "k" : "id")).await();
  }

  private static Configuration configuration(Path state, int tasks) throws IOException {
    Path checkpoints = Files.createDirectories(state.resolve("checkpoints"));
    Configuration c = new Configuration();
    c.setString("parallelism.default", String.valueOf(tasks));
    c.setString("taskmanager.numberOfTaskSlots", String.valueOf(tasks));
    c.setString("state.backend.type", "rocksdb");
    c.setString("state.backend.rocksdb.localdir", state.resolve("rocksdb").toString());
    // Nearly all lookups are of keys that are not there.
    c.setString("state.backend.rocksdb.use-bloom-filter", "true");
    // RocksDB's memory: block cache and memtables of both tasks.
    c.setString("taskmanager.memory.managed.size", "512m");
    c.setString("taskmanager.memory.network.min", "64m");
    c.setString("taskmanager.memory.network.max", "64m");
    c.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
    c.setString("execution.checkpointing.incremental", "true");
    // The output becomes visible with a checkpoint, and each one flushes RocksDB: 2 s are near the
    // second after which the others commit.
    c.setString("execution.checkpointing.interval", "2 s");
    c.setString("execution.checkpointing.storage", "filesystem");
    c.setString("execution.checkpointing.dir", checkpoints.toUri().toString());
    c.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    c.setString("execution.checkpointing.num-retained", "2");
    // Spares a copy of each record between chained operators.
    c.setString("pipeline.object-reuse", "true");
    // Ids are kept for ever, which costs no time stamp in the state.
    c.setString("table.exec.state.ttl", "0 ms");
    c.setString("rest.bind-address", "127.0.0.1");
    c.setString("rest.address", "127.0.0.1");
    // A cluster would do this by itself; a cluster within one process starts anew with it.
    newest(checkpoints).ifPresent(last -> c.setString("execution.state-recovery.path", last));
    return c;
  }

  /** The newest checkpoint that an earlier run of this job completed. */
  private static Optional<String> newest(Path checkpoints) throws IOException {
    try (Stream<Path> files = Files.walk(checkpoints, 3)) {
      return files.filter(file -> file.getFileName().toString().equals("_metadata"))
          .max(Comparator.comparingLong(file -> file.toFile().lastModified()))
          .map(file -> file.getParent().toUri().toString());
    }
  }
}
