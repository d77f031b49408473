package tiergate.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;

/**
 * Says what Kafka's own classes make of metadata events and of records. One command per line of stdin, one answer per
 * line of stdout: {"result": …} or {"error": stack trace}, both JSON. Logs go to stderr. It ends with its input.
 */
public final class Oracle {
    private final RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
    private final Map<String, ManagerCommands> managers = new HashMap<>();
    private final RecordCommands records = new RecordCommands();

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // logging writes to stdout unless told otherwise
        ObjectMapper mapper = new ObjectMapper();
        Oracle oracle = new Oracle();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JsonNodeFactory.instance.objectNode();
            try {
                answer.set("result", oracle.obey(mapper.readTree(line)));
            } catch (Exception failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace, true));
                answer.put("error", trace.toString());
            }
            answers.println(mapper.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0); // whatever threads a manager may have left
    }

    private JsonNode obey(JsonNode command) throws Exception {
        String name = command.required("command").textValue();
        switch (name) {
            case "decode" -> {
                return decode(command.required("events"));
            }
            case "encode" -> {
                return encode(command.required("events"));
            }
            case "metadata_partitions" -> {
                return metadataPartitions(command.required("questions"));
            }
            case "open" -> managers.put(managerName(command), new ManagerCommands(command));
            case "assign" -> manager(command).assign(command);
            case "stop" -> manager(command).stop(command);
            case "write" -> manager(command).write(command);
            case "ask" -> {
                return ask(manager(command), command.required("questions"));
            }
            case "produce_records" -> records.produce(command);
            case "await_markers" -> RecordCommands.awaitMarkers(command);
            case "consume_records" -> {
                return RecordCommands.consume(command);
            }
            case "offset_bounds" -> {
                return RecordCommands.bounds(command);
            }
            case "find_offsets" -> {
                return RecordCommands.findOffsets(command);
            }
            case "read_records" -> {
                return RecordCommands.read(command);
            }
            case "close" -> managers.remove(managerName(command)).close();
            default -> throw new IllegalArgumentException("no command: " + name);
        }
        return JsonNodeFactory.instance.nullNode();
    }

    private JsonNode decode(JsonNode events) {
        ArrayNode decoded = JsonNodeFactory.instance.arrayNode();
        for (JsonNode event : events)
            decoded.add(EventJson.write(serde.deserialize(HexFormat.of().parseHex(event.textValue()))));
        return decoded;
    }

    private JsonNode encode(JsonNode events) {
        ArrayNode encoded = JsonNodeFactory.instance.arrayNode();
        for (JsonNode event : events)
            encoded.add(HexFormat.of().formatHex(serde.serialize(EventJson.read(event))));
        return encoded;
    }

    private static JsonNode metadataPartitions(JsonNode questions) {
        ArrayNode partitions = JsonNodeFactory.instance.arrayNode();
        for (JsonNode question : questions) {
            int count = question.required("partition_count").intValue();
            partitions.add(new RemoteLogMetadataTopicPartitioner(count)
                .metadataPartition(EventJson.readPartition(question.required("partition"))));
        }
        return partitions;
    }

    private static JsonNode ask(ManagerCommands manager, JsonNode questions) throws Exception {
        ArrayNode answers = JsonNodeFactory.instance.arrayNode();
        for (JsonNode question : questions)
            answers.add(manager.ask(question));
        return answers;
    }

    private ManagerCommands manager(JsonNode command) {
        return managers.get(managerName(command));
    }

    private static String managerName(JsonNode command) {
        return command.required("manager").textValue();
    }
}
