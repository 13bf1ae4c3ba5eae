// Errors during stream capture, and their effects on the capture. Each case captures, makes one mistake, and checks the
// error, the stream's state and the end of the capture. The stream must work afterwards.
// No argument.
#include "check.h"

#include <string>
#include <thread>

__global__ void store(int *out, int value) { *out = value; }

// Resources of all cases.
struct Bench {
    Verdict &verdict;
    cudaStream_t stream, other, blocking;
    cudaEvent_t event, second;
    int *data;
};

static void expect_code(Bench &bench, const std::string &what, cudaError_t got, cudaError_t want) {
    (void)cudaGetLastError();
    if (got == want) return;
    std::printf("  %s: got %d %s, expected %d %s\n", what.c_str(), static_cast<int>(got), cudaGetErrorName(got),
                static_cast<int>(want), cudaGetErrorName(want));
    bench.verdict.expect(false, what.c_str());
}

static cudaStreamCaptureStatus status_of(cudaStream_t stream) {
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    return status;
}

static void begin(Bench &bench, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    CHECK(cudaStreamBeginCapture(bench.stream, mode));
    store<<<1, 1, 0, bench.stream>>>(bench.data, 1);
    CHECK_LAUNCH();
}

// The capture ends with this error and without a graph, and the stream does real work again.
static void end_with(Bench &bench, const char *what, cudaError_t want) {
    cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(8);
    expect_code(bench, std::string(what) + ": end of the capture", cudaStreamEndCapture(bench.stream, &graph), want);
    if (want == cudaSuccess)
        CHECK(cudaGraphDestroy(graph));
    else
        bench.verdict.expect(graph == nullptr, "an invalid capture gives no graph");
    bench.verdict.expect(status_of(bench.stream) == cudaStreamCaptureStatusNone, "the stream is free again");
    store<<<1, 1, 0, bench.stream>>>(bench.data, 2);
    CHECK(cudaStreamSynchronize(bench.stream));
}

// Something refused that invalidates the capture.
template <typename Call>
static void invalidating(Bench &bench, const char *what, cudaError_t want, const Call &call) {
    begin(bench);
    expect_code(bench, what, call(), want);
    bench.verdict.expect(status_of(bench.stream) == cudaStreamCaptureStatusInvalidated, what);
    store<<<1, 1, 0, bench.stream>>>(bench.data, 3);
    expect_code(bench, std::string(what) + ": a launch afterwards", cudaGetLastError(),
                cudaErrorStreamCaptureInvalidated);
    end_with(bench, what, cudaErrorStreamCaptureInvalidated);
}

static void waits(Bench &bench) {
    const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported;
    invalidating(bench, "synchronize of the stream", unsupported, [&] { return cudaStreamSynchronize(bench.stream); });
    invalidating(bench, "query of the stream", unsupported, [&] { return cudaStreamQuery(bench.stream); });
    invalidating(bench, "synchronize of the device", unsupported, [] { return cudaDeviceSynchronize(); });
    invalidating(bench, "callback", unsupported, [&] {
        return cudaStreamAddCallback(bench.stream, [](cudaStream_t, cudaError_t, void *) {}, nullptr, 0);
    });
    invalidating(bench, "allocation", unsupported, [] {
        void *pointer = nullptr;
        return cudaMalloc(&pointer, 64);
    });
    invalidating(bench, "query of an event of other work", unsupported, [&] { return cudaEventQuery(bench.second); });
    invalidating(bench, "query of a captured event", cudaErrorCapturedEvent, [&] {
        CHECK(cudaEventRecord(bench.event, bench.stream));
        return cudaEventQuery(bench.event);
    });
    invalidating(bench, "synchronize of a captured event", cudaErrorCapturedEvent, [&] {
        CHECK(cudaEventRecord(bench.event, bench.stream));
        return cudaEventSynchronize(bench.event);
    });
}

static void borders(Bench &bench) {
    invalidating(bench, "wait for an event from outside", cudaErrorStreamCaptureIsolation, [&] {
        CHECK(cudaEventRecord(bench.second, bench.other));
        return cudaStreamWaitEvent(bench.stream, bench.second, 0);
    });

    begin(bench);
    CHECK(cudaStreamBeginCapture(bench.other, cudaStreamCaptureModeGlobal));
    CHECK(cudaEventRecord(bench.event, bench.other));
    expect_code(bench, "two captures meet", cudaStreamWaitEvent(bench.stream, bench.event, 0),
                cudaErrorStreamCaptureMerge);
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(bench.other, &graph);
    (void)cudaGetLastError();
    if (graph != nullptr) CHECK(cudaGraphDestroy(graph));
    end_with(bench, "two captures meet", cudaErrorStreamCaptureInvalidated);

    begin(bench);
    CHECK(cudaEventRecord(bench.event, bench.stream));
    CHECK(cudaStreamWaitEvent(bench.other, bench.event, 0));
    store<<<1, 1, 0, bench.other>>>(bench.data, 4);
    expect_code(bench, "end on a stream that joined", cudaStreamEndCapture(bench.other, &graph),
                cudaErrorStreamCaptureUnmatched);
    (void)cudaStreamEndCapture(bench.stream, &graph);
    (void)cudaGetLastError();

    begin(bench);
    CHECK(cudaEventRecord(bench.event, bench.stream));
    CHECK(cudaStreamWaitEvent(bench.other, bench.event, 0));
    store<<<1, 1, 0, bench.other>>>(bench.data, 4);
    end_with(bench, "a fork that was not joined", cudaErrorStreamCaptureUnjoined);
    bench.verdict.expect(status_of(bench.other) == cudaStreamCaptureStatusNone, "the fork is free again");
    CHECK(cudaStreamSynchronize(bench.other));
}

static void default_stream(Bench &bench) {
    expect_code(bench, "capture of the legacy stream",
                cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed),
                cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamBeginCapture(bench.blocking, cudaStreamCaptureModeRelaxed));
    store<<<1, 1, 0, bench.blocking>>>(bench.data, 1);
    store<<<1, 1>>>(bench.data, 2);
    expect_code(bench, "launch on the legacy stream beside a captured blocking one", cudaGetLastError(),
                cudaErrorStreamCaptureImplicit);
    cudaGraph_t graph = nullptr;
    expect_code(bench, "the blocking stream's capture", cudaStreamEndCapture(bench.blocking, &graph),
                cudaErrorStreamCaptureInvalidated);

    // A non-blocking one does not mind.
    begin(bench, cudaStreamCaptureModeRelaxed);
    store<<<1, 1>>>(bench.data, 5);
    expect_code(bench, "launch on the legacy stream beside a captured non-blocking one", cudaGetLastError(),
                cudaSuccess);
    end_with(bench, "the non-blocking stream's capture", cudaSuccess);
}

static void states(Bench &bench) {
    cudaGraph_t graph = nullptr;
    expect_code(bench, "end without a beginning", cudaStreamEndCapture(bench.stream, &graph), cudaErrorIllegalState);
    begin(bench);
    expect_code(bench, "beginning twice", cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeGlobal),
                cudaErrorIllegalState);
    end_with(bench, "beginning twice", cudaSuccess);
}

static void threads(Bench &bench) {
    begin(bench, cudaStreamCaptureModeThreadLocal);
    std::thread([&bench] {
        cudaGraph_t graph = nullptr;
        expect_code(bench, "end on another thread", cudaStreamEndCapture(bench.stream, &graph),
                    cudaErrorStreamCaptureWrongThread);
    }).join();
    cudaGraph_t none = nullptr;
    expect_code(bench, "end after the end on another thread", cudaStreamEndCapture(bench.stream, &none),
                cudaErrorIllegalState);

    begin(bench, cudaStreamCaptureModeThreadLocal);
    std::thread([&bench] {
        // This thread may do what it likes beside a thread-local capture.
        void *pointer = nullptr;
        expect_code(bench, "allocation beside a thread-local capture", cudaMalloc(&pointer, 64), cudaSuccess);
        expect_code(bench, "query beside a thread-local capture", cudaEventQuery(bench.second), cudaSuccess);
    }).join();
    end_with(bench, "thread-local capture", cudaSuccess);

    begin(bench, cudaStreamCaptureModeGlobal);
    std::thread([&bench] {
        expect_code(bench, "query beside a global capture", cudaEventQuery(bench.second),
                    cudaErrorStreamCaptureUnsupported);
    }).join();
    end_with(bench, "global capture", cudaErrorStreamCaptureInvalidated);

    begin(bench, cudaStreamCaptureModeRelaxed);
    void *pointer = nullptr;
    expect_code(bench, "allocation in a relaxed capture", cudaMalloc(&pointer, 64), cudaSuccess);
    std::thread([&bench] {
        cudaGraph_t graph = nullptr;
        expect_code(bench, "end of a relaxed capture on another thread", cudaStreamEndCapture(bench.stream, &graph),
                    cudaSuccess);
        if (graph != nullptr) CHECK(cudaGraphDestroy(graph));
    }).join();
    CHECK(cudaFree(pointer));
}

int main() {
    Verdict verdict;
    Bench bench{verdict, {}, {}, {}, {}, {}, nullptr};
    CHECK(cudaStreamCreateWithFlags(&bench.stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&bench.other, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&bench.blocking));
    CHECK(cudaEventCreateWithFlags(&bench.event, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&bench.second, cudaEventDisableTiming));
    bench.data = device_alloc<int>(1);
    CHECK(cudaEventRecord(bench.second, bench.other));
    store<<<1, 1>>>(bench.data, 0);
    CHECK(cudaDeviceSynchronize());
    waits(bench);
    borders(bench);
    default_stream(bench);
    states(bench);
    threads(bench);
    CHECK(cudaDeviceSynchronize());
    return verdict.finish();
}
