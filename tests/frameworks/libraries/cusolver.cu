// cuSOLVER: systems by LU and by Cholesky, singular values, eigenvalues. Every answer is put back into its equation.
// link: libcusolver.so.12 libcublas.so.13
#include <cusolverDn.h>

#include "checking.h"

constexpr int kSize = 100;

static std::vector<double> matrix(unsigned seed) {
    auto a = numbers(kSize * kSize, seed);
    for (int at = 0; at < kSize; ++at) a[at + at * kSize] += 20;
    return a;
}

static std::vector<double> symmetric(unsigned seed) {
    const auto a = matrix(seed);
    std::vector<double> b(a.size());
    for (int column = 0; column < kSize; ++column) {
        for (int row = 0; row < kSize; ++row) b[row + column * kSize] = (a[row + column * kSize] + a[column + row * kSize]) / 2;
    }
    return b;
}

static std::vector<double> times(const std::vector<double> &a, const std::vector<double> &x) {
    std::vector<double> b(kSize);
    for (int column = 0; column < kSize; ++column) {
        for (int row = 0; row < kSize; ++row) b[row] += a[row + column * kSize] * x[column];
    }
    return b;
}

static void expect_zero(const int *info) { expect(to_host(info, 1)[0] == 0, "the library's own verdict"); }

static void by_lu() {
    const auto a = matrix(1), x = numbers(kSize, 2);
    double *da = to_device(a), *db = to_device(times(a, x)), *work = nullptr;
    int *pivots = to_device(std::vector<int>(kSize)), *info = to_device(std::vector<int>(1)), size = 0;
    cusolverDnHandle_t handle;
    GOOD(cusolverDnCreate(&handle));
    GOOD(cusolverDnDgetrf_bufferSize(handle, kSize, kSize, da, kSize, &size));
    GOOD(cudaMalloc(&work, size * sizeof(double)));
    GOOD(cusolverDnDgetrf(handle, kSize, kSize, da, kSize, work, pivots, info));
    expect_zero(info);
    GOOD(cusolverDnDgetrs(handle, CUBLAS_OP_N, kSize, 1, da, kSize, pivots, db, kSize, info));
    const auto found = to_host(db, kSize);
    all_near("solution", found, x, 1e-10);
    exactly(found, 4);
    GOOD(cusolverDnDestroy(handle));
}

static void by_cholesky() {
    const auto a = symmetric(3), x = numbers(kSize, 4);
    double *da = to_device(a), *db = to_device(times(a, x)), *work = nullptr;
    int *info = to_device(std::vector<int>(1)), size = 0;
    cusolverDnHandle_t handle;
    GOOD(cusolverDnCreate(&handle));
    GOOD(cusolverDnDpotrf_bufferSize(handle, CUBLAS_FILL_MODE_LOWER, kSize, da, kSize, &size));
    GOOD(cudaMalloc(&work, size * sizeof(double)));
    GOOD(cusolverDnDpotrf(handle, CUBLAS_FILL_MODE_LOWER, kSize, da, kSize, work, size, info));
    expect_zero(info);
    GOOD(cusolverDnDpotrs(handle, CUBLAS_FILL_MODE_LOWER, kSize, 1, da, kSize, db, kSize, info));
    all_near("solution", to_host(db, kSize), x, 1e-10);
    GOOD(cusolverDnDestroy(handle));
}

static void eigenvalues() {
    const auto a = symmetric(5);
    double *da = to_device(a), *dw = to_device(std::vector<double>(kSize)), *work = nullptr;
    int *info = to_device(std::vector<int>(1)), size = 0;
    cusolverDnHandle_t handle;
    GOOD(cusolverDnCreate(&handle));
    GOOD(cusolverDnDsyevd_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, kSize, da, kSize, dw, &size));
    GOOD(cudaMalloc(&work, size * sizeof(double)));
    GOOD(cusolverDnDsyevd(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, kSize, da, kSize, dw, work, size, info));
    expect_zero(info);
    const auto vectors = to_host(da, kSize * kSize), values = to_host(dw, kSize);
    for (const int which : {0, kSize / 2, kSize - 1}) {
        const std::vector<double> vector(vectors.begin() + which * kSize, vectors.begin() + (which + 1) * kSize);
        auto scaled = vector;
        for (double &value : scaled) value *= values[which];
        all_near("a times its vector", times(a, vector), scaled, 1e-9);
    }
    GOOD(cusolverDnDestroy(handle));
}

static void singular_values() {
    const auto a = matrix(6);
    double *da = to_device(a), *ds = to_device(std::vector<double>(kSize)), *work = nullptr;
    double *du = to_device(std::vector<double>(kSize * kSize)), *dv = to_device(std::vector<double>(kSize * kSize));
    int *info = to_device(std::vector<int>(1)), size = 0;
    cusolverDnHandle_t handle;
    GOOD(cusolverDnCreate(&handle));
    GOOD(cusolverDnDgesvd_bufferSize(handle, kSize, kSize, &size));
    GOOD(cudaMalloc(&work, size * sizeof(double)));
    GOOD(cusolverDnDgesvd(handle, 'A', 'A', kSize, kSize, da, kSize, ds, du, kSize, dv, kSize, work, size, nullptr, info));
    expect_zero(info);
    const auto u = to_host(du, kSize * kSize), v = to_host(dv, kSize * kSize), s = to_host(ds, kSize);
    for (int row = 0; row < kSize; row += 13) {
        for (int column = 0; column < kSize; column += 7) {
            double sum = 0;
            for (int at = 0; at < kSize; ++at) sum += u[row + at * kSize] * s[at] * v[at + column * kSize];
            near_to("u s v", sum, a[row + column * kSize], 1e-10);
        }
    }
    GOOD(cusolverDnDestroy(handle));
}

int main(int argc, char **argv) {
    return run_checks({{"by_lu", by_lu}, {"by_cholesky", by_cholesky}, {"eigenvalues", eigenvalues}, {"singular_values", singular_values}},
                      argc, argv);
}
