// Costs of single CUDA calls to the caller: launches, waits, events, allocations, copies of every size. The budget in
// milliseconds per measurement comes in as the only argument; one JSON line per measurement goes out: the median over
// many timed batches. It checks what it copied and what its kernel counted, and never prints a time of work whose
// result was wrong.
#include <cuda_runtime.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                                       \
    do {                                                                                                  \
        const cudaError_t status = (call);                                                                \
        if (status != cudaSuccess) fail(#call, cudaGetErrorName(status));                                 \
    } while (0)

static const char *section = "start";

[[noreturn]] static void fail(const char *what, const char *why) {
    std::printf("{\"kind\":\"failed\",\"section\":\"%s\",\"reason\":\"%s: %s\"}\n", section, what, why);
    std::fflush(stdout);
    std::exit(1);
}

__global__ void count_up(unsigned *counter) {
    if (threadIdx.x == 0) atomicAdd(counter, 1u);
}

using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Time limit of one measurement.
static double budget = 0.3;

// Enough batches for a median, not more than any clock needs.
constexpr size_t kFewestBatches = 5, kMostBatches = 2000;

// From here on a copy is a matter of rate; below, of what the call costs.
constexpr size_t kLeastOfARate = 64 << 10;

static void report(const char *name, std::vector<double> times, uint64_t bytes = 0) {
    std::sort(times.begin(), times.end());
    const size_t count = times.size();
    std::printf("{\"kind\":\"time\",\"name\":\"%s\",\"seconds\":%.9g,\"low\":%.9g,\"high\":%.9g,\"iterations\":%zu",
                name, times[count / 2], times[count / 10], times[count - 1 - count / 10], count);
    if (bytes != 0) std::printf(",\"bytes\":%llu", static_cast<unsigned long long>(bytes));
    std::printf("}\n");
    std::fflush(stdout);
}

// Pairs of processors, to which the calling thread is moved one after the other. An undisturbed thread stays on its
// processor, and on a busy machine processors differ by more than the measured cost. It may leave the pair again:
// threads that libraries start from here run where they like, too.
class Turns {
  public:
    Turns() {
        const char *rotates = std::getenv("FLOE_BENCH_ROTATE");
        if (rotates == nullptr || std::strcmp(rotates, "1") != 0 || sched_getaffinity(0, sizeof all_, &all_) != 0) return;
        for (int processor = 0; processor < CPU_SETSIZE; ++processor)
            if (CPU_ISSET(processor, &all_)) processors_.push_back(processor);
    }

    // Number of shares of a measurement.
    size_t count() const { return processors_.size() >= 4 ? 8 : 1; }

    void begin(size_t turn) const {
        if (count() == 1) return;
        cpu_set_t pair;
        CPU_ZERO(&pair);
        const size_t first = 2 * (turn % (processors_.size() / 2));
        CPU_SET(processors_[first], &pair);
        CPU_SET(processors_[first + 1], &pair);
        sched_setaffinity(0, sizeof pair, &pair);
        sched_setaffinity(0, sizeof all_, &all_);
    }

  private:
    cpu_set_t all_;
    std::vector<int> processors_;
};

// Times batches of `each` calls of `work` until the budget is spent; `settle` runs between batches, untimed.
template <typename Work, typename Settle>
static void measure(const char *name, int each, Work work, Settle settle, uint64_t bytes = 0) {
    static const Turns turns;
    std::vector<double> times;
    for (size_t turn = 0; turn < turns.count(); ++turn) {
        turns.begin(turn);
        work();
        settle();
        const auto begin = Clock::now();
        const double share = budget / turns.count();
        const size_t fewest = times.size() + (kFewestBatches + turns.count() - 1) / turns.count();
        const size_t most = times.size() + kMostBatches / turns.count();
        while (times.size() < fewest || (seconds_since(begin) < share && times.size() < most)) {
            const auto start = Clock::now();
            for (int call = 0; call < each; ++call) work();
            times.push_back(seconds_since(start) / each);
            settle();
        }
    }
    report(name, std::move(times), bytes);
}

static void done() {
    std::printf("{\"kind\":\"done\",\"section\":\"%s\"}\n", section);
    std::fflush(stdout);
}

// The bench measures memory while a program waits here.
static void pause_at(const char *name) {
    std::printf("{\"kind\":\"pause\",\"name\":\"%s\"}\n", name);
    std::fflush(stdout);
    while (std::getchar() != '\n') {
        if (std::feof(stdin)) break;
    }
}

static void idle() {}

static void synchronize() { CHECK(cudaDeviceSynchronize()); }

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

// A program that holds a context and nothing else: what its memory is, is what a context costs.
static void context() {
    section = "context";
    CHECK(cudaFree(nullptr));
    pause_at("context");
    done();
}

int main(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: driver_calls BUDGET_MS SECTION…\n");
        return 2;
    }
    budget = std::atof(argv[1]) / 1e3;
    const struct { const char *name; void (*run)(); } sections[] = {
        {"context", context}, {"launches", launches}, {"events", events},
        {"allocations", allocations}, {"copies", copies}};
    for (int argument = 2; argument < argc; ++argument) {
        bool found = false;
        for (const auto &entry : sections) {
            if (std::strcmp(entry.name, argv[argument]) != 0) continue;
            entry.run();
            found = true;
        }
        if (!found) {
            std::fprintf(stderr, "no such section: %s\n", argv[argument]);
            return 2;
        }
    }
    return 0;
}
