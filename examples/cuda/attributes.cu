// Attributes of kernels and pointers, and occupancy. Functions: attributes and the effects of setting them, blocks per
// multiprocessor, suggested block size, shared memory beyond the default. Pointers: the attributes of every kind.
// No argument. Checks the answers against one another and against launches.
#include "check.h"

__global__ void plain(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

__global__ void __launch_bounds__(128) bounded(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 2; }

__global__ void with_static_shared(int *out) {
    __shared__ int values[1000];
    values[threadIdx.x] = static_cast<int>(threadIdx.x) * 3;
    __syncthreads();
    out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

__global__ void with_dynamic_shared(int *out, int words) {
    extern __shared__ int dynamic[];
    for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) dynamic[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) *out = dynamic[words - 1] + dynamic[words / 2];
}

__constant__ int table[50];
__device__ int variable[25];

__global__ void with_constants(int *out) { out[threadIdx.x] = table[threadIdx.x] + variable[threadIdx.x % 25]; }

template <typename Kernel>
static cudaFuncAttributes attributes_of(Kernel *kernel) {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, kernel));
    return attributes;
}

static void functions(Verdict &verdict) {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    const cudaFuncAttributes of_plain = attributes_of(plain), of_bounded = attributes_of(bounded);
    verdict.expect(of_plain.maxThreadsPerBlock == device.maxThreadsPerBlock, "a plain kernel takes the largest block");
    verdict.expect(of_bounded.maxThreadsPerBlock == 128, "launch bounds are known");
    verdict.expect(of_plain.numRegs > 0 && of_plain.numRegs <= 255, "registers are a number of registers");
    verdict.expect(of_plain.sharedSizeBytes == 0 && of_plain.localSizeBytes == 0, "a plain kernel has no more memory");
    verdict.expect(attributes_of(with_static_shared).sharedSizeBytes >= 4000, "static shared memory is known");
    verdict.expect(of_plain.binaryVersion == device.major * 10 + device.minor, "binaries are the device's");
    verdict.expect(of_plain.ptxVersion >= 75 && of_plain.ptxVersion <= 90, "the PTX version is the compiler's");
    int *out = device_alloc<int>(1024);
    bounded<<<1, 129>>>(out);
    const cudaError_t refused = cudaGetLastError();
    verdict.expect(refused == cudaErrorInvalidValue || refused == cudaErrorLaunchOutOfResources ||
                       refused == cudaErrorInvalidConfiguration,
                   "a block beyond the bounds is refused");
    bounded<<<1, 128>>>(out);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(out));
}

// Shared memory beyond 48 KiB has to be asked for.
static void shared_memory(Verdict &verdict) {
    int opt_in = 0, standard = 0;
    CHECK(cudaDeviceGetAttribute(&opt_in, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CHECK(cudaDeviceGetAttribute(&standard, cudaDevAttrMaxSharedMemoryPerBlock, 0));
    verdict.expect(standard == 48 << 10 && opt_in > standard, "the device has more shared memory than the default");
    int *out = device_alloc<int>(1);
    const int bytes = opt_in - 1024, words = bytes / 4;
    with_dynamic_shared<<<1, 256, static_cast<size_t>(bytes)>>>(out, words);
    verdict.expect(cudaGetLastError() == cudaErrorInvalidValue, "which a launch gets only when asked for before");
    CHECK(cudaFuncSetAttribute(with_dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    verdict.expect(attributes_of(with_dynamic_shared).maxDynamicSharedSizeBytes == bytes, "the wish is known");
    with_dynamic_shared<<<1, 256, static_cast<size_t>(bytes)>>>(out, words);
    CHECK_LAUNCH();
    verdict.expect(host_copy(out, 1)[0] == words - 1 + words / 2, "and granted");
    verdict.expect(cudaFuncSetAttribute(with_dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        opt_in + 1) == cudaErrorInvalidValue,
                   "more than the device has is refused");
    (void)cudaGetLastError();
    CHECK(cudaFuncSetAttribute(with_dynamic_shared, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    verdict.expect(attributes_of(with_dynamic_shared).preferredShmemCarveout == 50, "a carveout is kept");
    CHECK(cudaFuncSetCacheConfig(plain, cudaFuncCachePreferShared));
    CHECK(cudaFree(out));
}

static void occupancy(Verdict &verdict) {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    int last = 1 << 30;
    bool falling = true, within = true;
    for (int threads = 32; threads <= 1024; threads *= 2) {
        int blocks = 0;
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, threads, 0));
        falling &= blocks <= last && blocks > 0;
        within &= blocks * threads <= device.maxThreadsPerMultiProcessor &&
                  blocks <= device.maxBlocksPerMultiProcessor;
        last = blocks;
    }
    verdict.expect(falling && within, "larger blocks are fewer, within the multiprocessor's limits");
    int few = 0, many = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&many, plain, 64, 1 << 10));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&few, plain, 64, 40 << 10));
    verdict.expect(few < many && few == static_cast<int>(device.sharedMemPerMultiprocessor / ((40 << 10) + 1024)),
                   "shared memory limits them");
    size_t available = 0;
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&available, plain, 2, 256));
    verdict.expect(available > 0 && available <= device.sharedMemPerMultiprocessor / 2,
                   "two blocks share what there is");
    int blocks = 0, threads = 0;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, plain, 0, 0));
    int fitting = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fitting, plain, threads, 0));
    verdict.expect(blocks == fitting * device.multiProcessorCount && fitting * threads >= 1024,
                   "the suggested block fills the device");
    CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, bounded, 0, 0));
    verdict.expect(threads <= 128, "and keeps to the kernel's bounds");
}

static void symbols(Verdict &verdict) {
    void *address = nullptr;
    size_t bytes = 0;
    CHECK(cudaGetSymbolAddress(&address, variable));
    CHECK(cudaGetSymbolSize(&bytes, variable));
    verdict.expect(address != nullptr && bytes == sizeof(int) * 25, "a variable has an address and a size");
    CHECK(cudaGetSymbolSize(&bytes, table));
    verdict.expect(bytes == sizeof(int) * 50, "a constant has a size");
    int constants[50], values[25];
    for (int i = 0; i < 50; ++i) constants[i] = i * 11;
    for (int i = 0; i < 25; ++i) values[i] = i - 7;
    CHECK(cudaMemcpyToSymbol(table, constants, sizeof(constants)));
    CHECK(cudaMemcpyToSymbolAsync(variable, values, sizeof(int) * 20, 0, cudaMemcpyHostToDevice, nullptr));
    CHECK(cudaMemcpyToSymbol(variable, values + 20, sizeof(int) * 5, sizeof(int) * 20));
    int *out = device_alloc<int>(50), want[50], back[25];
    with_constants<<<1, 50>>>(out);
    CHECK_LAUNCH();
    for (int i = 0; i < 50; ++i) want[i] = i * 11 + i % 25 - 7;
    verdict.equal("symbols", host_copy(out, 50).data(), want, 50);
    CHECK(cudaMemcpyFromSymbol(back, variable, sizeof(back)));
    verdict.equal("a symbol read back", back, values, 25);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, address));
    verdict.expect(attributes.type == cudaMemoryTypeDevice, "a variable is device memory");
    CHECK(cudaFree(out));
}

static void pointers(Verdict &verdict) {
    cudaPointerAttributes attributes;
    char *device = device_alloc<char>(1000), *pinned, *ordered;
    CHECK(cudaMallocHost(&pinned, 1000));
    CHECK(cudaMallocAsync(&ordered, 1000, nullptr));
    for (char *pointer : {device, device + 999, ordered}) {
        CHECK(cudaPointerGetAttributes(&attributes, pointer));
        verdict.expect(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 &&
                           attributes.devicePointer == pointer,
                       "device memory is known as such");
    }
    CHECK(cudaPointerGetAttributes(&attributes, pinned + 500));
    verdict.expect(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned + 500,
                   "pinned memory is known as such");
    int local = 0;
    CHECK(cudaPointerGetAttributes(&attributes, &local));
    verdict.expect(attributes.type == cudaMemoryTypeUnregistered && attributes.devicePointer == nullptr,
                   "other memory is nobody's");
    CHECK(cudaFree(device));
    CHECK(cudaFreeAsync(ordered, nullptr));
    CHECK(cudaFreeHost(pinned));
}

int main() {
    Verdict verdict;
    functions(verdict);
    shared_memory(verdict);
    occupancy(verdict);
    symbols(verdict);
    pointers(verdict);
    return verdict.finish();
}
