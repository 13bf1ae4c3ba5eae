// What the timing programs share: calls that must succeed, medians of timed batches on processors by turns, one JSON line
// per measurement, sections by name. Sections come in; lines go out. It measures nothing by itself.
#pragma once

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

static double report(const char *name, std::vector<double> times, uint64_t bytes = 0) {
    std::sort(times.begin(), times.end());
    const size_t count = times.size();
    std::printf("{\"kind\":\"time\",\"name\":\"%s\",\"seconds\":%.9g,\"low\":%.9g,\"high\":%.9g,\"iterations\":%zu",
                name, times[count / 2], times[count / 10], times[count - 1 - count / 10], count);
    if (bytes != 0) std::printf(",\"bytes\":%llu", static_cast<unsigned long long>(bytes));
    std::printf("}\n");
    std::fflush(stdout);
    return times[count / 2];
}

static void count_of(const char *name, double per_unit) {
    std::printf("{\"kind\":\"count\",\"name\":\"%s\",\"per_unit\":%.9g}\n", name, per_unit);
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

// Times batches of `each` calls of `work` until the budget is spent, and returns the median; `settle` runs between batches,
// untimed.
template <typename Work, typename Settle>
static double measure(const char *name, int each, Work work, Settle settle, uint64_t bytes = 0) {
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
    return report(name, std::move(times), bytes);
}

static void done() {
    std::printf("{\"kind\":\"done\",\"section\":\"%s\"}\n", section);
    std::fflush(stdout);
}

static void idle() {}

static void synchronize() { CHECK(cudaDeviceSynchronize()); }

struct Section {
    const char *name;
    void (*run)();
};

// Runs the sections that are named behind the budget.
template <size_t Count>
static int run_sections(const char *program, const Section (&sections)[Count], int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s BUDGET_MS SECTION…\n", program);
        return 2;
    }
    budget = std::atof(argv[1]) / 1e3;
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
