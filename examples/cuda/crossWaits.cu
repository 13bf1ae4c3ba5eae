// Streams of two devices that wait for each other's events, in an order that deadlocks where a wait holds a thread: a host
// function of the first device stands behind waits that need it. Then a value goes to and fro between the devices.
// Arguments: rounds of the second part (default 200). Checks every value, and that everything comes to an end.
#include "check.h"

#include <atomic>

constexpr unsigned threads = 128;

__global__ void fill(int *out, size_t count, int value, int rounds) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i >= count) return;
    unsigned state = static_cast<unsigned>(i) | 1;
    for (int round = 0; round < rounds; ++round) state = state * 1664525u + 1013904223u;
    out[i] = state == 0 ? value + static_cast<int>(state) : value;
}

__global__ void add(int *values, size_t count, int more) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < count) values[i] += more;
}

static std::atomic<int> called{0};

static void CUDART_CB note(void *) { ++called; }

static cudaStream_t stream_on(int device) {
    cudaStream_t stream;
    CHECK(cudaSetDevice(device));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static cudaEvent_t event_on(int device) {
    cudaEvent_t event;
    CHECK(cudaSetDevice(device));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

// Device 0's s0 waits for device 1's t, which waits for a kernel and a host function of device 0's s1.
static void wait_around(Verdict &verdict) {
    constexpr size_t count = 4096;
    cudaStream_t s0 = stream_on(0), s1 = stream_on(0), t = stream_on(1);
    cudaEvent_t x = event_on(1), z = event_on(0);
    CHECK(cudaSetDevice(0));
    int *memory = device_alloc<int>(count);
    CHECK(cudaMemset(memory, 0, count * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    constexpr int turns = 5;
    for (int turn = 0; turn < turns; ++turn) {
        CHECK(cudaSetDevice(0));
        fill<<<blocks_for(count, threads), threads, 0, s1>>>(memory, count, turn + 1, 20000);
        CHECK_LAUNCH();
        CHECK(cudaLaunchHostFunc(s1, note, nullptr));
        CHECK(cudaEventRecord(z, s1));
        CHECK(cudaSetDevice(1));
        CHECK(cudaStreamWaitEvent(t, z, 0));
        CHECK(cudaEventRecord(x, t));
        CHECK(cudaSetDevice(0));
        CHECK(cudaStreamWaitEvent(s0, x, 0));
        add<<<blocks_for(count, threads), threads, 0, s0>>>(memory, count, 100);
        CHECK_LAUNCH();
        CHECK(cudaStreamSynchronize(s0));
        std::vector<int> got(count), want(count, turn + 101);
        CHECK(cudaMemcpy(got.data(), memory, count * sizeof(int), cudaMemcpyDeviceToHost));
        verdict.equal("behind the waits", got.data(), want.data(), count);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(1));
    CHECK(cudaDeviceSynchronize());
    verdict.expect(called == turns, "each host function ran once");
    CHECK(cudaFree(memory));
}

// Each device adds to what the other has sent, without the program waiting between the rounds.
static void go_to_and_fro(Verdict &verdict, int rounds) {
    constexpr size_t count = 1000;
    cudaStream_t streams[2];
    cudaEvent_t sent[2];
    int *memory[2];
    for (int device = 0; device < 2; ++device) {
        streams[device] = stream_on(device);
        sent[device] = event_on(device);
        memory[device] = device_alloc<int>(count);
        CHECK(cudaMemset(memory[device], 0, count * sizeof(int)));
        CHECK(cudaDeviceSynchronize());
    }
    for (int round = 0; round < rounds; ++round) {
        for (int device = 0; device < 2; ++device) {
            const int other = 1 - device;
            CHECK(cudaSetDevice(device));
            if (round + device > 0) CHECK(cudaStreamWaitEvent(streams[device], sent[other], 0));
            add<<<blocks_for(count, threads), threads, 0, streams[device]>>>(memory[device], count, device + 1);
            CHECK_LAUNCH();
            CHECK(cudaMemcpyPeerAsync(memory[other], other, memory[device], device, count * sizeof(int),
                                      streams[device]));
            CHECK(cudaEventRecord(sent[device], streams[device]));
        }
    }
    CHECK(cudaStreamSynchronize(streams[1]));
    for (int device = 0; device < 2; ++device) {
        std::vector<int> got(count), want(count, 3 * rounds);
        CHECK(cudaSetDevice(device));
        CHECK(cudaMemcpy(got.data(), memory[device], count * sizeof(int), cudaMemcpyDeviceToHost));
        verdict.equal("to and fro", got.data(), want.data(), count);
        CHECK(cudaFree(memory[device]));
    }
}

int main(int argc, char **argv) {
    Verdict verdict;
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (!verdict.expect(devices >= 2, "two devices")) return verdict.finish();
    wait_around(verdict);
    go_to_and_fro(verdict, static_cast<int>(size_argument(argc, argv, 1, 200)));
    return verdict.finish();
}
