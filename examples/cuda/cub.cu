// CUB, NVIDIA's library of device algorithms, as programs use it: sum, minimum and scan over an array, radix sort of
// pairs, selection. A kernel of our own uses its block-level parts.
// Argument: number of elements (default 50021). Results must be equal to the CPU's.
#include "check.h"

#include <algorithm>
#include <climits>
#include <numeric>

#include <cub/cub.cuh>

constexpr int threads = 128, items = 4;

// Calls a CUB algorithm twice, as its interface asks: for the size of its workspace, then to run.
template <typename Algorithm>
void with_workspace(Algorithm algorithm) {
    size_t bytes = 0;
    CHECK(algorithm(nullptr, bytes));
    void *workspace = nullptr;
    CHECK(cudaMalloc(&workspace, bytes > 0 ? bytes : 1));
    CHECK(algorithm(workspace, bytes));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(workspace));
}

struct IsEven {
    __host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};

__global__ void block_parts(const int *data, int *scanned, int *sums) {
    using Reduce = cub::BlockReduce<int, threads>;
    using Scan = cub::BlockScan<int, threads>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
    } storage;
    int values[items];
    const int base = (blockIdx.x * threads + threadIdx.x) * items;
    for (int i = 0; i < items; ++i) values[i] = data[base + i];
    const int sum = Reduce(storage.reduce).Sum(values);
    __syncthreads();
    Scan(storage.scan).InclusiveSum(values, values);
    for (int i = 0; i < items; ++i) scanned[base + i] = values[i];
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

static void check_blocks(Verdict &verdict, const std::vector<int> &data, const int *device_data) {
    constexpr int blocks = 8, count = blocks * threads * items;
    if (data.size() < static_cast<size_t>(count)) return;
    int *scanned = device_alloc<int>(count), *sums = device_alloc<int>(blocks);
    block_parts<<<blocks, threads>>>(device_data, scanned, sums);
    CHECK_LAUNCH();
    std::vector<int> want_scan(count), want_sums(blocks);
    for (int block = 0; block < blocks; ++block) {
        const auto begin = data.begin() + block * threads * items;
        std::partial_sum(begin, begin + threads * items, want_scan.begin() + block * threads * items);
        want_sums[block] = want_scan[(block + 1) * threads * items - 1];
    }
    verdict.equal("BlockScan", host_copy(scanned, count).data(), want_scan.data(), count);
    verdict.equal("BlockReduce", host_copy(sums, blocks).data(), want_sums.data(), blocks);
    CHECK(cudaFree(scanned));
    CHECK(cudaFree(sums));
}

int main(int argc, char **argv) {
    const size_t size = size_argument(argc, argv, 1, 50021);
    const int count = static_cast<int>(size);
    std::vector<int> data(size), index(size);
    Inputs inputs;
    for (int &value : data) value = static_cast<int>(inputs.below(20001)) - 10000;
    std::iota(index.begin(), index.end(), 0);
    int *device_data = device_copy(data), *device_index = device_copy(index);
    int *out = device_alloc<int>(size), *other = device_alloc<int>(size), *number = device_alloc<int>(1);
    Verdict verdict;

    with_workspace([&](void *w, size_t &b) { return cub::DeviceReduce::Sum(w, b, device_data, out, count); });
    const int sum = std::accumulate(data.begin(), data.end(), 0);
    verdict.equal("DeviceReduce::Sum", host_copy(out, 1).data(), &sum, 1);

    with_workspace([&](void *w, size_t &b) { return cub::DeviceReduce::Min(w, b, device_data, out, count); });
    const int lowest = *std::min_element(data.begin(), data.end());
    verdict.equal("DeviceReduce::Min", host_copy(out, 1).data(), &lowest, 1);

    with_workspace(
        [&](void *w, size_t &b) { return cub::DeviceScan::ExclusiveSum(w, b, device_data, out, count); });
    std::vector<int> scanned(size);
    std::exclusive_scan(data.begin(), data.end(), scanned.begin(), 0);
    verdict.equal("DeviceScan::ExclusiveSum", host_copy(out, size).data(), scanned.data(), size);

    with_workspace([&](void *w, size_t &b) {
        return cub::DeviceRadixSort::SortPairs(w, b, device_data, out, device_index, other, count);
    });
    std::vector<int> order = index, sorted(size);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return data[a] < data[b]; });
    for (size_t i = 0; i < size; ++i) sorted[i] = data[order[i]];
    verdict.equal("DeviceRadixSort::SortPairs, keys", host_copy(out, size).data(), sorted.data(), size);
    verdict.equal("DeviceRadixSort::SortPairs, values", host_copy(other, size).data(), order.data(), size);

    with_workspace([&](void *w, size_t &b) {
        return cub::DeviceSelect::If(w, b, device_data, out, number, count, IsEven());
    });
    std::vector<int> even;
    std::copy_if(data.begin(), data.end(), std::back_inserter(even), IsEven());
    const int even_count = static_cast<int>(even.size());
    if (verdict.equal("DeviceSelect::If, number", host_copy(number, 1).data(), &even_count, 1))
        verdict.equal("DeviceSelect::If", host_copy(out, even.size()).data(), even.data(), even.size());

    check_blocks(verdict, data, device_data);
    for (int *pointer : {device_data, device_index, out, other, number}) CHECK(cudaFree(pointer));
    return verdict.finish();
}
