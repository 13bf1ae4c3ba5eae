// Textures of arrays and memory: address modes, filters, formats, layers, gathers. Every value is compared with the
// formulas of the CUDA C++ programming guide ("Texture Fetching"), computed on the host.
#include "check.h"

#include <cuda_fp16.h>

struct Image {
    int width, height, depth;
    std::vector<float> texels;
    float at(int x, int y, int z = 0) const {
        return texels[(static_cast<size_t>(z) * height + y) * width + x];
    }
};

static Image make_image(int width, int height, int depth, uint64_t seed) {
    Inputs inputs(seed);
    Image image{width, height, depth, {}};
    for (int i = 0; i < width * height * depth; ++i) image.texels.push_back(inputs.uniform(-1, 1));
    return image;
}

// The index that stands for one outside [0, n); -1 for the border.
static int inside(cudaTextureAddressMode mode, int i, int n) {
    switch (mode) {
    case cudaAddressModeWrap: return (i % n + n) % n;
    case cudaAddressModeMirror: {
        const int place = (i % (2 * n) + 2 * n) % (2 * n);
        return place < n ? place : 2 * n - 1 - place;
    }
    case cudaAddressModeBorder: return i < 0 || i >= n ? -1 : i;
    default: return i < 0 ? 0 : i >= n ? n - 1 : i;
    }
}

static float texel(const Image &image, cudaTextureAddressMode mode, int x, int y, int z, float border) {
    x = inside(mode, x, image.width), y = inside(mode, y, image.height), z = inside(mode, z, image.depth);
    return x < 0 || y < 0 || z < 0 ? border : image.at(x, y, z);
}

// One axis of a linear filter: the first index, and the weight of the second in steps of 1/256.
static int split(float x, float &weight) {
    const float first = std::floor(x - 0.5f);
    weight = std::floor((x - 0.5f - first) * 256 + 0.5f) / 256;
    return static_cast<int>(first);
}

static float linear2d(const Image &image, cudaTextureAddressMode mode, float x, float y, float border) {
    float a, b;
    const int i = split(x, a), j = split(y, b);
    auto t = [&](int dx, int dy) { return texel(image, mode, i + dx, j + dy, 0, border); };
    return (1 - a) * (1 - b) * t(0, 0) + a * (1 - b) * t(1, 0) + (1 - a) * b * t(0, 1) + a * b * t(1, 1);
}

static float linear3d(const Image &image, float x, float y, float z) {
    float a, b, c;
    const int i = split(x, a), j = split(y, b), k = split(z, c);
    float sum = 0;
    for (int corner = 0; corner < 8; ++corner) {
        const int dx = corner & 1, dy = corner >> 1 & 1, dz = corner >> 2;
        const float weight = (dx ? a : 1 - a) * (dy ? b : 1 - b) * (dz ? c : 1 - c);
        sum += weight * texel(image, cudaAddressModeClamp, i + dx, j + dy, k + dz, 0);
    }
    return sum;
}

__global__ void sample2d(cudaTextureObject_t texture, const float2 *at, float *out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = tex2D<float>(texture, at[i].x, at[i].y);
}

__global__ void sample3d(cudaTextureObject_t texture, const float3 *at, float *out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = tex3D<float>(texture, at[i].x, at[i].y, at[i].z);
}

static cudaTextureObject_t make_texture(cudaArray_t array, cudaTextureDesc how) {
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeArray;
    what.res.array.array = array;
    cudaTextureObject_t texture = 0;
    CHECK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
    return texture;
}

static cudaTextureDesc description(cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized) {
    cudaTextureDesc how{};
    for (auto &axis : how.addressMode) axis = mode;
    how.filterMode = filter;
    how.normalizedCoords = normalized;
    how.readMode = cudaReadModeElementType;
    how.borderColor[0] = 0.5f;
    return how;
}

// Every address mode with both filters, over coordinates that go out of the image on all sides.
static void address_modes(Verdict &verdict) {
    const Image image = make_image(16, 8, 1, 1);
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, image.width, image.height));
    const size_t row = image.width * sizeof(float);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, image.texels.data(), row, row, image.height, cudaMemcpyHostToDevice));
    std::vector<float2> at;
    for (int j = -40; j < 80; j += 3)
        for (int i = -90; i < 160; i += 3) at.push_back({(i + 0.25f) / 8, (j + 0.25f) / 8});
    const int count = static_cast<int>(at.size());
    float *out = device_alloc<float>(count);
    const char *names[] = {"wrap", "clamp", "mirror", "border"};
    for (int mode = 0; mode < 4; ++mode)
        for (int linear = 0; linear < 2; ++linear) {
            const auto address = static_cast<cudaTextureAddressMode>(mode);
            // Images continue beyond their ends only for normalized coordinates.
            const bool normalized = address == cudaAddressModeWrap || address == cudaAddressModeMirror;
            const auto filter = linear ? cudaFilterModeLinear : cudaFilterModePoint;
            const auto texture = make_texture(array, description(address, filter, normalized));
            std::vector<float2> given = at;
            if (normalized)
                for (auto &place : given) place.x /= image.width, place.y /= image.height;
            float2 *places = device_copy(given);
            sample2d<<<blocks_for(count, 128), 128>>>(texture, places, out, count);
            CHECK_LAUNCH();
            const auto got = host_copy(out, count);
            std::vector<float> want;
            for (const auto &place : at) {
                const int x = static_cast<int>(std::floor(place.x)), y = static_cast<int>(std::floor(place.y));
                want.push_back(linear ? linear2d(image, address, place.x, place.y, 0.5f)
                                      : texel(image, address, x, y, 0, 0.5f));
            }
            verdict.near(names[mode], got.data(), want.data(), count, 0, linear ? 0.01 : 0);
            CHECK(cudaFree(places));
            CHECK(cudaDestroyTextureObject(texture));
        }
    CHECK(cudaFree(out));
    CHECK(cudaFreeArray(array));
}

// A volume, filtered in three dimensions.
static void volume(Verdict &verdict) {
    const Image image = make_image(7, 5, 6, 2);
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<float>();
    const cudaExtent extent = make_cudaExtent(image.width, image.height, image.depth);
    CHECK(cudaMalloc3DArray(&array, &format, extent));
    cudaMemcpy3DParms copy{};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<float *>(image.texels.data()), image.width * sizeof(float),
                                      image.width, image.height);
    copy.dstArray = array;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    Inputs inputs(3);
    std::vector<float3> at;
    for (int i = 0; i < 500; ++i)
        at.push_back({inputs.uniform(-1, 8), inputs.uniform(-1, 6), inputs.uniform(-1, 7)});
    float3 *places = device_copy(at);
    float *out = device_alloc<float>(at.size());
    const auto texture = make_texture(array, description(cudaAddressModeClamp, cudaFilterModeLinear, false));
    sample3d<<<4, 128>>>(texture, places, out, static_cast<int>(at.size()));
    CHECK_LAUNCH();
    const auto got = host_copy(out, at.size());
    std::vector<float> want;
    for (const auto &place : at) want.push_back(linear3d(image, place.x, place.y, place.z));
    verdict.near("volume", got.data(), want.data(), at.size(), 0, 0.02);
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(places));
    CHECK(cudaFree(out));
    CHECK(cudaFreeArray(array));
}

__global__ void layers(cudaTextureObject_t texture, float *out, int width, int height) {
    const int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;
    out[(layer * height + y) * width + x] = tex2DLayered<float>(texture, x + 0.5f, y + 0.5f, layer);
}

// Layers are filled and read one by one; filtering never mixes them.
static void layered(Verdict &verdict) {
    const Image image = make_image(9, 4, 3, 4);
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<float>();
    const cudaExtent extent = make_cudaExtent(image.width, image.height, image.depth);
    CHECK(cudaMalloc3DArray(&array, &format, extent, cudaArrayLayered));
    for (int layer = 0; layer < image.depth; ++layer) {
        cudaMemcpy3DParms copy{};
        float *from = const_cast<float *>(image.texels.data()) + layer * image.width * image.height;
        copy.srcPtr = make_cudaPitchedPtr(from, image.width * sizeof(float), image.width, image.height);
        copy.dstArray = array;
        copy.dstPos = make_cudaPos(0, 0, layer);
        copy.extent = make_cudaExtent(image.width, image.height, 1);
        copy.kind = cudaMemcpyHostToDevice;
        CHECK(cudaMemcpy3D(&copy));
    }
    const auto texture = make_texture(array, description(cudaAddressModeClamp, cudaFilterModeLinear, false));
    float *out = device_alloc<float>(image.texels.size());
    layers<<<image.depth, dim3(image.width, image.height)>>>(texture, out, image.width, image.height);
    CHECK_LAUNCH();
    const auto got = host_copy(out, image.texels.size());
    verdict.near("layers", got.data(), image.texels.data(), got.size(), 0, 0);
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(out));
    CHECK(cudaFreeArray(array));
}

__global__ void fetch(cudaTextureObject_t texture, int4 *out, int count) {
    const int i = threadIdx.x;
    if (i < count) {
        const short4 value = tex1Dfetch<short4>(texture, i);
        out[i] = make_int4(value.x, value.y, value.z, value.w);
    }
}

// tex1Dfetch over linear memory, in the middle of which the texture begins. It may be said to go on behind the allocation.
static void linear_memory(Verdict &verdict, size_t behind) {
    Inputs inputs(5);
    const int skipped = 256, count = 77;
    std::vector<short4> values;
    for (int i = 0; i < skipped + count; ++i) {
        const auto next = [&] { return static_cast<short>(inputs.bits()); };
        values.push_back(make_short4(next(), next(), next(), next()));
    }
    short4 *memory = device_copy(values);
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeLinear;
    what.res.linear.devPtr = memory + skipped;
    what.res.linear.desc = cudaCreateChannelDesc<short4>();
    what.res.linear.sizeInBytes = count * sizeof(short4) + behind;
    cudaTextureDesc how{};
    how.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
    cudaResourceDesc told{};
    CHECK(cudaGetTextureObjectResourceDesc(&told, texture));
    verdict.expect(told.resType == what.resType && told.res.linear.devPtr == what.res.linear.devPtr &&
                       told.res.linear.sizeInBytes == what.res.linear.sizeInBytes,
                   "the returned resource");
    int4 *out = device_alloc<int4>(count);
    fetch<<<1, 128>>>(texture, out, count);
    CHECK_LAUNCH();
    const auto got = host_copy(out, count);
    bool same = true;
    for (int i = 0; i < count; ++i) {
        const short4 want = values[skipped + i];
        same &= got[i].x == want.x && got[i].y == want.y && got[i].z == want.z && got[i].w == want.w;
    }
    verdict.expect(same, "linear memory");
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(out));
    CHECK(cudaFree(memory));
}

// A linear filter over rows of memory with gaps, read as fractions.
static void pitched_memory(Verdict &verdict) {
    const int width = 24, height = 10;
    Inputs inputs(6);
    Image image{width, height, 1, {}};
    std::vector<unsigned char> bytes;
    for (int i = 0; i < width * height; ++i) {
        bytes.push_back(static_cast<unsigned char>(inputs.bits()));
        image.texels.push_back(bytes.back() / 255.0f);
    }
    void *memory;
    size_t pitch;
    CHECK(cudaMallocPitch(&memory, &pitch, width, height));
    CHECK(cudaMemcpy2D(memory, pitch, bytes.data(), width, width, height, cudaMemcpyHostToDevice));
    cudaResourceDesc what{};
    what.resType = cudaResourceTypePitch2D;
    what.res.pitch2D.devPtr = memory;
    what.res.pitch2D.desc = cudaCreateChannelDesc<unsigned char>();
    what.res.pitch2D.width = width;
    what.res.pitch2D.height = height;
    what.res.pitch2D.pitchInBytes = pitch;
    cudaTextureDesc how = description(cudaAddressModeClamp, cudaFilterModeLinear, false);
    how.readMode = cudaReadModeNormalizedFloat;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
    std::vector<float2> at;
    for (int i = 0; i < 300; ++i) at.push_back({inputs.uniform(-2, width + 2), inputs.uniform(-2, height + 2)});
    float2 *places = device_copy(at);
    float *out = device_alloc<float>(at.size());
    sample2d<<<3, 128>>>(texture, places, out, static_cast<int>(at.size()));
    CHECK_LAUNCH();
    const auto got = host_copy(out, at.size());
    std::vector<float> want;
    for (const auto &place : at) want.push_back(linear2d(image, cudaAddressModeClamp, place.x, place.y, 0));
    verdict.near("pitched", got.data(), want.data(), got.size(), 0, 0.01);
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(places));
    CHECK(cudaFree(out));
    CHECK(cudaFree(memory));
}

__global__ void formats(cudaTextureObject_t colours, cudaTextureObject_t halves, cudaTextureObject_t whole, float4 *out) {
    const float x = threadIdx.x + 0.5f;
    out[3 * threadIdx.x] = tex1D<float4>(colours, x);
    const float half = tex1D<float>(halves, x);
    const int2 pair = tex1D<int2>(whole, x);
    out[3 * threadIdx.x + 1] = make_float4(half, 0, 0, 0);
    out[3 * threadIdx.x + 2] = make_float4(pair.x, pair.y, 0, 0);
}

template <typename T>
static cudaTextureObject_t line(cudaArray_t *array, const std::vector<T> &values, cudaTextureReadMode mode,
                                cudaChannelFormatDesc format) {
    CHECK(cudaMallocArray(array, &format, values.size()));
    const size_t bytes = values.size() * sizeof(T);
    CHECK(cudaMemcpy2DToArray(*array, 0, 0, values.data(), bytes, bytes, 1, cudaMemcpyHostToDevice));
    cudaTextureDesc how = description(cudaAddressModeClamp, cudaFilterModePoint, false);
    how.readMode = mode;
    return make_texture(*array, how);
}

// Four small channels as fractions, half precision, large integers as they are.
static void channel_formats(Verdict &verdict) {
    const std::vector<uchar4> colours = {{0, 51, 102, 255}, {1, 2, 3, 4}, {255, 255, 0, 0}};
    const std::vector<__half> halves = {__float2half(1.5f), __float2half(-0.25f), __float2half(1024)};
    const std::vector<int2> whole = {{-5, 7}, {1 << 20, -(1 << 20)}, {0, 1}};
    cudaArray_t arrays[3];
    const auto as_fraction =
        line(&arrays[0], colours, cudaReadModeNormalizedFloat, cudaCreateChannelDesc<uchar4>());
    const auto as_half = line(&arrays[1], halves, cudaReadModeElementType, cudaCreateChannelDescHalf());
    const auto as_whole = line(&arrays[2], whole, cudaReadModeElementType, cudaCreateChannelDesc<int2>());
    float4 *out = device_alloc<float4>(9);
    formats<<<1, 3>>>(as_fraction, as_half, as_whole, out);
    CHECK_LAUNCH();
    const auto got = host_copy(out, 9);
    for (int i = 0; i < 3; ++i) {
        const float want[] = {colours[i].x / 255.0f, colours[i].y / 255.0f, colours[i].z / 255.0f,
                              colours[i].w / 255.0f};
        verdict.near("fractions", &got[3 * i].x, want, 4, 1e-6, 0);
        verdict.expect(got[3 * i + 1].x == __half2float(halves[i]), "halves");
        verdict.expect(got[3 * i + 2].x == whole[i].x && got[3 * i + 2].y == whole[i].y, "integers");
    }
    for (const auto texture : {as_fraction, as_half, as_whole}) CHECK(cudaDestroyTextureObject(texture));
    for (const auto array : arrays) CHECK(cudaFreeArray(array));
    CHECK(cudaFree(out));
}

__global__ void gather(cudaTextureObject_t texture, uint4 *out) {
    *out = tex2Dgather<uint4>(texture, 2.0f, 1.0f, 1);
}

static void gathers(Verdict &verdict) {
    const int width = 4, height = 3;
    std::vector<uint2> values;
    for (unsigned i = 0; i < width * height; ++i) values.push_back({i, 100 + i});
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<uint2>();
    CHECK(cudaMallocArray(&array, &format, width, height, cudaArrayTextureGather));
    const size_t row = width * sizeof(uint2);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, values.data(), row, row, height, cudaMemcpyHostToDevice));
    const auto texture = make_texture(array, description(cudaAddressModeClamp, cudaFilterModePoint, false));
    uint4 *out = device_alloc<uint4>(1);
    gather<<<1, 1>>>(texture, out);
    CHECK_LAUNCH();
    const uint4 got = host_copy(out, 1)[0];
    // Counter-clockwise from the lower left: of elements (1, 1), (2, 1), (2, 0), (1, 0).
    verdict.expect(got.x == 105 && got.y == 106 && got.z == 102 && got.w == 101, "a gather");
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(out));
    CHECK(cudaFreeArray(array));
}

__global__ void number(cudaSurfaceObject_t surface) {
    surf2Dwrite(static_cast<int>(threadIdx.x + 100 * threadIdx.y), surface, threadIdx.x * 4, threadIdx.y);
}

// An array that was not made for surfaces (cudaArraySurfaceLoadStore) has them all the same.
static void surface_of_a_plain_array(Verdict &verdict) {
    const int width = 16, height = 8;
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<int>();
    CHECK(cudaMallocArray(&array, &format, width, height));
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeArray;
    what.res.array.array = array;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &what));
    number<<<1, dim3(width, height)>>>(surface);
    CHECK_LAUNCH();
    std::vector<int> got(width * height), want;
    const size_t row = width * sizeof(int);
    CHECK(cudaMemcpy2DFromArray(got.data(), row, array, 0, 0, row, height, cudaMemcpyDeviceToHost));
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) want.push_back(x + 100 * y);
    verdict.equal("a surface of a plain array", got.data(), want.data(), got.size());
    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaFreeArray(array));
}

// Impossible textures.
static void refusals(Verdict &verdict) {
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc<int>();
    verdict.expect(cudaMallocArray(&array, &format, 0) == cudaErrorInvalidValue, "an array of no width");
    int *memory = device_alloc<int>(256);
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeLinear;
    what.res.linear.devPtr = memory;
    what.res.linear.desc = format;
    what.res.linear.sizeInBytes = 256 * sizeof(int);
    cudaSurfaceObject_t surface;
    verdict.expect(cudaCreateSurfaceObject(&surface, &what) == cudaErrorInvalidValue, "a surface of memory");
    CHECK(cudaFree(memory));
    cudaGetLastError();
}

int main() {
    Verdict verdict;
    address_modes(verdict);
    volume(verdict);
    layered(verdict);
    linear_memory(verdict, 0);
    linear_memory(verdict, 30000);
    pitched_memory(verdict);
    channel_formats(verdict);
    gathers(verdict);
    surface_of_a_plain_array(verdict);
    refusals(verdict);
    return verdict.finish();
}
