// Pageable memory: copies in both directions around every size at which the way changes, from untouched memory, behind
// kernels, and by many threads. One waits behind a host function that ends only when the program lets it. Checks every
// byte. Arguments: how many threads, how often each copies.
#include "check.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

using Word = uint32_t;

constexpr size_t kib = 1024, mib = 1024 * kib;
constexpr size_t most = 40 * mib;

__global__ void add(Word *memory, Word more, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
        memory[i] += more;
    }
}

// Memory nobody has touched.
static std::unique_ptr<unsigned char[]> fresh(size_t bytes) {
    return std::unique_ptr<unsigned char[]>(new unsigned char[bytes]);
}

static unsigned char pattern(size_t index, size_t seed) {
    return static_cast<unsigned char>((index + seed) * 2654435761u >> 11);
}

static void fill(unsigned char *memory, size_t bytes, size_t seed) {
    for (size_t i = 0; i < bytes; ++i) memory[i] = pattern(i, seed);
}

static bool is(const unsigned char *memory, size_t bytes, size_t seed) {
    for (size_t i = 0; i < bytes; ++i) {
        if (memory[i] != pattern(i, seed)) return false;
    }
    return true;
}

// There and back; what was read may be changed as soon as the call returns.
static bool there_and_back(unsigned char *device, size_t bytes, size_t seed, cudaStream_t stream) {
    auto source = fresh(bytes), target = fresh(bytes);
    fill(source.get(), bytes, seed);
    if (stream == nullptr) {
        CHECK(cudaMemcpy(device, source.get(), bytes, cudaMemcpyHostToDevice));
        fill(source.get(), bytes, seed + 1);
        CHECK(cudaMemcpy(target.get(), device, bytes, cudaMemcpyDeviceToHost));
    } else {
        CHECK(cudaMemcpyAsync(device, source.get(), bytes, cudaMemcpyHostToDevice, stream));
        fill(source.get(), bytes, seed + 1);
        CHECK(cudaMemcpyAsync(target.get(), device, bytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    return is(target.get(), bytes, seed);
}

static void sizes(Verdict &verdict, unsigned char *device) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (size_t size : {size_t{1}, 4 * kib, 32 * kib, 64 * kib, 128 * kib, 512 * kib, mib, 4 * mib, 17 * mib, most - kib}) {
        bool right = true;
        for (size_t bytes : {size - 1, size, size + 1}) {
            if (bytes == 0) continue;
            right = right && there_and_back(device, bytes, bytes, nullptr);
            right = right && there_and_back(device + 3, bytes, bytes + 9, stream);
        }
        if (!right) std::printf("about %zu bytes\n", size);
        verdict.expect(right, "there and back");
    }
    CHECK(cudaStreamDestroy(stream));
}

static void behind_kernels(Verdict &verdict, unsigned char *device) {
    constexpr size_t words = 6 * mib;
    std::vector<Word> host(words), back(words);
    for (size_t i = 0; i < words; ++i) host[i] = static_cast<Word>(i * 7);
    Word *memory = reinterpret_cast<Word *>(device);
    bool right = true;
    for (Word round = 1; round <= 3; ++round) {
        CHECK(cudaMemcpyAsync(memory, host.data(), words * sizeof(Word), cudaMemcpyHostToDevice, nullptr));
        add<<<256, 256>>>(memory, round, words);
        CHECK_LAUNCH();
        CHECK(cudaMemcpyAsync(back.data(), memory, words * sizeof(Word), cudaMemcpyDeviceToHost, nullptr));
        for (size_t i = 0; i < words; ++i) right = right && back[i] == host[i] + round;
        host.swap(back);
    }
    verdict.expect(right, "copies and kernels in stream order");
}

static void together(Verdict &verdict, int count, size_t rounds) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int index = 0; index < count; ++index) {
        threads.emplace_back([index, rounds, &wrong] {
            const size_t bytes = (mib >> (index % 4)) * 5 + static_cast<size_t>(index) * 1001;
            cudaStream_t stream;
            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            unsigned char *device = device_alloc<unsigned char>(bytes);
            for (size_t round = 0; round < rounds; ++round) {
                if (!there_and_back(device, bytes, static_cast<size_t>(index) * 100 + round, stream)) ++wrong;
            }
            CHECK(cudaFree(device));
            CHECK(cudaStreamDestroy(stream));
        });
    }
    for (std::thread &thread : threads) thread.join();
    verdict.expect(wrong == 0, "many threads at once");
}

static void CUDART_CB until_told(void *told) {
    while (!static_cast<std::atomic<bool> *>(told)->load()) std::this_thread::yield();
}

// A stream waits at a host function while a thread copies behind it, which a driver may block. Another thread continues
// with its own stream.
static void behind_a_host_function(Verdict &verdict, unsigned char *device) {
    cudaStream_t held, other;
    CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    unsigned char *elsewhere = device_alloc<unsigned char>(5 * mib);
    auto source = fresh(most), target = fresh(most);
    fill(source.get(), most, 77);
    std::atomic<bool> told{false}, right{false};
    CHECK(cudaLaunchHostFunc(held, until_told, &told));
    std::thread behind([&] {
        CHECK(cudaMemcpyAsync(device, source.get(), most, cudaMemcpyHostToDevice, held));
        fill(source.get(), most, 78);
        CHECK(cudaMemcpyAsync(target.get(), device, most, cudaMemcpyDeviceToHost, held));
        CHECK(cudaStreamSynchronize(held));
    });
    std::thread beside([&] { right = there_and_back(elsewhere, 5 * mib, 5, other); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    told = true;
    beside.join();
    behind.join();
    verdict.expect(right, "another stream copies");
    verdict.expect(is(target.get(), most, 77), "copies behind a host function");
    CHECK(cudaFree(elsewhere));
    CHECK(cudaStreamDestroy(held));
    CHECK(cudaStreamDestroy(other));
}

int main(int argc, char **argv) {
    Verdict verdict;
    unsigned char *device = device_alloc<unsigned char>(most + kib);
    sizes(verdict, device);
    behind_kernels(verdict, device);
    together(verdict, static_cast<int>(size_argument(argc, argv, 1, 8)), size_argument(argc, argv, 2, 8));
    behind_a_host_function(verdict, device);
    CHECK(cudaFree(device));
    return verdict.finish();
}
