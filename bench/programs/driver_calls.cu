// Costs of single CUDA calls to the caller: launches, waits, events, allocations, copies of every size. The budget in
// milliseconds per measurement comes in as the only argument; one JSON line per measurement goes out: the median over
// many timed batches. It checks what it copied and what its kernel counted, and never prints a time of work whose
// result was wrong.
#include "timing.h"

__global__ void count_up(unsigned *counter) {
    if (threadIdx.x == 0) atomicAdd(counter, 1u);
}

static void launches() {
    section = "launches";
    unsigned *counter = nullptr;
    CHECK(cudaMalloc(&counter, sizeof(unsigned)));
    CHECK(cudaMemset(counter, 0, sizeof(unsigned)));
    uint64_t launched = 0;
    const auto launch = [&] {
        count_up<<<1, 32>>>(counter);
        ++launched;
    };
    measure("launch.caller", 500, launch, synchronize);
    CHECK(cudaGetLastError());
    measure("launch.synchronize", 1, [&] { launch(); synchronize(); }, idle);
    measure("launch.of_2000", 1, [&] {
        for (int repeat = 0; repeat < 2000; ++repeat) launch();
        synchronize();
    }, idle);
    unsigned counted = 0;
    CHECK(cudaMemcpy(&counted, counter, sizeof counted, cudaMemcpyDeviceToHost));
    if (counted != static_cast<unsigned>(launched)) fail("count_up", "not every launch was executed once");
    CHECK(cudaFree(counter));
    done();
}

static void events() {
    section = "events";
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    measure("event.record", 100, [&] { CHECK(cudaEventRecord(event)); }, synchronize);
    measure("event.query", 100, [&] { CHECK(cudaEventQuery(event)); }, idle);
    measure("synchronize.idle", 100, [&] { CHECK(cudaStreamSynchronize(0)); }, idle);
    CHECK(cudaEventDestroy(event));
    done();
}

static void allocations() {
    section = "allocations";
    constexpr size_t kBytes = 1 << 20;
    measure("malloc.free", 1, [] {
        void *memory = nullptr;
        CHECK(cudaMalloc(&memory, kBytes));
        CHECK(cudaFree(memory));
    }, idle);
    measure("malloc_async.free", 10, [] {
        void *memory = nullptr;
        CHECK(cudaMallocAsync(&memory, kBytes, 0));
        CHECK(cudaFreeAsync(memory, 0));
    }, synchronize);
    done();
}

static void fill(std::vector<uint32_t> &words, uint32_t seed) {
    for (auto &word : words) word = seed = seed * 1664525u + 1013904223u;
}

// One size and kind of host memory, both ways; the bytes that come back must be those that went.
static void copy_of(const char *size, size_t bytes, bool pinned) {
    std::vector<uint32_t> pattern(bytes / 4);
    fill(pattern, static_cast<uint32_t>(bytes));
    void *host = nullptr, *device = nullptr;
    if (pinned) CHECK(cudaMallocHost(&host, bytes));
    else host = std::malloc(bytes);
    if (host == nullptr) fail("malloc", "no memory");
    CHECK(cudaMalloc(&device, bytes));
    std::memcpy(host, pattern.data(), bytes);
    const std::string suffix = std::string(".") + (pinned ? "pinned." : "pageable.") + size;
    measure(("copy.to_device" + suffix).c_str(), 1,
            [&] {
                CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
                // The call may return before the bytes are there: a rate counts only what has arrived.
                if (bytes >= kLeastOfARate) synchronize();
            },
            synchronize, bytes);
    std::memset(host, 0, bytes);
    measure(("copy.to_host" + suffix).c_str(), 1,
            [&] { CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost)); }, idle, bytes);
    if (std::memcmp(host, pattern.data(), bytes) != 0) fail("cudaMemcpy", "the bytes that came back are not those sent");
    CHECK(cudaFree(device));
    if (pinned) CHECK(cudaFreeHost(host));
    else std::free(host);
}

static void copies() {
    section = "copies";
    const struct { const char *name; size_t bytes; } sizes[] = {
        {"4B", 4}, {"64KB", 64 << 10}, {"1MB", 1 << 20}, {"16MB", 16 << 20}, {"256MB", 256 << 20}};
    for (const auto &size : sizes) {
        for (const bool pinned : {true, false}) copy_of(size.name, size.bytes, pinned);
    }
    done();
}

int main(int argc, char **argv) {
    const Section sections[] = {
        {"launches", launches}, {"events", events},
        {"allocations", allocations}, {"copies", copies}};
    return run_sections("driver_calls", sections, argc, argv);
}
