// A product of f16 matrices as libraries write it: tiles are copied to shared memory by cp.async while the ones before
// them are multiplied, loaded to registers by ldmatrix, multiplied by mma.sync, and handed over by an mbarrier.
// Arguments: rows, columns and depth in tiles (defaults 3, 2, 5). Sums are exact, so the result must equal a plain loop's.
#include "check.h"

#include <cuda_fp16.h>

constexpr int ROWS = 32, COLUMNS = 32, DEPTH = 32, WARPS = 4, STAGES = 2;
// Rows of tiles lie 80 bytes apart: a multiple of 16, and ldmatrix meets no bank twice.
constexpr int PITCH = DEPTH + 8;

__device__ unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ void copy_16_bytes(void *to, const void *from, bool inside) {
    // The bytes beyond `kept` become zeros.
    const int kept = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(kept)
                 : "memory");
}

__device__ void load_four(unsigned (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

__device__ void load_two_transposed(unsigned (&r)[2], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row)));
}

__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void init_barrier(uint64_t *barrier, unsigned threads) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(threads) : "memory");
}

// Behind this all threads have arrived, and see what the others wrote and waited for.
__device__ void meet(uint64_t *barrier) {
    uint64_t state;
    unsigned over;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(barrier)) : "memory");
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over)
            : "r"(shared_address(barrier)), "l"(state)
            : "memory");
    } while (over == 0);
}

// A tile of D by a block of four warps: each has 16 rows and 16 columns of it. `valid` is how much of the depth counts.
__global__ void multiply(const half *a, const half *b, float *d, int columns, int depth, int valid) {
    __shared__ alignas(16) half tiles_a[STAGES][ROWS][PITCH];
    __shared__ alignas(16) half tiles_b[STAGES][DEPTH][PITCH];
    __shared__ uint64_t barrier;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = blockIdx.y * ROWS, column = blockIdx.x * COLUMNS;
    if (threadIdx.x == 0) init_barrier(&barrier, blockDim.x);
    __syncthreads();

    const auto copy_tiles = [&](int k, int stage) {
        // 128 threads, 32 rows of 64 bytes each of A and of B.
        const int line = threadIdx.x / 4, part = threadIdx.x % 4 * 8;
        copy_16_bytes(&tiles_a[stage][line][part], a + (row + line) * depth + k + part, k + part < valid);
        copy_16_bytes(&tiles_b[stage][line][part], b + (k + line) * columns + column + part, k + line < valid);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sums[2][4] = {};
    const int top = warp / 2 * 16, left = warp % 2 * 16;
    copy_tiles(0, 0);
    for (int k = 0, stage = 0; k < depth; k += DEPTH, stage ^= 1) {
        if (k + DEPTH < depth) {
            copy_tiles(k + DEPTH, stage ^ 1);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_all;" ::: "memory");
        }
        meet(&barrier);
        for (int part = 0; part < DEPTH; part += 16) {
            unsigned factor_a[4], factor_b[2];
            load_four(factor_a, &tiles_a[stage][top + lane % 16][part + lane / 16 * 8]);
            for (int half_tile = 0; half_tile < 2; ++half_tile) {
                load_two_transposed(factor_b, &tiles_b[stage][part + lane % 16][left + 8 * half_tile]);
                multiply_add(sums[half_tile], factor_a, factor_b);
            }
        }
        meet(&barrier);
    }
    for (int half_tile = 0; half_tile < 2; ++half_tile) {
        for (int i = 0; i < 4; ++i) {
            const int at_row = row + top + lane / 4 + i / 2 * 8;
            const int at_column = column + left + 8 * half_tile + lane % 4 * 2 + i % 2;
            d[at_row * columns + at_column] = sums[half_tile][i];
        }
    }
}

int main(int argc, char **argv) {
    const int rows = static_cast<int>(size_argument(argc, argv, 1, 3)) * ROWS;
    const int columns = static_cast<int>(size_argument(argc, argv, 2, 2)) * COLUMNS;
    const int depth = static_cast<int>(size_argument(argc, argv, 3, 5)) * DEPTH;
    // The last 8 of the depth do not count: the copies put zeros there.
    const int valid = depth - 8;
    std::vector<half> a(static_cast<size_t>(rows) * depth), b(static_cast<size_t>(depth) * columns);
    std::vector<float> d(static_cast<size_t>(rows) * columns), want(d.size());
    Inputs inputs;
    for (auto &element : a) element = __float2half((static_cast<float>(inputs.below(17)) - 8) / 4);
    for (auto &element : b) element = __float2half((static_cast<float>(inputs.below(17)) - 8) / 4);
    for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) {
            float sum = 0;
            for (int k = 0; k < valid; ++k) {
                sum += __half2float(a[static_cast<size_t>(row) * depth + k]) *
                       __half2float(b[static_cast<size_t>(k) * columns + column]);
            }
            want[static_cast<size_t>(row) * columns + column] = sum;
        }
    }

    half *device_a, *device_b;
    float *device_d;
    CHECK(cudaMalloc(&device_a, a.size() * sizeof(half)));
    CHECK(cudaMalloc(&device_b, b.size() * sizeof(half)));
    CHECK(cudaMalloc(&device_d, d.size() * sizeof(float)));
    CHECK(cudaMemcpy(device_a, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice));
    multiply<<<dim3(columns / COLUMNS, rows / ROWS), 32 * WARPS>>>(device_a, device_b, device_d, columns, depth, valid);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(d.data(), device_d, d.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_d));

    Verdict verdict;
    verdict.near("product", d.data(), want.data(), d.size(), 0, 0);
    return verdict.finish();
}
