// Pinned memory: asynchronous copies in both directions, in stream order, of lines and boxes. Memory is freed while
// work with it is in flight. If the device can, kernels read and write more than 16 MiB of it in place.
// No argument, or `copies`: without the kernels. Checks every byte.
#include "check.h"

#include <cstdint>
#include <cstring>

constexpr size_t words = size_t{6} << 20;  // 24 MiB.

__global__ void add_one(uint32_t *to, const uint32_t *from, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
        to[i] = from[i] + 1;
    }
}

static uint32_t *pinned(size_t count, unsigned flags = cudaHostAllocDefault) {
    void *memory = nullptr;
    CHECK(cudaHostAlloc(&memory, count * sizeof(uint32_t), flags));
    return static_cast<uint32_t *>(memory);
}

static uint32_t pattern(size_t index) { return static_cast<uint32_t>(index * 2654435761u >> 7); }

static bool all(const uint32_t *memory, size_t count, uint32_t more) {
    for (size_t i = 0; i < count; ++i) {
        if (memory[i] != pattern(i) + more) return false;
    }
    return true;
}

static void copies(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    uint32_t *source = pinned(words), *target = pinned(words);
    uint32_t *device = nullptr;
    CHECK(cudaMalloc(&device, words * sizeof(uint32_t)));
    for (size_t i = 0; i < words; ++i) source[i] = pattern(i);
    const size_t bytes = words * sizeof(uint32_t);
    // A round of copies and kernels, in stream order, all before the first is waited for.
    CHECK(cudaMemcpyAsync(device, source, bytes, cudaMemcpyHostToDevice, stream));
    for (int round = 0; round < 3; ++round) {
        add_one<<<256, 256, 0, stream>>>(device, device, words);
        CHECK_LAUNCH();
        CHECK(cudaMemcpyAsync(target, device, bytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaMemcpyAsync(device, target, bytes, cudaMemcpyHostToDevice, stream));
    }
    CHECK(cudaMemcpyAsync(target, device, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(all(target, words, 3), "asynchronous copies and kernels in stream order");

    // Work that a program waits for is over when the call returns.
    bool right = true;
    for (uint32_t value = 0; value < 50; ++value) {
        source[value] = value;
        CHECK(cudaMemcpy(device, source + value, sizeof(uint32_t), cudaMemcpyHostToDevice));
        source[value] = ~0u;
        CHECK(cudaMemcpy(target + 5, device, sizeof(uint32_t), cudaMemcpyDeviceToHost));
        right = right && target[5] == value;
    }
    for (size_t i = 0; i < words; ++i) source[i] = pattern(i);
    CHECK(cudaMemcpy(device, source, bytes, cudaMemcpyHostToDevice));
    std::memset(source, 0, bytes);
    CHECK(cudaMemcpy(target, device, bytes, cudaMemcpyDeviceToHost));
    verdict.expect(right && all(target, words, 0), "copies that are waited for");

    // Boxes: every second row of 1,000 words there and back.
    constexpr size_t width = 1000, rows = 500;
    CHECK(cudaMemsetAsync(device, 0, bytes, stream));
    CHECK(cudaMemcpy2DAsync(device, width * 8, target, width * 4, width * 4, rows, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpy2DAsync(source, width * 4, device, width * 8, width * 4, rows, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(all(source, width * rows, 0), "boxes");

    // Freeing waits for the work that names the memory.
    right = true;
    for (int round = 0; round < 20; ++round) {
        uint32_t *short_lived = pinned(words / 8);
        for (size_t i = 0; i < words / 8; ++i) short_lived[i] = pattern(i) + static_cast<uint32_t>(round);
        CHECK(cudaMemcpyAsync(device, short_lived, bytes / 8, cudaMemcpyHostToDevice, stream));
        CHECK(cudaFreeHost(short_lived));
        CHECK(cudaMemcpyAsync(target, device, bytes / 8, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        right = right && all(target, words / 8, static_cast<uint32_t>(round));
    }
    verdict.expect(right, "memory freed behind its copies");
    CHECK(cudaFreeHost(source));
    CHECK(cudaFreeHost(target));
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
}

static void in_place(Verdict &verdict) {
    uint32_t *from = pinned(words, cudaHostAllocMapped), *to = pinned(words, cudaHostAllocMapped);
    void *device_from = nullptr, *device_to = nullptr;
    for (size_t i = 0; i < words; ++i) from[i] = pattern(i);
    if (cudaHostGetDevicePointer(&device_from, from, 0) != cudaSuccess) {
        // Through a network a server may keep less equal on both sides (--mirrored-memory), and floe says so by this error.
        verdict.expect(cudaGetLastError() == cudaErrorMemoryAllocation, "too much to mirror is refused by name");
    } else {
        CHECK(cudaHostGetDevicePointer(&device_to, to, 0));
        add_one<<<256, 256>>>(static_cast<uint32_t *>(device_to), static_cast<uint32_t *>(device_from), words);
        add_one<<<256, 256>>>(static_cast<uint32_t *>(device_from), static_cast<uint32_t *>(device_to), words);
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
        verdict.expect(all(to, words, 1) && all(from, words, 2), "kernels read and write pinned memory in place");
        for (size_t i = 0; i < words; ++i) from[i] = pattern(i) + 7;
        add_one<<<256, 256>>>(static_cast<uint32_t *>(device_to), static_cast<uint32_t *>(device_from), words);
        CHECK_LAUNCH();
        CHECK(cudaFreeHost(from));
        verdict.expect(all(to, words, 8), "what the program changed is what the next kernel reads; freeing waits for it");
        from = nullptr;
    }
    if (from != nullptr) CHECK(cudaFreeHost(from));
    CHECK(cudaFreeHost(to));
}

int main(int argc, char **argv) {
    Verdict verdict;
    copies(verdict);
    int maps = 0;
    CHECK(cudaDeviceGetAttribute(&maps, cudaDevAttrCanMapHostMemory, 0));
    const char *wanted = argc < 2 ? "" : argv[1];
    // The CPU device maps what was allocated, and not what was registered: its attribute says no.
    if (std::strcmp(wanted, "mapped") == 0 || (maps != 0 && std::strcmp(wanted, "copies") != 0)) in_place(verdict);
    return verdict.finish();
}
