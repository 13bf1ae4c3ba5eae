// Copies of arrays in graphs: captured, added, in a child, changed in an executable graph and by an update. A graph fills a
// texture's array anew at every launch; boxes move between host, arrays and device memory. The same boxes are moved on the
// host, and every word is compared.
#include "check_driver.h"

#include <cstring>

static const size_t W = 12, H = 7, D = 5;

__global__ void sample(cudaTextureObject_t texture, float *out, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < width && y < height) out[y * width + x] = 2 * tex2D<float>(texture, x + 0.5f, y + 0.5f) + 1;
}

static cudaTextureObject_t texture_of(cudaArray_t array) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc description{};
    description.filterMode = cudaFilterModePoint;
    description.addressMode[0] = description.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    return texture;
}

// Host memory, pageable or pinned, is read and written by every launch of a captured graph.
static void captured(Verdict &verdict, bool pinned) {
    const int width = 33, height = 9, count = width * height;
    const auto format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, width, height));
    const cudaTextureObject_t texture = texture_of(array);
    std::vector<float> pageable(2 * count);
    float *in = pageable.data(), *device;
    if (pinned) CHECK(cudaMallocHost(&in, 2 * count * sizeof(float)));
    float *out = in + count;
    CHECK(cudaMalloc(&device, count * sizeof(float)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    const size_t row = width * sizeof(float);
    CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, in, row, row, height, cudaMemcpyHostToDevice, stream));
    sample<<<dim3((width + 31) / 32, height), 32, 0, stream>>>(texture, device, width, height);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, device, row, row, height, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemcpy2DFromArrayAsync(out, row, array, 0, 0, row, height, cudaMemcpyDeviceToHost, stream));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    verdict.expect(nodes == 4, "a node for each copy and the kernel");
    cudaGraphNode_t first;
    size_t roots = 1;
    CHECK(cudaGraphGetRootNodes(graph, &first, &roots));
    cudaMemcpy3DParms said{};
    CHECK(cudaGraphMemcpyNodeGetParams(first, &said));
    verdict.expect(said.dstArray == array && said.srcArray == nullptr && said.srcPtr.ptr == in, "what was captured");
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < 4; ++launch) {
        for (int i = 0; i < count; ++i) in[i] = static_cast<float>(i * (launch + 1) % 1000), out[i] = -1;
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        int wrong = 0;
        for (int i = 0; i < count; ++i) wrong += out[i] != 2 * in[i] + 1;
        verdict.expect(wrong == 0, "each launch samples what the host has then");
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeArray(array));
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    if (pinned) CHECK(cudaFreeHost(in));
}

// Words of a box of W x H x D.
struct Volume {
    std::vector<uint32_t> words = std::vector<uint32_t>(W * H * D);

    explicit Volume(uint64_t seed = 0) {
        Inputs inputs(seed);
        for (auto &word : words) word = inputs.bits();
    }
    uint32_t &at(size_t x, size_t y, size_t z) { return words[(z * H + y) * W + x]; }
    cudaPitchedPtr pitched() { return make_cudaPitchedPtr(words.data(), W * 4, W, H); }
};

struct Box {
    cudaPos from, to;
    cudaExtent extent; // elements
};

static void move(Volume &to, Volume &from, const Box &box) {
    for (size_t k = 0; k < box.extent.depth; ++k)
        for (size_t j = 0; j < box.extent.height; ++j)
            for (size_t i = 0; i < box.extent.width; ++i)
                to.at(box.to.x + i, box.to.y + j, box.to.z + k) = from.at(box.from.x + i, box.from.y + j, box.from.z + k);
}

// The graph: host to `first`, a box of `first` into `second`, all of `second` to the host.
struct Boxes {
    cudaArray_t first, second;
    Volume source{7}, before{8}, got{9};

    Boxes() {
        const auto format = cudaCreateChannelDesc<unsigned>();
        CHECK(cudaMalloc3DArray(&first, &format, make_cudaExtent(W, H, D)));
        CHECK(cudaMalloc3DArray(&second, &format, make_cudaExtent(W, H, D)));
    }
    ~Boxes() {
        CHECK(cudaFreeArray(first));
        CHECK(cudaFreeArray(second));
    }
    cudaMemcpy3DParms whole(cudaPitchedPtr host, cudaArray_t array, bool in) const {
        cudaMemcpy3DParms copy{};
        (in ? copy.srcPtr : copy.dstPtr) = host;
        (in ? copy.dstArray : copy.srcArray) = array;
        copy.extent = make_cudaExtent(W, H, D);
        copy.kind = in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
        return copy;
    }
    cudaMemcpy3DParms between(const Box &box) const {
        cudaMemcpy3DParms copy{};
        copy.srcArray = first, copy.dstArray = second;
        copy.srcPos = box.from, copy.dstPos = box.to, copy.extent = box.extent;
        copy.kind = cudaMemcpyDeviceToDevice;
        return copy;
    }
    // Returns the node of the box.
    cudaGraphNode_t add(cudaGraph_t graph, const Box &box) {
        const auto in = whole(source.pitched(), first, true), out = whole(got.pitched(), second, false);
        const auto boxed = between(box);
        cudaGraphNode_t nodes[3];
        CHECK(cudaGraphAddMemcpyNode(&nodes[0], graph, nullptr, 0, &in));
        CHECK(cudaGraphAddMemcpyNode(&nodes[1], graph, &nodes[0], 1, &boxed));
        CHECK(cudaGraphAddMemcpyNode(&nodes[2], graph, &nodes[1], 1, &out));
        return nodes[1];
    }
    void launch(Verdict &verdict, cudaGraphExec_t exec, const Box &box, const char *what) {
        const auto fill = whole(before.pitched(), second, true);
        CHECK(cudaMemcpy3D(&fill));
        Volume want = before;
        move(want, source, box);
        std::memset(got.words.data(), 0, got.words.size() * 4);
        CHECK(cudaGraphLaunch(exec, nullptr));
        CHECK(cudaDeviceSynchronize());
        verdict.expect(got.words == want.words, what);
    }
};

// NVIDIA's driver changes only one-dimensional copies of an executable graph, and refuses others in this way.
static bool is_changed(cudaError_t status, cudaError_t refusal) {
    if (status != refusal) CHECK(status);
    cudaGetLastError();
    return status == cudaSuccess;
}

static void added(Verdict &verdict) {
    const Box box{{2, 1, 0}, {0, 3, 2}, {5, 4, 3}}, other{{0, 0, 1}, {6, 1, 1}, {6, 2, 4}};
    Boxes boxes;
    cudaGraph_t graph, changed, parent;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&changed, 0));
    CHECK(cudaGraphCreate(&parent, 0));
    const cudaGraphNode_t node = boxes.add(graph, box);
    boxes.add(changed, other);
    cudaMemcpy3DParms said{};
    CHECK(cudaGraphMemcpyNodeGetParams(node, &said));
    verdict.expect(said.srcArray == boxes.first && said.dstArray == boxes.second && said.srcPos.x == 2 &&
                       said.dstPos.z == 2 && said.extent.height == 4,
                   "a node's parameters are those it was given");
    cudaMemcpy3DParms outside = boxes.between({{0, 0, 0}, {8, 0, 0}, {5, 1, 1}});
    cudaGraphNode_t none;
    verdict.expect(cudaGraphAddMemcpyNode(&none, graph, nullptr, 0, &outside) == cudaErrorInvalidValue,
                   "a box that lies outside an array is refused");
    cudaGraphExec_t exec, inner;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    boxes.launch(verdict, exec, box, "boxes as they were added");
    boxes.launch(verdict, exec, box, "the same again");
    const auto moved = boxes.between(other);
    if (is_changed(cudaGraphExecMemcpyNodeSetParams(exec, node, &moved), cudaErrorInvalidValue))
        boxes.launch(verdict, exec, other, "a box that was changed in the executable graph");
    cudaGraphExecUpdateResultInfo info{};
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    boxes.launch(verdict, exec, box, "updated to what it was");
    if (is_changed(cudaGraphExecUpdate(exec, changed, &info), cudaErrorGraphExecUpdateFailure))
        boxes.launch(verdict, exec, other, "updated to another graph");
    CHECK(cudaGraphAddChildGraphNode(&none, parent, nullptr, 0, graph));
    CHECK(cudaGraphInstantiate(&inner, parent, 0));
    boxes.launch(verdict, inner, box, "in a child graph");
    CHECK(cudaGraphMemcpyNodeSetParams(node, &moved));
    boxes.launch(verdict, inner, box, "which was copied when it was added");
    for (cudaGraphExec_t made : {exec, inner}) CHECK(cudaGraphExecDestroy(made));
    for (cudaGraph_t made : {graph, changed, parent}) CHECK(cudaGraphDestroy(made));
}

int main() {
    Verdict verdict;
    captured(verdict, false);
    captured(verdict, true);
    added(verdict);
    return verdict.finish();
}
