package tiergate.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Kafka's values as JSON objects with all their fields, and back. Ids and bytes are hex, states are their numbers. */
final class EventJson {
    private static final String SEGMENT = "segment";
    private static final String UPDATE = "update";
    private static final String PARTITION_DELETE = "partition_delete";

    private EventJson() {
    }

    static ObjectNode write(RemoteLogMetadata event) {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        json.put("broker_id", event.brokerId());
        json.put("event_timestamp_ms", event.eventTimestampMs());
        if (event instanceof RemoteLogSegmentMetadata segment) {
            writeSegment(json, segment);
        } else if (event instanceof RemoteLogSegmentMetadataUpdate update) {
            json.put("type", UPDATE);
            writeSegmentId(json, update.remoteLogSegmentId());
            writeCustomMetadata(json, update.customMetadata());
            json.put("state", update.state().id());
        } else if (event instanceof RemotePartitionDeleteMetadata delete) {
            json.put("type", PARTITION_DELETE);
            writePartition(json, delete.topicIdPartition());
            json.put("state", delete.state().id());
        } else {
            throw new IllegalArgumentException("no event of the topic: " + event);
        }
        return json;
    }

    static RemoteLogMetadata read(JsonNode json) {
        int brokerId = json.required("broker_id").intValue();
        long eventTimestampMs = json.required("event_timestamp_ms").longValue();
        byte state = (byte) json.required("state").intValue();
        return switch (json.required("type").textValue()) {
            case SEGMENT -> new RemoteLogSegmentMetadata(
                readSegmentId(json),
                json.required("start_offset").longValue(),
                json.required("end_offset").longValue(),
                json.required("max_timestamp_ms").longValue(),
                brokerId,
                eventTimestampMs,
                json.required("segment_size_bytes").intValue(),
                readCustomMetadata(json),
                RemoteLogSegmentState.forId(state),
                readEpochs(json),
                json.required("txn_index_empty").booleanValue());
            case UPDATE -> new RemoteLogSegmentMetadataUpdate(
                readSegmentId(json),
                eventTimestampMs,
                readCustomMetadata(json),
                RemoteLogSegmentState.forId(state),
                brokerId);
            case PARTITION_DELETE -> new RemotePartitionDeleteMetadata(
                readPartition(json), RemotePartitionDeleteState.forId(state), eventTimestampMs, brokerId);
            default -> throw new IllegalArgumentException("no type of event: " + json);
        };
    }

    static TopicIdPartition readPartition(JsonNode json) {
        return new TopicIdPartition(
            readId(json, "topic_id"),
            new TopicPartition(json.required("topic").textValue(), json.required("partition").intValue()));
    }

    private static void writeSegment(ObjectNode json, RemoteLogSegmentMetadata segment) {
        json.put("type", SEGMENT);
        writeSegmentId(json, segment.remoteLogSegmentId());
        json.put("start_offset", segment.startOffset());
        json.put("end_offset", segment.endOffset());
        json.put("max_timestamp_ms", segment.maxTimestampMs());
        json.put("segment_size_bytes", segment.segmentSizeInBytes());
        json.put("txn_index_empty", segment.isTxnIdxEmpty());
        writeCustomMetadata(json, segment.customMetadata());
        json.put("state", segment.state().id());
        ArrayNode epochs = json.putArray("segment_leader_epochs");
        segment.segmentLeaderEpochs().forEach((epoch, start) -> epochs.addArray().add(epoch).add(start));
    }

    private static void writeSegmentId(ObjectNode json, RemoteLogSegmentId id) {
        writePartition(json, id.topicIdPartition());
        json.put("segment_id", hex(id.id()));
    }

    private static void writePartition(ObjectNode json, TopicIdPartition partition) {
        json.put("topic", partition.topic());
        json.put("topic_id", hex(partition.topicId()));
        json.put("partition", partition.partition());
    }

    private static void writeCustomMetadata(ObjectNode json, Optional<CustomMetadata> custom) {
        json.put("custom_metadata", custom.map(each -> HexFormat.of().formatHex(each.value())).orElse(null));
    }

    private static RemoteLogSegmentId readSegmentId(JsonNode json) {
        return new RemoteLogSegmentId(readPartition(json), readId(json, "segment_id"));
    }

    private static Optional<CustomMetadata> readCustomMetadata(JsonNode json) {
        JsonNode custom = json.required("custom_metadata");
        return custom.isNull()
            ? Optional.empty()
            : Optional.of(new CustomMetadata(HexFormat.of().parseHex(custom.textValue())));
    }

    private static Map<Integer, Long> readEpochs(JsonNode json) {
        Map<Integer, Long> epochs = new TreeMap<>();
        json.required("segment_leader_epochs")
            .forEach(entry -> epochs.put(entry.get(0).intValue(), entry.get(1).longValue()));
        return epochs;
    }

    private static Uuid readId(JsonNode json, String field) {
        ByteBuffer raw = ByteBuffer.wrap(HexFormat.of().parseHex(json.required(field).textValue()));
        return new Uuid(raw.getLong(), raw.getLong());
    }

    private static String hex(Uuid id) {
        HexFormat format = HexFormat.of();
        return format.toHexDigits(id.getMostSignificantBits()) + format.toHexDigits(id.getLeastSignificantBits());
    }
}
