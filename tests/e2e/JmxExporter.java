import com.sun.tools.attach.VirtualMachine;
import io.prometheus.jmx.JmxCollector;
import io.prometheus.metrics.expositionformats.ExpositionFormats;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Prints what the Prometheus JMX exporter shows of a running JVM: its process id, then configurations of the exporter; a
 * form feed after each.
 */
final class JmxExporter {
    private JmxExporter() {
    }

    public static void main(String[] args) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(args[0]);
        String address = machine.startLocalManagementAgent();
        machine.detach();
        for (int i = 1; i < args.length; i++) {
            PrometheusRegistry registry = new PrometheusRegistry();
            String config = Files.readString(Path.of(args[i]));
            new JmxCollector("jmxUrl: '" + address + "'\n" + config).register(registry);
            ExpositionFormats.init().getPrometheusTextFormatWriter().write(System.out, registry.scrape());
            System.out.print('\f');
        }
    }
}
