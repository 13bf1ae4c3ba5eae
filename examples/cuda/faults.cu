// Makes one mistake, which its argument names, and checks that CUDA reports it as on a GPU. Checked are the code, the
// failing call, and whether every later call of the process fails too.
// Argument: address, far, read, misaligned, trap, assert, shared (faults of a kernel: sticky), or
// configuration, free, memory, handle (refused calls: not sticky). Without one it runs the refused calls.
#include "check.h"

#include <cassert>
#include <cstring>

__global__ void store(int *where, int value) { *where = value; }

__global__ void load(const int *where, int *out) { *out = *where; }

__global__ void trap(const int *when) {
    if (*when == 0) __trap();
}

__global__ void assert_zero(const int *values) {
    assert(values[threadIdx.x] == 0 && "all values are zero");
}

// Writes far beyond the block's shared memory by way of an offset the compiler cannot know.
__global__ void overrun_shared(int offset, int *out) {
    __shared__ int values[32];
    values[threadIdx.x + offset] = 1;
    __syncthreads();
    *out = values[0];
}

__global__ void needs_shared() {
    extern __shared__ int values[];
    values[threadIdx.x] = 1;
}

static bool expect_code(Verdict &verdict, const char *what, cudaError_t got, cudaError_t want) {
    std::printf("%s: %d %s\n", what, static_cast<int>(got), cudaGetErrorName(got));
    return verdict.expect(got == want, what);
}

// After a kernel's fault: the next synchronizing call reports it and so does every later call.
static void expect_sticky(Verdict &verdict, cudaError_t want) {
    expect_code(verdict, "synchronize", cudaDeviceSynchronize(), want);
    expect_code(verdict, "last error", cudaGetLastError(), want);
    int *pointer = nullptr;
    expect_code(verdict, "a later allocation", cudaMalloc(&pointer, 4), want);
    store<<<1, 1>>>(pointer, 0);
    expect_code(verdict, "a later launch", cudaGetLastError(), want);
    expect_code(verdict, "a later synchronize", cudaDeviceSynchronize(), want);
}

// After a refused call: the error is there once, and the device works.
static void expect_not_sticky(Verdict &verdict) {
    (void)cudaGetLastError();
    expect_code(verdict, "last error, asked again", cudaGetLastError(), cudaSuccess);
    int *pointer = device_alloc<int>(1);
    store<<<1, 1>>>(pointer, 42);
    CHECK_LAUNCH();
    verdict.expect(host_copy(pointer, 1)[0] == 42, "the device still works");
    CHECK(cudaFree(pointer));
}

static void refused_configurations(Verdict &verdict) {
    // The code the driver gives and the runtime of CUDA 13 passes on, as measured on an H200.
    const cudaError_t refused = cudaErrorInvalidValue;
    int *pointer = device_alloc<int>(1);
    store<<<1, 2048>>>(pointer, 1);
    expect_code(verdict, "2048 threads in a block", cudaGetLastError(), refused);
    store<<<0, 32>>>(pointer, 1);
    expect_code(verdict, "no blocks", cudaGetLastError(), refused);
    store<<<dim3(1, 70000), 32>>>(pointer, 1);
    expect_code(verdict, "70000 blocks in y", cudaGetLastError(), refused);
    store<<<1, dim3(1, 1, 128)>>>(pointer, 1);
    expect_code(verdict, "128 threads in z", cudaGetLastError(), refused);
    needs_shared<<<1, 32, 16 << 20>>>();
    expect_code(verdict, "16 MiB of shared memory", cudaGetLastError(), refused);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(pointer));
    expect_not_sticky(verdict);
}

static void refused_frees(Verdict &verdict) {
    int *pointer = device_alloc<int>(1000);
    expect_code(verdict, "free inside an allocation", cudaFree(pointer + 100), cudaErrorInvalidValue);
    CHECK(cudaFree(pointer));
    expect_code(verdict, "free twice", cudaFree(pointer), cudaErrorInvalidValue);
    expect_code(verdict, "free nothing", cudaFree(nullptr), cudaSuccess);
    expect_not_sticky(verdict);
}

static void refused_memory(Verdict &verdict) {
    void *pointer = nullptr;
    expect_code(verdict, "allocate 256 TiB", cudaMalloc(&pointer, 1ull << 48), cudaErrorMemoryAllocation);
    expect_not_sticky(verdict);
}

static void refused_handles(Verdict &verdict) {
    cudaPointerAttributes attributes;
    int local = 0;
    CHECK(cudaPointerGetAttributes(&attributes, &local));
    verdict.expect(attributes.type == cudaMemoryTypeUnregistered, "a host pointer is unregistered");
    expect_code(verdict, "device 999", cudaSetDevice(999), cudaErrorInvalidDevice);
    expect_code(verdict, "attribute of device 999",
                cudaDeviceGetAttribute(&local, cudaDevAttrWarpSize, 999), cudaErrorInvalidDevice);
    expect_code(verdict, "register nothing", cudaHostRegister(nullptr, 4096, 0), cudaErrorInvalidValue);
    expect_not_sticky(verdict);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "refused";
    const auto is = [&](const char *name) { return std::strcmp(mode, name) == 0; };
    Verdict verdict;
    std::vector<int> zeros(64, 0);
    if (is("configuration") || is("refused")) refused_configurations(verdict);
    if (is("free") || is("refused")) refused_frees(verdict);
    if (is("memory") || is("refused")) refused_memory(verdict);
    if (is("handle") || is("refused")) refused_handles(verdict);
    if (is("refused") || is("configuration") || is("free") || is("memory") || is("handle")) return verdict.finish();

    int *data = device_copy(zeros);
    cudaError_t want = cudaErrorIllegalAddress;
    if (is("address")) {
        store<<<1, 1>>>(nullptr, 1);
    } else if (is("far")) {
        store<<<1, 32>>>(data + (1ull << 40), 1);
    } else if (is("read")) {
        load<<<1, 1>>>(reinterpret_cast<int *>(0x7654321000ull), data);
    } else if (is("misaligned")) {
        store<<<1, 1>>>(reinterpret_cast<int *>(reinterpret_cast<char *>(data) + 2), 1);
        want = cudaErrorMisalignedAddress;
    } else if (is("trap")) {
        trap<<<2, 32>>>(data);
        want = cudaErrorLaunchFailure;
    } else if (is("assert")) {
        const int seven = 7;
        CHECK(cudaMemcpy(data + 5, &seven, sizeof(int), cudaMemcpyHostToDevice));
        assert_zero<<<1, 32>>>(data);
        want = cudaErrorAssert;
    } else if (is("shared")) {
        overrun_shared<<<1, 32>>>(1 << 20, data);
    } else {
        std::fprintf(stderr, "no such fault: %s\n", mode);
        return 2;
    }
    CHECK_LAUNCH();
    expect_sticky(verdict, want);
    return verdict.finish();
}
