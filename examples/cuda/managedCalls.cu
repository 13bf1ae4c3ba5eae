// Calls about managed memory that host and device may not touch at once: attributes, pointers, advice, prefetches,
// attachments, copies and fills. Also system calls on it, and refusals.
// Argument `counts`: touches few bytes between launches, for a test that counts the sent bytes; prints nothing else.
#include "check.h"

#include <cuda.h>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

__global__ void increase(int *values, size_t count) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) values[i] += 1;
}

static int attribute(cudaDeviceAttr which) {
    int value = -9;
    CHECK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

static void what_it_is(Verdict &verdict) {
    verdict.expect(attribute(cudaDevAttrManagedMemory) == 1, "there is managed memory");
    verdict.expect(attribute(cudaDevAttrConcurrentManagedAccess) == 0, "not for both at once");
    verdict.expect(attribute(cudaDevAttrPageableMemoryAccess) == 0, "pageable memory is the host's");
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    verdict.expect(properties.managedMemory == 1 && properties.concurrentManagedAccess == 0, "properties say the same");

    int *values = nullptr;
    CHECK(cudaMallocManaged(&values, 100 * sizeof(int)));
    cudaPointerAttributes about;
    CHECK(cudaPointerGetAttributes(&about, values + 3));
    verdict.expect(about.type == cudaMemoryTypeManaged && about.device == 0, "a managed pointer says so");
    verdict.expect(about.devicePointer == values + 3 && about.hostPointer == values + 3, "it is both sides' pointer");
    CUdeviceptr start = 0;
    size_t bytes = 0;
    verdict.expect(cuMemGetAddressRange(&start, &bytes, reinterpret_cast<CUdeviceptr>(values + 5)) == CUDA_SUCCESS &&
                       start == reinterpret_cast<CUdeviceptr>(values) && bytes == 400,
                   "its range is known");
    verdict.expect(values[0] == 0 && values[99] == 0, "it begins as zeros");
    CUdeviceptr other = 0;
    verdict.expect(cuMemAllocManaged(&other, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE, "nothing is not allocated");
    verdict.expect(cuMemAllocManaged(&other, 16, CU_MEM_ATTACH_SINGLE) == CUDA_ERROR_INVALID_VALUE,
                   "nor attached to a stream that does not exist");
    verdict.expect(cuMemFree(reinterpret_cast<CUdeviceptr>(values) + 4) == CUDA_ERROR_INVALID_VALUE, "half is not freed");
    verdict.expect(cuMemAllocManaged(&other, 1ull << 46, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_OUT_OF_MEMORY, "too much");
    CHECK(cudaFree(values));
    verdict.expect(cuMemFree(reinterpret_cast<CUdeviceptr>(values)) == CUDA_ERROR_INVALID_VALUE, "it is freed once");
}

static void advice(Verdict &verdict) {
    const size_t bytes = 3 << 20;
    char *memory = nullptr;
    CHECK(cudaMallocManaged(&memory, bytes));
    const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(memory);
    const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0}, host{CU_MEM_LOCATION_TYPE_HOST, 0};
    verdict.expect(cuMemPrefetchAsync(at, bytes, device, 0, 0) == CUDA_ERROR_INVALID_DEVICE, "no prefetch to the device");
    verdict.expect(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device) == CUDA_ERROR_INVALID_DEVICE,
                   "the device cannot be preferred");
    verdict.expect(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device) == CUDA_ERROR_INVALID_DEVICE, "nor mapped");
    verdict.expect(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device) == CUDA_SUCCESS, "reading is advice");
    verdict.expect(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host) == CUDA_SUCCESS, "so is the host");
    verdict.expect(cuMemAdvise(at, bytes, static_cast<CUmem_advise>(77), host) == CUDA_ERROR_INVALID_VALUE, "not all is");
    verdict.expect(cuMemAdvise(at, bytes + 4097, CU_MEM_ADVISE_SET_READ_MOSTLY, host) == CUDA_ERROR_INVALID_VALUE,
                   "beyond the end there is nothing to advise");
    int read = -5, preferred = -5, prefetched = -5;
    cuMemRangeGetAttribute(&read, sizeof read, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, bytes);
    cuMemRangeGetAttribute(&preferred, sizeof preferred, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, bytes);
    verdict.expect(read == 1 && preferred == CU_DEVICE_CPU, "what was advised is remembered");
    verdict.expect(cuMemPrefetchAsync(at, bytes, host, 0, 0) == CUDA_SUCCESS, "a prefetch to the host works");
    void *places[2] = {&read, &prefetched};
    size_t sizes[2] = {sizeof read, sizeof prefetched};
    CUmem_range_attribute asked[2] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
    verdict.expect(cuMemRangeGetAttributes(places, sizes, asked, 2, at, bytes) == CUDA_SUCCESS && prefetched == CU_DEVICE_CPU,
                   "and is remembered");
    int *ordinary = device_alloc<int>(16);
    verdict.expect(cuMemAdvise(reinterpret_cast<CUdeviceptr>(ordinary), 64, CU_MEM_ADVISE_SET_READ_MOSTLY, host) ==
                       CUDA_ERROR_INVALID_VALUE,
                   "other memory takes no advice");
    CHECK(cudaFree(ordinary));
    CHECK(cudaFree(memory));
}

static void attachments(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *values = nullptr, *ordinary = device_alloc<int>(16);
    CHECK(cudaMallocManaged(&values, 4096, cudaMemAttachHost));
    values[0] = 1;
    verdict.expect(cudaStreamAttachMemAsync(0, values, 0, cudaMemAttachSingle) == cudaErrorInvalidValue, "not to the default stream");
    verdict.expect(cudaStreamAttachMemAsync(stream, values + 1, 0, cudaMemAttachGlobal) == cudaErrorInvalidValue, "not a part");
    verdict.expect(cudaStreamAttachMemAsync(stream, values, 12, cudaMemAttachGlobal) == cudaErrorInvalidValue, "nor some of it");
    verdict.expect(cudaStreamAttachMemAsync(stream, values, 0, 3) == cudaErrorInvalidValue, "in one way");
    verdict.expect(cudaStreamAttachMemAsync(stream, ordinary, 0, cudaMemAttachGlobal) == cudaErrorInvalidValue, "managed memory");
    CHECK(cudaStreamAttachMemAsync(stream, values, 4096, cudaMemAttachGlobal));
    increase<<<1, 32, 0, stream>>>(values, 1);
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(values[0] == 2, "what was the host's is everybody's");
    CHECK(cudaStreamAttachMemAsync(stream, values, 0, cudaMemAttachHost));
    CHECK(cudaStreamSynchronize(stream));
    values[0] = 7;
    increase<<<1, 32, 0, stream>>>(ordinary, 16);
    values[0] += 1;
    verdict.expect(values[0] == 8, "the host touches its own while the device works");
    CHECK(cudaStreamAttachMemAsync(stream, values, 0, cudaMemAttachSingle));
    increase<<<1, 32, 0, stream>>>(values, 1);
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(values[0] == 9, "and the stream it is attached to sees it");
    CHECK(cudaStreamDestroy(stream));
    increase<<<1, 32>>>(ordinary, 16);
    CHECK(cudaDeviceSynchronize());
    cudaGetLastError();
    CHECK(cudaFree(values));
    CHECK(cudaFree(ordinary));
}

// Every kind of copy with a managed pointer on the host's side, the device's, or both.
static void copies(Verdict &verdict) {
    const size_t count = 50000;
    int *one = nullptr, *other = nullptr, *device = device_alloc<int>(count);
    CHECK(cudaMallocManaged(&one, count * sizeof(int)));
    CHECK(cudaMallocManaged(&other, count * sizeof(int)));
    std::vector<int> host(count), want(count);
    for (size_t i = 0; i < count; ++i) one[i] = want[i] = static_cast<int>(i);
    CHECK(cudaMemcpy(device, one, count * sizeof(int), cudaMemcpyHostToDevice));
    increase<<<16, 128>>>(device, count);
    CHECK(cudaMemcpy(other, device, count * sizeof(int), cudaMemcpyDeviceToHost));
    for (int &value : want) value += 1;
    verdict.equal("to a managed target", other, want.data(), count);
    CHECK(cudaMemcpy(one, other, count * sizeof(int), cudaMemcpyHostToHost));
    increase<<<16, 128>>>(one, count);
    CHECK(cudaMemcpy(host.data(), one, count * sizeof(int), cudaMemcpyDefault));
    for (int &value : want) value += 1;
    verdict.equal("from a managed source", host.data(), want.data(), count);
    one[100] = want[100] = -1;
    CHECK(cudaMemset(one + 200, 0, 40));
    std::memset(&want[200], 0, 40);
    verdict.equal("what a fill left", one, want.data(), count);
    CHECK(cudaMemcpyAsync(one + 1000, other, 4000, cudaMemcpyDefault, 0));
    std::copy(other, other + 1000, want.begin() + 1000);
    CHECK(cudaStreamSynchronize(0));
    verdict.equal("a copy in between", one, want.data(), count);
    CHECK(cudaMemcpy2D(other, 400, one, 800, 100, 30, cudaMemcpyDefault));
    for (int row = 0; row < 30; ++row) verdict.failures += std::memcmp(other + 100 * row, one + 200 * row, 100) != 0;
    CHECK(cudaFree(one));
    CHECK(cudaFree(other));
    CHECK(cudaFree(device));
}

// The system's own calls read and write what the host has touched since the last wait, or what was prefetched.
static void system_calls(Verdict &verdict) {
    const size_t count = 1 << 20;
    char name[] = "/tmp/managed-XXXXXX";
    const int file = mkstemp(name);
    unlink(name);
    int *values = nullptr, *few = nullptr;
    CHECK(cudaMallocManaged(&values, count * sizeof(int)));
    CHECK(cudaMallocManaged(&few, 4096));
    verdict.expect(read(open("/dev/zero", O_RDONLY), values, count * sizeof(int)) > 0, "new memory is read into");
    increase<<<16, 128>>>(values, count);
    CHECK(cudaDeviceSynchronize());
    few[0] = 1;
    increase<<<1, 1>>>(few, 1);
    CHECK(cudaDeviceSynchronize());
    verdict.expect(write(file, few, 4096) == 4096, "what the host had touched is written from after a wait");
    const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
    verdict.expect(cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(values), count * sizeof(int), host, 0, 0) == CUDA_SUCCESS,
                   "more is prefetched");
    verdict.expect(write(file, values, count * sizeof(int)) == static_cast<ssize_t>(count * sizeof(int)), "and written from");
    std::vector<int> back(count + 1024);
    verdict.expect(pread(file, back.data(), back.size() * sizeof(int), 0) == static_cast<ssize_t>(back.size() * sizeof(int)) &&
                       back[0] == 2 && back[1] == 0 && back[1024] == 1 && back.back() == 1,
                   "the bytes are the device's");
    close(file);
    CHECK(cudaFree(values));
    CHECK(cudaFree(few));
}

// 100 launches that nothing was touched for, 10 for which one piece was: 16 MiB in all.
static int counts() {
    const size_t count = 4 << 20;
    int *values = nullptr;
    CHECK(cudaMallocManaged(&values, count * sizeof(int)));
    for (int launch = 0; launch < 100; ++launch) increase<<<1, 1>>>(values, 1);
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < 10; ++round) {
        values[1 << 20] = round;
        for (int launch = 0; launch < 3; ++launch) increase<<<1, 1>>>(values, 1);
        CHECK(cudaDeviceSynchronize());
    }
    const bool right = values[0] == 130 && values[1 << 20] == 9;
    std::printf(right ? "PASSED\n" : "FAILED\n");
    return right ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc > 1 && std::strcmp(argv[1], "counts") == 0) return counts();
    Verdict verdict;
    what_it_is(verdict);
    advice(verdict);
    attachments(verdict);
    copies(verdict);
    system_calls(verdict);
    return verdict.finish();
}
