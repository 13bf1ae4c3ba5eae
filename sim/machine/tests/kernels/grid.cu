// Whole-grid synchronisation, tiles and coalesced groups; a kernel that never ends.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void phases(int *data, int n) {
    cg::grid_group grid = cg::this_grid();
    int i = (int)grid.thread_rank();
    for (int step = 0; step < 3; step++) {
        int other = i < n ? data[(i + 257) % n] : 0;
        grid.sync();
        if (i < n) data[i] = data[i] + other;
        grid.sync();
    }
}

extern "C" __global__ void tiles(int *out) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int sum = (int)block.thread_rank();
    for (int o = 4; o; o >>= 1) sum += tile.shfl_xor(sum, o);
    int rank = -1;
    if (block.thread_rank() % 3 == 0) {
        auto group = cg::coalesced_threads();
        rank = (int)group.thread_rank() + 100 * (int)group.size();
    }
    out[block.thread_rank()] = sum * 10000 + rank;
}

extern "C" __global__ void endless(volatile int *flag) {
    while (*flag == 0) {}
}
