// Memory in stream order: the default pool and the program's own pools, by device and by location, and their
// attributes. Also reuse within a stream and across streams through an event, trimming, frees on another stream, and
// refusals.
// No argument. Checks every element, every attribute, and that no memory is left behind.
#include "check.h"

__global__ void fill(int *data, int count, int value) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) data[i] = value + i;
}

__global__ void add(int *out, const int *in, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) out[i] += in[i];
}

constexpr int count = 100000;
constexpr unsigned block = 256;

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
    uint64_t value = ~0ull;
    CHECK(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
}

static int setting(cudaMemPool_t pool, cudaMemPoolAttr which) {
    int value = -1;
    CHECK(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
}

static cudaMemPool_t own_pool() {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypeNone;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    return pool;
}

static void defaults(Verdict &verdict) {
    int supported = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    verdict.expect(supported == 1, "the device has memory pools");
    cudaMemPool_t standard, current;
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    CHECK(cudaDeviceGetMemPool(&current, 0));
    verdict.expect(standard == current, "the default pool is current");
    verdict.expect(setting(standard, cudaMemPoolReuseFollowEventDependencies) == 1 &&
                       setting(standard, cudaMemPoolReuseAllowOpportunistic) == 1 &&
                       setting(standard, cudaMemPoolReuseAllowInternalDependencies) == 1,
                   "a pool reuses memory by default");
    verdict.expect(attribute(standard, cudaMemPoolAttrReleaseThreshold) == 0, "and keeps none by default");

    cudaMemPool_t own = own_pool();
    CHECK(cudaDeviceSetMemPool(0, own));
    CHECK(cudaDeviceGetMemPool(&current, 0));
    verdict.expect(current == own, "a pool of one's own can be current");
    int *data = nullptr;
    CHECK(cudaMallocAsync(&data, count * sizeof(int), nullptr));
    verdict.expect(attribute(own, cudaMemPoolAttrUsedMemCurrent) >= count * sizeof(int),
                   "plain allocations come from the current pool");
    verdict.expect(attribute(own, cudaMemPoolAttrReservedMemCurrent) >= count * sizeof(int), "which are reserved");
    CHECK(cudaFreeAsync(data, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    verdict.expect(attribute(own, cudaMemPoolAttrReservedMemCurrent) == 0 &&
                       attribute(own, cudaMemPoolAttrReservedMemHigh) >= count * sizeof(int),
                   "until they are freed and waited for");
    CHECK(cudaDeviceSetMemPool(0, standard));
    CHECK(cudaMemPoolDestroy(own));
}

// The same pools by the place they are of, as CUDA 13 asks for them.
static void by_place(Verdict &verdict) {
    cudaMemLocation here = {}, nowhere = {};
    here.type = cudaMemLocationTypeDevice;
    cudaMemPool_t standard, found, own = own_pool();
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    CHECK(cudaMemGetDefaultMemPool(&found, &here, cudaMemAllocationTypePinned));
    verdict.expect(found == standard, "a device's pool by its place");
    CHECK(cudaMemSetMemPool(&here, cudaMemAllocationTypePinned, own));
    CHECK(cudaMemGetMemPool(&found, &here, cudaMemAllocationTypePinned));
    verdict.expect(found == own, "a pool is made current by its place");
    CHECK(cudaDeviceGetMemPool(&found, 0));
    verdict.expect(found == own, "and is the device's");
    CHECK(cudaDeviceSetMemPool(0, standard));
    CHECK(cudaMemGetMemPool(&found, &here, cudaMemAllocationTypePinned));
    verdict.expect(found == standard, "the place has the device's pool");
    verdict.expect(cudaMemGetDefaultMemPool(&found, &nowhere, cudaMemAllocationTypePinned) == cudaErrorInvalidValue,
                   "nowhere has no pool");
    (void)cudaGetLastError();
    CHECK(cudaMemPoolDestroy(own));
}

static void accounts(Verdict &verdict) {
    cudaMemPool_t pool = own_pool();
    uint64_t keep = 1ull << 30;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    verdict.expect(attribute(pool, cudaMemPoolAttrReleaseThreshold) == keep, "a threshold is kept");
    int off = 0;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &off));
    verdict.expect(setting(pool, cudaMemPoolReuseAllowOpportunistic) == 0, "a reuse setting is kept");

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    constexpr size_t bytes = count * sizeof(int);
    int *a = nullptr, *b = nullptr;
    CHECK(cudaMallocFromPoolAsync(&a, bytes, pool, stream));
    CHECK(cudaMallocFromPoolAsync(&b, bytes, pool, stream));
    const uint64_t used = attribute(pool, cudaMemPoolAttrUsedMemCurrent);
    verdict.expect(used >= 2 * bytes && used < 4 * bytes, "what is allocated counts as used");
    verdict.expect(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= used, "and is reserved");
    fill<<<blocks_for(count, block), block, 0, stream>>>(a, count, 1);
    fill<<<blocks_for(count, block), block, 0, stream>>>(b, count, 2);
    add<<<blocks_for(count, block), block, 0, stream>>>(a, b, count);
    std::vector<int> got(count), want(count);
    CHECK(cudaMemcpyAsync(got.data(), a, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(a, stream));
    CHECK(cudaFreeAsync(b, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < count; ++i) want[static_cast<size_t>(i)] = 3 + 2 * i;
    verdict.equal("memory of a pool", got.data(), want.data(), got.size());

    verdict.expect(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0, "what is freed is not used");
    verdict.expect(attribute(pool, cudaMemPoolAttrUsedMemHigh) == used, "the most that was used is known");
    uint64_t reset = 0;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &reset));
    verdict.expect(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 0, "and can be reset");
    reset = 5;
    verdict.expect(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &reset) == cudaErrorInvalidValue,
                   "to nothing but 0");
    (void)cudaGetLastError();
    CHECK(cudaMemPoolTrimTo(pool, 0));
    verdict.expect(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0, "trimming gives everything back");
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaMemPoolDestroy(pool));
}

// Freed in one stream, allocated in another behind an event, while kernels of both still run: results stay right.
static void across_streams(Verdict &verdict) {
    cudaStream_t first, second;
    cudaEvent_t freed;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&freed, cudaEventDisableTiming));
    int *sum = nullptr;
    CHECK(cudaMallocAsync(&sum, count * sizeof(int), second));
    CHECK(cudaMemsetAsync(sum, 0, count * sizeof(int), second));
    long long factor = 0;
    for (int round = 1; round <= 10; ++round) {
        int *a = nullptr, *b = nullptr;
        CHECK(cudaMallocAsync(&a, count * sizeof(int), first));
        fill<<<blocks_for(count, block), block, 0, first>>>(a, count, round);
        CHECK(cudaEventRecord(freed, first));
        CHECK(cudaStreamWaitEvent(second, freed, 0));
        add<<<blocks_for(count, block), block, 0, second>>>(sum, a, count);
        // Freed on the stream that used it last.
        CHECK(cudaFreeAsync(a, second));
        CHECK(cudaMallocAsync(&b, count * sizeof(int), first));
        fill<<<blocks_for(count, block), block, 0, first>>>(b, count, -1000000);
        CHECK(cudaFreeAsync(b, first));
        factor += round;
    }
    CHECK_LAUNCH();
    std::vector<int> got(count), want(count);
    CHECK(cudaMemcpyAsync(got.data(), sum, count * sizeof(int), cudaMemcpyDeviceToHost, second));
    CHECK(cudaStreamSynchronize(second));
    CHECK(cudaStreamSynchronize(first));
    for (int i = 0; i < count; ++i) want[static_cast<size_t>(i)] = static_cast<int>(factor) + 10 * i;
    verdict.equal("reuse across streams", got.data(), want.data(), got.size());
    // The plain free takes memory of a pool too.
    CHECK(cudaFree(sum));
    CHECK(cudaEventDestroy(freed));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
}

static void refusals(Verdict &verdict) {
    cudaMemPool_t pool = own_pool();
    size_t free_bytes = 0, total = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    void *data = nullptr;
    verdict.expect(cudaMallocFromPoolAsync(&data, total * 2, pool, nullptr) == cudaErrorMemoryAllocation,
                   "more than there is");
    verdict.expect(cudaGetLastError() == cudaErrorMemoryAllocation, "is the last error");
    verdict.expect(cudaDeviceSynchronize() == cudaSuccess, "but not a sticky one");

    int *twice = nullptr;
    CHECK(cudaMallocAsync(&twice, 64, nullptr));
    CHECK(cudaFreeAsync(twice, nullptr));
    verdict.expect(cudaFreeAsync(twice, nullptr) == cudaErrorInvalidValue, "nothing is freed twice");
    (void)cudaGetLastError();
    int local = 0;
    verdict.expect(cudaFreeAsync(&local, nullptr) == cudaErrorInvalidValue, "nor what is not the device's");
    (void)cudaGetLastError();

    cudaMemLocation where = {};
    where.type = cudaMemLocationTypeDevice;
    cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
    CHECK(cudaMemPoolGetAccess(&flags, pool, &where));
    verdict.expect(flags == cudaMemAccessFlagsProtReadWrite, "a device may use its own pool");
    cudaMemAccessDesc access = {};
    access.location = where;
    access.flags = cudaMemAccessFlagsProtNone;
    verdict.expect(cudaMemPoolSetAccess(pool, &access, 1) != cudaSuccess, "which cannot be taken from it");
    (void)cudaGetLastError();
    CHECK(cudaStreamSynchronize(nullptr));
    CHECK(cudaMemPoolDestroy(pool));
}

int main() {
    Verdict verdict;
    size_t before = 0, after = 0, total = 0;
    CHECK(cudaFree(nullptr));
    fill<<<1, 1>>>(nullptr, 0, 0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemGetInfo(&before, &total));
    defaults(verdict);
    by_place(verdict);
    accounts(verdict);
    across_streams(verdict);
    refusals(verdict);
    cudaMemPool_t standard;
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    CHECK(cudaMemPoolTrimTo(standard, 0));
    CHECK(cudaMemGetInfo(&after, &total));
    verdict.expect(after + (4 << 20) >= before, "no memory is left behind");
    return verdict.finish();
}
