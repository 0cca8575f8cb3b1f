package dev.mirrorbridge;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import javax.management.JMException;
import javax.management.ObjectName;
import javax.management.timer.Timer;

/** The MBeans of a worker's clients by which its group.id is known. */
final class FakeWorker implements AutoCloseable {
    private final List<ObjectName> names = new ArrayList<>();

    /** {@code admin}: the client id of its shared admin client without its end; {@code client}: that of its coordinator. */
    FakeWorker(String admin, String client) throws JMException {
        register("kafka.admin.client:type=app-info,id=", admin + "-shared-admin");
        register("kafka.connect:type=connect-coordinator-metrics,client-id=", client);
    }

    private void register(String start, String value) throws JMException {
        ObjectName name = new ObjectName(start + (value.matches("[\\w-]+") ? value : ObjectName.quote(value)));
        ManagementFactory.getPlatformMBeanServer().registerMBean(new Timer(), name);
        names.add(name);
    }

    @Override
    public void close() throws JMException {
        for (ObjectName name : names) {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
        }
    }
}
