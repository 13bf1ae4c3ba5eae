// Copies, reads and waits between two devices; where a program sees one only, within that. The budget in milliseconds per
// measurement comes in as the first argument; one JSON line per measurement goes out: the median over many timed batches.
// It checks what it copied and read, and never prints a time of work whose result was wrong.
#include "timing.h"

__global__ void sum_of(const uint4 *words, size_t count, unsigned *sum) {
    unsigned own = 0;
    const size_t stride = gridDim.x * static_cast<size_t>(blockDim.x);
    for (size_t at = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; at < count; at += stride) {
        const uint4 word = words[at];
        own += word.x + word.y + word.z + word.w;
    }
    atomicAdd(sum, own);
}

// The device that the other end lies on, and whether kernels of device 0 reach it.
static int other_device() {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    return count > 1 ? 1 : 0;
}

static void peers() {
    section = "peers";
    const int other = other_device();
    constexpr size_t kBytes = 1 << 30;
    void *there = nullptr, *here = nullptr;
    unsigned *sum = nullptr;
    CHECK(cudaSetDevice(other));
    CHECK(cudaMalloc(&there, kBytes));
    CHECK(cudaMemset(there, 1, kBytes));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&here, kBytes));
    CHECK(cudaMalloc(&sum, sizeof(unsigned)));
    int reaches = 1;
    if (other != 0) {
        CHECK(cudaDeviceCanAccessPeer(&reaches, 0, other));
        if (reaches) CHECK(cudaDeviceEnablePeerAccess(other, 0));
    }
    const struct { const char *name; size_t bytes; } sizes[] = {{"1MB", 1 << 20}, {"256MB", 256 << 20}, {"1GB", kBytes}};
    for (const auto &size : sizes) {
        CHECK(cudaMemset(here, 0, size.bytes));
        const std::string name = std::string("between.copy.") + size.name;
        measure(name.c_str(), 1, [&] {
            CHECK(cudaMemcpyPeerAsync(here, 0, there, other, size.bytes));
            synchronize();
        }, idle, size.bytes);
        std::vector<uint8_t> got(size.bytes);
        CHECK(cudaMemcpy(got.data(), here, size.bytes, cudaMemcpyDeviceToHost));
        for (const uint8_t byte : got) {
            if (byte != 1) fail("cudaMemcpyPeerAsync", "not every byte was copied");
        }
    }
    if (reaches) {
        const auto read = [&] {
            sum_of<<<1024, 256>>>(static_cast<const uint4 *>(there), kBytes / sizeof(uint4), sum);
            synchronize();
        };
        CHECK(cudaMemset(sum, 0, sizeof(unsigned)));
        read();
        unsigned got = 0;
        CHECK(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
        if (got != static_cast<unsigned>(0x01010101u * (kBytes / 4))) fail("sum_of", "the other device's bytes were not read");
        measure("between.read", 1, read, idle, kBytes);
    }
    cudaStream_t streams[2];
    cudaEvent_t events[2];
    const int devices[2] = {0, other};
    for (int end = 0; end < 2; ++end) {
        CHECK(cudaSetDevice(devices[end]));
        CHECK(cudaStreamCreateWithFlags(&streams[end], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&events[end], cudaEventDisableTiming));
    }
    measure("between.event", 1, [&] {
        for (int hop = 0; hop < 20; ++hop) {
            const int from = hop % 2;
            CHECK(cudaEventRecord(events[from], streams[from]));
            CHECK(cudaStreamWaitEvent(streams[1 - from], events[from], 0));
        }
        CHECK(cudaStreamSynchronize(streams[0]));
    }, idle);
    done();
}

// Copies to a device that kernels do not reach, as one of another server, beside copies from pinned memory to the one that
// they leave. "part" is how many of the latter one takes.
static void servers() {
    section = "servers";
    const int other = other_device();
    constexpr size_t kBytes = 1 << 30;
    void *there = nullptr, *here = nullptr, *host = nullptr;
    CHECK(cudaSetDevice(other));
    CHECK(cudaMalloc(&there, kBytes));
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&here, kBytes));
    CHECK(cudaMallocHost(&host, kBytes));
    uint32_t seed = 1;
    const struct { const char *name; size_t bytes; } sizes[] = {{"256MB", 256 << 20}, {"1GB", kBytes}};
    for (const auto &size : sizes) {
        auto *const words = static_cast<uint32_t *>(host);
        const size_t count = size.bytes / sizeof *words;
        for (size_t at = 0; at < count; ++at) words[at] = seed = seed * 1664525u + 1013904223u;
        const uint32_t last = seed;
        const double up = measure((std::string("servers.up.") + size.name).c_str(), 1, [&] {
            CHECK(cudaMemcpyAsync(here, host, size.bytes, cudaMemcpyHostToDevice));
            synchronize();
        }, idle, size.bytes);
        const double across = measure((std::string("servers.copy.") + size.name).c_str(), 1, [&] {
            CHECK(cudaMemcpyPeerAsync(there, other, here, 0, size.bytes));
            synchronize();
        }, idle, size.bytes);
        count_of((std::string("servers.part.") + size.name).c_str(), across / up);
        std::memset(host, 0, size.bytes);
        CHECK(cudaMemcpy(host, there, size.bytes, cudaMemcpyDeviceToHost));
        uint32_t wanted = last;
        for (size_t at = count; at-- > 0; wanted = (wanted - 1013904223u) * 4276115653u) {
            if (words[at] != wanted) fail("cudaMemcpyPeerAsync", "not every word was copied");
        }
    }
    done();
}

int main(int argc, char **argv) {
    const Section sections[] = {{"peers", peers}, {"servers", servers}};
    return run_sections("between_gpus", sections, argc, argv);
}
