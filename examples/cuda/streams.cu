// Copies and computes on several streams at once from pinned memory, with events for order and for time. Also waits of
// one stream for another, priorities, queries, and optional host functions.
// Arguments: elements (default 262144), `host` to run the part with host functions as well. Checks every element
// and what events and queries say.
#include "check.h"

#include <algorithm>
#include <cstring>

constexpr int stream_count = 4;
constexpr unsigned threads = 256;

__global__ void scale_and_add(const int *in, int *out, size_t count, int factor) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < count) out[i] = in[i] * factor + 1;
}

// Stores `value` after some rounds of work, so that the kernel outlives the calls that follow it.
__global__ void slow_fill(int *out, size_t count, int value, int rounds) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i >= count) return;
    unsigned state = static_cast<unsigned>(i) | 1;
    for (int round = 0; round < rounds; ++round) state = state * 1664525u + 1013904223u;
    // Both arms store `value`, by way of what the compiler cannot know, so that it keeps the loop.
    out[i] = state == 0 ? value + static_cast<int>(state) : value;
}

// Chunks of one array travel on four streams: copy in, kernel, copy out, all asynchronous.
static void overlap(Verdict &verdict, size_t count) {
    int *in, *out;
    CHECK(cudaMallocHost(&in, count * sizeof(int)));
    CHECK(cudaHostAlloc(&out, count * sizeof(int), cudaHostAllocPortable));
    std::vector<int> want(count);
    Inputs inputs;
    for (size_t i = 0; i < count; ++i) {
        in[i] = static_cast<int>(inputs.below(1000000));
        want[i] = in[i] * 3 + 1;
    }
    std::memset(out, 0, count * sizeof(int));
    int *device_in = device_alloc<int>(count), *device_out = device_alloc<int>(count);
    cudaStream_t streams[stream_count];
    cudaEvent_t begin, ends[stream_count];
    CHECK(cudaEventCreate(&begin));
    for (int s = 0; s < stream_count; ++s) {
        CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&ends[s]));
    }

    const size_t chunk = (count + 2 * stream_count - 1) / (2 * stream_count);
    CHECK(cudaEventRecord(begin, streams[0]));
    for (size_t start = 0, turn = 0; start < count; start += chunk, ++turn) {
        cudaStream_t stream = streams[turn % stream_count];
        const size_t length = std::min(chunk, count - start);
        const size_t bytes = length * sizeof(int);
        CHECK(cudaMemcpyAsync(device_in + start, in + start, bytes, cudaMemcpyHostToDevice, stream));
        scale_and_add<<<blocks_for(length, threads), threads, 0, stream>>>(device_in + start, device_out + start,
                                                                          length, 3);
        CHECK_LAUNCH();
        CHECK(cudaMemcpyAsync(out + start, device_out + start, bytes, cudaMemcpyDeviceToHost, stream));
    }
    for (int s = 0; s < stream_count; ++s) CHECK(cudaEventRecord(ends[s], streams[s]));
    for (int s = 0; s < stream_count; ++s) {
        CHECK(cudaEventSynchronize(ends[s]));
        verdict.expect(cudaEventQuery(ends[s]) == cudaSuccess, "an event waited for is complete");
        verdict.expect(cudaStreamQuery(streams[s]) == cudaSuccess, "a stream whose last event passed is idle");
    }
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, ends[0]));
    verdict.expect(milliseconds >= 0 && milliseconds < 60000, "the time between two events is sane");
    verdict.equal("overlapped chunks", out, want.data(), count);

    for (int s = 0; s < stream_count; ++s) {
        CHECK(cudaStreamDestroy(streams[s]));
        CHECK(cudaEventDestroy(ends[s]));
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaFree(device_in));
    CHECK(cudaFree(device_out));
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
}

// A chain across streams: each waits for the event of the one before, so the last sees every factor.
static void chain(Verdict &verdict, size_t count) {
    int least = 0, greatest = 0;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    verdict.expect(greatest <= least, "a higher priority is a smaller number");
    int *data = device_alloc<int>(count);
    cudaStream_t streams[stream_count];
    cudaEvent_t done[stream_count];
    for (int s = 0; s < stream_count; ++s) {
        const int priority = s % 2 == 0 ? greatest : least;
        CHECK(cudaStreamCreateWithPriority(&streams[s], cudaStreamNonBlocking, priority));
        int got = 99;
        CHECK(cudaStreamGetPriority(streams[s], &got));
        verdict.expect(got == priority, "a stream has the priority it was made with");
        CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
    }
    int want = 5;
    slow_fill<<<blocks_for(count, threads), threads, 0, streams[0]>>>(data, count, 5, 100);
    CHECK(cudaEventRecord(done[0], streams[0]));
    for (int s = 1; s < stream_count; ++s) {
        CHECK(cudaStreamWaitEvent(streams[s], done[s - 1], 0));
        scale_and_add<<<blocks_for(count, threads), threads, 0, streams[s]>>>(data, data, count, s + 1);
        CHECK(cudaEventRecord(done[s], streams[s]));
        want = want * (s + 1) + 1;
    }
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(streams[stream_count - 1]));
    const std::vector<int> all(count, want);
    verdict.equal("chain of streams", host_copy(data, count).data(), all.data(), count);

    float unused = 0;
    verdict.expect(cudaEventElapsedTime(&unused, done[0], done[1]) == cudaErrorInvalidResourceHandle,
                   "events without timing give no time");
    (void)cudaGetLastError();
    cudaEvent_t never;
    CHECK(cudaEventCreate(&never));
    verdict.expect(cudaEventQuery(never) == cudaSuccess, "an event never recorded counts as complete");
    CHECK(cudaEventDestroy(never));
    for (int s = 0; s < stream_count; ++s) {
        CHECK(cudaStreamDestroy(streams[s]));
        CHECK(cudaEventDestroy(done[s]));
    }
    CHECK(cudaFree(data));
}

// Work on the default stream waits for blocking streams, and they wait for it.
static void legacy_order(Verdict &verdict, size_t count) {
    int *data = device_alloc<int>(count);
    cudaStream_t blocking;
    CHECK(cudaStreamCreate(&blocking));
    unsigned flags = 99;
    CHECK(cudaStreamGetFlags(blocking, &flags));
    verdict.expect(flags == cudaStreamDefault, "a plain stream has no flags");
    slow_fill<<<blocks_for(count, threads), threads, 0, blocking>>>(data, count, 7, 300);
    scale_and_add<<<blocks_for(count, threads), threads>>>(data, data, count, 2);
    scale_and_add<<<blocks_for(count, threads), threads, 0, blocking>>>(data, data, count, 2);
    CHECK_LAUNCH();
    const std::vector<int> want(count, (7 * 2 + 1) * 2 + 1);
    verdict.equal("default stream between", host_copy(data, count).data(), want.data(), count);
    CHECK(cudaStreamDestroy(blocking));
    CHECK(cudaFree(data));
}

// Arguments of a host function in a stream.
struct Note {
    const int *buffer;
    int seen;
    int calls;
};

static void CUDART_CB take_note(void *data) {
    Note *note = static_cast<Note *>(data);
    note->seen = note->buffer[0];
    ++note->calls;
}

static void host_functions(Verdict &verdict, size_t count) {
    int *host;
    CHECK(cudaMallocHost(&host, count * sizeof(int)));
    host[0] = 0;
    int *data = device_alloc<int>(count);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Note note = {host, 0, 0};
    for (int value = 11; value <= 12; ++value) {
        slow_fill<<<blocks_for(count, threads), threads, 0, stream>>>(data, count, value, 100);
        CHECK(cudaMemcpyAsync(host, data, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaLaunchHostFunc(stream, take_note, &note));
    }
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(note.calls == 2, "each host function ran once before the stream was idle");
    verdict.expect(note.seen == 12, "a host function sees the copy before it");
    std::printf("host functions: %d calls, last saw %d\n", note.calls, note.seen);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
    CHECK(cudaFreeHost(host));
}

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 262144);
    Verdict verdict;
    overlap(verdict, count);
    chain(verdict, count / 4 + 1);
    legacy_order(verdict, count / 4 + 1);
    if (argc > 2 && std::strcmp(argv[2], "host") == 0) host_functions(verdict, count / 4 + 1);
    return verdict.finish();
}
