// Surfaces: kernels write arrays by byte and row, and other kernels read them as textures. Elements beyond the ends are
// clamped, zero or end the kernel, as the access says. All results are compared with what the host computes.
#include "check.h"

#include <cstring>

static cudaSurfaceObject_t make_surface(cudaArray_t array) {
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeArray;
    what.res.array.array = array;
    cudaSurfaceObject_t surface = 0;
    CHECK(cudaCreateSurfaceObject(&surface, &what));
    return surface;
}

static float value_at(int x, int y, int z = 0) { return static_cast<float>(x + 100 * y + 10000 * z); }

__global__ void fill2d(cudaSurfaceObject_t surface, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) surf2Dwrite(static_cast<float>(x + 100 * y), surface, x * 4, y);
}

__global__ void transpose(cudaTextureObject_t texture, float *out, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[x * height + y] = tex2D<float>(texture, x, y);
}

// A kernel writes the array, the next one behind it reads it as a texture.
static void write_then_read(Verdict &verdict) {
    const int width = 70, height = 33;
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
    const auto surface = make_surface(array);
    cudaResourceDesc what{};
    CHECK(cudaGetSurfaceObjectResourceDesc(&what, surface));
    verdict.expect(what.resType == cudaResourceTypeArray && what.res.array.array == array, "the returned resource");
    cudaTextureDesc how{};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
    float *out = device_alloc<float>(width * height);
    const dim3 block(16, 16), grid(5, 3);
    fill2d<<<grid, block>>>(surface, width, height);
    transpose<<<grid, block>>>(texture, out, width, height);
    CHECK_LAUNCH();
    const auto got = host_copy(out, width * height);
    std::vector<float> want, rows;
    for (int x = 0; x < width; ++x)
        for (int y = 0; y < height; ++y) want.push_back(value_at(x, y));
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) rows.push_back(value_at(x, y));
    verdict.equal("texture", got.data(), want.data(), got.size());
    std::vector<float> back(width * height);
    CHECK(cudaMemcpy2DFromArray(back.data(), width * 4, array, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
    verdict.equal("array", back.data(), rows.data(), back.size());
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaFree(out));
    CHECK(cudaFreeArray(array));
}

__global__ void fill3d(cudaSurfaceObject_t volume, cudaSurfaceObject_t layers) {
    const int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    surf3Dwrite(static_cast<float>(x + 100 * y + 10000 * z), volume, x * 4, y, z);
    surf2DLayeredwrite(static_cast<float>(x + 100 * y + 10000 * z) + surf3Dread<float>(volume, x * 4, y, z), layers,
                       x * 4, y, z);
}

static std::vector<float> whole(cudaArray_t array, cudaExtent extent) {
    std::vector<float> values(extent.width * extent.height * extent.depth);
    cudaMemcpy3DParms copy{};
    copy.srcArray = array;
    copy.dstPtr = make_cudaPitchedPtr(values.data(), extent.width * 4, extent.width, extent.height);
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&copy));
    return values;
}

static void volumes_and_layers(Verdict &verdict) {
    const cudaExtent extent = make_cudaExtent(8, 6, 5);
    const auto format = cudaCreateChannelDesc<float>();
    cudaArray_t volume, layers;
    CHECK(cudaMalloc3DArray(&volume, &format, extent, cudaArraySurfaceLoadStore));
    CHECK(cudaMalloc3DArray(&layers, &format, extent, cudaArraySurfaceLoadStore | cudaArrayLayered));
    const auto first = make_surface(volume), second = make_surface(layers);
    fill3d<<<5, dim3(8, 6)>>>(first, second);
    CHECK_LAUNCH();
    std::vector<float> want, twice;
    for (int z = 0; z < 5; ++z)
        for (int y = 0; y < 6; ++y)
            for (int x = 0; x < 8; ++x) want.push_back(value_at(x, y, z)), twice.push_back(2 * value_at(x, y, z));
    verdict.equal("volume", whole(volume, extent).data(), want.data(), want.size());
    verdict.equal("layers", whole(layers, extent).data(), twice.data(), twice.size());
    CHECK(cudaDestroySurfaceObject(first));
    CHECK(cudaDestroySurfaceObject(second));
    CHECK(cudaFreeArray(volume));
    CHECK(cudaFreeArray(layers));
}

__global__ void beyond(cudaSurfaceObject_t surface, int *out) {
    // A line of eight elements: the thread's place goes from four before it to four behind it.
    const int place = static_cast<int>(threadIdx.x) - 4;
    out[threadIdx.x] = surf1Dread<int>(surface, place * 4, cudaBoundaryModeClamp);
    out[16 + threadIdx.x] = surf1Dread<int>(surface, place * 4, cudaBoundaryModeZero);
    __syncthreads();
    surf1Dwrite(place, surface, place * 4, cudaBoundaryModeZero);
}

static void boundaries(Verdict &verdict) {
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<int>();
    CHECK(cudaMallocArray(&array, &format, 8, 0, cudaArraySurfaceLoadStore));
    std::vector<int> values = {10, 11, 12, 13, 14, 15, 16, 17};
    CHECK(cudaMemcpy2DToArray(array, 0, 0, values.data(), 32, 32, 1, cudaMemcpyHostToDevice));
    const auto surface = make_surface(array);
    int *out = device_alloc<int>(32);
    beyond<<<1, 16>>>(surface, out);
    CHECK_LAUNCH();
    const auto got = host_copy(out, 32);
    std::vector<int> want(32);
    for (int i = 0; i < 16; ++i) {
        const int place = i - 4, clamped = place < 0 ? 0 : place > 7 ? 7 : place;
        want[i] = 10 + clamped;
        want[16 + i] = place == clamped ? 10 + place : 0;
    }
    verdict.equal("beyond the ends", got.data(), want.data(), got.size());
    std::vector<int> written = {0, 1, 2, 3, 4, 5, 6, 7};
    CHECK(cudaMemcpy2DFromArray(values.data(), 32, array, 0, 0, 32, 1, cudaMemcpyDeviceToHost));
    verdict.equal("written within", values.data(), written.data(), 8);
    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaFree(out));
    CHECK(cudaFreeArray(array));
}

__global__ void sizes(cudaSurfaceObject_t bytes, cudaSurfaceObject_t wide) {
    const int x = threadIdx.x;
    surf2Dwrite(static_cast<unsigned char>(x), bytes, x, 0);
    surf2Dwrite(make_short2(x, -x), bytes, 4 * x, 1);
    surf2Dwrite(make_float4(x, x + 0.25f, x + 0.5f, x + 0.75f), wide, x * 16, 0);
    surf2Dwrite(static_cast<long long>(x) << 40, wide, x * 8, 1);
}

// Accesses of every size, whatever the elements are.
static void access_sizes(Verdict &verdict) {
    cudaArray_t bytes, wide;
    const auto narrow = cudaCreateChannelDesc<unsigned char>();
    const auto four = cudaCreateChannelDesc<float4>();
    CHECK(cudaMallocArray(&bytes, &narrow, 128, 2, cudaArraySurfaceLoadStore));
    CHECK(cudaMallocArray(&wide, &four, 32, 2, cudaArraySurfaceLoadStore));
    const auto first = make_surface(bytes), second = make_surface(wide);
    sizes<<<1, 32>>>(first, second);
    CHECK_LAUNCH();
    std::vector<unsigned char> small(256);
    CHECK(cudaMemcpy2DFromArray(small.data(), 128, bytes, 0, 0, 128, 2, cudaMemcpyDeviceToHost));
    std::vector<float> large(256);
    CHECK(cudaMemcpy2DFromArray(large.data(), 512, wide, 0, 0, 512, 2, cudaMemcpyDeviceToHost));
    bool right = true;
    for (int x = 0; x < 32; ++x) {
        short pair[2];
        long long word;
        std::memcpy(pair, &small[128 + 4 * x], 4);
        std::memcpy(&word, &large[128 + 2 * x], 8);
        right &= small[x] == x && pair[0] == x && pair[1] == -x && word == static_cast<long long>(x) << 40;
        for (int i = 0; i < 4; ++i) right &= large[4 * x + i] == x + 0.25f * i;
    }
    verdict.expect(right, "accesses of every size");
    CHECK(cudaDestroySurfaceObject(first));
    CHECK(cudaDestroySurfaceObject(second));
    CHECK(cudaFreeArray(bytes));
    CHECK(cudaFreeArray(wide));
}

int main() {
    Verdict verdict;
    write_then_read(verdict);
    volumes_and_layers(verdict);
    boundaries(verdict);
    access_sizes(verdict);
    return verdict.finish();
}
