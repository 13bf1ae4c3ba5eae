// Sums, minima and maxima over an array by three reductions: a tree in shared memory, warp shuffles, and
// tiles of cooperative groups.
// Argument: number of elements (default 262157, not a power of two). Integer results must be equal to the
// CPU's; float sums agree within the rounding of a tree.
#include "check.h"

#include <algorithm>
#include <climits>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

constexpr unsigned threads = 256;

// The sum of one thread over its share of the array.
template <typename T>
__device__ T gather(const T *data, size_t count) {
    T sum = 0;
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step)
        sum += data[i];
    return sum;
}

template <typename T>
__global__ void sum_shared(const T *data, size_t count, T *partial) {
    extern __shared__ unsigned char memory[];
    T *values = reinterpret_cast<T *>(memory);
    values[threadIdx.x] = gather(data, count);
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) values[threadIdx.x] += values[threadIdx.x + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = values[0];
}

template <typename T>
__global__ void sum_shuffle(const T *data, size_t count, T *partial) {
    __shared__ T warps[32];
    T sum = gather(data, count);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;
    if (lane == 0) warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? warps[lane] : T(0);
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        if (lane == 0) partial[blockIdx.x] = sum;
    }
}

template <typename T>
__global__ void sum_tiles(const T *data, size_t count, T *partial) {
    const cg::thread_block block = cg::this_thread_block();
    const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    __shared__ T tiles[threads / 8];
    T sum = gather(data, count);
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) sum += tile.shfl_down(sum, offset);
    if (tile.thread_rank() == 0) tiles[tile.meta_group_rank()] = sum;
    cg::sync(block);
    if (block.thread_rank() < 32) {
        const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
        sum = cg::reduce(warp, tiles[warp.thread_rank()], cg::plus<T>());
        if (warp.thread_rank() == 0) partial[blockIdx.x] = sum;
    }
}

__global__ void extremes(const int *data, size_t count, int *lowest, int *highest) {
    int low = INT_MAX, high = INT_MIN;
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step) {
        low = min(low, data[i]);
        high = max(high, data[i]);
    }
    const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
    low = cg::reduce(warp, low, cg::less<int>());
    high = cg::reduce(warp, high, cg::greater<int>());
    if (warp.thread_rank() == 0) {
        atomicMin(lowest, low);
        atomicMax(highest, high);
    }
}

// Runs one kernel and adds its partial sums on the CPU, in double precision for floats.
template <typename T, typename Kernel>
double total(Kernel kernel, const T *data, size_t count) {
    constexpr unsigned blocks = 32;
    T *partial = device_alloc<T>(blocks);
    kernel<<<blocks, threads, threads * sizeof(T)>>>(data, count, partial);
    CHECK_LAUNCH();
    double sum = 0;
    for (const T value : host_copy(partial, blocks)) sum += static_cast<double>(value);
    CHECK(cudaFree(partial));
    return sum;
}

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 262157);
    std::vector<int> integers(count);
    std::vector<float> floats(count);
    double integer_sum = 0, float_sum = 0;
    int lowest = INT_MAX, highest = INT_MIN;
    Inputs inputs;
    for (size_t i = 0; i < count; ++i) {
        integers[i] = static_cast<int>(inputs.below(2001)) - 1000;
        floats[i] = inputs.uniform(0, 1);
        integer_sum += integers[i];
        float_sum += floats[i];
        lowest = std::min(lowest, integers[i]);
        highest = std::max(highest, integers[i]);
    }
    int *device_integers = device_copy(integers);
    float *device_floats = device_copy(floats);

    Verdict verdict;
    const double by_integer[] = {total(sum_shared<int>, device_integers, count),
                                 total(sum_shuffle<int>, device_integers, count),
                                 total(sum_tiles<int>, device_integers, count)};
    const double by_float[] = {total(sum_shared<float>, device_floats, count),
                               total(sum_shuffle<float>, device_floats, count),
                               total(sum_tiles<float>, device_floats, count)};
    for (int i = 0; i < 3; ++i) {
        static const char *names[] = {"shared memory", "shuffles", "cooperative groups"};
        std::printf("by %s:\n", names[i]);
        verdict.near("integer sum", &by_integer[i], &integer_sum, 1, 0, 0);
        verdict.near("float sum", &by_float[i], &float_sum, 1, 1e-5, 0);
    }

    const int start[] = {INT_MAX, INT_MIN};
    int *device_extremes = device_alloc<int>(2);
    CHECK(cudaMemcpy(device_extremes, start, sizeof(start), cudaMemcpyHostToDevice));
    extremes<<<16, threads>>>(device_integers, count, device_extremes, device_extremes + 1);
    CHECK_LAUNCH();
    const std::vector<int> found = host_copy(device_extremes, 2);
    const int want[] = {lowest, highest};
    verdict.equal("lowest and highest", found.data(), want, 2);

    CHECK(cudaFree(device_integers));
    CHECK(cudaFree(device_floats));
    CHECK(cudaFree(device_extremes));
    return verdict.finish();
}
