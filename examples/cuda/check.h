// Shared parts of all example programs: the error-check macro, comparison with a tolerance, and a deterministic input
// generator. The last line of a program is `PASSED` or `FAILED`, with exit code 0 or 1.
// It holds no kernel and calls nothing of CUDA but error names, so a program shows all it does itself.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

// Ends the program with exit code 1 when a runtime call fails, saying which call, where, and why.
#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        const cudaError_t check_status = (call);                                                           \
        if (check_status != cudaSuccess) {                                                                 \
            std::fprintf(stderr, "%s:%d: %s gave %d %s: %s\n", __FILE__, __LINE__, #call,                  \
                         static_cast<int>(check_status), cudaGetErrorName(check_status),                   \
                         cudaGetErrorString(check_status));                                                \
            std::printf("FAILED\n");                                                                       \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)

// Ends the program with exit code 1 when a launch was refused. Place it right after `<<<...>>>`.
#define CHECK_LAUNCH() CHECK(cudaGetLastError())

// Collects the outcomes of one program's checks.
struct Verdict {
    int failures = 0;

    // Records one named check and prints it when it failed.
    bool expect(bool ok, const char *what) {
        if (!ok) {
            ++failures;
            std::printf("  wrong: %s\n", what);
        }
        return ok;
    }

    // Compares `count` values: |got - want| <= absolute + relative * |want|. A NaN on one side alone is wrong.
    // Prints the first few that differ and one line with the largest difference seen.
    template <typename Got, typename Want>
    bool near(const char *what, const Got *got, const Want *want, size_t count, double relative,
              double absolute) {
        size_t wrong = 0;
        double largest = 0;
        for (size_t i = 0; i < count; ++i) {
            const double g = static_cast<double>(got[i]);
            const double w = static_cast<double>(want[i]);
            if (g == w || (std::isnan(g) && std::isnan(w))) continue;
            const double difference = std::fabs(g - w);
            if (difference > largest) largest = difference;
            if (difference <= absolute + relative * std::fabs(w)) continue;
            if (wrong++ < 4) std::printf("  wrong: %s[%zu] is %.17g, expected %.17g\n", what, i, g, w);
        }
        std::printf("%s: %zu values, largest difference %.3g, %zu wrong\n", what, count, largest, wrong);
        if (wrong != 0) ++failures;
        return wrong == 0;
    }

    // Compares `count` integers for equality, printing the first few that differ.
    template <typename Got, typename Want>
    bool equal(const char *what, const Got *got, const Want *want, size_t count) {
        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i) {
            if (got[i] == static_cast<Got>(want[i])) continue;
            if (wrong++ < 4)
                std::printf("  wrong: %s[%zu] is %lld, expected %lld\n", what, i,
                            static_cast<long long>(got[i]), static_cast<long long>(want[i]));
        }
        std::printf("%s: %zu values, %zu wrong\n", what, count, wrong);
        if (wrong != 0) ++failures;
        return wrong == 0;
    }

    // Prints the verdict and gives the program's exit code.
    int finish() const {
        std::printf(failures == 0 ? "PASSED\n" : "FAILED\n");
        std::fflush(stdout);
        return failures == 0 ? 0 : 1;
    }
};

// The same numbers on every run and every machine: a 64-bit linear congruential generator (Knuth's MMIX
// multiplier) whose high bits are used.
struct Inputs {
    uint64_t state;

    explicit Inputs(uint64_t seed = 1) : state(seed * 0x9E3779B97F4A7C15ull + 1) {}

    uint32_t bits() {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return static_cast<uint32_t>(state >> 32);
    }

    // An integer below `bound` (bound > 0); the bias is below bound / 2^32.
    uint32_t below(uint32_t bound) {
        return static_cast<uint32_t>((static_cast<uint64_t>(bits()) * bound) >> 32);
    }

    // A float in [low, high).
    float uniform(float low, float high) {
        return low + (high - low) * (static_cast<float>(bits() >> 8) * (1.0f / 16777216.0f));
    }
};

// The program's argument `index` as a positive size, or `fallback` when it is absent.
inline size_t size_argument(int argc, char **argv, int index, size_t fallback) {
    if (argc <= index) return fallback;
    char *end = nullptr;
    const unsigned long long value = std::strtoull(argv[index], &end, 10);
    if (end == argv[index] || *end != '\0' || value == 0) {
        std::fprintf(stderr, "argument %d must be a positive number: %s\n", index, argv[index]);
        std::exit(2);
    }
    return static_cast<size_t>(value);
}

// Blocks of `block` threads that cover `count` items.
inline unsigned blocks_for(size_t count, unsigned block) {
    return static_cast<unsigned>((count + block - 1) / block);
}

// Allocates device memory for `count` values.
template <typename T>
T *device_alloc(size_t count) {
    T *pointer = nullptr;
    CHECK(cudaMalloc(&pointer, count * sizeof(T)));
    return pointer;
}

// Allocates device memory and copies `values` to it.
template <typename T>
T *device_copy(const std::vector<T> &values) {
    T *pointer = device_alloc<T>(values.size());
    CHECK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return pointer;
}

// Copies `count` values from device memory; waits for the work that writes them on the default stream.
template <typename T>
std::vector<T> host_copy(const T *pointer, size_t count) {
    std::vector<T> values(count);
    CHECK(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}
