// Prefix sums: an inclusive scan inside each block by warp shuffles, and an exclusive scan of a whole array. The latter
// takes three launches (blocks, block sums, add back) and recurses when the block sums need more than one block.
// Argument: number of elements (default 300007). Integers; results must be equal to the CPU's.
#include "check.h"

constexpr unsigned threads = 512;

// Inclusive sum of `value` over the block's threads up to this one; `warps` holds at least 32 values.
__device__ unsigned scan_block(unsigned value, unsigned *warps) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;
    for (unsigned offset = 1; offset < 32; offset *= 2) {
        const unsigned left = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset) value += left;
    }
    if (lane == 31) warps[warp] = value;
    __syncthreads();
    if (warp == 0) {
        unsigned sum = lane < blockDim.x / 32 ? warps[lane] : 0;
        for (unsigned offset = 1; offset < 32; offset *= 2) {
            const unsigned left = __shfl_up_sync(0xffffffffu, sum, offset);
            if (lane >= offset) sum += left;
        }
        warps[lane] = sum;
    }
    __syncthreads();
    return warp > 0 ? value + warps[warp - 1] : value;
}

__global__ void inclusive_in_blocks(const unsigned *data, unsigned *out, size_t count) {
    __shared__ unsigned warps[32];
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    const unsigned sum = scan_block(i < count ? data[i] : 0, warps);
    if (i < count) out[i] = sum;
}

__global__ void exclusive_in_blocks(const unsigned *data, unsigned *out, unsigned *sums, size_t count) {
    __shared__ unsigned warps[32];
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    const unsigned value = i < count ? data[i] : 0;
    const unsigned sum = scan_block(value, warps);
    if (i < count) out[i] = sum - value;
    if (threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = sum;
}

__global__ void add_to_blocks(unsigned *out, const unsigned *offsets, size_t count) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < count) out[i] += offsets[blockIdx.x];
}

// Exclusive scan of `count` device values from `data` to `out`.
static void exclusive_scan(const unsigned *data, unsigned *out, size_t count) {
    const unsigned blocks = blocks_for(count, threads);
    unsigned *sums = device_alloc<unsigned>(blocks);
    exclusive_in_blocks<<<blocks, threads>>>(data, out, sums, count);
    CHECK_LAUNCH();
    if (blocks > 1) {
        unsigned *offsets = device_alloc<unsigned>(blocks);
        exclusive_scan(sums, offsets, blocks);
        add_to_blocks<<<blocks, threads>>>(out, offsets, count);
        CHECK_LAUNCH();
        CHECK(cudaFree(offsets));
    }
    CHECK(cudaFree(sums));
}

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 300007);
    std::vector<unsigned> data(count), want_blocks(count), want_whole(count);
    Inputs inputs;
    unsigned block_sum = 0, whole_sum = 0;
    for (size_t i = 0; i < count; ++i) {
        data[i] = inputs.below(1000);
        if (i % threads == 0) block_sum = 0;
        block_sum += data[i];
        want_blocks[i] = block_sum;
        want_whole[i] = whole_sum;
        whole_sum += data[i];
    }

    unsigned *device_data = device_copy(data);
    unsigned *device_out = device_alloc<unsigned>(count);
    Verdict verdict;
    inclusive_in_blocks<<<blocks_for(count, threads), threads>>>(device_data, device_out, count);
    CHECK_LAUNCH();
    const std::vector<unsigned> blocks = host_copy(device_out, count);
    verdict.equal("inclusive scan of each block", blocks.data(), want_blocks.data(), count);

    exclusive_scan(device_data, device_out, count);
    const std::vector<unsigned> whole = host_copy(device_out, count);
    verdict.equal("exclusive scan of the array", whole.data(), want_whole.data(), count);

    CHECK(cudaFree(device_data));
    CHECK(cudaFree(device_out));
    return verdict.finish();
}
