package dev.mirrorbridge;

import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.WindowedSum;

/** An average over the time that Kafka's own is over, in which each value is recorded together with how many there are. */
final class WeightedAvg implements MeasurableStat {
    private final WindowedSum sums = new WindowedSum();
    private final WindowedSum counts = new WindowedSum();
    private double sum;
    private double count;

    /** What the next value that is recorded stands for; other values count as none. */
    synchronized void next(double ofSum, double ofCount) {
        sum = ofSum;
        count = ofCount;
    }

    @Override
    public synchronized void record(MetricConfig config, double value, long timeMs) {
        if (count > 0) {
            sums.record(config, sum, timeMs);
            counts.record(config, count, timeMs);
            count = 0;
        }
    }

    @Override
    public synchronized double measure(MetricConfig config, long nowMs) {
        double counted = counts.measure(config, nowMs);
        double summed = sums.measure(config, nowMs);
        return counted > 0 ? summed / counted : Double.NaN;
    }
}
