// Large copies from several threads at once, each on streams of its own. Sizes lie around every bound at which a copy
// may be cut or take another way. Both directions, pinned and pageable, waited for and not. Checks every byte.
#include "check.h"

#include <atomic>
#include <cstring>
#include <thread>

constexpr size_t kib = 1024;
constexpr size_t sizes[] = {
    1,         64 * kib - 1,   256 * kib - 1, 256 * kib,      512 * kib - 1,      512 * kib,     512 * kib + 1,
    768 * kib, 1024 * kib - 1, 1024 * kib,    1024 * kib + 1, 4 * 1024 * kib + 1, 9 * 1024 * kib + 5,
};
constexpr size_t largest = 9 * 1024 * kib + 5;
constexpr int threads = 4, rounds = 6;

static uint8_t pattern(size_t index, unsigned seed) {
    return static_cast<uint8_t>((index * 2654435761u >> 11) + index / 4096 + seed * 37);
}

static void fill(uint8_t *memory, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; ++i) memory[i] = pattern(i, seed);
}

static bool is(const uint8_t *memory, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; ++i) {
        if (memory[i] != pattern(i, seed)) return false;
    }
    return true;
}

// Memory of one thread: two pinned blocks, two pageable ones, two of the device.
struct Blocks {
    uint8_t *pinned[2], *device[2];
    std::vector<uint8_t> pageable[2];

    Blocks() {
        for (int i = 0; i < 2; ++i) {
            CHECK(cudaMallocHost(&pinned[i], largest));
            CHECK(cudaMalloc(&device[i], largest));
            pageable[i].resize(largest);
        }
    }

    ~Blocks() {
        for (int i = 0; i < 2; ++i) {
            CHECK(cudaFreeHost(pinned[i]));
            CHECK(cudaFree(device[i]));
        }
    }
};

// There, across the device, and back, for every size and every kind of host memory.
static bool every_size(unsigned seed) {
    Blocks blocks;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    bool right = true;
    for (size_t bytes : sizes) {
        for (int kind = 0; kind < 4; ++kind) {
            const bool pinned = kind % 2 == 0, waits = kind >= 2;
            uint8_t *from = pinned ? blocks.pinned[0] : blocks.pageable[0].data();
            uint8_t *to = pinned ? blocks.pinned[1] : blocks.pageable[1].data();
            ++seed;
            fill(from, bytes, seed);
            if (waits) {
                CHECK(cudaMemcpy(blocks.device[0], from, bytes, cudaMemcpyHostToDevice));
            } else {
                CHECK(cudaMemcpyAsync(blocks.device[0], from, bytes, cudaMemcpyHostToDevice, stream));
            }
            // Pageable sources, and copies that were waited for, have been read when the call returns.
            if (waits || !pinned) std::memset(from, 0, bytes);
            // The other stream does not wait for the default one, on which the copy may not be over.
            if (waits) CHECK(cudaStreamSynchronize(cudaStreamLegacy));
            CHECK(cudaMemcpyAsync(blocks.device[1], blocks.device[0], bytes, cudaMemcpyDeviceToDevice, stream));
            CHECK(cudaMemcpyAsync(to, blocks.device[1], bytes, cudaMemcpyDeviceToHost, stream));
            CHECK(cudaStreamSynchronize(stream));
            right = right && is(to, bytes, seed);
        }
    }
    CHECK(cudaStreamDestroy(stream));
    return right;
}

// More than any ring between program and device holds, from both kinds of memory and back into both, twice.
static bool larger_than_rings() {
    const size_t bytes = 65 * kib * kib + 7;
    uint8_t *pinned = nullptr, *device = nullptr;
    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaMalloc(&device, bytes));
    std::vector<uint8_t> pageable(bytes);
    bool right = true;
    for (unsigned seed = 1; seed < 3; ++seed) {
        fill(pinned, bytes, seed);
        CHECK(cudaMemcpy(device, pinned, bytes, cudaMemcpyHostToDevice));
        std::memset(pinned, 0, bytes);
        CHECK(cudaMemcpy(pageable.data(), device, bytes, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, 0));
        CHECK(cudaStreamSynchronize(0));
        right = right && is(pageable.data(), bytes, seed) && std::memcmp(pinned, pageable.data(), bytes) == 0;
        fill(pageable.data(), bytes, seed + 9);
        CHECK(cudaMemcpy(device, pageable.data(), bytes, cudaMemcpyHostToDevice));
        std::memset(pageable.data(), 0, bytes);
        CHECK(cudaMemcpy(pinned, device, bytes, cudaMemcpyDeviceToHost));
        right = right && is(pinned, bytes, seed + 9);
    }
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(device));
    return right;
}

// Many copies in both directions before the first is waited for, each behind the one before it.
static bool all_in_flight(unsigned seed) {
    Blocks blocks;
    cudaStream_t streams[2];
    cudaEvent_t there;
    for (cudaStream_t &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&there, cudaEventDisableTiming));
    fill(blocks.pinned[0], largest, seed);
    for (int round = 0; round < rounds; ++round) {
        // Up on one stream, down on the other, and what came down goes up again.
        CHECK(cudaMemcpyAsync(blocks.device[0], blocks.pinned[round % 2], largest, cudaMemcpyHostToDevice, streams[0]));
        CHECK(cudaEventRecord(there, streams[0]));
        CHECK(cudaStreamWaitEvent(streams[1], there, 0));
        uint8_t *to = blocks.pinned[1 - round % 2];
        CHECK(cudaMemcpyAsync(to, blocks.device[0], largest, cudaMemcpyDeviceToHost, streams[1]));
        CHECK(cudaEventRecord(there, streams[1]));
        CHECK(cudaStreamWaitEvent(streams[0], there, 0));
        // A small one in between has its place among the large ones.
        CHECK(cudaMemcpyAsync(blocks.device[1], blocks.pinned[0], 100, cudaMemcpyHostToDevice, streams[0]));
    }
    CHECK(cudaDeviceSynchronize());
    bool right = is(blocks.pinned[0], largest, seed) && is(blocks.pinned[1], largest, seed);
    CHECK(cudaEventDestroy(there));
    for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
    return right;
}

int main() {
    Verdict verdict;
    CHECK(cudaFree(nullptr));
    std::atomic<int> sized{0}, flown{0};
    std::vector<std::thread> running;
    for (unsigned index = 0; index < threads; ++index) {
        running.emplace_back([&, index] {
            sized += every_size(index * 100);
            flown += all_in_flight(index * 100 + 50);
        });
    }
    for (std::thread &thread : running) thread.join();
    verdict.expect(sized == threads, "copies of every size arrive whole");
    verdict.expect(larger_than_rings(), "copies larger than rings arrive whole");
    verdict.expect(flown == threads, "copies in both directions arrive in stream order");
    return verdict.finish();
}
