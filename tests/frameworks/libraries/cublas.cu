// cuBLAS and cuBLASLt: products in every precision, batched, with a workspace and streams; solved triangles; a fused bias.
// Results are compared with plain loops.
// link: libcublas.so.13 libcublasLt.so.13
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "checking.h"

// Column-major, as cuBLAS has it.
static std::vector<double> product(const std::vector<double> &a, const std::vector<double> &b, int m, int n, int k) {
    std::vector<double> c(static_cast<size_t>(m) * n);
    for (int column = 0; column < n; ++column) {
        for (int inner = 0; inner < k; ++inner) {
            const double factor = b[inner + static_cast<size_t>(column) * k];
            for (int row = 0; row < m; ++row) c[row + static_cast<size_t>(column) * m] += a[row + static_cast<size_t>(inner) * m] * factor;
        }
    }
    return c;
}

template <typename T>
static std::vector<T> as(const std::vector<double> &values) {
    std::vector<T> cast(values.size());
    for (size_t at = 0; at < values.size(); ++at) cast[at] = T(static_cast<float>(values[at]));
    return cast;
}

template <typename T>
static std::vector<double> wide(const std::vector<T> &values) {
    std::vector<double> cast(values.size());
    for (size_t at = 0; at < values.size(); ++at) cast[at] = static_cast<double>(static_cast<float>(values[at]));
    return cast;
}

static void double_product() {
    const int m = 123, n = 77, k = 55;
    const auto a = numbers(m * k, 1), b = numbers(k * n, 2);
    double *da = to_device(a), *db = to_device(b), *dc = to_device(std::vector<double>(m * n));
    cublasHandle_t handle;
    GOOD(cublasCreate(&handle));
    const double one = 1, zero = 0;
    GOOD(cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, da, m, db, k, &zero, dc, m));
    const auto c = to_host(dc, m * n);
    all_near("dgemm", c, product(a, b, m, n, k), 1e-12);
    double sum = 0;
    GOOD(cublasDasum(handle, m * n, dc, 1, &sum));
    double expected = 0;
    for (const double value : c) expected += std::fabs(value);
    near_to("asum", sum, expected, 1e-9);
    exactly(c, 4);
    GOOD(cublasDestroy(handle));
    GOOD(cudaFree(da));
    GOOD(cudaFree(db));
    GOOD(cudaFree(dc));
}

template <typename T>
static void mixed_product(cudaDataType type, double tolerance) {
    const int m = 512, n = 256, k = 384;
    const auto a = as<T>(numbers(m * k, 3)), b = as<T>(numbers(k * n, 4));
    T *da = to_device(a), *db = to_device(b);
    float *dc = to_device(std::vector<float>(m * n));
    cublasHandle_t handle;
    GOOD(cublasCreate(&handle));
    const float one = 1, zero = 0;
    GOOD(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, da, type, m, db, type, k, &zero, dc, CUDA_R_32F,
                      m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    const auto c = to_host(dc, m * n);
    all_near("gemmEx", wide(c), product(wide(a), wide(b), m, n, k), tolerance);
    exactly(c, 4);
    GOOD(cublasDestroy(handle));
    GOOD(cudaFree(da));
    GOOD(cudaFree(db));
    GOOD(cudaFree(dc));
}

static void half_product() { mixed_product<__half>(CUDA_R_16F, 1e-2); }
static void bfloat_product() { mixed_product<__nv_bfloat16>(CUDA_R_16BF, 1e-2); }
static void single_product() { mixed_product<float>(CUDA_R_32F, 1e-3); }

static void batched_on_streams() {
    const int size = 32, batch = 100, each = size * size;
    const auto a = numbers(each * batch, 5), b = numbers(each * batch, 6);
    double *da = to_device(a), *db = to_device(b), *dc = to_device(std::vector<double>(each * batch));
    cublasHandle_t handle;
    GOOD(cublasCreate(&handle));
    cudaStream_t streams[4];
    for (auto &stream : streams) GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const double one = 1, zero = 0;
    for (int part = 0; part < 4; ++part) {
        const size_t begin = static_cast<size_t>(part) * 25 * each;
        GOOD(cublasSetStream(handle, streams[part]));
        GOOD(cublasDgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, da + begin, size, each,
                                       db + begin, size, each, &zero, dc + begin, size, each, 25));
    }
    GOOD(cudaDeviceSynchronize());
    const auto c = to_host(dc, each * batch);
    for (int matrix = 0; matrix < batch; ++matrix) {
        const std::vector<double> left(a.begin() + matrix * each, a.begin() + (matrix + 1) * each);
        const std::vector<double> right(b.begin() + matrix * each, b.begin() + (matrix + 1) * each);
        const std::vector<double> got(c.begin() + matrix * each, c.begin() + (matrix + 1) * each);
        all_near("batched", got, product(left, right, size, size, size), 1e-12);
    }
    GOOD(cublasDestroy(handle));
    for (auto &stream : streams) GOOD(cudaStreamDestroy(stream));
    GOOD(cudaFree(da));
    GOOD(cudaFree(db));
    GOOD(cudaFree(dc));
}

static void triangle() {
    const int size = 64;
    auto a = numbers(size * size, 7);
    for (int at = 0; at < size; ++at) a[at + at * size] = 10;
    const auto x = numbers(size, 8);
    std::vector<double> b(size);
    for (int column = 0; column < size; ++column) {
        for (int row = column; row < size; ++row) b[row] += a[row + column * size] * x[column];
    }
    double *da = to_device(a), *db = to_device(b);
    cublasHandle_t handle;
    GOOD(cublasCreate(&handle));
    const double one = 1;
    GOOD(cublasDtrsm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, size, 1, &one,
                     da, size, db, size));
    all_near("trsm", to_host(db, size), x, 1e-10);
    GOOD(cublasDestroy(handle));
    GOOD(cudaFree(da));
    GOOD(cudaFree(db));
}

// The scalars lie on the device and the result stays there: nothing waits for the host.
static void pointers_on_device() {
    const int count = 10000;
    const auto x = numbers(count, 9);
    double *dx = to_device(x), *result = to_device(std::vector<double>(1)), *two = to_device(std::vector<double>{2});
    cublasHandle_t handle;
    GOOD(cublasCreate(&handle));
    GOOD(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    GOOD(cublasDscal(handle, count, two, dx, 1));
    GOOD(cublasDdot(handle, count, dx, 1, dx, 1, result));
    double expected = 0;
    for (const double value : x) expected += 4 * value * value;
    near_to("dot", to_host(result, 1)[0], expected, 1e-8);
    GOOD(cublasDestroy(handle));
    GOOD(cudaFree(dx));
    GOOD(cudaFree(result));
    GOOD(cudaFree(two));
}

static void fused_bias() {
    const int m = 256, n = 128, k = 64;
    const auto a = as<__half>(numbers(m * k, 10)), b = as<__half>(numbers(k * n, 11)), bias = as<__half>(numbers(m, 12));
    __half *da = to_device(a), *db = to_device(b), *dbias = to_device(bias), *dc = to_device(std::vector<__half>(m * n));
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t work;
    cublasLtMatrixLayout_t la, lb, lc;
    GOOD(cublasLtCreate(&handle));
    GOOD(cublasLtMatmulDescCreate(&work, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    GOOD(cublasLtMatmulDescSetAttribute(work, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    GOOD(cublasLtMatmulDescSetAttribute(work, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &dbias, sizeof dbias));
    GOOD(cublasLtMatrixLayoutCreate(&la, CUDA_R_16F, m, k, m));
    GOOD(cublasLtMatrixLayoutCreate(&lb, CUDA_R_16F, k, n, k));
    GOOD(cublasLtMatrixLayoutCreate(&lc, CUDA_R_16F, m, n, m));
    const float one = 1, zero = 0;
    GOOD(cublasLtMatmul(handle, work, &one, da, la, db, lb, &zero, dc, lc, dc, lc, nullptr, nullptr, 0, 0));
    auto expected = product(wide(a), wide(b), m, n, k);
    const auto added = wide(bias);
    for (int column = 0; column < n; ++column) {
        for (int row = 0; row < m; ++row) {
            double &value = expected[row + column * m];
            value = std::fmax(0.0, value + added[row]);
        }
    }
    all_near("relu with bias", wide(to_host(dc, m * n)), expected, 5e-2);
    GOOD(cublasLtMatrixLayoutDestroy(la));
    GOOD(cublasLtMatrixLayoutDestroy(lb));
    GOOD(cublasLtMatrixLayoutDestroy(lc));
    GOOD(cublasLtMatmulDescDestroy(work));
    GOOD(cublasLtDestroy(handle));
}

static void captured() {
    const int size = 128;
    const auto a = numbers(size * size, 13);
    double *da = to_device(a), *dc = to_device(std::vector<double>(size * size)), *workspace = nullptr;
    GOOD(cudaMalloc(&workspace, 32 << 20));
    cublasHandle_t handle;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    GOOD(cublasCreate(&handle));
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    GOOD(cublasSetStream(handle, stream));
    GOOD(cublasSetWorkspace(handle, workspace, 32 << 20));
    const double one = 1, zero = 0;
    const auto multiply = [&] { GOOD(cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, da, size, da, size, &zero, dc, size)); };
    multiply();
    GOOD(cudaStreamSynchronize(stream));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    multiply();
    GOOD(cudaStreamEndCapture(stream, &graph));
    GOOD(cudaGraphInstantiate(&ready, graph, 0));
    GOOD(cudaMemset(dc, 0, size * size * sizeof(double)));
    GOOD(cudaGraphLaunch(ready, stream));
    GOOD(cudaStreamSynchronize(stream));
    all_near("replayed", to_host(dc, size * size), product(a, a, size, size, size), 1e-11);
    GOOD(cudaGraphExecDestroy(ready));
    GOOD(cudaGraphDestroy(graph));
    GOOD(cublasDestroy(handle));
}

int main(int argc, char **argv) {
    return run_checks({{"double_product", double_product},
                       {"single_product", single_product},
                       {"half_product", half_product},
                       {"bfloat_product", bfloat_product},
                       {"batched_on_streams", batched_on_streams},
                       {"triangle", triangle},
                       {"pointers_on_device", pointers_on_device},
                       {"fused_bias", fused_bias},
                       {"captured", captured}},
                      argc, argv);
}
