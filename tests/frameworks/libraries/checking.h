// How the libraries' checks run: names come in as arguments (none: all), one line per check goes out: `ok NAME`, or
// `FAILED NAME: why`, which ends the program. Numbers that must be the same natively and under floe go out before it
// as `value NAME NUMBERS…`, exactly as the machine holds them.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static const char *checking = "start";

[[noreturn]] static void failed(const char *why, long code) {
    std::printf("FAILED %s: %s (%ld)\n", checking, why, code);
    std::fflush(stdout);
    std::_Exit(1);
}

// Every library of NVIDIA's answers 0 when all is well.
#define GOOD(call)                                             \
    do {                                                       \
        const auto status = (call);                            \
        if (status != 0) failed(#call, static_cast<long>(status)); \
    } while (0)

static void expect(bool holds, const char *what) {
    if (!holds) failed(what, 0);
}

static void near_to(const char *what, double got, double want, double tolerance) {
    if (!(std::fabs(got - want) <= tolerance)) {
        std::fprintf(stderr, "%s: %.17g, expected %.17g\n", what, got, want);
        failed(what, 0);
    }
}

template <typename T>
static void all_near(const char *what, const std::vector<T> &got, const std::vector<T> &want, double tolerance) {
    expect(got.size() == want.size(), what);
    for (size_t at = 0; at < got.size(); ++at) near_to(what, got[at], want[at], tolerance);
}

// The same numbers on every machine, between -1 and 1.
static std::vector<double> numbers(size_t count, unsigned seed) {
    std::vector<double> drawn(count);
    unsigned long long state = seed * 0x9E3779B97F4A7C15ull + 1;
    for (double &number : drawn) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        number = static_cast<double>(state >> 40) / (1 << 23) - 1.0;
    }
    return drawn;
}

template <typename T>
static T *to_device(const std::vector<T> &values) {
    T *there = nullptr;
    GOOD(cudaMalloc(&there, values.size() * sizeof(T)));
    GOOD(cudaMemcpy(there, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return there;
}

template <typename T>
static std::vector<T> to_host(const T *there, size_t count) {
    std::vector<T> values(count);
    GOOD(cudaMemcpy(values.data(), there, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

template <typename T>
static void exactly(const std::vector<T> &values, size_t count) {
    std::printf("value %s", checking);
    for (size_t at = 0; at < count && at < values.size(); ++at) std::printf(" %a", static_cast<double>(values[at]));
    std::printf("\n");
}

struct Check {
    const char *name;
    void (*run)();
};

template <size_t COUNT>
static int run_checks(const Check (&all)[COUNT], int argc, char **argv) {
    const auto wanted = [&](const char *name) {
        bool named = false;
        for (int at = 1; at < argc; ++at) {
            if (std::strncmp(argv[at], "--", 2) == 0) continue;
            named = true;
            if (std::strcmp(argv[at], name) == 0) return true;
        }
        return !named;
    };
    std::printf("checks");
    for (const Check &check : all) {
        if (wanted(check.name)) std::printf(" %s", check.name);
    }
    std::printf("\n");
    for (const Check &check : all) {
        if (!wanted(check.name)) continue;
        std::fflush(stdout);
        checking = check.name;
        check.run();
        std::printf("ok %s\n", check.name);
    }
    std::fflush(stdout);
    return 0;
}
