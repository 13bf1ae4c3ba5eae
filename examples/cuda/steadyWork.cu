// Work whose result is wrong when any part of it is lost, done twice or done out of order. Kernels add to earlier
// values, host functions count, and copies have all sizes. The command steadyWork N does N rounds; steadyWork until
// FILE continues until FILE exists.
#include "check.h"

#include <cstdlib>
#include <cstring>
#include <sys/stat.h>

constexpr int largest = 300 * 1000;
constexpr int sizes[] = {1, 60, 1000, 5000, 40 * 1000, largest};
constexpr int kinds = sizeof sizes / sizeof sizes[0];

__global__ void add(unsigned long long *totals, const unsigned *values, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // Not commutative: rounds in another order give other numbers.
    if (i < count) totals[i] = totals[i] * 3 + values[i];
}

static unsigned value(unsigned round, int index) {
    return round * 2654435761u + static_cast<unsigned>(index) * 40503u;
}

static bool goes_on(int argc, char **argv, unsigned round) {
    if (argc == 3 && std::strcmp(argv[1], "until") == 0) {
        struct stat there;
        return stat(argv[2], &there) != 0;
    }
    return round < (argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 100u);
}

int main(int argc, char **argv) {
    unsigned long long *totals;
    unsigned *values, *pinned;
    CHECK(cudaMalloc(&totals, largest * sizeof *totals));
    CHECK(cudaMalloc(&values, largest * sizeof *values));
    CHECK(cudaMallocHost(&pinned, largest * sizeof *pinned));
    CHECK(cudaMemset(totals, 0, largest * sizeof *totals));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaEvent_t copied;
    CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    // The memset was the default stream's.
    CHECK(cudaDeviceSynchronize());

    std::vector<unsigned long long> expected(largest, 0), seen(largest);
    std::vector<unsigned> pageable(largest);
    unsigned long long counted = 0;
    unsigned round = 0;
    bool right = true;
    for (; right && goes_on(argc, argv, round); ++round) {
        int count = sizes[round % kinds];
        bool is_pinned = round / kinds % 2 == 0;
        unsigned *from = is_pinned ? pinned : pageable.data();
        // Pinned memory may be read until its copy is over.
        CHECK(cudaEventSynchronize(copied));
        for (int i = 0; i < count; ++i) {
            from[i] = value(round, i);
            expected[i] = expected[i] * 3 + from[i];
        }
        CHECK(cudaMemcpyAsync(values, from, count * sizeof *values, cudaMemcpyHostToDevice, stream));
        CHECK(cudaEventRecord(copied, stream));
        add<<<(count + 255) / 256, 256, 0, stream>>>(totals, values, count);
        CHECK(cudaGetLastError());
        CHECK(cudaLaunchHostFunc(stream, [](void *count) { ++*static_cast<unsigned long long *>(count); }, &counted));
        int looked = static_cast<int>(round % static_cast<unsigned>(count));
        unsigned long long one = 0;
        CHECK(cudaMemcpyAsync(&one, totals + looked, sizeof one, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        right = one == expected[looked] && counted == round + 1;
        if (right && round % 32 == 31) {
            CHECK(cudaMemcpy(seen.data(), totals, largest * sizeof *totals, cudaMemcpyDeviceToHost));
            right = seen == expected;
        }
    }
    CHECK(cudaMemcpy(seen.data(), totals, largest * sizeof *totals, cudaMemcpyDeviceToHost));
    right = right && seen == expected && counted == round;
    CHECK(cudaEventDestroy(copied));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(values));
    CHECK(cudaFree(totals));
    std::printf("%u rounds\n%s\n", round, right ? "PASSED" : "FAILED");
    return right ? 0 : 1;
}
