import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

/**
 * Asks the classes of Apache Pulsar: reads cases from standard input, one JSON object per line, and writes them to standard
 * output with the answers under `expect`. The form of a case is that of the decision vectors.
 */
public final class Oracle {
    /** Plays one case and answers what goes under `expect`. */
    interface Suite {
        ObjectNode answer(ObjectNode given) throws Exception;
    }

    static final ObjectMapper JSON = new ObjectMapper();

    private static Map<String, Suite> suites() {
        Map<String, Suite> suites = new HashMap<>();
        Shedding.register(suites);
        Placement.register(suites);
        Transfer.register(suites);
        Averaging.register(suites);
        TopBundles.register(suites);
        Splits.register(suites);
        SplitDeciders.register(suites);
        Filters.register(suites);
        Throttling.register(suites);
        return suites;
    }

    public static void main(String[] words) throws Exception {
        Configurator.setAllLevels("", Level.OFF);  // one of the jars brings a configuration that logs to standard output
        Map<String, Suite> suites = suites();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Writer out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode given = (ObjectNode) JSON.readTree(line);
            given.remove("expect");
            String name = given.get("suite").asText() + "/" + given.get("strategy").asText();
            Suite suite = suites.get(name);
            if (suite == null) {
                throw new IllegalArgumentException("nobody answers for " + name + "; there are " + suites.keySet());
            }
            given.set("expect", suite.answer(given));
            out.write(JSON.writeValueAsString(given));
            out.write('\n');
        }
        out.flush();
        System.exit(0);  // some classes leave threads behind
    }

    private Oracle() {
    }
}
