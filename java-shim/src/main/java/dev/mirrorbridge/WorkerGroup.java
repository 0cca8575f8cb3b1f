package dev.mirrorbridge;

import java.lang.management.ManagementFactory;
import java.util.HashSet;
import java.util.Set;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Reads the {@code group.id} of the worker, by which its Connect cluster is known. Connect gives it to no plugin, in validation
 * least of all; it is in the client ids of the worker's own clients: {@code GROUP-CLIENT-shared-admin}, without CLIENT where
 * {@code client.id} is not set (KAFKA-14098). Their MBeans show it.
 */
final class WorkerGroup {
    private static final String ADMIN = "-shared-admin";

    private WorkerGroup() {
    }

    /** Null where it can't be told: a standalone worker, several workers in one JVM, no MBeans. */
    static String id() {
        return id(ManagementFactory.getPlatformMBeanServer());
    }

    static String id(MBeanServer server) {
        try {
            String admin = only(server, "kafka.admin.client:type=app-info,id=*", "id", ADMIN);
            String client = only(server, "kafka.connect:type=connect-coordinator-metrics,client-id=*", "client-id", "");
            if (admin == null || client == null) {
                return null;
            }
            String group = admin.substring(0, admin.length() - ADMIN.length());
            return group.endsWith("-" + client) ? group.substring(0, group.length() - client.length() - 1) : group;
        } catch (JMException | RuntimeException notShown) {
            return null;
        }
    }

    /** The one value of a property with that end, in names that match; null where there is another number of them. */
    private static String only(MBeanServer server, String pattern, String property, String end) throws JMException {
        Set<String> found = new HashSet<>();
        for (ObjectName name : server.queryNames(new ObjectName(pattern), null)) {
            String value = name.getKeyProperty(property);
            String plain = value.startsWith("\"") ? ObjectName.unquote(value) : value;
            if (plain.endsWith(end)) {
                found.add(plain);
            }
        }
        return found.size() == 1 ? found.iterator().next() : null;
    }
}
