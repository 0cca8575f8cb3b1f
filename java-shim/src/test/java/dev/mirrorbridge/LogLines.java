package dev.mirrorbridge;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Collectors;

/** What the shim logs while this is open, at every level. */
final class LogLines extends Handler implements AutoCloseable {
    private static final Logger SHIM = Logger.getLogger("dev.mirrorbridge");
    private final List<LogRecord> records = new CopyOnWriteArrayList<>();

    LogLines() {
        SHIM.setLevel(Level.ALL);
        SHIM.addHandler(this);
    }

    List<String> from(Level least) {
        return records.stream().filter(r -> r.getLevel().intValue() >= least.intValue())
            .map(LogRecord::getMessage).collect(Collectors.toList());
    }

    @Override
    public void publish(LogRecord line) {
        records.add(line);
    }

    @Override
    public void flush() {
    }

    @Override
    public void close() {
        SHIM.removeHandler(this);
        SHIM.setLevel(null);
    }
}
