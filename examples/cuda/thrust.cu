// Thrust, NVIDIA's C++ library of algorithms, over device vectors: reduce, scan, sort, sort by key, a fused transform
// and reduce, and counting.
// Argument: number of elements (default 30011). Results must be equal to the CPU's.
#include "check.h"

#include <algorithm>
#include <numeric>

#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

struct Square {
    __host__ __device__ long long operator()(int value) const { return static_cast<long long>(value) * value; }
};

struct IsNegative {
    __host__ __device__ bool operator()(int value) const { return value < 0; }
};

// Orders by absolute value, then by sign: a comparison makes Thrust merge instead of sorting by radix.
struct ByMagnitude {
    __host__ __device__ bool operator()(int a, int b) const {
        const int x = a < 0 ? -a : a, y = b < 0 ? -b : b;
        return x != y ? x < y : a < b;
    }
};

static std::vector<int> to_host(const thrust::device_vector<int> &values) {
    std::vector<int> copy(values.size());
    thrust::copy(values.begin(), values.end(), copy.begin());
    return copy;
}

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 30011);
    std::vector<int> data(count);
    Inputs inputs;
    for (int &value : data) value = static_cast<int>(inputs.below(20001)) - 10000;
    const thrust::device_vector<int> device(data.begin(), data.end());
    Verdict verdict;

    const int sum = thrust::reduce(device.begin(), device.end());
    const int want_sum = std::accumulate(data.begin(), data.end(), 0);
    verdict.equal("reduce", &sum, &want_sum, 1);
    const int highest = thrust::reduce(device.begin(), device.end(), -20000, thrust::maximum<int>());
    const int want_highest = *std::max_element(data.begin(), data.end());
    verdict.equal("reduce to the maximum", &highest, &want_highest, 1);
    const long long squares =
        thrust::transform_reduce(device.begin(), device.end(), Square(), 0LL, thrust::plus<long long>());
    long long want_squares = 0;
    for (const int value : data) want_squares += Square()(value);
    verdict.equal("transform_reduce", &squares, &want_squares, 1);
    const auto negative = thrust::count_if(device.begin(), device.end(), IsNegative());
    const auto want_negative = std::count_if(data.begin(), data.end(), IsNegative());
    verdict.equal("count_if", &negative, &want_negative, 1);

    thrust::device_vector<int> scanned(count);
    thrust::inclusive_scan(device.begin(), device.end(), scanned.begin());
    std::vector<int> want(count);
    std::partial_sum(data.begin(), data.end(), want.begin());
    verdict.equal("inclusive_scan", to_host(scanned).data(), want.data(), count);

    thrust::device_vector<int> sorted = device;
    thrust::sort(sorted.begin(), sorted.end());
    want = data;
    std::sort(want.begin(), want.end());
    verdict.equal("sort", to_host(sorted).data(), want.data(), count);

    sorted = device;
    thrust::sort(sorted.begin(), sorted.end(), ByMagnitude());
    std::sort(want.begin(), want.end(), ByMagnitude());
    verdict.equal("sort by a comparison", to_host(sorted).data(), want.data(), count);

    std::vector<int> position(count);
    std::iota(position.begin(), position.end(), 0);
    thrust::device_vector<int> keys = device, values(position.begin(), position.end());
    thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
    std::stable_sort(position.begin(), position.end(), [&](int a, int b) { return data[a] < data[b]; });
    verdict.equal("stable_sort_by_key", to_host(values).data(), position.data(), count);
    return verdict.finish();
}
