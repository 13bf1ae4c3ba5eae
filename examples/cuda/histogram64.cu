// Counts bytes into 64 bins by their upper six bits, with atomics in global memory. A second kernel keeps a histogram
// per block in shared memory and merges it at the end.
// Argument: number of bytes (default 1048576). Both counts must equal the CPU's.
#include "check.h"

constexpr unsigned bins = 64;

__global__ void histogram_global(const uint8_t *data, size_t count, unsigned *histogram) {
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step)
        atomicAdd(&histogram[data[i] >> 2], 1u);
}

// Reads four bytes at a time; `words` counts uint32 values.
__global__ void histogram_shared(const uint32_t *data, size_t words, unsigned *histogram) {
    __shared__ unsigned local[bins];
    for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x) local[bin] = 0;
    __syncthreads();
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < words; i += step) {
        const uint32_t word = data[i];
        atomicAdd(&local[(word >> 2) & 63], 1u);
        atomicAdd(&local[(word >> 10) & 63], 1u);
        atomicAdd(&local[(word >> 18) & 63], 1u);
        atomicAdd(&local[word >> 26], 1u);
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x) atomicAdd(&histogram[bin], local[bin]);
}

int main(int argc, char **argv) {
    const size_t count = (size_argument(argc, argv, 1, 1 << 20) + 3) / 4 * 4;
    std::vector<uint8_t> data(count);
    std::vector<unsigned> want(bins, 0);
    Inputs inputs;
    for (uint8_t &byte : data) {
        // Uneven on purpose: the product of two numbers crowds the low bins, where atomics then collide.
        byte = static_cast<uint8_t>(inputs.below(16) * inputs.below(17));
        ++want[byte >> 2];
    }

    uint8_t *device_data = device_copy(data);
    unsigned *device_histogram = device_alloc<unsigned>(bins);
    Verdict verdict;

    CHECK(cudaMemset(device_histogram, 0, bins * sizeof(unsigned)));
    histogram_global<<<32, 256>>>(device_data, count, device_histogram);
    CHECK_LAUNCH();
    const std::vector<unsigned> by_global = host_copy(device_histogram, bins);
    verdict.equal("histogram by global atomics", by_global.data(), want.data(), bins);

    CHECK(cudaMemset(device_histogram, 0, bins * sizeof(unsigned)));
    histogram_shared<<<32, 256>>>(reinterpret_cast<uint32_t *>(device_data), count / 4, device_histogram);
    CHECK_LAUNCH();
    const std::vector<unsigned> by_shared = host_copy(device_histogram, bins);
    verdict.equal("histogram by shared atomics", by_shared.data(), want.data(), bins);

    CHECK(cudaFree(device_data));
    CHECK(cudaFree(device_histogram));
    return verdict.finish();
}
