// A program that never rests: it launches and synchronizes in a loop over its own memory, and is moved meanwhile.
// GIB and SHARE come in as arguments: how much memory it has, and the share of it that its kernels write again and again. A
// line on stdin has it print the longest time between two steps since the last one; the end of stdin has it check all its memory.
#include <atomic>
#include <thread>

#include "timing.h"

constexpr size_t kBlock = 64 << 20;
constexpr size_t kWords = kBlock / sizeof(unsigned long long);
constexpr unsigned long long kFactor = 0x9e3779b97f4a7c15;

__device__ unsigned long long ticks = 5;

__global__ void fill(unsigned long long *words, unsigned long long seed) {
    const size_t stride = gridDim.x * static_cast<size_t>(blockDim.x);
    for (size_t at = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; at < kWords; at += stride) {
        words[at] = (at + seed) * kFactor;
    }
}

__global__ void add_one(unsigned long long *words) {
    const size_t stride = gridDim.x * static_cast<size_t>(blockDim.x);
    for (size_t at = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; at < kWords; at += stride) words[at] += 1;
}

__global__ void count_wrong(const unsigned long long *words, unsigned long long seed, unsigned long long added,
                            unsigned long long *wrong) {
    const size_t stride = gridDim.x * static_cast<size_t>(blockDim.x);
    for (size_t at = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; at < kWords; at += stride) {
        if (words[at] != (at + seed) * kFactor + added) atomicAdd(wrong, 1ull);
    }
}

__global__ void tick() { ticks += 1; }

static std::atomic<int> asked{0};
static std::atomic<bool> over{false};

static void listen() {
    for (int letter; (letter = std::getchar()) != EOF;) {
        if (letter == '\n') ++asked;
    }
    over = true;
}

int main(int argc, char **argv) {
    section = "steady";
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s GIB SHARE\n", argv[0]);
        return 2;
    }
    const double gib = std::atof(argv[1]), share = std::atof(argv[2]);
    const size_t count = std::max<size_t>(1, static_cast<size_t>(gib * (1 << 30) / kBlock));
    const size_t hot = share > 0 ? std::max<size_t>(1, static_cast<size_t>(share * count)) : 0;
    std::vector<unsigned long long *> blocks(count);
    std::vector<unsigned long long> added(count, 0);
    for (size_t index = 0; index < count; ++index) {
        CHECK(cudaMalloc(&blocks[index], kBlock));
        fill<<<1024, 256>>>(blocks[index], index * 77);
    }
    unsigned long long *wrong = nullptr;
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    CHECK(cudaDeviceSynchronize());
    std::thread(listen).detach();
    std::printf("ready\n");
    std::fflush(stdout);
    using Clock = std::chrono::steady_clock;
    double longest = 0;
    unsigned long long steps = 0;
    int answered = 0;
    for (auto last = Clock::now(); !over;) {
        if (hot > 0) {
            const size_t block = steps % hot;
            add_one<<<512, 256>>>(blocks[block]);
            added[block] += 1;
        }
        tick<<<1, 1>>>();
        CHECK(cudaDeviceSynchronize());
        ++steps;
        const auto now = Clock::now();
        longest = std::max(longest, std::chrono::duration<double, std::milli>(now - last).count());
        last = now;
        if (answered < asked) {
            ++answered;
            std::printf("{\"longest_ms\":%.3f}\n", longest);
            std::fflush(stdout);
            longest = 0;
            last = Clock::now();
        }
    }
    for (size_t index = 0; index < count; ++index) {
        count_wrong<<<1024, 256>>>(blocks[index], index * 77, added[index], wrong);
    }
    unsigned long long bad = 0, ticked = 0;
    CHECK(cudaMemcpy(&bad, wrong, sizeof bad, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpyFromSymbol(&ticked, ticks, sizeof ticked));
    if (bad != 0 || ticked != steps + 5) fail("steady", "memory is not what it was");
    std::printf("right %llu\n", steps);
    return 0;
}
