package tiergate.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
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
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Records as Kafka writes them, reads them from files, and gives them to consumers. All of partition 0. */
final class RecordCommands {
    /** Whose transactions are left open: they would be aborted when the producer is closed. */
    private final List<KafkaProducer<byte[], byte[]>> open = new ArrayList<>();

    void produce(JsonNode command) throws Exception {
        Map<String, Object> config = config(command);
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        String end = command.required("end").textValue();
        if (!end.equals("none")) {
            producer.initTransactions();
            producer.beginTransaction();
        }
        for (JsonNode record : command.required("records"))
            producer.send(record(command.required("topic").textValue(), record));
        producer.flush();
        switch (end) {
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "open" -> {
                open.add(producer);
                return;
            }
            default -> { }
        }
        producer.close();
    }

    JsonNode consume(JsonNode command) {
        TopicPartition partition = new TopicPartition(command.required("topic").textValue(), 0);
        ArrayNode rows = JsonNodeFactory.instance.arrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config(command), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
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

    static JsonNode read(JsonNode command) throws IOException {
        ArrayNode rows = JsonNodeFactory.instance.arrayNode();
        try (FileRecords records = FileRecords.open(new File(command.required("file").textValue()), false)) {
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                if (batch.isControlBatch())
                    continue;
                for (Record record : batch)
                    rows.add(row(record.offset(), record.timestamp(), batch.timestampType(), bytes(record.key()),
                        bytes(record.value()), record.headers()));
            }
        }
        return rows;
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
        return new ProducerRecord<>(topic, 0, json.required("timestamp").longValue(), decoded(json.required("key")),
            decoded(json.required("value")), headers);
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
