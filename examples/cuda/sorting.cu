// Sorts numbers in three ways: a bitonic network (shared memory for short strides, global for long ones) and Batcher's
// odd-even merge network. The third is a radix sort of four bits per pass with stable ranks by ballots.
// Argument: number of elements (default 8192; the networks round up to a power of two). Checks against std::sort,
// and for pairs that values stay with their keys.
#include "check.h"

#include <algorithm>
#include <numeric>

constexpr unsigned threads = 256;

// Puts the pair at `left` and `right` in ascending order, or descending.
__device__ void order(unsigned &left, unsigned &right, bool ascending) {
    if ((left > right) == ascending) {
        const unsigned kept = left;
        left = right;
        right = kept;
    }
}

// One step of the bitonic network: elements `stride` apart, runs of `size` alternate in direction.
__global__ void bitonic_step(unsigned *data, unsigned half, unsigned size, unsigned stride) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= half) return;
    const unsigned left = 2 * i - (i & (stride - 1));
    order(data[left], data[left + stride], (left & size) == 0);
}

// All steps whose stride is below 2 * threads for runs of `first` to `last`, within one block's 2 * threads.
__global__ void bitonic_shared(unsigned *data, unsigned first, unsigned last) {
    __shared__ unsigned values[2 * threads];
    const unsigned base = blockIdx.x * 2 * threads;
    values[threadIdx.x] = data[base + threadIdx.x];
    values[threadIdx.x + threads] = data[base + threadIdx.x + threads];
    for (unsigned size = first; size <= last; size *= 2)
        for (unsigned stride = min(size / 2, threads); stride > 0; stride /= 2) {
            __syncthreads();
            const unsigned left = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            order(values[left], values[left + stride], ((base + left) & size) == 0);
        }
    __syncthreads();
    data[base + threadIdx.x] = values[threadIdx.x];
    data[base + threadIdx.x + threads] = values[threadIdx.x + threads];
}

static void bitonic_sort(unsigned *data, unsigned count) {
    const unsigned blocks = count / (2 * threads);
    bitonic_shared<<<blocks, threads>>>(data, 2, 2 * threads);
    for (unsigned size = 4 * threads; size <= count; size *= 2) {
        for (unsigned stride = size / 2; stride > threads; stride /= 2)
            bitonic_step<<<blocks, threads>>>(data, count / 2, size, stride);
        bitonic_shared<<<blocks, threads>>>(data, size, size);
    }
    CHECK_LAUNCH();
}

// One step of Batcher's odd-even merge: runs of `size`, compared `stride` apart.
__global__ void odd_even_step(unsigned *data, unsigned half, unsigned size, unsigned stride) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= half) return;
    const unsigned left = 2 * i - (i & (stride - 1));
    if (stride == size / 2) {
        order(data[left], data[left + stride], true);
    } else if ((i & (size / 2 - 1)) >= stride) {
        order(data[left - stride], data[left], true);
    }
}

static void odd_even_sort(unsigned *data, unsigned count) {
    for (unsigned size = 2; size <= count; size *= 2)
        for (unsigned stride = size / 2; stride > 0; stride /= 2)
            odd_even_step<<<blocks_for(count / 2, threads), threads>>>(data, count / 2, size, stride);
    CHECK_LAUNCH();
}

constexpr unsigned digits = 16;

// Counts each block's keys by the four bits at `shift`; the counts of digit d stand together, block by block.
__global__ void radix_count(const unsigned *keys, unsigned count, unsigned shift, unsigned *counts) {
    __shared__ unsigned local[digits];
    if (threadIdx.x < digits) local[threadIdx.x] = 0;
    __syncthreads();
    const unsigned i = blockIdx.x * threads + threadIdx.x;
    if (i < count) atomicAdd(&local[(keys[i] >> shift) % digits], 1u);
    __syncthreads();
    if (threadIdx.x < digits) counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}

// Exclusive prefix sums of `count` values by a single block.
__global__ void radix_offsets(unsigned *values, unsigned count) {
    __shared__ unsigned sums[threads];
    const unsigned share = (count + threads - 1) / threads;
    const unsigned begin = min(threadIdx.x * share, count);
    const unsigned end = min(begin + share, count);
    unsigned sum = 0;
    for (unsigned i = begin; i < end; ++i) sum += values[i];
    sums[threadIdx.x] = sum;
    for (unsigned offset = 1; offset < threads; offset *= 2) {
        __syncthreads();
        const unsigned left = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0;
        __syncthreads();
        sums[threadIdx.x] += left;
    }
    unsigned running = sums[threadIdx.x] - sum;
    for (unsigned i = begin; i < end; ++i) {
        const unsigned value = values[i];
        values[i] = running;
        running += value;
    }
}

// Moves keys and values to their places; a key's rank among equal digits of its block is counted by ballots.
__global__ void radix_scatter(const unsigned *keys, const unsigned *values, unsigned count, unsigned shift,
                              const unsigned *offsets, unsigned *sorted_keys, unsigned *sorted_values) {
    __shared__ unsigned in_warp[threads / 32][digits];
    const unsigned i = blockIdx.x * threads + threadIdx.x;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Threads past the end take a digit of their own that no ballot matches.
    const unsigned digit = i < count ? (keys[i] >> shift) % digits : digits;
    unsigned rank = 0;
    for (unsigned d = 0; d < digits; ++d) {
        const unsigned same = __ballot_sync(0xffffffffu, digit == d);
        if (digit == d) rank = __popc(same & ((1u << lane) - 1));
        if (lane == 0) in_warp[warp][d] = __popc(same);
    }
    __syncthreads();
    if (i >= count) return;
    for (unsigned w = 0; w < warp; ++w) rank += in_warp[w][digit];
    const unsigned place = offsets[digit * gridDim.x + blockIdx.x] + rank;
    sorted_keys[place] = keys[i];
    sorted_values[place] = values[i];
}

static void radix_sort(unsigned *&keys, unsigned *&values, unsigned count) {
    const unsigned blocks = blocks_for(count, threads);
    unsigned *counts = device_alloc<unsigned>(blocks * digits);
    unsigned *other_keys = device_alloc<unsigned>(count);
    unsigned *other_values = device_alloc<unsigned>(count);
    for (unsigned shift = 0; shift < 32; shift += 4) {
        radix_count<<<blocks, threads>>>(keys, count, shift, counts);
        radix_offsets<<<1, threads>>>(counts, blocks * digits);
        radix_scatter<<<blocks, threads>>>(keys, values, count, shift, counts, other_keys, other_values);
        std::swap(keys, other_keys);
        std::swap(values, other_values);
    }
    CHECK_LAUNCH();
    CHECK(cudaFree(counts));
    CHECK(cudaFree(other_keys));
    CHECK(cudaFree(other_values));
}

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 8192);
    if (count > 1u << 24) {
        std::fprintf(stderr, "at most 16777216 elements: %zu\n", count);
        return 2;
    }
    size_t padded = 2 * threads;
    while (padded < count) padded *= 2;
    std::vector<unsigned> data(padded, 0xffffffffu), index(padded);
    Inputs inputs;
    for (size_t i = 0; i < count; ++i) data[i] = i % 7 == 0 ? inputs.below(100) : inputs.bits();
    std::iota(index.begin(), index.end(), 0u);
    std::vector<unsigned> want = data;
    std::sort(want.begin(), want.end());

    Verdict verdict;
    unsigned *device_data = device_copy(data);
    bitonic_sort(device_data, static_cast<unsigned>(padded));
    verdict.equal("bitonic sort", host_copy(device_data, padded).data(), want.data(), padded);

    CHECK(cudaMemcpy(device_data, data.data(), padded * sizeof(unsigned), cudaMemcpyHostToDevice));
    odd_even_sort(device_data, static_cast<unsigned>(padded));
    verdict.equal("odd-even merge sort", host_copy(device_data, padded).data(), want.data(), padded);

    CHECK(cudaMemcpy(device_data, data.data(), padded * sizeof(unsigned), cudaMemcpyHostToDevice));
    unsigned *device_index = device_copy(index);
    radix_sort(device_data, device_index, static_cast<unsigned>(count));
    verdict.equal("radix sort, keys", host_copy(device_data, count).data(), want.data(), count);
    // A stable sort of the positions by key is the only order of values that is right.
    std::stable_sort(index.begin(), index.begin() + count,
                     [&](unsigned a, unsigned b) { return data[a] < data[b]; });
    verdict.equal("radix sort, values", host_copy(device_index, count).data(), index.data(), count);

    CHECK(cudaFree(device_data));
    CHECK(cudaFree(device_index));
    return verdict.finish();
}
