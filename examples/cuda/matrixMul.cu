// Multiplies two square f32 matrices with 32 x 32 tiles in shared memory and prints the kernel's rate.
// Arguments: edge length (default 256, any number), repetitions timed (default 1). The edge need not be a
// multiple of the tile. Checks every element against a CPU product.
#include "check.h"

constexpr unsigned tile = 32;

__global__ void matrix_multiply(const float *a, const float *b, float *c, unsigned edge) {
    __shared__ float tile_a[tile][tile];
    __shared__ float tile_b[tile][tile];
    const unsigned column = blockIdx.x * tile + threadIdx.x;
    const unsigned row = blockIdx.y * tile + threadIdx.y;
    float sum = 0;
    for (unsigned start = 0; start < edge; start += tile) {
        const unsigned k_a = start + threadIdx.x;
        const unsigned k_b = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < edge && k_a < edge ? a[row * edge + k_a] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = k_b < edge && column < edge ? b[k_b * edge + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < tile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < edge && column < edge) c[row * edge + column] = sum;
}

// The CPU's product, rows of b innermost so that the compiler vectorises it.
static std::vector<float> product(const std::vector<float> &a, const std::vector<float> &b, size_t edge) {
    std::vector<float> c(edge * edge, 0.0f);
    for (size_t row = 0; row < edge; ++row)
        for (size_t k = 0; k < edge; ++k) {
            const float factor = a[row * edge + k];
            for (size_t column = 0; column < edge; ++column)
                c[row * edge + column] += factor * b[k * edge + column];
        }
    return c;
}

int main(int argc, char **argv) {
    const size_t edge = size_argument(argc, argv, 1, 256);
    const size_t repetitions = size_argument(argc, argv, 2, 1);
    if (edge > 16384) {
        std::fprintf(stderr, "the edge may be at most 16384: %zu\n", edge);
        return 2;
    }
    std::vector<float> a(edge * edge), b(edge * edge);
    Inputs inputs;
    for (float &value : a) value = inputs.uniform(-1, 1);
    for (float &value : b) value = inputs.uniform(-1, 1);

    float *device_a = device_copy(a);
    float *device_b = device_copy(b);
    float *device_c = device_alloc<float>(edge * edge);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));

    const dim3 block(tile, tile);
    const dim3 grid(blocks_for(edge, tile), blocks_for(edge, tile));
    CHECK(cudaEventRecord(begin));
    for (size_t i = 0; i < repetitions; ++i)
        matrix_multiply<<<grid, block>>>(device_a, device_b, device_c, static_cast<unsigned>(edge));
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    const double flops = 2.0 * edge * edge * edge * repetitions;
    std::printf("matrixMul: edge %zu, %zu times, %.3f ms, %.3f GFLOP/s\n", edge, repetitions, milliseconds,
                flops / (milliseconds * 1e6));

    const std::vector<float> c = host_copy(device_c, edge * edge);
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));

    const std::vector<float> want = product(a, b, edge);
    Verdict verdict;
    // Sums of `edge` products below 1: both sides round at most edge times by half an ulp of a partial sum.
    verdict.near("product", c.data(), want.data(), c.size(), 1e-5, 1e-6 * std::sqrt(double(edge)) + 1e-6);
    return verdict.finish();
}
