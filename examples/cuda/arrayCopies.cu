// Copies of arrays: between host, device and arrays, of rows and boxes that begin inside, by the runtime's names and the
// driver's. The same boxes are moved on the host, and every byte is compared. Boxes may begin and end within elements; what
// lies outside an array is refused.
#include "check_driver.h"

#include <cstring>

struct Box {
    size_t x, y, z, width, height, depth; // elements
};

// A volume of host memory, in which boxes are moved as the device moves them.
struct Volume {
    size_t width, height, depth;
    std::vector<uint32_t> words;

    Volume(size_t w, size_t h, size_t d, uint64_t seed) : width(w), height(h), depth(d), words(w * h * d) {
        Inputs inputs(seed);
        for (auto &word : words) word = inputs.bits();
    }
    uint32_t &at(size_t x, size_t y, size_t z) { return words[(z * height + y) * width + x]; }
    cudaPitchedPtr pitched() { return make_cudaPitchedPtr(words.data(), width * 4, width, height); }
};

static void move(Volume &to, size_t x, size_t y, size_t z, Volume &from, const Box &box) {
    for (size_t k = 0; k < box.depth; ++k)
        for (size_t j = 0; j < box.height; ++j)
            for (size_t i = 0; i < box.width; ++i)
                to.at(x + i, y + j, z + k) = from.at(box.x + i, box.y + j, box.z + k);
}

static cudaArray_t make_array(size_t width, size_t height, size_t depth, unsigned flags = 0) {
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<unsigned>();
    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(width, height, depth), flags));
    return array;
}

// Host to array, array to array, array to device memory, back to another array and to the host: boxes of a volume.
static void boxes(Verdict &verdict, unsigned flags, bool pinned) {
    const size_t w = 13, h = 9, d = 7;
    Volume source(w, h, d, 1), want(w, h, d, 2);
    cudaArray_t first = make_array(w, h, d, flags), second = make_array(w, h, d, flags);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    uint32_t *host = source.words.data();
    if (pinned) {
        CHECK(cudaMallocHost(&host, source.words.size() * 4));
        std::memcpy(host, source.words.data(), source.words.size() * 4);
    }
    // The whole of both arrays.
    for (cudaArray_t array : {first, second}) {
        cudaMemcpy3DParms fill{};
        fill.srcPtr = array == first ? make_cudaPitchedPtr(host, w * 4, w, h) : want.pitched();
        fill.dstArray = array;
        fill.extent = make_cudaExtent(w, h, d);
        fill.kind = cudaMemcpyHostToDevice;
        CHECK(cudaMemcpy3DAsync(&fill, stream));
    }
    // A box of the first into the second, elsewhere.
    cudaMemcpy3DParms between{};
    between.srcArray = first, between.dstArray = second;
    between.srcPos = make_cudaPos(2, 1, 3), between.dstPos = make_cudaPos(5, 4, 0);
    between.extent = make_cudaExtent(6, 5, 4);
    between.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3DAsync(&between, stream));
    move(want, 5, 4, 0, source, {2, 1, 3, 6, 5, 4});
    // A box of it into device memory with gaps, and from there into the second again.
    cudaPitchedPtr memory;
    CHECK(cudaMalloc3D(&memory, make_cudaExtent(8 * 4, 6, 5)));
    cudaMemcpy3DParms out{}, in{};
    out.srcArray = first, out.dstPtr = memory;
    out.srcPos = make_cudaPos(7, 2, 1), out.dstPos = make_cudaPos(4, 1, 2);
    out.extent = make_cudaExtent(4, 3, 2);
    out.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3DAsync(&out, stream));
    in.srcPtr = memory, in.dstArray = second;
    in.srcPos = out.dstPos, in.dstPos = make_cudaPos(0, 0, 5);
    in.extent = out.extent;
    in.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3DAsync(&in, stream));
    move(want, 0, 0, 5, source, {7, 2, 1, 4, 3, 2});
    // And back: all of it, then a box into another's middle.
    Volume got(w, h, d, 3), part(w, h, d, 4), part_want = part;
    cudaMemcpy3DParms back{};
    back.srcArray = second, back.dstPtr = got.pitched();
    back.extent = make_cudaExtent(w, h, d);
    back.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3DAsync(&back, stream));
    back.dstPtr = part.pitched();
    back.srcPos = make_cudaPos(1, 2, 3), back.dstPos = make_cudaPos(3, 2, 1);
    back.extent = make_cudaExtent(9, 6, 4);
    CHECK(cudaMemcpy3DAsync(&back, stream));
    CHECK(cudaStreamSynchronize(stream));
    move(part_want, 3, 2, 1, want, {1, 2, 3, 9, 6, 4});
    verdict.equal(flags ? "layers" : "volume", got.words.data(), want.words.data(), want.words.size());
    verdict.equal("box", part.words.data(), part_want.words.data(), part.words.size());
    if (pinned) CHECK(cudaFreeHost(host));
    CHECK(cudaFree(memory.ptr));
    CHECK(cudaFreeArray(first));
    CHECK(cudaFreeArray(second));
    CHECK(cudaStreamDestroy(stream));
}

// Rectangles of arrays of two dimensions, large enough to travel in several pieces.
static void rectangles(Verdict &verdict) {
    const size_t w = 1500, h = 1100;
    Volume source(w, h, 1, 5), got(w, h, 1, 6);
    cudaArray_t array = make_array(w, h, 0), other = make_array(w, h, 0);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, source.words.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, w * 4, h, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2DFromArray(got.words.data(), w * 4, other, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    verdict.equal("whole", got.words.data(), source.words.data(), source.words.size());
    // A rectangle in the middle by way of device memory.
    uint32_t *memory = device_alloc<uint32_t>(w * h);
    CHECK(cudaMemcpy2D(memory, w * 4, source.words.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DToArray(other, 40, 7, memory + 3, w * 4, 1000 * 4, 900, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2DFromArray(got.words.data(), w * 4, other, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    Volume want = source;
    move(want, 10, 7, 0, source, {3, 0, 0, 1000, 900, 1});
    verdict.equal("rectangle", got.words.data(), want.words.data(), want.words.size());
    CHECK(cudaFree(memory));
    CHECK(cudaFreeArray(array));
    CHECK(cudaFreeArray(other));
}

static CUarray make_row(size_t width) {
    CUDA_ARRAY_DESCRIPTOR shape{width, 0, CU_AD_FORMAT_UNSIGNED_INT16, 2};
    CUarray array;
    CHECK_DRIVER(cuArrayCreate(&array, &shape));
    CUDA_ARRAY_DESCRIPTOR told{};
    CHECK_DRIVER(cuArrayGetDescriptor(&told, array));
    if (std::memcmp(&told, &shape, sizeof told) != 0) {
        std::printf("the returned descriptor differs\nFAILED\n");
        std::exit(1);
    }
    return array;
}

// The driver's copies of one row.
static void rows(Verdict &verdict) {
    const size_t n = 1000;
    Volume source(n, 1, 1, 7), got(n, 1, 1, 8);
    CUarray first = make_row(n), second = make_row(n);
    CUdeviceptr memory;
    CHECK_DRIVER(cuMemAlloc(&memory, n * 4));
    CHECK_DRIVER(cuMemcpyHtoA(first, 0, source.words.data(), n * 4));
    CHECK_DRIVER(cuMemcpyAtoA(second, 40, first, 80, (n - 20) * 4));
    CHECK_DRIVER(cuMemcpyAtoD(memory, second, 40, (n - 20) * 4));
    CHECK_DRIVER(cuMemcpyDtoA(first, 0, memory, 100 * 4));
    CHECK_DRIVER(cuMemcpyAtoH(got.words.data(), first, 0, n * 4));
    std::vector<uint32_t> want(source.words);
    for (size_t i = 0; i < 100; ++i) want[i] = source.words[20 + i];
    verdict.equal("rows", got.words.data(), want.data(), n);
    CUstream stream;
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    uint32_t *pinned;
    CHECK_DRIVER(cuMemAllocHost(reinterpret_cast<void **>(&pinned), 2 * n * 4));
    std::memcpy(pinned, source.words.data(), n * 4);
    CHECK_DRIVER(cuMemcpyHtoAAsync(second, 0, pinned, n * 4, stream));
    CHECK_DRIVER(cuMemcpyAtoHAsync(pinned + n, second, 0, n * 4, stream));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    verdict.equal("rows in a stream", pinned + n, source.words.data(), n);
    // Boxes outside the array, and addresses that are no array.
    verdict.expect(cuMemcpyHtoA(first, 4, source.words.data(), n * 4) == CUDA_ERROR_INVALID_VALUE, "beyond the end");
    verdict.expect(cuMemcpyHtoA(first, n * 4, source.words.data(), 4) == CUDA_ERROR_INVALID_VALUE, "behind the end");
    verdict.expect(cuMemcpyAtoH(got.words.data(), first, n * 4 - 2, 3) == CUDA_ERROR_INVALID_VALUE, "a byte beyond");
    CUDA_MEMCPY3D box{};
    box.srcMemoryType = CU_MEMORYTYPE_HOST, box.srcHost = source.words.data();
    box.dstMemoryType = CU_MEMORYTYPE_ARRAY, box.dstArray = first;
    box.WidthInBytes = 4, box.Height = 1, box.Depth = 2;
    verdict.expect(cuMemcpy3D(&box) == CUDA_ERROR_INVALID_VALUE, "a second slice of a row");
    CHECK_DRIVER(cuStreamDestroy(stream));
    CHECK_DRIVER(cuMemFreeHost(pinned));
    CHECK_DRIVER(cuMemFree(memory));
    CHECK_DRIVER(cuArrayDestroy(first));
    CHECK_DRIVER(cuArrayDestroy(second));
}

// Bytes of a row, of which copies take some from the middle of elements.
using Bytes = std::vector<unsigned char>;

static Bytes random_bytes(size_t count, uint64_t seed) {
    Inputs inputs(seed);
    Bytes bytes(count);
    for (auto &byte : bytes) byte = static_cast<unsigned char>(inputs.bits());
    return bytes;
}

static Bytes contents(CUarray array, size_t bytes) {
    Bytes got(bytes);
    CHECK_DRIVER(cuMemcpyAtoH(got.data(), array, 0, bytes));
    return got;
}

// Rows of which copies cut the elements, of 4 bytes: from and to the host, device memory and another array.
static void cut_rows(Verdict &verdict) {
    const size_t elements = 16, size = elements * 4;
    const Bytes source = random_bytes(size, 9), patch = random_bytes(size, 10);
    CUarray first = make_row(elements), second = make_row(elements);
    CUdeviceptr memory;
    CHECK_DRIVER(cuMemAlloc(&memory, size));
    CHECK_DRIVER(cuMemcpyHtoA(first, 0, source.data(), size));
    CHECK_DRIVER(cuMemcpyHtoA(second, 0, patch.data(), size));
    Bytes want_first = source, want_second = patch, part(4);
    CHECK_DRIVER(cuMemcpyAtoH(part.data(), first, 2, 4));
    verdict.equal("a cut element", part.data(), &source[2], 4);
    CHECK_DRIVER(cuMemcpyHtoA(first, 3, patch.data(), 1));
    want_first[3] = patch[0];
    verdict.equal("a byte", contents(first, size).data(), want_first.data(), size);
    CHECK_DRIVER(cuMemcpyAtoA(second, 2, first, 34, 8));
    std::memcpy(&want_second[2], &want_first[34], 8);
    verdict.equal("array to array", contents(second, size).data(), want_second.data(), size);
    CHECK_DRIVER(cuMemcpyAtoD(memory, first, 6, 7));
    Bytes seven(7);
    CHECK_DRIVER(cuMemcpyDtoH(seven.data(), memory, 7));
    verdict.equal("array to device", seven.data(), &want_first[6], 7);
    CHECK_DRIVER(cuMemcpyDtoA(second, 2, memory, 4));
    std::memcpy(&want_second[2], seven.data(), 4);
    verdict.equal("device to array", contents(second, size).data(), want_second.data(), size);
    CHECK_DRIVER(cuMemFree(memory));
    CHECK_DRIVER(cuArrayDestroy(first));
    CHECK_DRIVER(cuArrayDestroy(second));
}

// The same of elements of 16 bytes.
static void cut_wide_elements(Verdict &verdict) {
    const size_t size = 8 * 16;
    const Bytes source = random_bytes(size, 11);
    CUDA_ARRAY_DESCRIPTOR shape{8, 0, CU_AD_FORMAT_FLOAT, 4};
    CUarray array;
    CHECK_DRIVER(cuArrayCreate(&array, &shape));
    CHECK_DRIVER(cuMemcpyHtoA(array, 0, source.data(), size));
    Bytes part(8), want = source;
    CHECK_DRIVER(cuMemcpyAtoH(part.data(), array, 4, 8));
    verdict.equal("a part of a wide element", part.data(), &source[4], 8);
    CHECK_DRIVER(cuMemcpyHtoA(array, 4, &source[64], 8));
    std::memcpy(&want[4], &source[64], 8);
    verdict.equal("a wide element written in part", contents(array, size).data(), want.data(), size);
    CHECK_DRIVER(cuArrayDestroy(array));
}

// Slices of 5 rows of 64 bytes, in elements of 4.
struct ByteVolume {
    static constexpr size_t row = 64, height = 5;
    size_t slices;

    size_t size() const { return row * height * slices; }
    CUarray array() const {
        CUDA_ARRAY3D_DESCRIPTOR shape{row / 4, height, slices == 1 ? 0 : slices, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0};
        CUarray array;
        CHECK_DRIVER(cuArray3DCreate(&array, &shape));
        return array;
    }
};

// Packed host bytes, for or from an array's byte `x` of row `y` and slice `z` on.
struct HostBox {
    size_t x, y, z, width, height, depth;

    CUDA_MEMCPY3D extent() const {
        CUDA_MEMCPY3D copy{};
        copy.WidthInBytes = width, copy.Height = height, copy.Depth = depth;
        return copy;
    }
    CUDA_MEMCPY3D to(CUarray array, const Bytes &host) const {
        CUDA_MEMCPY3D copy = extent();
        copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = host.data();
        copy.srcPitch = width, copy.srcHeight = height;
        copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
        copy.dstXInBytes = x, copy.dstY = y, copy.dstZ = z;
        return copy;
    }
    CUDA_MEMCPY3D from(CUarray array, Bytes &host) const {
        CUDA_MEMCPY3D copy = extent();
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = array;
        copy.srcXInBytes = x, copy.srcY = y, copy.srcZ = z;
        copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = host.data();
        copy.dstPitch = width, copy.dstHeight = height;
        return copy;
    }
};

// A box whose rows cut elements, into an array and back, by waiting calls or in a stream.
static void cut_box(Verdict &verdict, const HostBox &box, bool in_stream) {
    const ByteVolume volume{box.z + box.depth};
    const HostBox all{0, 0, 0, ByteVolume::row, ByteVolume::height, volume.slices};
    const Bytes before = random_bytes(volume.size(), 12);
    const Bytes patch = random_bytes(box.width * box.height * box.depth, 13);
    Bytes want = before, part(patch.size()), after(volume.size());
    for (size_t k = 0; k < box.depth; ++k)
        for (size_t j = 0; j < box.height; ++j)
            std::memcpy(&want[((box.z + k) * ByteVolume::height + box.y + j) * ByteVolume::row + box.x],
                        &patch[(k * box.height + j) * box.width], box.width);
    CUarray array = volume.array();
    CUstream stream;
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    const auto move = [&](const CUDA_MEMCPY3D &copy) {
        CHECK_DRIVER(in_stream ? cuMemcpy3DAsync(&copy, stream) : cuMemcpy3D(&copy));
    };
    move(all.to(array, before));
    move(box.to(array, patch));
    move(box.from(array, part));
    move(all.from(array, after));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    verdict.equal("a cut box", part.data(), patch.data(), patch.size());
    verdict.equal("around a cut box", after.data(), want.data(), want.size());
    CHECK_DRIVER(cuStreamDestroy(stream));
    CHECK_DRIVER(cuArrayDestroy(array));
}

// The same by the calls for two dimensions; a row that is longer than the array's is refused.
static void cut_rectangle(Verdict &verdict, size_t x, size_t width, bool in_stream) {
    const size_t row = ByteVolume::row, height = ByteVolume::height;
    const ByteVolume plane{1};
    const Bytes before = random_bytes(plane.size(), 14), patch = random_bytes(2 * row, 15);
    Bytes want = before, after(plane.size());
    for (size_t j = 0; j < 2; ++j) std::memcpy(&want[(1 + j) * row + x], &patch[j * row], width);
    CUarray array = plane.array();
    const HostBox all{0, 0, 0, row, height, 1};
    const CUDA_MEMCPY3D fill = all.to(array, before), back = all.from(array, after);
    CHECK_DRIVER(cuMemcpy3D(&fill));
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = patch.data(), copy.srcPitch = row;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array, copy.dstXInBytes = x, copy.dstY = 1;
    copy.WidthInBytes = width, copy.Height = 2;
    CHECK_DRIVER(in_stream ? cuMemcpy2DAsync(&copy, nullptr) : cuMemcpy2D(&copy));
    CHECK_DRIVER(cuMemcpy3D(&back));
    verdict.equal("a cut rectangle", after.data(), want.data(), want.size());
    copy.srcPitch = row + 2, copy.dstXInBytes = 0, copy.WidthInBytes = row + 2, copy.Height = 1;
    verdict.expect(cuMemcpy2D(&copy) == CUDA_ERROR_INVALID_VALUE, "more than a row");
    CHECK_DRIVER(cuArrayDestroy(array));
}

// Descriptors of arrays, and the return of memory: far more arrays than fit into memory at once.
static void comings_and_goings(Verdict &verdict) {
    cudaArray_t layers = make_array(8, 4, 3, cudaArrayLayered | cudaArraySurfaceLoadStore);
    cudaChannelFormatDesc format;
    cudaExtent extent;
    unsigned flags;
    CHECK(cudaArrayGetInfo(&format, &extent, &flags, layers));
    verdict.expect(extent.width == 8 && extent.height == 4 && extent.depth == 3, "extents");
    verdict.expect(flags == (cudaArrayLayered | cudaArraySurfaceLoadStore), "flags");
    verdict.expect(format.x == 32 && format.y == 0 && format.f == cudaChannelFormatKindUnsigned, "format");
    CHECK(cudaFreeArray(layers));
    size_t free, total;
    CHECK(cudaMemGetInfo(&free, &total));
    const size_t rows = 16384, width = 4096, bytes = rows * width * 4;
    const size_t turns = total / bytes > 40 ? 40 : total / bytes + 4;
    for (size_t turn = 0; turn < turns; ++turn) CHECK(cudaFreeArray(make_array(width, rows, 0)));
    std::vector<cudaArray_t> kept;
    cudaError_t last = cudaSuccess;
    const auto plain = cudaCreateChannelDesc<unsigned>();
    while (kept.size() < turns) {
        cudaArray_t array;
        last = cudaMallocArray(&array, &plain, width, rows);
        if (last != cudaSuccess) break;
        kept.push_back(array);
    }
    verdict.expect(last == cudaSuccess || last == cudaErrorMemoryAllocation, "out of memory where there is none");
    for (const auto array : kept) CHECK(cudaFreeArray(array));
    cudaGetLastError();
}

int main() {
    Verdict verdict;
    CHECK(cudaFree(nullptr));
    boxes(verdict, 0, false);
    boxes(verdict, 0, true);
    boxes(verdict, cudaArrayLayered, false);
    rectangles(verdict);
    rows(verdict);
    cut_rows(verdict);
    cut_wide_elements(verdict);
    for (const bool in_stream : {false, true}) {
        cut_rectangle(verdict, 2, 4, in_stream);
        cut_rectangle(verdict, 4, 6, in_stream);
        cut_box(verdict, {2, 1, 0, 4, 3, 1}, in_stream);
        cut_box(verdict, {4, 1, 1, 6, 3, 2}, in_stream);
    }
    comings_and_goings(verdict);
    return verdict.finish();
}
