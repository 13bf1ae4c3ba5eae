// Exchange between the lanes of a warp: shuffles of every mode and width, votes, ballots, matches, warp reductions,
// lane masks. All are repeated under divergence, where only some lanes take part.
// No argument. Each lane's answer must be equal to the CPU's for the same inputs.
#include "check.h"

constexpr unsigned full = 0xffffffffu;
constexpr unsigned columns = 26;

__host__ __device__ unsigned input_of(unsigned lane, unsigned warp) { return (lane * 2654435761u) ^ (warp * 977u); }

__global__ void converse(unsigned *out) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned value = input_of(lane, warp);
    unsigned *row = &out[threadIdx.x * columns];
    row[0] = __shfl_sync(full, value, 5);
    row[1] = __shfl_sync(full, value, (lane * 7 + 3) % 32);
    row[2] = __shfl_sync(full, value, 3, 8);
    row[3] = __shfl_up_sync(full, value, 4);
    row[4] = __shfl_up_sync(full, value, 3, 16);
    row[5] = __shfl_down_sync(full, value, 9);
    row[6] = __shfl_down_sync(full, value, 1, 4);
    row[7] = __shfl_xor_sync(full, value, 21);
    row[8] = __shfl_xor_sync(full, value, 9, 8);  // a lane of another part is out of reach: own value
    row[9] = __all_sync(full, lane < 32);
    row[10] = __all_sync(full, value % 16 != 7);
    row[11] = __any_sync(full, value % 16 == 7);
    row[12] = __ballot_sync(full, value & 4);
    row[13] = __match_any_sync(full, value % 5);
    int all_same = -1;
    row[14] = __match_all_sync(full, warp, &all_same);
    row[15] = static_cast<unsigned>(all_same);
    row[16] = __match_all_sync(full, lane / 31, &all_same) + static_cast<unsigned>(all_same);
    row[17] = __reduce_add_sync(full, value % 1000);
    row[18] = __reduce_min_sync(full, value);
    row[19] = __reduce_max_sync(full, value);
    row[20] = __reduce_xor_sync(full, value);

    // Divergence: lanes split three ways and speak only to those beside them.
    unsigned seen = 0, told = 0;
    if (lane % 3 == 0) {
        seen = __activemask();
        told = __ballot_sync(0x49249249u, lane > 12);
    } else if (lane % 3 == 1) {
        seen = __activemask();
        told = __shfl_sync(0x92492492u, value, 31);
    } else {
        seen = __activemask();
        told = __reduce_or_sync(0x24924924u, 1u << lane);
    }
    __syncwarp();
    // Which lanes of a part run together is the device's choice; a lane sees itself and none of another part.
    const unsigned part = lane % 3 == 0 ? 0x49249249u : lane % 3 == 1 ? 0x92492492u : 0x24924924u;
    row[21] = (seen >> lane & 1) != 0 && (seen & ~part) == 0;
    row[22] = told;
    // Lanes leave a loop one after the other, and meet again after it.
    unsigned rounds = 0;
    for (unsigned i = 0; i <= lane; ++i) rounds += __popc(__activemask()) > 0;
    row[23] = rounds;
    row[24] = __shfl_down_sync(full, rounds, 1);
    // 64-bit values travel as two halves.
    const double half = __shfl_xor_sync(full, value * 0.5, 1);
    row[25] = static_cast<unsigned>(half * 2);
}

__global__ void masks(unsigned *out) {
    const unsigned lane = threadIdx.x % 32;
    unsigned below, up_to, above, own, lane_id;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%lanemask_le;" : "=r"(up_to));
    asm("mov.u32 %0, %%lanemask_gt;" : "=r"(above));
    asm("mov.u32 %0, %%lanemask_eq;" : "=r"(own));
    asm("mov.u32 %0, %%laneid;" : "=r"(lane_id));
    const bool right = below == (1u << lane) - 1 && own == 1u << lane && up_to == (below | own) &&
                       above == ~up_to && lane_id == lane;
    out[threadIdx.x] = right ? 1 : 0;
}

static void expected(unsigned lane, unsigned warp, unsigned *row) {
    unsigned values[32];
    for (unsigned k = 0; k < 32; ++k) values[k] = input_of(k, warp);
    const unsigned value = values[lane];
    row[0] = values[5];
    row[1] = values[(lane * 7 + 3) % 32];
    row[2] = values[lane / 8 * 8 + 3];
    row[3] = lane >= 4 ? values[lane - 4] : value;
    row[4] = lane % 16 >= 3 ? values[lane - 3] : value;
    row[5] = lane + 9 < 32 ? values[lane + 9] : value;
    row[6] = lane % 4 + 1 < 4 ? values[lane + 1] : value;
    row[7] = values[lane ^ 21];
    // Going to a part before one's own is allowed, to a part after it is not.
    row[8] = (lane ^ 9) / 8 <= lane / 8 ? values[lane ^ 9] : value;
    unsigned sevens = 0, fours = 0, same = 0, sum = 0, low = ~0u, high = 0, mixed = 0;
    for (unsigned k = 0; k < 32; ++k) {
        sevens += values[k] % 16 == 7;
        fours |= (values[k] & 4) != 0 ? 1u << k : 0;
        same |= values[k] % 5 == value % 5 ? 1u << k : 0;
        sum += values[k] % 1000;
        low = values[k] < low ? values[k] : low;
        high = values[k] > high ? values[k] : high;
        mixed ^= values[k];
    }
    row[9] = 1;
    row[10] = sevens == 0;
    row[11] = sevens != 0;
    row[12] = fours;
    row[13] = same;
    row[14] = full;
    row[15] = 1;
    row[16] = 0;
    row[17] = sum;
    row[18] = low;
    row[19] = high;
    row[20] = mixed;
    const unsigned groups[] = {0x49249249u, 0x92492492u, 0x24924924u};
    row[21] = 1;
    row[22] = lane % 3 == 0 ? groups[0] & ~0x1fffu : lane % 3 == 1 ? values[31] : groups[2];
    row[23] = lane + 1;
    row[24] = lane == 31 ? 32 : lane + 2;
    row[25] = values[lane ^ 1];
}

int main() {
    constexpr unsigned threads = 96;
    unsigned *out = device_alloc<unsigned>(threads * columns);
    converse<<<1, threads>>>(out);
    CHECK_LAUNCH();
    const std::vector<unsigned> got = host_copy(out, threads * columns);
    static const char *names[columns] = {
        "shfl from lane 5",       "shfl from any lane",  "shfl in parts of 8",   "shfl_up 4",
        "shfl_up 3 of 16",        "shfl_down 9",         "shfl_down 1 of 4",     "shfl_xor 21",
        "shfl_xor 9 of 8",        "all, true",           "all",                  "any",
        "ballot",                 "match_any",           "match_all, mask",      "match_all, predicate",
        "match_all, differing",   "reduce_add",          "reduce_min",           "reduce_max",
        "reduce_xor",             "activemask, split",   "masks of a part",      "rounds of own loop",
        "shfl_down after a loop", "shfl of 64 bits"};
    Verdict verdict;
    for (unsigned column = 0; column < columns; ++column) {
        unsigned want[threads], have[threads], row[columns];
        for (unsigned i = 0; i < threads; ++i) {
            expected(i % 32, i / 32, row);
            want[i] = row[column];
            have[i] = got[i * columns + column];
        }
        verdict.equal(names[column], have, want, threads);
    }
    masks<<<1, 64>>>(out);
    CHECK_LAUNCH();
    const std::vector<unsigned> ones(64, 1);
    verdict.equal("lane masks", host_copy(out, 64).data(), ones.data(), 64);
    CHECK(cudaFree(out));
    return verdict.finish();
}
