// Virtual memory managed by the program, as allocators with growing segments do it. A large range of addresses is
// backed by more and more memory while kernels use it. Its tail is removed and put back, and one allocation is mapped
// at two addresses. Also every refusal. Driver API.
// No argument. Checks every element, every answer, and that no memory is left behind.
#include "check_driver.h"


constexpr size_t pieces = 6;

__global__ void number(unsigned *data, size_t count, unsigned first) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        data[i] = first + static_cast<unsigned>(i);
}

// The number of `count` words that differ from those that `number` wrote.
__global__ void wrong_numbers(const unsigned *data, size_t count, unsigned first, unsigned long long *wrong) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        if (data[i] != first + static_cast<unsigned>(i)) atomicAdd(wrong, 1ull);
}

// A range of addresses of which the first `mapped` granules have memory.
struct Segment {
    CUmemAllocationProp what = {};
    CUmemAccessDesc access = {};
    size_t granule = 0;
    CUdeviceptr start = 0;
    size_t reserved = 0;
    std::vector<CUmemGenericAllocationHandle> handles;

    explicit Segment(int device, size_t granules) {
        what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        what.location.id = device;
        access.location = what.location;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CHECK_DRIVER(cuMemGetAllocationGranularity(&granule, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        reserved = granules * granule;
        CHECK_DRIVER(cuMemAddressReserve(&start, reserved, 0, 0, 0));
    }

    void grow() {
        CUmemGenericAllocationHandle handle;
        CHECK_DRIVER(cuMemCreate(&handle, granule, &what, 0));
        const CUdeviceptr end = start + handles.size() * granule;
        CHECK_DRIVER(cuMemMap(end, granule, 0, handle, 0));
        CHECK_DRIVER(cuMemSetAccess(end, granule, &access, 1));
        handles.push_back(handle);
    }

    void shrink() {
        CHECK_DRIVER(cuMemUnmap(start + (handles.size() - 1) * granule, granule));
        CHECK_DRIVER(cuMemRelease(handles.back()));
        handles.pop_back();
    }

    size_t words() const { return handles.size() * granule / sizeof(unsigned); }
    unsigned *data() const { return reinterpret_cast<unsigned *>(start); }
};

static unsigned long long count_wrong(const unsigned *data, size_t count, unsigned first) {
    unsigned long long *wrong = device_copy(std::vector<unsigned long long>(1, 0));
    wrong_numbers<<<64, 256>>>(data, count, first, wrong);
    CHECK_LAUNCH();
    const unsigned long long found = host_copy(wrong, 1)[0];
    CHECK(cudaFree(wrong));
    return found;
}

// Grows while kernels of a stream are queued on what is there already.
static void growth(Verdict &verdict, Segment &segment) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (size_t piece = 0; piece < pieces; ++piece) {
        const size_t before = segment.words();
        segment.grow();
        number<<<64, 256, 0, stream>>>(segment.data() + before, segment.words() - before,
                                       static_cast<unsigned>(before));
        CHECK_LAUNCH();
    }
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(count_wrong(segment.data(), segment.words(), 0) == 0, "a grown segment holds what was put there");
    number<<<64, 256, 0, stream>>>(segment.data(), segment.words(), 7);
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(count_wrong(segment.data(), segment.words(), 7) == 0, "one kernel writes over all its pieces");
    std::vector<unsigned> edge(64);
    CHECK(cudaMemcpy(edge.data(), segment.data() + segment.granule / 4 - 32, edge.size() * sizeof(unsigned),
                     cudaMemcpyDeviceToHost));
    bool right = true;
    for (size_t i = 0; i < edge.size(); ++i) right &= edge[i] == 7 + segment.granule / 4 - 32 + i;
    verdict.expect(right, "a copy crosses the border of two pieces");
    CHECK(cudaStreamDestroy(stream));
}

static void tail(Verdict &verdict, Segment &segment) {
    const size_t kept = segment.granule * (pieces - 2) / sizeof(unsigned);
    segment.shrink();
    segment.shrink();
    verdict.expect(count_wrong(segment.data(), kept, 7) == 0, "what stays keeps its bytes");
    unsigned word = 0;
    verdict.expect(cuMemcpyDtoH(&word, segment.start + segment.granule * (pieces - 1), sizeof(word)) ==
                       CUDA_ERROR_INVALID_VALUE,
                   "what is unmapped cannot be copied");
    segment.grow();
    segment.grow();
    number<<<64, 256>>>(segment.data() + kept, segment.words() - kept, static_cast<unsigned>(kept) + 7);
    CHECK(cudaDeviceSynchronize());
    verdict.expect(count_wrong(segment.data(), segment.words(), 7) == 0, "the tail comes back at the same addresses");
}

// The same memory at a second address: what is written through one is read through the other, and the bytes outlive
// the first mapping.
static void two_addresses(Verdict &verdict, Segment &segment) {
    CUdeviceptr other = 0;
    CHECK_DRIVER(cuMemAddressReserve(&other, segment.granule, 0, 0, 0));
    CHECK_DRIVER(cuMemMap(other, segment.granule, 0, segment.handles[0], 0));
    CHECK_DRIVER(cuMemSetAccess(other, segment.granule, &segment.access, 1));
    const size_t words = segment.granule / sizeof(unsigned);
    verdict.expect(count_wrong(reinterpret_cast<unsigned *>(other), words, 7) == 0, "a second address sees the bytes");
    number<<<64, 256>>>(reinterpret_cast<unsigned *>(other), words, 1000);
    CHECK(cudaDeviceSynchronize());
    verdict.expect(count_wrong(segment.data(), words, 1000) == 0, "the first address sees what the second wrote");

    CUmemGenericAllocationHandle retained;
    CHECK_DRIVER(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void *>(other)));
    CUmemAllocationProp properties = {};
    CHECK_DRIVER(cuMemGetAllocationPropertiesFromHandle(&properties, retained));
    verdict.expect(properties.location.id == segment.what.location.id &&
                       properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE,
                   "memory says where it is");
    CHECK_DRIVER(cuMemRelease(retained));
    CHECK_DRIVER(cuMemUnmap(other, segment.granule));
    CHECK_DRIVER(cuMemAddressFree(other, segment.granule));
    number<<<64, 256>>>(segment.data(), words, 7);
    CHECK(cudaDeviceSynchronize());
}

static void access_rights(Verdict &verdict, Segment &segment) {
    unsigned long long flags = 99;
    CHECK_DRIVER(cuMemGetAccess(&flags, &segment.what.location, segment.start));
    verdict.expect(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "access is what was set");
    CUmemAccessDesc none = segment.access;
    none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CHECK_DRIVER(cuMemSetAccess(segment.start, segment.granule, &none, 1));
    CHECK_DRIVER(cuMemGetAccess(&flags, &segment.what.location, segment.start));
    verdict.expect(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "access can be taken");
    CHECK_DRIVER(cuMemSetAccess(segment.start, segment.granule, &segment.access, 1));
    verdict.expect(count_wrong(segment.data(), segment.words(), 7) == 0, "and given back, with the bytes as they were");
}

static void refusals(Verdict &verdict, Segment &segment) {
    const size_t granule = segment.granule;
    CUmemGenericAllocationHandle handle;
    verdict.expect(cuMemCreate(&handle, granule + 1, &segment.what, 0) == CUDA_ERROR_INVALID_VALUE,
                   "memory comes in whole granules");
    CUdeviceptr range = 0;
    verdict.expect(cuMemAddressReserve(&range, granule + 1, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE,
                   "and so do addresses");
    CHECK_DRIVER(cuMemCreate(&handle, granule, &segment.what, 0));
    verdict.expect(cuMemMap(segment.start, granule, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE,
                   "an address has one mapping");
    CHECK_DRIVER(cuMemRelease(handle));
    size_t total = 0, free_bytes = 0;
    CHECK_DRIVER(cuMemGetInfo(&free_bytes, &total));
    verdict.expect(cuMemCreate(&handle, (total / granule + 1) * granule, &segment.what, 0) ==
                       CUDA_ERROR_OUT_OF_MEMORY,
                   "more than there is");
}

int main() {
    Verdict verdict;
    CHECK(cudaFree(nullptr));
    verdict.expect(count_wrong(nullptr, 0, 0) == 0, "nothing is right");
    // NVIDIA's driver may take 2 MiB for a stream, and keeps them when it is destroyed.
    cudaStream_t first;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamDestroy(first));
    size_t before = 0, during = 0, after = 0, total = 0;
    CHECK_DRIVER(cuMemGetInfo(&before, &total));
    {
        // Far more addresses than there is memory.
        Segment segment(0, 1 << 16);
        growth(verdict, segment);
        CHECK_DRIVER(cuMemGetInfo(&during, &total));
        verdict.expect(during + pieces * segment.granule <= before, "a segment takes the memory behind it");
        tail(verdict, segment);
        two_addresses(verdict, segment);
        access_rights(verdict, segment);
        refusals(verdict, segment);
        while (!segment.handles.empty()) segment.shrink();
        CHECK_DRIVER(cuMemAddressFree(segment.start, segment.reserved));
    }
    CHECK_DRIVER(cuMemGetInfo(&after, &total));
    verdict.expect(after >= before, "no memory is left behind");
    std::printf("%zu MiB of %zu MiB were used\n", (before - during) >> 20, total >> 20);
    return verdict.finish();
}
