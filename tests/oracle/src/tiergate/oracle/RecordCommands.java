package tiergate.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;

/** Records as Kafka writes them, reads them from files, and gives them to consumers. Of partition 0, unless told. */
final class RecordCommands {
    private static final Set<TransactionState> UNDER_WAY = EnumSet.of(TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_EPOCH_FENCE);

    /** By transactional id: whose transactions are left open, since closing the producer would abort them. */
    private final Map<String, KafkaProducer<byte[], byte[]>> open = new HashMap<>();

    /** A transaction that was left open is gone on with. */
    void produce(JsonNode command) throws Exception {
        Map<String, Object> config = config(command);
        String end = command.required("end").textValue();
        String transactionalId = (String) config.get("transactional.id");
        KafkaProducer<byte[], byte[]> producer = open.remove(transactionalId);
        if (producer == null) {
            producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
            if (transactionalId != null) {
                producer.initTransactions();
                producer.beginTransaction();
            }
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : command.required("records"))
            sent.add(producer.send(record(command.required("topic").textValue(), record)));
        producer.flush();
        for (Future<RecordMetadata> each : sent)
            each.get();
        switch (end) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "open" -> {
                open.put(transactionalId, producer);
                return;
            }
            default -> { }
        }
        producer.close();
    }

    /** Ending a transaction returns when its end is decided: what marks it in each partition is written later. */
    static void awaitMarkers(JsonNode command) throws Exception {
        String transactionalId = command.required("transactional_id").textValue();
        try (Admin admin = Admin.create(config(command))) {
            while (UNDER_WAY.contains(admin.describeTransactions(List.of(transactionalId))
                    .description(transactionalId).get().state()))
                Thread.sleep(5);
        }
    }

    static JsonNode consume(JsonNode command) {
        TopicPartition partition = partition(command);
        ArrayNode rows = JsonNodeFactory.instance.arrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)))
                    rows.add(row(record.offset(), record.timestamp(), record.timestampType(), record.key(),
                        record.value(), record.headers().toArray()));
            }
        }
        return rows;
    }

    /** The first and the next offset that the consumer is told of, by its isolation level. */
    static JsonNode bounds(JsonNode command) {
        TopicPartition partition = partition(command);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            ObjectNode bounds = JsonNodeFactory.instance.objectNode();
            bounds.put("start_offset", consumer.beginningOffsets(List.of(partition)).get(partition));
            bounds.put("stop_offset", consumer.endOffsets(List.of(partition)).get(partition));
            return bounds;
        }
    }

    /** For each time the first offset that is as late, or null. */
    static JsonNode findOffsets(JsonNode command) {
        TopicPartition partition = partition(command);
        ArrayNode answers = JsonNodeFactory.instance.arrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            for (JsonNode time : command.required("timestamps")) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time.longValue())).get(partition);
                if (found == null)
                    answers.addNull();
                else
                    answers.addObject().put("offset", found.offset()).put("timestamp", found.timestamp())
                        .put("leader_epoch", found.leaderEpoch().orElse(null));
            }
        }
        return answers;
    }

    static JsonNode read(JsonNode command) throws IOException {
        ArrayNode rows = JsonNodeFactory.instance.arrayNode();
        try (FileRecords records = FileRecords.open(new File(command.required("file").textValue()), false)) {
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                if (batch.isControlBatch() && !command.required("with_control").booleanValue())
                    continue;
                for (Record record : batch)
                    rows.add(row(record.offset(), record.timestamp(), batch.timestampType(), bytes(record.key()),
                        bytes(record.value()), record.headers()));
            }
        }
        return rows;
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.required("topic").textValue(), command.path("partition").asInt(0));
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        return new KafkaConsumer<>(config(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Map<String, Object> config(JsonNode command) {
        Map<String, Object> config = new HashMap<>();
        for (Map.Entry<String, JsonNode> entry : command.required("config").properties())
            config.put(entry.getKey(), entry.getValue().asText());
        return config;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode json) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : json.required("headers"))
            headers.add(new RecordHeader(header.required("key").textValue(), decoded(header.required("value"))));
        return new ProducerRecord<>(topic, json.path("partition").asInt(0), json.required("timestamp").longValue(),
            decoded(json.required("key")), decoded(json.required("value")), headers);
    }

    private static ObjectNode row(
            long offset, long timestamp, TimestampType type, byte[] key, byte[] value, Header[] headers) {
        ObjectNode row = JsonNodeFactory.instance.objectNode();
        row.put("key", encoded(key));
        row.put("value", encoded(value));
        row.put("offset", offset);
        row.put("timestamp", timestamp);
        row.put("timestamp_type", type.id);
        ArrayNode list = row.putArray("headers");
        Arrays.stream(headers).forEach(header ->
            list.addObject().put("key", header.key()).put("value", encoded(header.value())));
        return row;
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] copied = new byte[buffer.remaining()];
        buffer.duplicate().get(copied);
        return copied;
    }

    private static String encoded(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static byte[] decoded(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.textValue());
    }
}
