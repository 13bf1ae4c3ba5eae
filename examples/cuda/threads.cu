// Many threads with several streams each, while one thread waits for a stream that a host function blocks. The others
// must finish with right results. Then threads hand work to one another through events, and threads share one stream.
// Arguments: threads (default 6). Checks every element, and that no thread waited for the blocked one.
#include "check.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

constexpr int streams_of_a_thread = 3;
constexpr int rounds = 20;
constexpr int count = 5000;
constexpr unsigned block = 256;

__global__ void fill(int *data, int value) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) data[i] = value;
}

__global__ void add(int *data, int value) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) data[i] += value;
}

// A door that a host function waits at until somebody opens it.
struct Door {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    bool open = false;

    void pass() {
        std::unique_lock<std::mutex> lock(mutex);
        reached = true;
        changed.notify_all();
        changed.wait(lock, [this] { return open; });
    }
    void wait_until_reached() {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return reached; });
    }
    void unlock() {
        const std::lock_guard<std::mutex> lock(mutex);
        open = true;
        changed.notify_all();
    }
};

static void CUDART_CB wait_at_door(void *door) { static_cast<Door *>(door)->pass(); }

// CUDA loads a kernel when it is launched first, and waits for all work then.
static void load_kernels() {
    int *data = device_alloc<int>(count);
    fill<<<blocks_for(count, block), block>>>(data, 0);
    add<<<blocks_for(count, block), block>>>(data, 0);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(data));
}

// Resources of a thread. Made and freed while nobody is held up: pinning memory waits for all work, too.
struct Bench {
    cudaStream_t streams[streams_of_a_thread];
    int *device[streams_of_a_thread], *host[streams_of_a_thread];

    Bench() {
        for (int s = 0; s < streams_of_a_thread; ++s) {
            CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
            CHECK(cudaMalloc(&device[s], count * sizeof(int)));
            CHECK(cudaMallocHost(&host[s], count * sizeof(int)));
        }
    }
    Bench(const Bench &) = delete;
    Bench &operator=(const Bench &) = delete;
    ~Bench() {
        for (int s = 0; s < streams_of_a_thread; ++s) {
            CHECK(cudaFreeHost(host[s]));
            CHECK(cudaFree(device[s]));
            CHECK(cudaStreamDestroy(streams[s]));
        }
    }
};

// One thread's work: rounds of launches and copies on its own streams. Gives the number of wrong elements.
static size_t work_of(int thread, Bench &bench) {
    auto &[streams, device, host] = bench;
    size_t wrong = 0;
    for (int round = 0; round < rounds; ++round) {
        for (int s = 0; s < streams_of_a_thread; ++s) {
            fill<<<blocks_for(count, block), block, 0, streams[s]>>>(device[s], thread * 1000 + s);
            for (int i = 0; i < 3; ++i) add<<<blocks_for(count, block), block, 0, streams[s]>>>(device[s], round);
            CHECK(cudaMemcpyAsync(host[s], device[s], count * sizeof(int), cudaMemcpyDeviceToHost, streams[s]));
        }
        CHECK_LAUNCH();
        for (int s = 0; s < streams_of_a_thread; ++s) {
            CHECK(cudaStreamSynchronize(streams[s]));
            for (int i = 0; i < count; ++i) wrong += host[s][i] != thread * 1000 + s + 3 * round;
        }
    }
    return wrong;
}

// All threads work while one is held up in `cudaStreamSynchronize`.
static void nobody_waits_for_another(Verdict &verdict, int threads) {
    load_kernels();
    std::vector<Bench> benches(static_cast<size_t>(threads));
    Door door;
    std::atomic<bool> held_thread_is_through{false};
    std::thread held([&] {
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaLaunchHostFunc(stream, wait_at_door, &door));
        CHECK(cudaStreamSynchronize(stream));
        held_thread_is_through = true;
        CHECK(cudaStreamDestroy(stream));
    });
    door.wait_until_reached();
    std::atomic<size_t> wrong{0};
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
        Bench &bench = benches[static_cast<size_t>(t)];
        workers.emplace_back([&wrong, &bench, t] { wrong += work_of(t, bench); });
    }
    for (std::thread &worker : workers) worker.join();
    verdict.expect(!held_thread_is_through, "the one who waits still waits when all others are through");
    verdict.expect(wrong == 0, "what the others computed is right");
    door.unlock();
    held.join();
    std::printf("%d threads with %d streams each: %zu wrong\n", threads, streams_of_a_thread, wrong.load());
}

// Each thread waits for the event of the one before it: the order is made by events alone.
static void relay(Verdict &verdict, int threads) {
    int *device = device_alloc<int>(count);
    CHECK(cudaMemset(device, 0, count * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    std::vector<cudaEvent_t> events(static_cast<size_t>(threads) + 1);
    for (cudaEvent_t &event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    // The thread whose turn it is to queue; events order the work itself.
    std::atomic<int> turn{0};
    std::vector<std::thread> runners;
    for (int t = 0; t < threads; ++t) {
        runners.emplace_back([&, t] {
            cudaStream_t stream;
            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            while (turn != t) std::this_thread::yield();
            if (t > 0) CHECK(cudaStreamWaitEvent(stream, events[static_cast<size_t>(t)], 0));
            if (t == 0) fill<<<blocks_for(count, block), block, 0, stream>>>(device, 1);
            for (int i = 0; i < 10; ++i) add<<<blocks_for(count, block), block, 0, stream>>>(device, t + 1);
            CHECK(cudaEventRecord(events[static_cast<size_t>(t) + 1], stream));
            ++turn;
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaStreamDestroy(stream));
        });
    }
    for (std::thread &runner : runners) runner.join();
    const std::vector<int> want(count, 1 + 10 * threads * (threads + 1) / 2);
    verdict.equal("relay through events", host_copy(device, count).data(), want.data(), count);
    for (const cudaEvent_t event : events) CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(device));
}

// Threads queue on one stream, in any order, and wait for it all at once.
static void one_stream_for_all(Verdict &verdict, int threads) {
    int *device = device_alloc<int>(count);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemsetAsync(device, 0, count * sizeof(int), stream));
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
            for (int i = 0; i < rounds; ++i) add<<<blocks_for(count, block), block, 0, stream>>>(device, t + 1);
            CHECK_LAUNCH();
            CHECK(cudaStreamSynchronize(stream));
        });
    }
    for (std::thread &worker : workers) worker.join();
    std::vector<int> got(count);
    CHECK(cudaMemcpyAsync(got.data(), device, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<int> want(count, rounds * threads * (threads + 1) / 2);
    verdict.equal("one stream for all threads", got.data(), want.data(), count);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
}

// An error belongs to the thread that made it.
static void errors_stay_with_their_thread(Verdict &verdict) {
    std::thread failing([&] {
        fill<<<1, 4096>>>(nullptr, 0);
        verdict.expect(cudaPeekAtLastError() == cudaErrorInvalidValue, "a thread sees its own error");
    });
    failing.join();
    verdict.expect(cudaGetLastError() == cudaSuccess, "another thread does not see it");
}

int main(int argc, char **argv) {
    const int threads = static_cast<int>(size_argument(argc, argv, 1, 6));
    Verdict verdict;
    CHECK(cudaFree(nullptr));
    nobody_waits_for_another(verdict, threads);
    relay(verdict, threads);
    one_stream_for_all(verdict, threads);
    errors_stay_with_their_thread(verdict);
    return verdict.finish();
}
