// Cooperative groups: ranks and barriers of a block, of tiles and of coalesced threads. A grid meets at a barrier
// inside one kernel (launched by cudaLaunchCooperativeKernel), as in iterative solvers.
// Argument: elements of the grid-wide part (default 4096). Results must be equal to the CPU's.
#include "check.h"

#include <algorithm>

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr unsigned threads = 128;

// Each column holds one fact about the calling thread's groups.
__global__ void group_facts(unsigned *out) {
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<16>(block);
    unsigned *row = &out[block.thread_rank() * 8];
    row[0] = block.thread_rank();
    row[1] = block.size();
    row[2] = tile.thread_rank() * 100 + tile.meta_group_rank();
    row[3] = tile.shfl(block.thread_rank(), 0);
    row[4] = tile.ballot(block.thread_rank() % 3 == 0);
    row[5] = tile.any(block.thread_rank() == 17);
    row[6] = block.group_index().x + block.thread_index().y * 10 + block.dim_threads().x * 1000;
    block.sync();
    row[7] = 0;
    if (block.thread_rank() % 2 == 1) {
        // The threads that are here together count themselves in one atomic step.
        const cg::coalesced_group together = cg::coalesced_threads();
        unsigned base = 0;
        if (together.thread_rank() == 0) base = atomicAdd(&out[block.size() * 8], together.size());
        base = together.shfl(base, 0);
        row[7] = base + together.thread_rank() < block.size() / 2;
    }
}

// A prefix sum over the whole grid in rounds of doubling distance, all blocks meeting after each round.
__global__ void grid_scan(unsigned *values, unsigned *other, unsigned count) {
    const cg::grid_group grid = cg::this_grid();
    for (unsigned distance = 1; distance < count; distance *= 2) {
        for (unsigned i = static_cast<unsigned>(grid.thread_rank()); i < count; i += grid.size())
            other[i] = values[i] + (i >= distance ? values[i - distance] : 0);
        grid.sync();
        unsigned *const kept = values;
        values = other;
        other = kept;
    }
}

static void check_facts(Verdict &verdict) {
    unsigned *out = device_alloc<unsigned>(threads * 8 + 1);
    CHECK(cudaMemset(out, 0, (threads * 8 + 1) * sizeof(unsigned)));
    group_facts<<<1, dim3(threads / 4, 4)>>>(out);
    CHECK_LAUNCH();
    std::vector<unsigned> want(threads * 8 + 1);
    for (unsigned i = 0; i < threads; ++i) {
        unsigned *row = &want[i * 8];
        unsigned thirds = 0;
        for (unsigned k = 0; k < 16; ++k) thirds |= (i / 16 * 16 + k) % 3 == 0 ? 1u << k : 0;
        const unsigned facts[] = {i,      threads,     i % 16 * 100 + i / 16, i / 16 * 16,
                                  thirds, i / 16 == 1, i / 32 * 10 + 32000,   i % 2};
        for (unsigned k = 0; k < 8; ++k) row[k] = facts[k];
    }
    want[threads * 8] = threads / 2;
    verdict.equal("facts about groups", host_copy(out, want.size()).data(), want.data(), want.size());
    CHECK(cudaFree(out));
}

static void check_grid(Verdict &verdict, size_t size) {
    int device = 0, cooperative = 0, processors = 0, per_processor = 0;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device));
    verdict.expect(cooperative == 1, "the device launches cooperative kernels");
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, grid_scan, threads, 0));
    verdict.expect(processors > 0 && per_processor > 0, "the device has room for blocks");

    unsigned count = static_cast<unsigned>(size);
    std::vector<unsigned> data(count), want(count);
    Inputs inputs;
    unsigned sum = 0, rounds = 0;
    for (unsigned i = 0; i < count; ++i) {
        data[i] = inputs.below(100);
        want[i] = sum += data[i];
    }
    for (unsigned distance = 1; distance < count; distance *= 2) ++rounds;
    unsigned *values = device_copy(data), *other = device_alloc<unsigned>(count);
    // All blocks must be resident at once: at most what the occupancy allows, and a few are enough.
    const unsigned room = static_cast<unsigned>(processors) * static_cast<unsigned>(per_processor);
    const unsigned blocks = std::min(std::min(room, 8u), blocks_for(count, threads));
    void *arguments[] = {&values, &other, &count};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(grid_scan), dim3(blocks), dim3(threads), arguments, 0,
                                      nullptr));
    CHECK(cudaDeviceSynchronize());
    std::printf("grid: %u blocks, %u rounds\n", blocks, rounds);
    verdict.equal("scan by a grid", host_copy(rounds % 2 == 0 ? values : other, count).data(), want.data(), count);

    // More blocks than can be resident at once would wait for each other for ever; the launch is refused.
    const cudaError_t refused = cudaLaunchCooperativeKernel(reinterpret_cast<void *>(grid_scan), dim3(room + 1),
                                                            dim3(threads), arguments, 0, nullptr);
    verdict.expect(refused == cudaErrorCooperativeLaunchTooLarge, "a grid too large to be resident is refused");
    (void)cudaGetLastError();
    CHECK(cudaFree(values));
    CHECK(cudaFree(other));
}

int main(int argc, char **argv) {
    Verdict verdict;
    check_facts(verdict);
    check_grid(verdict, size_argument(argc, argv, 1, 4096));
    return verdict.finish();
}
