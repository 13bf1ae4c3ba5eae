// Scalar products of many pairs of vectors, one block per pair at a time, summed as a tree in shared memory.
// Arguments: number of pairs (default 64), elements per vector (default 4096). Checks each product against
// a CPU sum in double precision.
#include "check.h"

constexpr unsigned threads = 256;

__global__ void scalar_products(const float *a, const float *b, float *products, unsigned pairs,
                                unsigned length) {
    __shared__ float partial[threads];
    for (unsigned pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
        const float *left = a + static_cast<size_t>(pair) * length;
        const float *right = b + static_cast<size_t>(pair) * length;
        float sum = 0;
        for (unsigned i = threadIdx.x; i < length; i += blockDim.x) sum += left[i] * right[i];
        partial[threadIdx.x] = sum;
        for (unsigned stride = threads / 2; stride > 0; stride /= 2) {
            __syncthreads();
            if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
        }
        if (threadIdx.x == 0) products[pair] = partial[0];
        __syncthreads();
    }
}

int main(int argc, char **argv) {
    const size_t pairs = size_argument(argc, argv, 1, 64);
    const size_t length = size_argument(argc, argv, 2, 4096);
    std::vector<float> a(pairs * length), b(pairs * length);
    std::vector<double> want(pairs, 0.0);
    Inputs inputs;
    for (size_t i = 0; i < a.size(); ++i) {
        a[i] = inputs.uniform(0, 1);
        b[i] = inputs.uniform(0, 1);
        want[i / length] += static_cast<double>(a[i]) * b[i];
    }

    float *device_a = device_copy(a);
    float *device_b = device_copy(b);
    float *device_products = device_alloc<float>(pairs);
    // Fewer blocks than pairs, so that blocks take several pairs each.
    scalar_products<<<blocks_for(pairs, 2), threads>>>(device_a, device_b, device_products,
                                                       static_cast<unsigned>(pairs),
                                                       static_cast<unsigned>(length));
    CHECK_LAUNCH();
    const std::vector<float> products = host_copy(device_products, pairs);
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_products));

    Verdict verdict;
    verdict.near("scalar products", products.data(), want.data(), pairs, 1e-5, 0);
    return verdict.finish();
}
