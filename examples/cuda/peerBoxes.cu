// Boxes between memory of two contexts: cudaMemcpy3DPeer, its asynchronous form and the driver's, from pitched memory and
// arrays of one device to those of the same and of another; captured once. Also what is refused: contexts that are none or
// another's, boxes that leave an array, levels of detail.
// Takes no arguments. Checks every byte.
#include "check_driver.h"

#include <cstring>

constexpr size_t width = 24, height = 11, depth = 5; // elements of 4 bytes
constexpr size_t cells = width * height * depth;

// Memory that a box goes from or to, on one device.
struct Room {
    int device;
    cudaArray_t array = nullptr;
    cudaPitchedPtr memory{};

    Room(int on, bool is_array) : device(on) {
        CHECK(cudaSetDevice(device));
        const auto format = cudaCreateChannelDesc<unsigned>();
        if (is_array) CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(width, height, depth)));
        else CHECK(cudaMalloc3D(&memory, make_cudaExtent(width * 4, height, depth)));
    }

    void release() const {
        if (array) CHECK(cudaFreeArray(array));
        else CHECK(cudaFree(memory.ptr));
    }

    // All of it, from or to the host.
    void move(std::vector<unsigned> &host, bool out) const {
        CHECK(cudaSetDevice(device));
        cudaMemcpy3DParms copy{};
        const cudaPitchedPtr own = make_cudaPitchedPtr(host.data(), width * 4, width, height);
        (out ? copy.dstPtr : copy.srcPtr) = own;
        if (array) (out ? copy.srcArray : copy.dstArray) = array;
        else (out ? copy.srcPtr : copy.dstPtr) = memory;
        copy.extent = make_cudaExtent(array ? width : width * 4, height, depth);
        copy.kind = out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
        CHECK(cudaMemcpy3D(&copy));
    }
};

enum class How { waits, queued, captured };

static void copy_box(const cudaMemcpy3DPeerParms &copy, int current, How how) {
    CHECK(cudaSetDevice(current));
    if (how == How::waits) {
        CHECK(cudaMemcpy3DPeer(&copy));
        CHECK(cudaDeviceSynchronize());
        return;
    }
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (how == How::queued) {
        CHECK(cudaMemcpy3DPeerAsync(&copy, stream));
    } else {
        cudaGraph_t graph;
        cudaGraphExec_t made;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMemcpy3DPeerAsync(&copy, stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&made, graph, 0));
        CHECK(cudaGraphLaunch(made, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaGraphExecDestroy(made));
        CHECK(cudaGraphDestroy(graph));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
}

// A box from inside one room to inside another, and every cell of the other afterwards.
static void between(Verdict &verdict, const Room &from, const Room &to, int current, How how) {
    Inputs inputs(11 + from.device * 2 + to.device);
    std::vector<unsigned> source(cells), want(cells), got(cells);
    for (unsigned &cell : source) cell = inputs.bits();
    for (unsigned &cell : want) cell = inputs.bits();
    from.move(source, false);
    to.move(want, false);
    cudaMemcpy3DPeerParms copy{};
    copy.srcDevice = from.device, copy.dstDevice = to.device;
    copy.srcArray = from.array, copy.dstArray = to.array;
    copy.srcPtr = from.memory, copy.dstPtr = to.memory;
    // Elements where an end is an array, else bytes.
    const size_t unit = from.array || to.array ? 1 : 4;
    copy.srcPos = make_cudaPos(3 * unit, 2, 1), copy.dstPos = make_cudaPos(9 * unit, 4, 0);
    copy.extent = make_cudaExtent(13 * unit, 6, 4);
    copy_box(copy, current, how);
    for (size_t z = 0; z < 4; ++z)
        for (size_t y = 0; y < 6; ++y)
            for (size_t x = 0; x < 13; ++x)
                want[(z * height + y + 4) * width + x + 9] = source[((z + 1) * height + y + 2) * width + x + 3];
    to.move(got, true);
    char what[96];
    std::snprintf(what, sizeof what, "device %d %s to device %d %s, of %d, form %d", from.device,
                  from.array ? "array" : "memory", to.device, to.array ? "array" : "memory", current,
                  static_cast<int>(how));
    verdict.equal(what, got.data(), want.data(), cells);
}

static CUDA_MEMCPY3D_PEER described(const Room &from, const Room &to, const CUcontext *contexts) {
    CUDA_MEMCPY3D_PEER copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = reinterpret_cast<CUdeviceptr>(from.memory.ptr);
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(to.memory.ptr);
    copy.srcPitch = from.memory.pitch, copy.dstPitch = to.memory.pitch;
    copy.srcHeight = copy.dstHeight = height;
    copy.srcContext = contexts[from.device], copy.dstContext = contexts[to.device];
    copy.WidthInBytes = 20, copy.Height = 3, copy.Depth = 2;
    return copy;
}

template <typename Change>
static void refused(Verdict &verdict, const char *what, CUDA_MEMCPY3D_PEER copy, CUresult code, Change change) {
    change(copy);
    verdict.expect(cuMemcpy3DPeer(&copy) == code, what);
    verdict.expect(cuMemcpy3DPeerAsync(&copy, nullptr) == code, what);
}

// The driver's own form: one of its ends may be the host's.
static void forms_and_refusals(Verdict &verdict, const Room &here, const Room &there, const Room &array) {
    CUcontext contexts[2];
    for (int device = 0; device < 2; ++device) CHECK_DRIVER(cuDevicePrimaryCtxRetain(&contexts[device], device));
    CHECK(cudaSetDevice(0));
    const CUDA_MEMCPY3D_PEER copy = described(here, there, contexts);
    std::vector<unsigned> values(cells), got(30), want(30);
    for (size_t cell = 0; cell < cells; ++cell) values[cell] = static_cast<unsigned>(cell * 7 + 1);
    here.move(values, false);
    CHECK(cudaSetDevice(0));
    CHECK_DRIVER(cuMemcpy3DPeer(&copy));
    CUDA_MEMCPY3D_PEER back = copy;
    back.srcDevice = copy.dstDevice, back.srcContext = copy.dstContext, back.srcPitch = copy.dstPitch;
    back.dstMemoryType = CU_MEMORYTYPE_HOST, back.dstHost = got.data();
    back.dstContext = nullptr, back.dstPitch = 20, back.dstHeight = 3;
    CHECK_DRIVER(cuMemcpy3DPeer(&back));
    for (size_t i = 0; i < 30; ++i) want[i] = values[(i / 15 * height + i / 5 % 3) * width + i % 5];
    verdict.equal("to the host", got.data(), want.data(), 30);

    using Copy = CUDA_MEMCPY3D_PEER;
    const CUresult context = CUDA_ERROR_INVALID_CONTEXT, value = CUDA_ERROR_INVALID_VALUE;
    refused(verdict, "no source context", copy, context, [](Copy &c) { c.srcContext = nullptr; });
    refused(verdict, "no destination context", copy, context, [](Copy &c) { c.dstContext = nullptr; });
    refused(verdict, "a level of an array", copy, value, [&](Copy &c) {
        c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        c.dstArray = reinterpret_cast<CUarray>(array.array);
        c.dstLOD = 1;
    });
    refused(verdict, "a pitch below a row", copy, value, [](Copy &c) { c.dstPitch = 16; });
    refused(verdict, "a kind of memory", copy, value, [](Copy &c) { c.dstMemoryType = static_cast<CUmemorytype>(9); });
    refused(verdict, "beyond the array", copy, value, [&](Copy &c) {
        c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        c.dstArray = reinterpret_cast<CUarray>(array.array);
        c.dstY = height - 2;
    });
    refused(verdict, "no array", copy, value, [](Copy &c) { c.srcMemoryType = CU_MEMORYTYPE_ARRAY; });
    // An array knows its context, and a box of nothing moves nothing.
    CUDA_MEMCPY3D_PEER into = copy;
    into.dstMemoryType = CU_MEMORYTYPE_ARRAY, into.dstContext = nullptr;
    into.dstArray = reinterpret_cast<CUarray>(array.array);
    CHECK_DRIVER(cuMemcpy3DPeer(&into));
    into.Height = 0;
    CHECK_DRIVER(cuMemcpy3DPeer(&into));
    CHECK(cudaDeviceSynchronize());
    for (int device = 0; device < 2; ++device) CHECK_DRIVER(cuDevicePrimaryCtxRelease(device));
}

int main() {
    Verdict verdict;
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (!verdict.expect(devices >= 2, "two devices")) return verdict.finish();
    // Per device memory and an array.
    const Room rooms[] = {{0, false}, {0, true}, {1, false}, {1, true}};
    const Room seconds[] = {{0, false}, {0, true}, {1, false}, {1, true}};
    for (const Room &from : rooms)
        for (const Room &to : seconds)
            for (const How how : {How::waits, How::queued, How::captured}) {
                // No graph copies arrays yet.
                if (how == How::captured && (from.array || to.array)) continue;
                between(verdict, from, to, from.device, how);
                between(verdict, from, to, 1 - from.device, how);
            }
    forms_and_refusals(verdict, rooms[0], rooms[2], rooms[3]);
    for (const Room &room : rooms) room.release();
    for (const Room &room : seconds) room.release();
    return verdict.finish();
}
