// Batches of copies and of boxes (cuMemcpyBatchAsync, cuMemcpy3DBatchAsync, of CUDA 13 and of CUDA 12.8), and what is said
// of memory that is not managed.
// No argument. Checks every byte that was copied, that an ephemeral source may be reused at once, and the errors.
#include "check_driver.h"

#include <numeric>

using OldBatch = CUresult (*)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
                              size_t *, CUstream);

using OldBoxes = CUresult (*)(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream);

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
    CUgraph graph;
    CHECK_DRIVER(cuStreamBeginCapture(places.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    verdict.expect(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, starts, 1, places.stream) ==
                       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   "no batch is captured");
    CHECK_DRIVER(cuStreamEndCapture(places.stream, &graph));
    CHECK_DRIVER(cuGraphDestroy(graph));
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    verdict.expect(refused(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, starts, 1, places.stream)),
                   "no access order");
}

static void before_cuda_13(Verdict &verdict) {
    Places places;
    void *found = nullptr;
    CHECK_DRIVER(cuGetProcAddress("cuMemcpyBatchAsync", &found, 12080, 0, nullptr));
    auto batch = reinterpret_cast<OldBatch>(found);
    CUdeviceptr to[] = {places.first, places.first}, from[] = {places.second, places.second};
    size_t sizes[] = {count * 4, 0}, starts[] = {0}, failed = 7;
    CUmemcpyAttributes attributes[] = {in_order(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)};
    CHECK_DRIVER(batch(to, from, sizes, 1, attributes, starts, 1, &failed, places.stream));
    CHECK_DRIVER(cuStreamSynchronize(places.stream));
    const std::vector<int> got = places.read(places.first);
    verdict.expect(got[0] == 2 && got[count - 1] == 2, "the signature of CUDA 12.8");
    verdict.expect(batch(to, from, sizes, 2, attributes, starts, 1, &failed, places.stream) ==
                           CUDA_ERROR_INVALID_VALUE &&
                       failed == 1,
                   "which copy is at fault");
}

static CUmemcpy3DOperand end_at(CUdeviceptr at, size_t row_length, size_t layer_height) {
    CUmemcpy3DOperand end = {};
    end.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    end.op.ptr.ptr = at;
    end.op.ptr.rowLength = row_length;
    end.op.ptr.layerHeight = layer_height;
    return end;
}

static CUDA_MEMCPY3D_BATCH_OP box_of(CUmemcpy3DOperand source, CUmemcpy3DOperand destination, CUextent3D extent) {
    CUDA_MEMCPY3D_BATCH_OP box = {};
    box.src = source;
    box.dst = destination;
    box.extent = extent;
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return box;
}

// A box is cut out of 16 layers of 4 rows of 16 bytes and packed; the packed bytes are then copied to the host.
static void boxes(Verdict &verdict) {
    Places places;
    auto *bytes = reinterpret_cast<unsigned char *>(places.host);
    for (size_t i = 0; i < count * 4; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 256);
    CHECK_DRIVER(cuMemcpyHtoD(places.first, bytes, count * 4));
    const std::vector<unsigned char> whole(bytes, bytes + count * 4);
    std::fill(bytes, bytes + count * 4, 0);
    const CUextent3D extent = {5, 3, 2};
    CUDA_MEMCPY3D_BATCH_OP both[] = {
        box_of(end_at(places.first + 67, 16, 4), end_at(places.second, 0, 0), extent),
        box_of(end_at(places.second, 0, 0), end_at(reinterpret_cast<CUdeviceptr>(bytes), 8, 3), extent)};
    CHECK_DRIVER(cuMemcpy3DBatchAsync(2, both, 0, places.stream));
    CHECK_DRIVER(cuStreamSynchronize(places.stream));
    bool right = true, untouched = true;
    for (size_t z = 0; z < 2; ++z) {
        for (size_t y = 0; y < 3; ++y) {
            for (size_t x = 0; x < 8; ++x) {
                const unsigned char got = bytes[(z * 3 + y) * 8 + x];
                if (x < 5) right = right && got == whole[67 + (z * 4 + y) * 16 + x];
                if (x >= 5) untouched = untouched && got == 0;
            }
        }
    }
    verdict.expect(right, "a box is cut out, packed and unpacked");
    verdict.expect(untouched, "nothing between its rows");

    void *found = nullptr;
    CHECK_DRIVER(cuGetProcAddress("cuMemcpy3DBatchAsync", &found, 12080, 0, nullptr));
    size_t failed = 7;
    both[0].src.op.ptr.ptr = places.first;
    CHECK_DRIVER(reinterpret_cast<OldBoxes>(found)(2, both, &failed, 0, places.stream));
    CHECK_DRIVER(cuStreamSynchronize(places.stream));
    verdict.expect(bytes[0] == whole[0] && bytes[8] == whole[16], "the signature of CUDA 12.8");
}

static void refused_boxes(Verdict &verdict) {
    Places places;
    const CUDA_MEMCPY3D_BATCH_OP good =
        box_of(end_at(places.first, 16, 4), end_at(places.second, 8, 3), {5, 3, 2});
    auto refused = [&](auto change) {
        CUDA_MEMCPY3D_BATCH_OP box = good;
        change(box);
        return cuMemcpy3DBatchAsync(1, &box, 0, places.stream) == CUDA_ERROR_INVALID_VALUE;
    };
    verdict.expect(refused([](auto &box) { box.extent.height = 0; }), "a box without rows");
    verdict.expect(refused([](auto &box) { box.src.op.ptr.rowLength = 4; }), "rows that overlap");
    verdict.expect(refused([](auto &box) { box.dst.op.ptr.layerHeight = 2; }), "layers that overlap");
    verdict.expect(refused([](auto &box) { box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID; }),
                   "no access order of a box");
    CUDA_MEMCPY3D_BATCH_OP box = good;
    verdict.expect(cuMemcpy3DBatchAsync(1, &box, 1, places.stream) == CUDA_ERROR_INVALID_VALUE, "flags of a batch");
    verdict.expect(cuMemcpy3DBatchAsync(1, &box, 0, nullptr) == CUDA_ERROR_INVALID_VALUE,
                   "boxes on the legacy default stream");
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
    boxes(verdict);
    refused_boxes(verdict);
    not_managed(verdict);
    return verdict.finish();
}
