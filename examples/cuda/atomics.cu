// Atomic operations of every kind and width, in global and in shared memory, by threads that collide on purpose.
// No argument. The final value of an operation does not depend on the order, or the set of values that the threads got
// is checked instead. Results must equal the CPU's.
#include "check.h"

#include <algorithm>

constexpr unsigned threads = 128, blocks = 8, everyone = threads * blocks;

__host__ __device__ unsigned mix(unsigned i) { return i * 2654435761u ^ (i >> 7); }

// The operations of all threads on one set of cells, in any memory.
struct Cells {
    int add, sub, lowest, highest;
    unsigned low_bits, bits_and, bits_or, bits_xor, wrapped, falling;
    unsigned long long wide_add, wide_high, wide_and, wide_xor;
    float real;
    double real_wide;
    int swaps;
    unsigned long long wide_swaps;
};

__device__ void collide(Cells *cells, unsigned i) {
    const unsigned v = mix(i);
    atomicAdd(&cells->add, static_cast<int>(v % 1000));
    atomicSub(&cells->sub, static_cast<int>(i));
    atomicMin(&cells->lowest, static_cast<int>(v));
    atomicMax(&cells->highest, static_cast<int>(v));
    atomicMin(&cells->low_bits, v);
    atomicAnd(&cells->bits_and, v | 0xf0f0f0f0u);
    atomicOr(&cells->bits_or, 1u << (v % 31));
    atomicXor(&cells->bits_xor, v);
    atomicInc(&cells->wrapped, 99);
    atomicDec(&cells->falling, 63);
    atomicAdd(&cells->wide_add, static_cast<unsigned long long>(v) << 8);
    atomicMax(&cells->wide_high, static_cast<unsigned long long>(v) << 24);
    atomicAnd(&cells->wide_and, ~(1ull << (v % 61)));
    atomicXor(&cells->wide_xor, static_cast<unsigned long long>(v) * v);
    atomicAdd(&cells->real, 0.25f * static_cast<float>(v % 16));
    atomicAdd(&cells->real_wide, 0.125 * static_cast<double>(v % 64));
    // Multiplication by hand: repeat until nobody came between.
    int seen = cells->swaps, expected;
    do {
        expected = seen;
        seen = atomicCAS(&cells->swaps, expected, static_cast<int>(static_cast<unsigned>(expected) * 3u));
    } while (seen != expected);
    unsigned long long wide = cells->wide_swaps, before;
    do {
        before = wide;
        wide = atomicCAS(&cells->wide_swaps, before, before * 5);
    } while (wide != before);
}

static void collide_on_cpu(Cells &cells, unsigned i) {
    const unsigned v = mix(i);
    cells.add += static_cast<int>(v % 1000);
    cells.sub -= static_cast<int>(i);
    cells.lowest = std::min(cells.lowest, static_cast<int>(v));
    cells.highest = std::max(cells.highest, static_cast<int>(v));
    cells.low_bits = std::min(cells.low_bits, v);
    cells.bits_and &= v | 0xf0f0f0f0u;
    cells.bits_or |= 1u << (v % 31);
    cells.bits_xor ^= v;
    cells.wrapped = cells.wrapped >= 99 ? 0 : cells.wrapped + 1;
    cells.falling = cells.falling == 0 || cells.falling > 63 ? 63 : cells.falling - 1;
    cells.wide_add += static_cast<unsigned long long>(v) << 8;
    cells.wide_high = std::max(cells.wide_high, static_cast<unsigned long long>(v) << 24);
    cells.wide_and &= ~(1ull << (v % 61));
    cells.wide_xor ^= static_cast<unsigned long long>(v) * v;
    cells.real += 0.25f * static_cast<float>(v % 16);
    cells.real_wide += 0.125 * static_cast<double>(v % 64);
    cells.swaps = static_cast<int>(static_cast<unsigned>(cells.swaps) * 3u);
    cells.wide_swaps *= 5;
}

static Cells start() {
    Cells cells = {};
    cells.lowest = 0x7fffffff;
    cells.highest = -0x7fffffff;
    cells.low_bits = ~0u;
    cells.bits_and = ~0u;
    cells.wide_and = ~0ull;
    cells.swaps = 1;
    cells.wide_swaps = 1;
    return cells;
}

__global__ void in_global(Cells *cells) { collide(cells, blockIdx.x * blockDim.x + threadIdx.x); }

// Each block collides on cells of its own in shared memory and then hands them out.
__global__ void in_shared(const Cells *initial, Cells *out) {
    __shared__ Cells cells;
    if (threadIdx.x == 0) cells = *initial;
    __syncthreads();
    collide(&cells, blockIdx.x * blockDim.x + threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = cells;
}

// Each thread takes a ticket, and swaps its number into a chain: every ticket and number must turn up once.
__global__ void hand_out(unsigned *counter, unsigned *chain, unsigned *tickets, unsigned *previous) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    tickets[i] = atomicAdd(counter, 1u);
    previous[i] = atomicExch(chain, i);
    // Widths and scopes beside the plain ones.
    atomicAdd_block(&counter[1], 2u);
    atomicAdd_system(&counter[2], 3u);
}

__global__ void sixteen_bits(unsigned short *cell) {
    unsigned short seen = *cell, expected;
    do {
        expected = seen;
        seen = atomicCAS(cell, expected, static_cast<unsigned short>(expected + 7));
    } while (seen != expected);
}

static bool same(const Cells &a, const Cells &b) {
    return a.add == b.add && a.sub == b.sub && a.lowest == b.lowest && a.highest == b.highest &&
           a.low_bits == b.low_bits && a.bits_and == b.bits_and && a.bits_or == b.bits_or &&
           a.bits_xor == b.bits_xor && a.wrapped == b.wrapped && a.falling == b.falling &&
           a.wide_add == b.wide_add && a.wide_high == b.wide_high && a.wide_and == b.wide_and &&
           a.wide_xor == b.wide_xor && a.real == b.real && a.real_wide == b.real_wide && a.swaps == b.swaps &&
           a.wide_swaps == b.wide_swaps;
}

int main() {
    Verdict verdict;
    const std::vector<Cells> initial(1, start());
    Cells *cells = device_copy(initial);
    in_global<<<blocks, threads>>>(cells);
    CHECK_LAUNCH();
    Cells want = start();
    for (unsigned i = 0; i < everyone; ++i) collide_on_cpu(want, i);
    verdict.expect(same(host_copy(cells, 1)[0], want), "operations in global memory");

    CHECK(cudaMemcpy(cells, initial.data(), sizeof(Cells), cudaMemcpyHostToDevice));
    Cells *per_block = device_alloc<Cells>(blocks);
    in_shared<<<blocks, threads>>>(cells, per_block);
    CHECK_LAUNCH();
    const std::vector<Cells> got = host_copy(per_block, blocks);
    for (unsigned block = 0; block < blocks; ++block) {
        want = start();
        for (unsigned i = 0; i < threads; ++i) collide_on_cpu(want, block * threads + i);
        verdict.expect(same(got[block], want), "operations in shared memory");
    }
    std::printf("operations: 18 kinds in global and in shared memory\n");

    unsigned *words = device_alloc<unsigned>(4 + 2 * everyone);
    CHECK(cudaMemset(words, 0, 4 * sizeof(unsigned)));
    const unsigned none = everyone;
    CHECK(cudaMemcpy(words + 3, &none, sizeof(unsigned), cudaMemcpyHostToDevice));
    hand_out<<<blocks, threads>>>(words, words + 3, words + 4, words + 4 + everyone);
    CHECK_LAUNCH();
    std::vector<unsigned> handed = host_copy(words, 4 + 2 * everyone), numbers(everyone + 1);
    for (unsigned i = 0; i <= everyone; ++i) numbers[i] = i;
    std::sort(handed.begin() + 4, handed.begin() + 4 + everyone);
    verdict.equal("tickets", &handed[4], numbers.data(), everyone);
    // The chain's end holds the number that nobody was handed.
    std::vector<unsigned> chain(handed.begin() + 4 + everyone, handed.end());
    chain.push_back(handed[3]);
    std::sort(chain.begin(), chain.end());
    verdict.equal("exchanges", chain.data(), numbers.data(), everyone + 1);
    verdict.expect(handed[2] == 3 * everyone, "additions of system scope");

    unsigned short *cell = reinterpret_cast<unsigned short *>(words);
    CHECK(cudaMemset(words, 0, sizeof(unsigned)));
    sixteen_bits<<<blocks, threads>>>(cell + 1);
    CHECK_LAUNCH();
    const unsigned packed = host_copy(words, 1)[0];
    verdict.expect(packed == (7 * everyone & 0xffffu) << 16, "compare and swap of 16 bits leaves its neighbour alone");
    CHECK(cudaFree(cells));
    CHECK(cudaFree(per_block));
    CHECK(cudaFree(words));
    return verdict.finish();
}
