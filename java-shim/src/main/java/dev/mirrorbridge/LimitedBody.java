package dev.mirrorbridge;

import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** Reads a body into memory up to a limit, so that no answer whatever can end the worker. */
final class LimitedBody implements BodySubscriber<byte[]> {
    private final BodySubscriber<byte[]> whole;
    private final long limit;
    private long seen;
    private Flow.Subscription subscription;

    LimitedBody(BodySubscriber<byte[]> whole, long limit) {
        this.whole = whole;
        this.limit = limit;
    }

    @Override
    public CompletionStage<byte[]> getBody() {
        return whole.getBody();
    }

    @Override
    public void onSubscribe(Flow.Subscription given) {
        subscription = given;
        whole.onSubscribe(given);
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
        for (ByteBuffer buffer : buffers) {
            seen += buffer.remaining();
        }
        if (seen <= limit) {
            whole.onNext(buffers);
        } else {
            subscription.cancel();
            whole.onError(new IOException("the answer is larger than " + limit + " bytes"));
        }
    }

    @Override
    public void onError(Throwable cause) {
        whole.onError(cause);
    }

    @Override
    public void onComplete() {
        whole.onComplete();
    }
}
