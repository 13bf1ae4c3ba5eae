// Mipmapped arrays: levels that copies and kernels write, read by their numbers, between two, by gradients and with bounds.
// Every value is compared with the formulas, computed on the host.
#include "check.h"

// Levels of floats; each is an image of its own numbers.
struct Levels {
    cudaExtent extent;
    std::vector<std::vector<float>> values;
    cudaExtent size(unsigned level) const {
        auto half = [&](size_t n) { return n == 0 ? 0 : std::max<size_t>(n >> level, 1); };
        return make_cudaExtent(half(extent.width), half(extent.height), half(extent.depth));
    }
};

static size_t elements(cudaExtent e) {
    return e.width * std::max<size_t>(e.height, 1) * std::max<size_t>(e.depth, 1);
}

static void write_level(cudaMipmappedArray_t mipmapped, unsigned level, cudaExtent size, std::vector<float> &values) {
    cudaArray_t array;
    CHECK(cudaGetMipmappedArrayLevel(&array, mipmapped, level));
    cudaMemcpy3DParms copy{};
    const size_t height = std::max<size_t>(size.height, 1);
    copy.srcPtr = make_cudaPitchedPtr(values.data(), size.width * sizeof(float), size.width, height);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(size.width, height, std::max<size_t>(size.depth, 1));
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
}

static Levels fill(cudaMipmappedArray_t mipmapped, cudaExtent extent, unsigned count, uint64_t seed) {
    Inputs inputs(seed);
    Levels levels{extent, {}};
    for (unsigned level = 0; level < count; ++level) {
        const cudaExtent size = levels.size(level);
        std::vector<float> values(elements(size));
        for (auto &value : values) value = inputs.uniform(-1, 1);
        write_level(mipmapped, level, size, values);
        levels.values.push_back(values);
    }
    return levels;
}

static cudaTextureObject_t make_texture(cudaMipmappedArray_t mipmapped, cudaTextureDesc how) {
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeMipmappedArray;
    what.res.mipmap.mipmap = mipmapped;
    cudaTextureObject_t texture = 0;
    CHECK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
    return texture;
}

static cudaTextureDesc description(cudaTextureFilterMode between_levels) {
    cudaTextureDesc how{};
    for (auto &axis : how.addressMode) axis = cudaAddressModeClamp;
    how.filterMode = cudaFilterModePoint;
    how.mipmapFilterMode = between_levels;
    how.normalizedCoords = 1;
    how.maxMipmapLevelClamp = 100;
    return how;
}

// The nearest element of a level of two dimensions.
static float nearest(const Levels &levels, unsigned level, float x, float y) {
    const cudaExtent size = levels.size(level);
    auto index = [](float at, size_t n) { return std::min<size_t>(static_cast<size_t>(at * n), n - 1); };
    return levels.values[level][index(y, size.height) * size.width + index(x, size.width)];
}

// What is read at a level that may be between two.
static float expected(const Levels &levels, bool means, float level, float x, float y) {
    const float last = static_cast<float>(levels.values.size() - 1);
    level = std::min(std::max(level, 0.0f), last);
    if (!means) return nearest(levels, static_cast<unsigned>(level + 0.5f), x, y);
    const auto first = static_cast<unsigned>(level);
    const float weight = level - first, lower = nearest(levels, first, x, y);
    return weight == 0 ? lower : (1 - weight) * lower + weight * nearest(levels, first + 1, x, y);
}

__global__ void read_levels(cudaTextureObject_t texture, const float3 *at, float *out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = tex2DLod<float>(texture, at[i].x, at[i].y, at[i].z);
}

__global__ void read_gradients(cudaTextureObject_t texture, const float2 *steps, float2 at, float *out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = tex2DGrad<float>(texture, at.x, at.y, make_float2(steps[i].x, 0), make_float2(0, steps[i].y));
}

__global__ void read_base(cudaTextureObject_t texture, float2 at, float *out) { *out = tex2D<float>(texture, at.x, at.y); }

// Levels and between them, over coordinates in the middle of elements of the smaller level.
static void by_number(Verdict &verdict) {
    const cudaExtent extent = make_cudaExtent(32, 16, 0);
    const auto format = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t mipmapped;
    // More than there are: six it is.
    CHECK(cudaMallocMipmappedArray(&mipmapped, &format, extent, 20));
    const Levels levels = fill(mipmapped, extent, 6, 1);
    std::vector<float3> at;
    for (int level = -4; level <= 24; ++level)
        for (int i = 0; i < 32; i += 3) at.push_back({(i + 0.3f) / 32, (i * 7 % 16 + 0.4f) / 16, level / 4.0f});
    const int count = static_cast<int>(at.size());
    float3 *places = device_copy(at);
    float *out = device_alloc<float>(count);
    for (const bool means : {false, true}) {
        const auto texture = make_texture(mipmapped, description(means ? cudaFilterModeLinear : cudaFilterModePoint));
        read_levels<<<blocks_for(count, 64), 64>>>(texture, places, out, count);
        CHECK_LAUNCH();
        const auto got = host_copy(out, count);
        std::vector<float> given, want;
        for (int i = 0; i < count; ++i) {
            // Just between two levels either is the nearest.
            if (!means && std::fabs(at[i].z - std::floor(at[i].z)) == 0.5f) continue;
            given.push_back(got[i]);
            want.push_back(expected(levels, means, at[i].z, at[i].x, at[i].y));
        }
        verdict.near(means ? "between levels" : "levels", given.data(), want.data(), given.size(), 0, means ? 0.01 : 0);
        CHECK(cudaDestroyTextureObject(texture));
    }
    CHECK(cudaFree(places));
    CHECK(cudaFree(out));
    CHECK(cudaFreeMipmappedArray(mipmapped));
}

// The bounds and the bias of a texture; one that reads without a level reads the first within them.
static void bounds(Verdict &verdict) {
    const cudaExtent extent = make_cudaExtent(16, 16, 0);
    const auto format = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t mipmapped;
    CHECK(cudaMallocMipmappedArray(&mipmapped, &format, extent, 5));
    const Levels levels = fill(mipmapped, extent, 5, 2);
    const std::vector<float3> at = {{0.4f, 0.6f, 0}, {0.4f, 0.6f, 1}, {0.4f, 0.6f, 2}, {0.4f, 0.6f, 3}, {0.4f, 0.6f, 4}};
    float3 *places = device_copy(at);
    float *out = device_alloc<float>(5);
    auto read = [&](float bias, float least, float most) {
        cudaTextureDesc how = description(cudaFilterModePoint);
        how.mipmapLevelBias = bias, how.minMipmapLevelClamp = least, how.maxMipmapLevelClamp = most;
        const auto texture = make_texture(mipmapped, how);
        read_levels<<<1, 5>>>(texture, places, out, 5);
        CHECK_LAUNCH();
        CHECK(cudaDestroyTextureObject(texture));
        return host_copy(out, 5);
    };
    auto wanted = [&](std::vector<unsigned> which) {
        std::vector<float> values;
        for (const auto level : which) values.push_back(nearest(levels, level, 0.4f, 0.6f));
        return values;
    };
    verdict.expect(read(0, 1, 3) == wanted({1, 1, 2, 3, 3}), "bounds");
    verdict.expect(read(1, 0, 100) == wanted({1, 2, 3, 4, 4}), "a bias");
    verdict.expect(read(-2, 0, 100) == wanted({0, 0, 0, 1, 2}), "a bias to larger levels");
    const auto texture = make_texture(mipmapped, description(cudaFilterModePoint));
    read_base<<<1, 1>>>(texture, make_float2(0.4f, 0.6f), out);
    CHECK_LAUNCH();
    verdict.expect(host_copy(out, 1)[0] == nearest(levels, 0, 0.4f, 0.6f), "no level is the first");
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(places));
    CHECK(cudaFree(out));
    CHECK(cudaFreeMipmappedArray(mipmapped));
}

// A gradient's level is the logarithm of its longer step in elements.
static void gradients(Verdict &verdict) {
    const cudaExtent extent = make_cudaExtent(64, 32, 0);
    const auto format = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t mipmapped;
    CHECK(cudaMallocMipmappedArray(&mipmapped, &format, extent, 7));
    const Levels levels = fill(mipmapped, extent, 7, 3);
    std::vector<float2> steps;
    std::vector<float> want;
    for (int x = -1; x < 8; ++x)
        for (int y = -1; y < 7; ++y) {
            // So many elements: a power of two, and a little more, so that no rounding matters.
            auto length = [](int power) { return power < 0 ? 0 : 1.1f * static_cast<float>(1 << power); };
            steps.push_back({length(x) / 64, length(y) / 32});
            const int level = std::max(std::max(x, y), 0);
            want.push_back(nearest(levels, static_cast<unsigned>(std::min(level, 6)), 0.7f, 0.2f));
        }
    const int count = static_cast<int>(steps.size());
    float2 *given = device_copy(steps);
    float *out = device_alloc<float>(count);
    const auto texture = make_texture(mipmapped, description(cudaFilterModePoint));
    read_gradients<<<blocks_for(count, 64), 64>>>(texture, given, make_float2(0.7f, 0.2f), out, count);
    CHECK_LAUNCH();
    verdict.equal("gradients", host_copy(out, count).data(), want.data(), count);
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(given));
    CHECK(cudaFree(out));
    CHECK(cudaFreeMipmappedArray(mipmapped));
}

__global__ void halve(cudaTextureObject_t larger, cudaSurfaceObject_t smaller, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const float2 at = make_float2((x + 0.5f) / width, (y + 0.5f) / height);
    surf2Dwrite(tex2D<float>(larger, at.x, at.y), smaller, x * static_cast<int>(sizeof(float)), y);
}

// Each level is made from the one before, as programs make their mipmaps: read as a texture, written as a surface.
static void made_by_kernels(Verdict &verdict) {
    const cudaExtent extent = make_cudaExtent(32, 32, 0);
    const auto format = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t mipmapped;
    CHECK(cudaMallocMipmappedArray(&mipmapped, &format, extent, 6, cudaArraySurfaceLoadStore));
    Levels levels = fill(mipmapped, extent, 1, 4);
    for (unsigned level = 1; level < 6; ++level) {
        cudaArray_t larger, smaller;
        CHECK(cudaGetMipmappedArrayLevel(&larger, mipmapped, level - 1));
        CHECK(cudaGetMipmappedArrayLevel(&smaller, mipmapped, level));
        cudaResourceDesc from{}, to{};
        from.resType = to.resType = cudaResourceTypeArray;
        from.res.array.array = larger, to.res.array.array = smaller;
        cudaTextureDesc how = description(cudaFilterModePoint);
        how.filterMode = cudaFilterModeLinear;
        cudaTextureObject_t texture;
        cudaSurfaceObject_t surface;
        CHECK(cudaCreateTextureObject(&texture, &from, &how, nullptr));
        CHECK(cudaCreateSurfaceObject(&surface, &to));
        const int n = 32 >> level;
        halve<<<dim3(blocks_for(n, 8), blocks_for(n, 8)), dim3(8, 8)>>>(texture, surface, n, n);
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaDestroyTextureObject(texture));
        CHECK(cudaDestroySurfaceObject(surface));
        const auto &before = levels.values.back();
        std::vector<float> want, got(n * n);
        for (int y = 0; y < n; ++y)
            for (int x = 0; x < n; ++x) {
                auto at = [&](int dx, int dy) { return before[(2 * y + dy) * 2 * n + 2 * x + dx]; };
                want.push_back((at(0, 0) + at(1, 0) + at(0, 1) + at(1, 1)) / 4);
            }
        const size_t row = n * sizeof(float);
        CHECK(cudaMemcpy2DFromArray(got.data(), row, smaller, 0, 0, row, n, cudaMemcpyDeviceToHost));
        verdict.near("a level made from the one before", got.data(), want.data(), got.size(), 0, 1e-5);
        levels.values.push_back(got);
    }
    CHECK(cudaFreeMipmappedArray(mipmapped));
}

__global__ void read_layers(cudaTextureObject_t texture, float *out) {
    const unsigned level = blockIdx.x, layer = threadIdx.x;
    out[level * blockDim.x + layer] = tex2DLayeredLod<float>(texture, 0.9f, 0.1f, static_cast<int>(layer), level);
}

__global__ void read_volume(cudaTextureObject_t texture, float *out) {
    out[threadIdx.x] = tex3DLod<float>(texture, 0.6f, 0.4f, 0.9f, static_cast<float>(threadIdx.x));
}

__global__ void read_line(cudaTextureObject_t texture, float *out) {
    out[threadIdx.x] = tex1DLod<float>(texture, 0.85f, static_cast<float>(threadIdx.x));
}

// Layers stay as many on each level, slices become fewer.
static void other_dimensions(Verdict &verdict) {
    const auto format = cudaCreateChannelDesc<float>();
    float *out = device_alloc<float>(64);
    cudaMipmappedArray_t layers, volume, line;
    CHECK(cudaMallocMipmappedArray(&layers, &format, make_cudaExtent(8, 4, 5), 4, cudaArrayLayered));
    std::vector<float> want;
    for (unsigned level = 0; level < 4; ++level) {
        const size_t width = std::max(8 >> level, 1), height = std::max(4 >> level, 1);
        std::vector<float> values(width * height * 5);
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(100 * level + i);
        write_level(layers, level, make_cudaExtent(width, height, 5), values);
        for (size_t layer = 0; layer < 5; ++layer)
            want.push_back(values[layer * width * height + static_cast<size_t>(0.9f * width)]);
    }
    auto texture = make_texture(layers, description(cudaFilterModePoint));
    read_layers<<<4, 5>>>(texture, out);
    CHECK_LAUNCH();
    verdict.equal("layers", host_copy(out, 20).data(), want.data(), 20);
    CHECK(cudaDestroyTextureObject(texture));

    const cudaExtent deep = make_cudaExtent(4, 8, 16);
    CHECK(cudaMallocMipmappedArray(&volume, &format, deep, 5));
    Levels levels = fill(volume, deep, 5, 5);
    want.clear();
    for (unsigned level = 0; level < 5; ++level) {
        const cudaExtent size = levels.size(level);
        auto index = [](float at, size_t n) { return static_cast<size_t>(at * n); };
        const size_t slice = index(0.9f, size.depth) * size.height + index(0.4f, size.height);
        want.push_back(levels.values[level][slice * size.width + index(0.6f, size.width)]);
    }
    texture = make_texture(volume, description(cudaFilterModePoint));
    read_volume<<<1, 5>>>(texture, out);
    CHECK_LAUNCH();
    verdict.equal("a volume", host_copy(out, 5).data(), want.data(), 5);
    CHECK(cudaDestroyTextureObject(texture));

    CHECK(cudaMallocMipmappedArray(&line, &format, make_cudaExtent(10, 0, 0), 4));
    levels = fill(line, make_cudaExtent(10, 0, 0), 4, 6);
    want.clear();
    for (unsigned level = 0; level < 4; ++level)
        want.push_back(levels.values[level][static_cast<size_t>(0.85f * levels.size(level).width)]);
    texture = make_texture(line, description(cudaFilterModePoint));
    read_line<<<1, 4>>>(texture, out);
    CHECK_LAUNCH();
    verdict.equal("a line", host_copy(out, 4).data(), want.data(), 4);
    CHECK(cudaDestroyTextureObject(texture));
    for (const auto array : {layers, volume, line}) CHECK(cudaFreeMipmappedArray(array));
    CHECK(cudaFree(out));
}

static void shapes_and_refusals(Verdict &verdict) {
    const auto format = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t mipmapped;
    CHECK(cudaMallocMipmappedArray(&mipmapped, &format, make_cudaExtent(20, 6, 0), 3));
    cudaArray_t level, again;
    CHECK(cudaGetMipmappedArrayLevel(&level, mipmapped, 2));
    CHECK(cudaGetMipmappedArrayLevel(&again, mipmapped, 2));
    cudaChannelFormatDesc of_level;
    cudaExtent extent;
    unsigned flags;
    CHECK(cudaArrayGetInfo(&of_level, &extent, &flags, level));
    verdict.expect(extent.width == 5 && extent.height == 1 && extent.depth == 0, "the extents of a level");
    verdict.expect(of_level.x == 32 && of_level.f == cudaChannelFormatKindFloat, "the format of a level");
    verdict.expect(level == again, "a level is the same each time");
    verdict.expect(cudaGetMipmappedArrayLevel(&level, mipmapped, 3) == cudaErrorInvalidValue, "a level beyond the last");
    CHECK(cudaFreeMipmappedArray(mipmapped));
    cudaGetLastError();
}

int main() {
    Verdict verdict;
    by_number(verdict);
    bounds(verdict);
    gradients(verdict);
    made_by_kernels(verdict);
    other_dimensions(verdict);
    shapes_and_refusals(verdict);
    return verdict.finish();
}
