import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.metadata.storage.RemotePartitionMetadataStore;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Applies a file of metadata events (bench/scale_events.py has its grammar) to Kafka's own cache, as a broker does with
 * what it consumes, and prints as JSON how long that took and how much memory the cache holds afterwards. Reading the
 * file is not part of the time.
 */
public final class KafkaMetadataCache {
    private static final int BATCH = 1000;

    private final RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
    private final RemotePartitionMetadataStore store = new RemotePartitionMetadataStore();
    private final Set<TopicIdPartition> known = new HashSet<>();

    public static void main(String[] arguments) throws IOException, InterruptedException {
        KafkaMetadataCache cache = new KafkaMetadataCache();
        long heapBefore = usedHeap();
        long residentBefore = residentBytes();
        long events = 0;
        long nanos = 0;
        try (DataInputStream file = new DataInputStream(
                new BufferedInputStream(Files.newInputStream(Path.of(arguments[0])), 1 << 20))) {
            for (List<byte[]> batch = read(file); !batch.isEmpty(); batch = read(file)) {
                long begin = System.nanoTime();
                for (byte[] event : batch)
                    cache.apply(event);
                nanos += System.nanoTime() - begin;
                events += batch.size();
            }
        }
        System.out.printf("{\"events\": %d, \"seconds\": %f, \"heap_bytes\": %d, \"resident_bytes\": %d}%n",
            events, nanos / 1e9, usedHeap() - heapBefore, residentBytes() - residentBefore);
        Reference.reachabilityFence(cache);
    }

    private void apply(byte[] event) {
        RemoteLogMetadata metadata = serde.deserialize(event);
        if (known.add(metadata.topicIdPartition()))
            store.maybeLoadPartition(metadata.topicIdPartition());
        store.handleRemoteLogMetadata(metadata);
    }

    private static List<byte[]> read(DataInputStream file) throws IOException {
        List<byte[]> batch = new ArrayList<>(BATCH);
        while (batch.size() < BATCH && file.available() > 0) {
            file.readUnsignedShort(); // the metadata partition: one broker reads them all
            byte[] event = new byte[file.readInt()];
            file.readFully(event);
            batch.add(event);
        }
        return batch;
    }

    private static long usedHeap() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(100);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private static long residentBytes() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status")))
            if (line.startsWith("VmRSS:"))
                return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
        throw new IOException("/proc/self/status does not tell the resident memory");
    }
}
