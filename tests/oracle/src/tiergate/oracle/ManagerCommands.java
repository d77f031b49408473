package tiergate.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** One of Kafka's own metadata managers on the topic of a broker: what brokers ask of it. */
final class ManagerCommands {
    private static final long TIMEOUT_S = 60;
    private static final long POLL_MS = 5;

    private final TopicBasedRemoteLogMetadataManager manager = new TopicBasedRemoteLogMetadataManager();

    ManagerCommands(JsonNode settings) {
        Map<String, String> config = new HashMap<>();
        settings.required("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
        manager.configure(config);
        manager.onBrokerReady();
    }

    /** Returns when every partition can be read. */
    void assign(JsonNode command) throws InterruptedException {
        Set<TopicIdPartition> leaders = partitions(command.required("leaders"));
        Set<TopicIdPartition> followers = partitions(command.required("followers"));
        manager.onPartitionLeadershipChanges(leaders, followers);
        leaders.addAll(followers);
        await(() -> leaders.stream().allMatch(manager::isReady), "ready: " + leaders);
    }

    /** Returns when the partitions are forgotten, for which they must have had events and another must be assigned. */
    void stop(JsonNode command) throws InterruptedException {
        Set<TopicIdPartition> stopped = partitions(command.required("partitions"));
        manager.onStopPartitions(stopped);
        await(() -> stopped.stream().noneMatch(manager::isReady), "forgotten: " + stopped);
    }

    /** Publishes the events in this order; returns when all are consumed. */
    void write(JsonNode command) throws Exception {
        List<CompletableFuture<Void>> consumed = new ArrayList<>();
        for (JsonNode event : command.required("events"))
            consumed.add(publish(EventJson.read(event)));
        CompletableFuture.allOf(consumed.toArray(CompletableFuture[]::new)).get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    /** All that can be asked about a partition; null when it is not found. */
    JsonNode ask(JsonNode question) throws RemoteStorageException {
        TopicIdPartition partition = EventJson.readPartition(question.required("partition"));
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        try {
            writeAll(answer.putArray("segments"), manager.listRemoteLogSegments(partition));
            ObjectNode epochs = answer.putObject("epochs");
            for (JsonNode asked : question.required("epochs"))
                askEpoch(epochs.putObject(asked.required("epoch").asText()), partition, asked);
        } catch (RemoteResourceNotFoundException absent) {
            return JsonNodeFactory.instance.nullNode();
        }
        return answer;
    }

    void close() throws IOException {
        manager.close();
    }

    private void askEpoch(ObjectNode answer, TopicIdPartition partition, JsonNode asked) throws RemoteStorageException {
        int epoch = asked.required("epoch").intValue();
        answer.put("highest_offset", manager.highestOffsetForEpoch(partition, epoch).orElse(null));
        answer.put("size_bytes", manager.remoteLogSize(partition, epoch));
        writeAll(answer.putArray("segments"), manager.listRemoteLogSegments(partition, epoch));
        ArrayNode found = answer.putArray("found");
        for (JsonNode offset : asked.required("offsets"))
            found.add(orNull(manager.remoteLogSegmentMetadata(partition, epoch, offset.longValue())));
        ArrayNode next = answer.putArray("next_with_transaction_index");
        for (JsonNode offset : asked.required("transaction_offsets"))
            next.add(orNull(manager.nextSegmentWithTxnIndex(partition, epoch, offset.longValue())));
    }

    private CompletableFuture<Void> publish(RemoteLogMetadata event) throws RemoteStorageException {
        if (event instanceof RemoteLogSegmentMetadata segment)
            return manager.addRemoteLogSegmentMetadata(segment);
        if (event instanceof RemoteLogSegmentMetadataUpdate update)
            return manager.updateRemoteLogSegmentMetadata(update);
        return manager.putRemotePartitionDeleteMetadata((RemotePartitionDeleteMetadata) event);
    }

    private static Set<TopicIdPartition> partitions(JsonNode json) {
        Set<TopicIdPartition> read = new HashSet<>();
        json.forEach(each -> read.add(EventJson.readPartition(each)));
        return read;
    }

    private static void writeAll(ArrayNode json, Iterator<RemoteLogSegmentMetadata> segments) {
        segments.forEachRemaining(each -> json.add(EventJson.write(each)));
    }

    private static JsonNode orNull(Optional<RemoteLogSegmentMetadata> segment) {
        return segment.<JsonNode>map(EventJson::write).orElse(JsonNodeFactory.instance.nullNode());
    }

    private static void await(BooleanSupplier condition, String what) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline)
                throw new IllegalStateException("not in " + TIMEOUT_S + " s " + what);
            Thread.sleep(POLL_MS);
        }
    }
}
