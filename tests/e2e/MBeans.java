import com.sun.tools.attach.VirtualMachine;
import java.util.TreeMap;
import javax.management.Attribute;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints MBeans of a running JVM, over JMX: its process id, then patterns; name, attribute and value on a line. */
final class MBeans {
    private MBeans() {
    }

    public static void main(String[] args) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(args[0]);
        String address = machine.startLocalManagementAgent();
        machine.detach();
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (int i = 1; i < args.length; i++) {
                for (ObjectName name : server.queryNames(new ObjectName(args[i]), null)) {
                    print(server, name);
                }
            }
        }
    }

    private static void print(MBeanServerConnection server, ObjectName name) throws Exception {
        MBeanAttributeInfo[] infos = server.getMBeanInfo(name).getAttributes();
        String[] names = new String[infos.length];
        for (int i = 0; i < infos.length; i++) {
            names[i] = infos[i].getName();
        }
        TreeMap<String, Object> values = new TreeMap<>();
        for (Attribute attribute : server.getAttributes(name, names).asList()) {
            values.put(attribute.getName(), attribute.getValue());
        }
        values.forEach((attribute, value) -> System.out.println(name + "\t" + attribute + "\t" + value));
    }
}
