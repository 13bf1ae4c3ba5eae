// Batches of copies (cuMemcpyBatchAsync, of CUDA 13 and of CUDA 12.8), and what is said of memory that is not managed.
// No argument. Checks every byte that was copied, that an ephemeral source may be reused at once, and the errors.
#include "check_driver.h"

#include <numeric>

using OldBatch = CUresult (*)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
                              size_t *, CUstream);

constexpr size_t count = 256;

struct Places {
    CUdeviceptr first, second;
    int *host;
    CUstream stream;

    Places() {
        CHECK_DRIVER(cuMemAlloc(&first, count * 4));
        CHECK_DRIVER(cuMemAlloc(&second, count * 4));
        CHECK_DRIVER(cuMemAllocHost(reinterpret_cast<void **>(&host), count * 4));
        CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CHECK_DRIVER(cuMemsetD32(first, 1, count));
        CHECK_DRIVER(cuMemsetD32(second, 2, count));
        CHECK_DRIVER(cuCtxSynchronize());
    }
    ~Places() {
        CHECK_DRIVER(cuStreamDestroy(stream));
        CHECK_DRIVER(cuMemFreeHost(host));
        CHECK_DRIVER(cuMemFree(first));
        CHECK_DRIVER(cuMemFree(second));
    }
    std::vector<int> read(CUdeviceptr from) {
        std::vector<int> values(count);
        CHECK_DRIVER(cuMemcpyDtoH(values.data(), from, count * 4));
        return values;
    }
};

static CUmemcpyAttributes in_order(CUmemcpySrcAccessOrder order) {
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = order;
    return attributes;
}

// Host to device, device to device and device to host in one batch, with attributes for the first and for the rest.
static void one_batch(Verdict &verdict) {
    Places places;
    std::iota(places.host, places.host + count, 100);
    std::vector<int> back(count);
    CUdeviceptr to[] = {places.first, places.first + 512, reinterpret_cast<CUdeviceptr>(places.host + 200)};
    CUdeviceptr from[] = {reinterpret_cast<CUdeviceptr>(places.host), places.second + 512, places.second};
    size_t sizes[] = {256, 256, 40}, starts[] = {0, 1};
    CUmemcpyAttributes attributes[] = {in_order(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
                                       in_order(CU_MEMCPY_SRC_ACCESS_ORDER_ANY)};
    CHECK_DRIVER(cuMemcpyBatchAsync(to, from, sizes, 3, attributes, starts, 2, places.stream));
    CHECK_DRIVER(cuStreamSynchronize(places.stream));
    const std::vector<int> got = places.read(places.first);
    bool right = true;
    for (int i = 0; i < 64; ++i) right = right && got[i] == 100 + i && got[64 + i] == 1 && got[128 + i] == 2;
    verdict.expect(right, "each copy of the batch is where it belongs");
    right = true;
    for (int i = 0; i < 12; ++i) right = right && places.host[200 + i] == (i < 10 ? 2 : 300 + i);
    verdict.expect(right, "what came to the host, and nothing behind it");
}

static void ephemeral_sources(Verdict &verdict) {
    Places places;
    CUdeviceptr to[] = {places.first}, from[] = {reinterpret_cast<CUdeviceptr>(places.host)};
    size_t sizes[] = {count * 4}, starts[] = {0};
    CUmemcpyAttributes attributes[] = {in_order(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)};
    bool right = true;
    for (int round = 0; round < 20; ++round) {
        std::fill(places.host, places.host + count, round);
        CHECK_DRIVER(cuMemcpyBatchAsync(to, from, sizes, 1, attributes, starts, 1, places.stream));
        std::fill(places.host, places.host + count, -1);
        CHECK_DRIVER(cuStreamSynchronize(places.stream));
        for (const int value : places.read(places.first)) right = right && value == round;
    }
    verdict.expect(right, "a source that is reused at once");
}

static void errors(Verdict &verdict) {
    Places places;
    CUdeviceptr to[] = {places.first, places.first}, from[] = {places.second, places.second};
    size_t sizes[] = {16, 16}, starts[] = {0, 2}, late[] = {1};
    CUmemcpyAttributes attributes[] = {in_order(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
                                       in_order(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)};
    auto refused = [&](CUresult result) { return result == CUDA_ERROR_INVALID_VALUE; };
    verdict.expect(refused(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, starts, 2, places.stream)),
                   "attributes for copies behind the last");
    verdict.expect(refused(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, late, 1, places.stream)),
                   "attributes that do not begin with the first copy");
    verdict.expect(refused(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, starts, 1, nullptr)),
                   "the legacy default stream");
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    verdict.expect(refused(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, starts, 1, places.stream)),
                   "no access order");
}

static void before_cuda_13(Verdict &verdict) {
    Places places;
    void *found = nullptr;
    CHECK_DRIVER(cuGetProcAddress("cuMemcpyBatchAsync", &found, 12080, 0, nullptr));
    auto batch = reinterpret_cast<OldBatch>(found);
    CUdeviceptr to[] = {places.first}, from[] = {places.second};
    size_t sizes[] = {count * 4}, starts[] = {0}, failed = 7;
    CUmemcpyAttributes attributes[] = {in_order(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)};
    CHECK_DRIVER(batch(to, from, sizes, 1, attributes, starts, 1, &failed, places.stream));
    CHECK_DRIVER(cuStreamSynchronize(places.stream));
    const std::vector<int> got = places.read(places.first);
    verdict.expect(got[0] == 2 && got[count - 1] == 2, "the signature of CUDA 12.8");
}

// CUDA takes managed memory only for these.
static void not_managed(Verdict &verdict) {
    Places places;
    const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    auto refused = [&](CUresult result) { return result == CUDA_ERROR_INVALID_VALUE; };
    int data = 0;
    verdict.expect(refused(cuMemPrefetchAsync(places.first, 64, here, 0, places.stream)), "prefetching device memory");
    verdict.expect(refused(cuMemAdvise(places.first, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, here)), "advice about it");
    verdict.expect(refused(cuMemRangeGetAttribute(&data, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, places.first, 64)),
                   "what was said about it");
    verdict.expect(cudaMemPrefetchAsync(reinterpret_cast<void *>(places.first), 64,
                                        {cudaMemLocationTypeDevice, 0}, 0, nullptr) == cudaErrorInvalidValue,
                   "the runtime's prefetch of device memory");
    verdict.expect(cudaGetLastError() == cudaErrorInvalidValue, "its error is the last one");
}

int main() {
    CHECK(cudaFree(nullptr));
    Verdict verdict;
    one_batch(verdict);
    ephemeral_sources(verdict);
    errors(verdict);
    before_cuda_13(verdict);
    not_managed(verdict);
    return verdict.finish();
}
