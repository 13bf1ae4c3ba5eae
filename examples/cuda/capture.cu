// Streams recorded into graphs: kernels, copies, memsets and host functions, forks and joins through events, libraries'
// questions during capture. Also capture into an existing graph, replays with other data, and an update of an
// instantiated graph from a second capture.
// No argument. Checks every element after every replay, and that nothing runs while it is recorded.
#include "check.h"

#include <cstring>
#include <thread>

constexpr int count = 4000;
constexpr unsigned block = 256;

__global__ void axpy(int *out, const int *in, int factor) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) out[i] += in[i] * factor;
}

__global__ void store(int *out, int value) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) out[i] = value;
}

static unsigned blocks() { return blocks_for(count, block); }

static cudaStreamCaptureStatus status_of(cudaStream_t stream, unsigned long long *id = nullptr) {
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamGetCaptureInfo(stream, &status, id, nullptr, nullptr, nullptr, nullptr));
    return status;
}

static void CUDART_CB count_call(void *calls) { ++*static_cast<int *>(calls); }

// One stream with everything a stream can do.
static void one_stream(Verdict &verdict, cudaStreamCaptureMode mode) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int *in, *out, calls = 0;
    CHECK(cudaMallocHost(&in, count * sizeof(int)));
    CHECK(cudaMallocHost(&out, count * sizeof(int)));
    int *a = device_alloc<int>(count), *b = device_alloc<int>(count);
    std::memset(out, 0, count * sizeof(int));
    for (int i = 0; i < count; ++i) in[i] = -1;

    verdict.expect(status_of(stream) == cudaStreamCaptureStatusNone, "a stream is not captured by itself");
    CHECK(cudaStreamBeginCapture(stream, mode));
    unsigned long long id = 0;
    verdict.expect(status_of(stream, &id) == cudaStreamCaptureStatusActive && id != 0, "a capture has a number");
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    verdict.expect(status == cudaStreamCaptureStatusActive, "a stream says that it is captured");
    CHECK(cudaMemcpyAsync(a, in, count * sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(b, 0, count * sizeof(int), stream));
    for (int i = 1; i <= 3; ++i) axpy<<<blocks(), block, 0, stream>>>(b, a, i);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyAsync(out, b, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, count_call, &calls));
    cudaGraph_t graph, during = nullptr;
    const cudaGraphNode_t *dependencies = nullptr;
    size_t dependency_count = 0;
    CHECK(cudaStreamGetCaptureInfo(stream, &status, &id, &during, &dependencies, nullptr, &dependency_count));
    verdict.expect(during != nullptr && dependency_count == 1, "a capture shows its graph and its last node");
    CHECK(cudaStreamEndCapture(stream, &graph));
    verdict.expect(status_of(stream) == cudaStreamCaptureStatusNone, "a capture ends");
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    verdict.expect(nodes == 7, "a graph has a node for each piece of work");
    CHECK(cudaDeviceSynchronize());
    verdict.expect(calls == 0 && out[5] == 0, "nothing runs while it is recorded");

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    CHECK(cudaGraphDestroy(graph));
    std::vector<int> want(count);
    for (int replay = 0; replay < 3; ++replay) {
        for (int i = 0; i < count; ++i) in[i] = i * (replay + 1);
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < count; ++i) want[static_cast<size_t>(i)] = 6 * i * (replay + 1);
        verdict.equal("replay of one stream", out, want.data(), count);
    }
    verdict.expect(calls == 3, "a host function runs with every replay");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
}

// Work forks to two more streams and comes back; `factor` is in all of it.
static cudaGraph_t forked(Verdict &verdict, cudaStream_t origin, cudaStream_t left, cudaStream_t right, int *a, int *b,
                          int *c, int factor) {
    cudaEvent_t fork, join_left, join_right;
    for (cudaEvent_t *event : {&fork, &join_left, &join_right})
        CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
    store<<<blocks(), block, 0, origin>>>(a, factor);
    CHECK(cudaEventRecord(fork, origin));
    CHECK(cudaStreamWaitEvent(left, fork, 0));
    CHECK(cudaStreamWaitEvent(right, fork, 0));
    unsigned long long of_origin = 0, of_left = 1;
    verdict.expect(status_of(origin, &of_origin) == cudaStreamCaptureStatusActive &&
                       status_of(left, &of_left) == cudaStreamCaptureStatusActive && of_origin == of_left,
                   "a stream that waits for a captured event is part of the capture");
    CHECK(cudaMemsetAsync(b, 0, count * sizeof(int), left));
    axpy<<<blocks(), block, 0, left>>>(b, a, 2);
    CHECK(cudaEventRecord(join_left, left));
    store<<<blocks(), block, 0, right>>>(c, 0);
    axpy<<<blocks(), block, 0, right>>>(c, a, 10);
    CHECK(cudaEventRecord(join_right, right));
    store<<<blocks(), block, 0, origin>>>(a, 5);
    CHECK(cudaStreamWaitEvent(origin, join_left, 0));
    CHECK(cudaStreamWaitEvent(origin, join_right, 0));
    axpy<<<blocks(), block, 0, origin>>>(c, b, 1);
    axpy<<<blocks(), block, 0, origin>>>(c, a, 1000);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(origin, &graph));
    verdict.expect(status_of(left) == cudaStreamCaptureStatusNone && status_of(right) == cudaStreamCaptureStatusNone,
                   "all streams leave when the capture ends");
    for (const cudaEvent_t event : {fork, join_left, join_right}) CHECK(cudaEventDestroy(event));
    return graph;
}

static void several_streams(Verdict &verdict) {
    cudaStream_t origin, left, right;
    CHECK(cudaStreamCreateWithFlags(&origin, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&left));
    CHECK(cudaStreamCreateWithPriority(&right, cudaStreamNonBlocking, -1));
    int *a = device_alloc<int>(count), *b = device_alloc<int>(count), *c = device_alloc<int>(count);
    // The branch that overwrites `a` runs beside those that read it: only what does not depend on it is compared.
    int *read_by_branches = device_alloc<int>(count);
    const cudaGraph_t first = forked(verdict, origin, left, right, read_by_branches, b, c, 3);
    size_t edges = 0, nodes = 0;
    CHECK(cudaGraphGetEdges(first, nullptr, nullptr, nullptr, &edges));
    CHECK(cudaGraphGetNodes(first, nullptr, &nodes));
    verdict.expect(nodes == 8 && edges == 9, "forks and joins become edges");
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, first, 0));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(first));
    CHECK(cudaFree(read_by_branches));

    // The same without the race, launched and updated from a second capture.
    cudaEvent_t fork, join;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    const auto capture = [&](int factor) {
        CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
        store<<<blocks(), block, 0, origin>>>(a, factor);
        CHECK(cudaEventRecord(fork, origin));
        CHECK(cudaStreamWaitEvent(left, fork, 0));
        store<<<blocks(), block, 0, left>>>(b, 1);
        axpy<<<blocks(), block, 0, left>>>(b, a, 2);
        CHECK(cudaEventRecord(join, left));
        store<<<blocks(), block, 0, origin>>>(c, 0);
        axpy<<<blocks(), block, 0, origin>>>(c, a, 10);
        CHECK(cudaStreamWaitEvent(origin, join, 0));
        axpy<<<blocks(), block, 0, origin>>>(c, b, 100);
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(origin, &graph));
        return graph;
    };
    const cudaGraph_t graph = capture(3), other = capture(4);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int replay = 0; replay < 3; ++replay) CHECK(cudaGraphLaunch(exec, right));
    CHECK(cudaStreamSynchronize(right));
    std::vector<int> want(count, 30 + 700);
    verdict.equal("fork and join", host_copy(c, count).data(), want.data(), count);
    cudaGraphExecUpdateResultInfo result = {};
    CHECK(cudaGraphExecUpdate(exec, other, &result));
    CHECK(cudaGraphLaunch(exec, right));
    CHECK(cudaStreamSynchronize(right));
    want.assign(count, 40 + 900);
    verdict.equal("updated from a second capture", host_copy(c, count).data(), want.data(), count);

    CHECK(cudaGraphExecDestroy(exec));
    for (const cudaGraph_t one : {graph, other}) CHECK(cudaGraphDestroy(one));
    for (const cudaEvent_t event : {fork, join}) CHECK(cudaEventDestroy(event));
    for (const cudaStream_t stream : {origin, left, right}) CHECK(cudaStreamDestroy(stream));
    for (int *pointer : {a, b, c}) CHECK(cudaFree(pointer));
}

// A stream that a function makes, joins to the capture and destroys again, as if nothing were captured.
static void passing_stream(Verdict &verdict) {
    cudaStream_t origin, passing;
    CHECK(cudaStreamCreateWithFlags(&origin, cudaStreamNonBlocking));
    int *a = device_alloc<int>(count), *b = device_alloc<int>(count);
    CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
    store<<<blocks(), block, 0, origin>>>(a, 4);
    cudaEvent_t fork, join;
    CHECK(cudaStreamCreateWithFlags(&passing, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    CHECK(cudaEventRecord(fork, origin));
    CHECK(cudaStreamWaitEvent(passing, fork, 0));
    store<<<blocks(), block, 0, passing>>>(b, 1);
    CHECK(cudaEventRecord(join, passing));
    CHECK(cudaStreamWaitEvent(origin, join, 0));
    CHECK(cudaStreamDestroy(passing));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    axpy<<<blocks(), block, 0, origin>>>(b, a, 10);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(origin, &graph));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, origin));
    CHECK(cudaStreamSynchronize(origin));
    const std::vector<int> want(count, 41);
    verdict.equal("a stream that has gone", host_copy(b, count).data(), want.data(), count);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(origin));
    for (int *pointer : {a, b}) CHECK(cudaFree(pointer));
}

// Into a graph that has a node already, behind it.
static void into_a_graph(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int *a = device_alloc<int>(count), *b = device_alloc<int>(count);
    cudaGraph_t graph, ended;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t fill;
    cudaMemsetParams zeros = {};
    zeros.dst = b;
    zeros.elementSize = 4;
    zeros.width = count;
    zeros.height = 1;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &zeros));
    CHECK(cudaStreamBeginCaptureToGraph(stream, graph, &fill, nullptr, 1, cudaStreamCaptureModeRelaxed));
    store<<<blocks(), block, 0, stream>>>(a, 9);
    axpy<<<blocks(), block, 0, stream>>>(b, a, 2);
    CHECK(cudaStreamEndCapture(stream, &ended));
    size_t nodes = 0, edges = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    verdict.expect(ended == graph && nodes == 3 && edges == 2, "a capture goes into the graph it was given");
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int replay = 0; replay < 2; ++replay) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<int> want(count, 18);
    verdict.equal("captured behind a node", host_copy(b, count).data(), want.data(), count);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}

// As PyTorch's private pools do it: memory is allocated in the middle of a capture, in relaxed mode.
static void memory_meanwhile(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    verdict.expect(mode == cudaStreamCaptureModeGlobal, "a thread's mode is global at first");
    int *data = device_alloc<int>(count);
    cudaEvent_t elsewhere;
    CHECK(cudaEventCreateWithFlags(&elsewhere, cudaEventDisableTiming));
    CHECK(cudaEventQuery(elsewhere));
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    verdict.expect(mode == cudaStreamCaptureModeRelaxed, "and is given back");
    store<<<blocks(), block, 0, stream>>>(data, 4);
    axpy<<<blocks(), block, 0, stream>>>(data, data, 1);
    // Another stream of another thread works on meanwhile.
    std::thread other([&verdict] {
        cudaStreamCaptureMode own = cudaStreamCaptureModeRelaxed;
        CHECK(cudaThreadExchangeStreamCaptureMode(&own));
        cudaStream_t free_stream;
        CHECK(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
        int *mine = device_alloc<int>(count);
        store<<<blocks(), block, 0, free_stream>>>(mine, 8);
        CHECK(cudaStreamSynchronize(free_stream));
        std::vector<int> got(count);
        CHECK(cudaMemcpyAsync(got.data(), mine, count * sizeof(int), cudaMemcpyDeviceToHost, free_stream));
        CHECK(cudaStreamSynchronize(free_stream));
        verdict.expect(got == std::vector<int>(count, 8), "another thread works while a stream is captured");
        CHECK(cudaStreamDestroy(free_stream));
        CHECK(cudaFree(mine));
    });
    other.join();
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<int> want(count, 8);
    verdict.equal("memory allocated meanwhile", host_copy(data, count).data(), want.data(), count);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(elsewhere));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
}

// A library may capture work on addresses that are no memory, to learn which kernels it would launch. cuDNN does.
static void work_that_never_runs(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    int *nowhere = reinterpret_cast<int *>(0x1000);
    CHECK(cudaMemsetAsync(nowhere, 0, 4096, stream));
    store<<<blocks(), block, 0, stream>>>(nowhere, 1);
    CHECK_LAUNCH();
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphNode_t nodes[2];
    size_t node_count = 2;
    CHECK(cudaGraphGetNodes(graph, nodes, &node_count));
    verdict.expect(node_count == 2, "work on no memory is recorded");
    cudaMemsetParams fill;
    CHECK(cudaGraphMemsetNodeGetParams(nodes[0], &fill));
    verdict.expect(fill.dst == nowhere && fill.width * fill.elementSize * fill.height == 4096, "a fill as it was asked for");
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    Verdict verdict;
    for (const auto mode :
         {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed})
        one_stream(verdict, mode);
    several_streams(verdict);
    passing_stream(verdict);
    into_a_graph(verdict);
    memory_meanwhile(verdict);
    work_that_never_runs(verdict);
    return verdict.finish();
}
