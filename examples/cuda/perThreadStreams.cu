// Compiled with a default stream per thread: launches of different threads without a stream do not wait for one
// another. Each thread's are in order, the legacy stream still waits for all, and handles name both default streams.
// No argument. Checks every element and order.
#include "check.h"

#include <condition_variable>
#include <mutex>
#include <thread>

constexpr int count = 4000;
constexpr unsigned block = 256;

__global__ void fill(int *data, int value) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) data[i] = value;
}

__global__ void add(int *data, int value) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) data[i] += value;
}

static std::mutex mutex;
static std::condition_variable changed;
static bool open_now = false;

static void CUDART_CB wait_until_open(void *) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { return open_now; });
}

// CUDA loads a kernel when it is launched first, and waits for all work then.
static void load_kernels() {
    int *data = device_alloc<int>(count);
    fill<<<blocks_for(count, block), block>>>(data, 0);
    add<<<blocks_for(count, block), block>>>(data, 0);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(data));
}

// One thread's default stream is held up; the others' are not.
static void threads_are_independent(Verdict &verdict) {
    load_kernels();
    std::thread held([&] {
        CHECK(cudaLaunchHostFunc(nullptr, wait_until_open, nullptr));
        verdict.expect(cudaStreamQuery(nullptr) == cudaErrorNotReady, "the held thread's stream is busy");
        (void)cudaGetLastError();
        CHECK(cudaStreamSynchronize(nullptr));
    });
    std::vector<std::thread> threads;
    std::vector<char> right(4, 0);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&right, t] {
            int *data = nullptr;
            CHECK(cudaMallocAsync(&data, count * sizeof(int), nullptr));
            fill<<<blocks_for(count, block), block>>>(data, t);
            for (int i = 0; i < 20; ++i) add<<<blocks_for(count, block), block>>>(data, i);
            std::vector<int> got(count);
            CHECK(cudaMemcpyAsync(got.data(), data, count * sizeof(int), cudaMemcpyDeviceToHost, nullptr));
            CHECK(cudaStreamSynchronize(nullptr));
            right[static_cast<size_t>(t)] = got == std::vector<int>(count, t + 190);
            CHECK(cudaFreeAsync(data, nullptr));
            CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        });
    }
    for (std::thread &thread : threads) thread.join();
    for (const char one : right) verdict.expect(one != 0, "a thread's default stream keeps its order");
    {
        const std::lock_guard<std::mutex> lock(mutex);
        open_now = true;
        changed.notify_all();
    }
    held.join();
}

// The legacy stream, by its handle, waits for blocking streams, of which a thread's default stream is one.
static void legacy_stream_waits(Verdict &verdict) {
    int *data = device_alloc<int>(count);
    fill<<<blocks_for(count, block), block>>>(data, 5);
    add<<<blocks_for(count, block), block, 0, cudaStreamLegacy>>>(data, 6);
    add<<<blocks_for(count, block), block, 0, cudaStreamPerThread>>>(data, 7);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(nullptr));
    const std::vector<int> want(count, 18);
    verdict.equal("legacy stream between", host_copy(data, count).data(), want.data(), count);
    CHECK(cudaFree(data));
}

int main() {
    Verdict verdict;
    CHECK(cudaFree(nullptr));
    threads_are_independent(verdict);
    legacy_stream_waits(verdict);
    return verdict.finish();
}
