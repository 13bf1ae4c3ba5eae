// The other translation unit of the program `rdc`: device functions, a table, and constant memory that only this unit
// names. It also has a kernel with the host code that launches it.
// It takes calls from rdc.cu and prints nothing.
#include "rdc.h"

#include "check.h"

__constant__ int coefficients[3];
__device__ int table[4] = {11, 22, 33, 44};

__device__ int polynomial(int x) { return coefficients[0] + x * (coefficients[1] + x * coefficients[2]); }

static __device__ int sum_of(int a, int b) { return a + b; }
static __device__ int product_of(int a, int b) { return a * b; }

__device__ Combine chosen(bool sum) { return sum ? sum_of : product_of; }

__device__ void count_call() { atomicAdd(&shared_counter, 1); }

static __global__ void double_all(int *data, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) data[i] *= 2;
}

void set_coefficients(const int *values) {
    CHECK(cudaMemcpyToSymbol(coefficients, values, sizeof(coefficients)));
}

void launch_double(int *data, int count) {
    double_all<<<blocks_for(static_cast<size_t>(count), 32), 32>>>(data, count);
    CHECK_LAUNCH();
}
