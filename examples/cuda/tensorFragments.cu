// Products of matrices by nvcuda::wmma in every type that it has for devices of today: f16, bf16, tf32, s8, u8, f64.
// A warp computes each tile of D = A * B + C, with rows or columns contiguous in memory.
// No argument. Elements are small numbers whose sums every accumulator holds exactly, so D must equal a plain loop's.
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// How elements lie in memory for a fragment of a type.
template <typename Type>
struct Stored {
    using type = Type;
};
template <>
struct Stored<wmma::precision::tf32> {
    using type = float;
};

// One tile per block of one warp. C counts twice, so that elements of a fragment are computed with too.
template <typename Factor, typename Sum, int M, int N, int K, typename ALayout, typename BLayout>
__global__ void multiply(const typename Stored<Factor>::type *a, const typename Stored<Factor>::type *b,
                         const Sum *c, Sum *d, int rows, int columns, int depth) {
    constexpr bool a_rows = std::is_same<ALayout, wmma::row_major>::value;
    constexpr bool b_rows = std::is_same<BLayout, wmma::row_major>::value;
    const int row = blockIdx.y * M, column = blockIdx.x * N;
    wmma::fragment<wmma::matrix_a, M, N, K, Factor, ALayout> fragment_a;
    wmma::fragment<wmma::matrix_b, M, N, K, Factor, BLayout> fragment_b;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> sum;
    wmma::load_matrix_sync(sum, c + row * columns + column, columns, wmma::mem_row_major);
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] + sum.x[i];
    for (int k = 0; k < depth; k += K) {
        const auto *at_a = a_rows ? a + row * depth + k : a + k * rows + row;
        const auto *at_b = b_rows ? b + k * columns + column : b + column * depth + k;
        wmma::load_matrix_sync(fragment_a, at_a, a_rows ? depth : rows);
        wmma::load_matrix_sync(fragment_b, at_b, b_rows ? columns : depth);
        wmma::mma_sync(sum, fragment_a, fragment_b, sum);
    }
    __shared__ alignas(32) Sum tile[M * N];
    wmma::store_matrix_sync(tile, sum, M, wmma::mem_col_major);
    __syncwarp();
    for (int i = threadIdx.x; i < M * N; i += 32) d[(row + i % M) * columns + column + i / M] = tile[i];
}

template <typename Type>
static Type number(double value) {
    return static_cast<Type>(static_cast<float>(value));
}

template <typename Type>
static double value_of(Type number) {
    return static_cast<double>(static_cast<float>(number));
}

template <typename Factor, typename Sum, int M, int N, int K, typename ALayout, typename BLayout>
static void check(const char *what, Verdict &verdict) {
    using Element = typename Stored<Factor>::type;
    constexpr bool a_rows = std::is_same<ALayout, wmma::row_major>::value;
    constexpr bool b_rows = std::is_same<BLayout, wmma::row_major>::value;
    const int rows = 2 * M, columns = 3 * N, depth = 2 * K;
    // Bytes without sign take no negative numbers.
    const int lowest = std::is_same<Element, unsigned char>::value ? 0 : -4;
    std::vector<Element> a(rows * depth), b(depth * columns);
    std::vector<Sum> c(rows * columns), d(rows * columns), want(rows * columns);
    Inputs inputs;
    for (auto &element : a) element = number<Element>(lowest + static_cast<int>(inputs.below(9)));
    for (auto &element : b) element = number<Element>(lowest + static_cast<int>(inputs.below(9)));
    for (auto &element : c) element = number<Sum>(static_cast<int>(inputs.below(9)) - 4);
    for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) {
            double sum = 2 * value_of(c[row * columns + column]);
            for (int k = 0; k < depth; ++k) {
                sum += value_of(a[a_rows ? row * depth + k : k * rows + row]) *
                       value_of(b[b_rows ? k * columns + column : column * depth + k]);
            }
            want[row * columns + column] = number<Sum>(sum);
        }
    }

    Element *device_a, *device_b;
    Sum *device_c, *device_d;
    CHECK(cudaMalloc(&device_a, a.size() * sizeof(Element)));
    CHECK(cudaMalloc(&device_b, b.size() * sizeof(Element)));
    CHECK(cudaMalloc(&device_c, c.size() * sizeof(Sum)));
    CHECK(cudaMalloc(&device_d, d.size() * sizeof(Sum)));
    CHECK(cudaMemcpy(device_a, a.data(), a.size() * sizeof(Element), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), b.size() * sizeof(Element), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_c, c.data(), c.size() * sizeof(Sum), cudaMemcpyHostToDevice));
    multiply<Factor, Sum, M, N, K, ALayout, BLayout>
        <<<dim3(columns / N, rows / M), 32>>>(device_a, device_b, device_c, device_d, rows, columns, depth);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(d.data(), device_d, d.size() * sizeof(Sum), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));
    CHECK(cudaFree(device_d));

    std::vector<double> got_values(d.size()), want_values(d.size());
    for (size_t i = 0; i < d.size(); ++i) {
        got_values[i] = value_of(d[i]);
        want_values[i] = value_of(want[i]);
    }
    verdict.near(what, got_values.data(), want_values.data(), d.size(), 0, 0);
}

// Every pair of layouts.
template <typename Factor, typename Sum, int M, int N, int K>
static void check_layouts(const char *what, Verdict &verdict) {
    check<Factor, Sum, M, N, K, wmma::row_major, wmma::row_major>(what, verdict);
    check<Factor, Sum, M, N, K, wmma::row_major, wmma::col_major>(what, verdict);
    check<Factor, Sum, M, N, K, wmma::col_major, wmma::row_major>(what, verdict);
    check<Factor, Sum, M, N, K, wmma::col_major, wmma::col_major>(what, verdict);
}

int main() {
    Verdict verdict;
    check_layouts<half, float, 16, 16, 16>("f16 to f32, 16 x 16", verdict);
    check_layouts<half, float, 32, 8, 16>("f16 to f32, 32 x 8", verdict);
    check_layouts<half, half, 8, 32, 16>("f16 to f16, 8 x 32", verdict);
    check_layouts<__nv_bfloat16, float, 16, 16, 16>("bf16 to f32, 16 x 16", verdict);
    check_layouts<__nv_bfloat16, float, 8, 32, 16>("bf16 to f32, 8 x 32", verdict);
    check_layouts<wmma::precision::tf32, float, 16, 16, 8>("tf32 to f32, 16 x 16", verdict);
    check_layouts<signed char, int, 16, 16, 16>("s8 to s32, 16 x 16", verdict);
    check_layouts<unsigned char, int, 32, 8, 16>("u8 to s32, 32 x 8", verdict);
    check_layouts<double, double, 8, 8, 4>("f64, 8 x 8", verdict);
    return verdict.finish();
}
