// Memory in every form of the runtime: copies in two and three dimensions, memsets, device to device and host to host
// copies. Also stream-ordered allocation, pinned and registered host memory, and attributes of pointers.
// No argument. Bytes must be equal to the CPU's copies of the same shapes.
#include "check.h"

#include <algorithm>
#include <cstring>

static std::vector<uint8_t> noise(size_t count, uint64_t seed) {
    std::vector<uint8_t> bytes(count);
    Inputs inputs(seed);
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(inputs.bits());
    return bytes;
}

__global__ void increment(int *data, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) ++data[i];
}

static void memsets(Verdict &verdict) {
    constexpr size_t size = 4099;
    uint8_t *device = device_alloc<uint8_t>(size);
    std::vector<uint8_t> want(size, 0xa5);
    CHECK(cudaMemset(device, 0xa5, size));
    CHECK(cudaMemset(device + 3, 0x11, 1));
    CHECK(cudaMemset(device + 1001, 0x22, 777));
    CHECK(cudaMemsetAsync(device + 4098, 0x33, 1, nullptr));
    want[3] = 0x11;
    std::fill_n(want.begin() + 1001, 777, 0x22);
    want[4098] = 0x33;
    verdict.equal("memset", host_copy(device, size).data(), want.data(), size);
    CHECK(cudaFree(device));

    uint8_t *pitched = nullptr;
    size_t pitch = 0;
    CHECK(cudaMallocPitch(&pitched, &pitch, 100, 20));
    CHECK(cudaMemset2D(pitched, pitch, 0, 100, 20));
    CHECK(cudaMemset2D(pitched + 2 * pitch + 10, pitch, 0x77, 30, 5));
    std::vector<uint8_t> got(100 * 20), plane(100 * 20, 0);
    for (int y = 2; y < 7; ++y) std::memset(&plane[y * 100 + 10], 0x77, 30);
    CHECK(cudaMemcpy2D(got.data(), 100, pitched, pitch, 100, 20, cudaMemcpyDeviceToHost));
    verdict.equal("memset2D", got.data(), plane.data(), got.size());
    CHECK(cudaFree(pitched));
}

static void copies(Verdict &verdict) {
    constexpr size_t size = 100003;
    const std::vector<uint8_t> source = noise(size, 1);
    std::vector<uint8_t> got(size, 0);
    uint8_t *a = device_copy(source), *b = device_alloc<uint8_t>(size);
    CHECK(cudaMemcpy(b, a, size, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(b + 7, a + 50001, 1000, cudaMemcpyDefault));
    CHECK(cudaMemcpy(got.data(), b, size, cudaMemcpyDefault));
    std::vector<uint8_t> want = source;
    std::copy_n(source.begin() + 50001, 1000, want.begin() + 7);
    verdict.equal("device to device", got.data(), want.data(), size);
    std::vector<uint8_t> again(size);
    CHECK(cudaMemcpy(again.data(), got.data(), size, cudaMemcpyHostToHost));
    verdict.equal("host to host", again.data(), want.data(), size);
    CHECK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}

// A sub-rectangle from the host to a pitched allocation, on the device to another place, and back.
static void planes(Verdict &verdict) {
    constexpr size_t width = 123, height = 45;
    const std::vector<uint8_t> source = noise(width * height, 2);
    uint8_t *a, *b;
    size_t pitch_a, pitch_b;
    CHECK(cudaMallocPitch(&a, &pitch_a, width, height));
    CHECK(cudaMallocPitch(&b, &pitch_b, width + 200, height));
    CHECK(cudaMemset2D(b, pitch_b, 0, width + 200, height));
    CHECK(cudaMemcpy2D(a, pitch_a, source.data(), width, width, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DAsync(b + 3 * pitch_b + 5, pitch_b, a + 2 * pitch_a + 1, pitch_a, 60, 30,
                            cudaMemcpyDeviceToDevice, nullptr));
    std::vector<uint8_t> got(width * height), want(width * height, 0);
    CHECK(cudaMemcpy2D(got.data(), width, b, pitch_b, width, height, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < 30; ++y) std::memcpy(&want[(y + 3) * width + 5], &source[(y + 2) * width + 1], 60);
    verdict.equal("memcpy2D", got.data(), want.data(), got.size());
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}

static void volumes(Verdict &verdict) {
    constexpr size_t width = 40, height = 12, depth = 9;
    const std::vector<uint8_t> source = noise(width * height * depth, 3);
    cudaPitchedPtr device;
    CHECK(cudaMalloc3D(&device, make_cudaExtent(width, height, depth)));
    CHECK(cudaMemset3D(device, 0x0f, make_cudaExtent(width, height, depth)));
    cudaMemcpy3DParms in = {};
    in.srcPtr = make_cudaPitchedPtr(const_cast<uint8_t *>(source.data()), width, width, height);
    in.srcPos = make_cudaPos(4, 2, 1);
    in.dstPtr = device;
    in.dstPos = make_cudaPos(8, 1, 3);
    in.extent = make_cudaExtent(20, 7, 5);
    in.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&in));
    std::vector<uint8_t> got(source.size()), want(source.size(), 0x0f);
    cudaMemcpy3DParms out = {};
    out.srcPtr = device;
    out.dstPtr = make_cudaPitchedPtr(got.data(), width, width, height);
    out.extent = make_cudaExtent(width, height, depth);
    out.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3DAsync(&out, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    for (size_t z = 0; z < 5; ++z)
        for (size_t y = 0; y < 7; ++y)
            std::memcpy(&want[((z + 3) * height + y + 1) * width + 8], &source[((z + 1) * height + y + 2) * width + 4],
                        20);
    verdict.equal("memcpy3D", got.data(), want.data(), got.size());
    CHECK(cudaFree(device.ptr));
}

static void stream_ordered(Verdict &verdict) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<int> got(1000), want(1000, 0x01010102);
    for (int round = 0; round < 3; ++round) {
        int *data = nullptr;
        CHECK(cudaMallocAsync(&data, 1000 * sizeof(int), stream));
        CHECK(cudaMemsetAsync(data, 1, 1000 * sizeof(int), stream));
        increment<<<4, 256, 0, stream>>>(data, 1000);
        CHECK_LAUNCH();
        CHECK(cudaMemcpyAsync(got.data(), data, 1000 * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(data, stream));
        CHECK(cudaStreamSynchronize(stream));
        verdict.equal("stream-ordered allocation", got.data(), want.data(), got.size());
    }
    CHECK(cudaStreamDestroy(stream));
}

static void host_memory(Verdict &verdict) {
    constexpr size_t count = 4096;
    std::vector<int> plain(count + 2048);
    // A whole number of pages inside the vector.
    int *page = reinterpret_cast<int *>((reinterpret_cast<uintptr_t>(plain.data()) + 4095) / 4096 * 4096);
    CHECK(cudaHostRegister(page, count * sizeof(int), cudaHostRegisterDefault));
    for (size_t i = 0; i < count; ++i) page[i] = static_cast<int>(i);
    int *device = device_alloc<int>(count);
    CHECK(cudaMemcpyAsync(device, page, count * sizeof(int), cudaMemcpyHostToDevice, nullptr));
    increment<<<16, 256>>>(device, count);
    CHECK(cudaMemcpyAsync(page, device, count * sizeof(int), cudaMemcpyDeviceToHost, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    std::vector<int> want(count);
    for (size_t i = 0; i < count; ++i) want[i] = static_cast<int>(i) + 1;
    verdict.equal("registered host memory", page, want.data(), count);

    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, page));
    verdict.expect(attributes.type == cudaMemoryTypeHost, "registered memory is of the host");
    CHECK(cudaHostUnregister(page));
    CHECK(cudaPointerGetAttributes(&attributes, page));
    verdict.expect(attributes.type == cudaMemoryTypeUnregistered, "unregistered memory is plain again");
    CHECK(cudaPointerGetAttributes(&attributes, device + 17));
    verdict.expect(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 &&
                       attributes.devicePointer == device + 17,
                   "a device pointer's attributes");

    int *pinned = nullptr;
    unsigned flags = 99;
    CHECK(cudaHostAlloc(&pinned, count * sizeof(int), cudaHostAllocDefault));
    CHECK(cudaHostGetFlags(&flags, pinned));
    CHECK(cudaPointerGetAttributes(&attributes, pinned + 1));
    verdict.expect(attributes.type == cudaMemoryTypeHost, "pinned memory is of the host");
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(device));
}

static void amounts(Verdict &verdict) {
    size_t free_before = 0, free_during = 0, free_after = 0, total = 0;
    constexpr size_t size = 64 << 20;
    CHECK(cudaMemGetInfo(&free_before, &total));
    uint8_t *data = device_alloc<uint8_t>(size);
    CHECK(cudaMemGetInfo(&free_during, &total));
    CHECK(cudaFree(data));
    CHECK(cudaMemGetInfo(&free_after, &total));
    verdict.expect(free_before <= total && total > size, "free memory is at most the total");
    verdict.expect(free_during + size <= free_before, "an allocation takes its size from what is free");
    verdict.expect(free_after > free_during, "a free gives it back");
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    verdict.expect(properties.totalGlobalMem == total || properties.totalGlobalMem > size, "the properties agree");
    verdict.expect(properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024, "the device's shape");
    std::printf("device: %s, compute capability %d.%d\n", properties.name, properties.major, properties.minor);

    // Many small blocks are distinct, aligned, and hold what was put there.
    int *blocks[64];
    for (int i = 0; i < 64; ++i) {
        blocks[i] = device_alloc<int>(static_cast<size_t>(i) * 37 + 1);
        verdict.expect(reinterpret_cast<uintptr_t>(blocks[i]) % 256 == 0, "an allocation is aligned to 256 bytes");
        CHECK(cudaMemcpy(blocks[i], &i, sizeof(int), cudaMemcpyHostToDevice));
    }
    for (int i = 0; i < 64; ++i) {
        verdict.expect(host_copy(blocks[i], 1)[0] == i, "small allocations are distinct");
        CHECK(cudaFree(blocks[i]));
    }
}

int main() {
    Verdict verdict;
    memsets(verdict);
    copies(verdict);
    planes(verdict);
    volumes(verdict);
    stream_ordered(verdict);
    host_memory(verdict);
    amounts(verdict);
    return verdict.finish();
}
