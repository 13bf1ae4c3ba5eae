// Kernels of one device that read, write and add to another's memory at its own address: of cudaMalloc, before and after
// access was given, of a pool, and physical memory that both devices map. Also the codes of enabling and disabling.
// Takes no arguments. Checks every value.
#include "check_driver.h"

constexpr unsigned threads = 128;
constexpr size_t count = 10000;

__global__ void take(const int *from, int *to, int more) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < count) to[i] = from[i] + more;
}

// Every thread of both devices adds to the same counters.
__global__ void tally(unsigned *counters, unsigned rounds) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    for (unsigned round = 0; round < rounds; ++round) atomicAdd_system(&counters[(i + round) % 8], 1u);
}

static std::vector<int> read_back(const int *memory) {
    std::vector<int> values(count);
    CHECK(cudaMemcpy(values.data(), memory, count * sizeof(int), cudaMemcpyDeviceToHost));
    return values;
}

// The kernel runs on the current device.
static void take_and_check(Verdict &verdict, const char *what, const std::vector<int> &values, const int *from,
                           int *to) {
    take<<<blocks_for(count, threads), threads>>>(from, to, 5);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    std::vector<int> want(values);
    for (int &value : want) value += 5;
    verdict.equal(what, read_back(to).data(), want.data(), count);
}

static void enable(Verdict &verdict) {
    for (int device = 0; device < 2; ++device) {
        int can = 0, access = 0;
        CHECK(cudaDeviceCanAccessPeer(&can, device, 1 - device));
        CHECK(cudaDeviceGetP2PAttribute(&access, cudaDevP2PAttrAccessSupported, device, 1 - device));
        verdict.expect(can == 1 && access == 1, "the devices reach each other");
        CHECK(cudaSetDevice(device));
        verdict.expect(cudaDeviceDisablePeerAccess(1 - device) == cudaErrorPeerAccessNotEnabled, "not enabled yet");
        cudaGetLastError();
        CHECK(cudaDeviceEnablePeerAccess(1 - device, 0));
        verdict.expect(cudaDeviceEnablePeerAccess(1 - device, 0) == cudaErrorPeerAccessAlreadyEnabled, "enabled");
        cudaGetLastError();
    }
}

static void count_together(Verdict &verdict) {
    constexpr unsigned blocks = 6, rounds = 40;
    CHECK(cudaSetDevice(1));
    unsigned *counters = device_alloc<unsigned>(8);
    CHECK(cudaMemset(counters, 0, 8 * sizeof(unsigned)));
    CHECK(cudaDeviceSynchronize());
    for (int device = 0; device < 2; ++device) {
        CHECK(cudaSetDevice(device));
        tally<<<blocks, threads>>>(counters, rounds);
        CHECK_LAUNCH();
    }
    for (int device = 0; device < 2; ++device) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaDeviceSynchronize());
    }
    std::vector<unsigned> got(8), want(8, 2 * blocks * threads * rounds / 8);
    CHECK(cudaMemcpy(got.data(), counters, 8 * sizeof(unsigned), cudaMemcpyDeviceToHost));
    verdict.equal("counted together", got.data(), want.data(), 8);
}

// Physical memory of device 1, at addresses reserved while device 0 is current, which both devices may use.
static void map_for_both(Verdict &verdict, const std::vector<int> &values, int *own) {
    CHECK(cudaSetDevice(0));
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = 1;
    size_t unit = 0;
    CHECK_DRIVER(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    const size_t bytes = (count * sizeof(int) + unit - 1) / unit * unit;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr at;
    CHECK_DRIVER(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    CHECK_DRIVER(cuMemCreate(&memory, bytes, &properties, 0));
    CHECK_DRIVER(cuMemMap(at, bytes, 0, memory, 0));
    CUmemAccessDesc access[2] = {};
    for (int device = 0; device < 2; ++device) {
        access[device].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[device].location.id = device;
        access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    CHECK_DRIVER(cuMemSetAccess(at, bytes, access, 2));
    CHECK_DRIVER(cuMemRelease(memory));
    int *mapped = reinterpret_cast<int *>(at);
    CHECK(cudaSetDevice(1));
    CHECK(cudaMemcpy(mapped, values.data(), count * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaSetDevice(0));
    take_and_check(verdict, "mapped for both", values, mapped, own);
    int ordinal = -1;
    CHECK_DRIVER(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
    verdict.expect(ordinal == 1, "the memory is device 1's");
    CHECK_DRIVER(cuMemUnmap(at, bytes));
    CHECK_DRIVER(cuMemAddressFree(at, bytes));
}

static void take_from_pool(Verdict &verdict, const std::vector<int> &values, int *own) {
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 1));
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = 0;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    CHECK(cudaMemPoolSetAccess(pool, &access, 1));
    CHECK(cudaSetDevice(1));
    int *memory;
    CHECK(cudaMallocAsync(&memory, count * sizeof(int), nullptr));
    CHECK(cudaMemcpyAsync(memory, values.data(), count * sizeof(int), cudaMemcpyHostToDevice, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    take_and_check(verdict, "of a pool", values, memory, own);
    CHECK(cudaSetDevice(1));
    CHECK(cudaFreeAsync(memory, nullptr));
    CHECK(cudaDeviceSynchronize());
}

int main() {
    Verdict verdict;
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (!verdict.expect(devices >= 2, "two devices")) return verdict.finish();
    std::vector<int> values(count);
    Inputs inputs(3);
    for (int &value : values) value = static_cast<int>(inputs.below(1000000));
    CHECK(cudaSetDevice(1));
    int *before = device_copy(values);
    CHECK(cudaSetDevice(0));
    int *own = device_alloc<int>(count);
    enable(verdict);
    CHECK(cudaSetDevice(1));
    int *after = device_copy(values);
    CHECK(cudaSetDevice(0));
    take_and_check(verdict, "of before", values, before, own);
    take_and_check(verdict, "of after", values, after, own);
    take_and_check(verdict, "written there", values, before, after);
    count_together(verdict);
    map_for_both(verdict, values, own);
    take_from_pool(verdict, values, own);
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceDisablePeerAccess(1));
    return verdict.finish();
}
