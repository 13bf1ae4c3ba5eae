// cuSPARSE: a sparse matrix by a vector, by a dense matrix and by a sparse one. Results are compared with plain loops.
// link: libcusparse.so.12
#include <cusparse.h>

#include "checking.h"

struct Sparse {
    int rows, columns;
    std::vector<int> begins, places;
    std::vector<double> values;
};

static Sparse drawn(int rows, int columns, unsigned seed) {
    const auto dice = numbers(static_cast<size_t>(rows) * columns, seed);
    Sparse matrix{rows, columns, {0}, {}, {}};
    for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) {
            const double number = dice[static_cast<size_t>(row) * columns + column];
            if (number < 0.9) continue;
            matrix.places.push_back(column);
            matrix.values.push_back(number);
        }
        matrix.begins.push_back(static_cast<int>(matrix.places.size()));
    }
    return matrix;
}

static cusparseSpMatDescr_t described(const Sparse &matrix) {
    cusparseSpMatDescr_t description;
    GOOD(cusparseCreateCsr(&description, matrix.rows, matrix.columns, matrix.values.size(), to_device(matrix.begins),
                           to_device(matrix.places), to_device(matrix.values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                           CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F));
    return description;
}

static const double one = 1, zero = 0;

static void by_vector() {
    const auto matrix = drawn(1000, 700, 1);
    const auto x = numbers(700, 2);
    std::vector<double> expected(1000);
    for (int row = 0; row < 1000; ++row) {
        for (int at = matrix.begins[row]; at < matrix.begins[row + 1]; ++at) expected[row] += matrix.values[at] * x[matrix.places[at]];
    }
    cusparseHandle_t handle;
    cusparseDnVecDescr_t vx, vy;
    double *dy = to_device(std::vector<double>(1000));
    GOOD(cusparseCreate(&handle));
    const auto a = described(matrix);
    GOOD(cusparseCreateDnVec(&vx, 700, to_device(x), CUDA_R_64F));
    GOOD(cusparseCreateDnVec(&vy, 1000, dy, CUDA_R_64F));
    size_t size = 0;
    void *buffer = nullptr;
    GOOD(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, vx, &zero, vy, CUDA_R_64F, CUSPARSE_SPMV_ALG_DEFAULT, &size));
    GOOD(cudaMalloc(&buffer, size + 16));
    GOOD(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, vx, &zero, vy, CUDA_R_64F, CUSPARSE_SPMV_ALG_DEFAULT, buffer));
    all_near("product", to_host(dy, 1000), expected, 1e-12);
    GOOD(cusparseDestroy(handle));
}

static void by_dense() {
    const auto matrix = drawn(300, 200, 3);
    const int columns = 50;
    const auto b = numbers(200 * columns, 4);
    std::vector<double> expected(300 * columns);
    for (int row = 0; row < 300; ++row) {
        for (int at = matrix.begins[row]; at < matrix.begins[row + 1]; ++at) {
            for (int column = 0; column < columns; ++column) expected[row + column * 300] += matrix.values[at] * b[matrix.places[at] + column * 200];
        }
    }
    cusparseHandle_t handle;
    cusparseDnMatDescr_t mb, mc;
    double *dc = to_device(std::vector<double>(300 * columns));
    GOOD(cusparseCreate(&handle));
    const auto a = described(matrix);
    GOOD(cusparseCreateDnMat(&mb, 200, columns, 200, to_device(b), CUDA_R_64F, CUSPARSE_ORDER_COL));
    GOOD(cusparseCreateDnMat(&mc, 300, columns, 300, dc, CUDA_R_64F, CUSPARSE_ORDER_COL));
    const auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
    size_t size = 0;
    void *buffer = nullptr;
    GOOD(cusparseSpMM_bufferSize(handle, plain, plain, &one, a, mb, &zero, mc, CUDA_R_64F, CUSPARSE_SPMM_ALG_DEFAULT, &size));
    GOOD(cudaMalloc(&buffer, size + 16));
    GOOD(cusparseSpMM(handle, plain, plain, &one, a, mb, &zero, mc, CUDA_R_64F, CUSPARSE_SPMM_ALG_DEFAULT, buffer));
    all_near("product", to_host(dc, 300 * columns), expected, 1e-12);
    GOOD(cusparseDestroy(handle));
}

static void to_dense_and_back() {
    const auto matrix = drawn(128, 96, 5);
    std::vector<double> expected(128 * 96);
    for (int row = 0; row < 128; ++row) {
        for (int at = matrix.begins[row]; at < matrix.begins[row + 1]; ++at) expected[row * 96 + matrix.places[at]] = matrix.values[at];
    }
    cusparseHandle_t handle;
    cusparseDnMatDescr_t dense;
    double *there = to_device(std::vector<double>(128 * 96, -1.0));
    GOOD(cusparseCreate(&handle));
    const auto a = described(matrix);
    GOOD(cusparseCreateDnMat(&dense, 128, 96, 96, there, CUDA_R_64F, CUSPARSE_ORDER_ROW));
    size_t size = 0;
    void *buffer = nullptr;
    GOOD(cusparseSparseToDense_bufferSize(handle, a, dense, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, &size));
    GOOD(cudaMalloc(&buffer, size + 16));
    GOOD(cusparseSparseToDense(handle, a, dense, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, buffer));
    all_near("dense", to_host(there, 128 * 96), expected, 0);
    GOOD(cusparseDestroy(handle));
}

int main(int argc, char **argv) {
    return run_checks({{"by_vector", by_vector}, {"by_dense", by_dense}, {"to_dense_and_back", to_dense_and_back}}, argc, argv);
}
