// Adds two vectors of floats: the smallest whole CUDA program (allocate, copy in, launch, copy out, free).
// Argument: number of elements (default 1048576). Checks every element for equality; one addition is exact
// to the last bit on any IEEE device.
#include "check.h"

__global__ void vector_add(const float *a, const float *b, float *sum, size_t count) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < count) sum[i] = a[i] + b[i];
}

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 1 << 20);
    std::vector<float> a(count), b(count), sum(count), want(count);
    Inputs inputs;
    for (size_t i = 0; i < count; ++i) {
        a[i] = inputs.uniform(-100, 100);
        b[i] = inputs.uniform(-100, 100);
        want[i] = a[i] + b[i];
    }

    const size_t bytes = count * sizeof(float);
    float *device_a, *device_b, *device_sum;
    CHECK(cudaMalloc(&device_a, bytes));
    CHECK(cudaMalloc(&device_b, bytes));
    CHECK(cudaMalloc(&device_sum, bytes));
    CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
    vector_add<<<blocks_for(count, 256), 256>>>(device_a, device_b, device_sum, count);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(sum.data(), device_sum, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_sum));

    Verdict verdict;
    verdict.near("sum", sum.data(), want.data(), count, 0, 0);
    return verdict.finish();
}
