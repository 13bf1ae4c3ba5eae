// Texture references, by which modules of before CUDA 12 read: a kernel in PTX text names a reference, and the program says
// of it what is read, an array, memory, or memory in rows. Kernels that were launched before read what they were launched
// with. What no program said is as an H200's driver has it.
// No argument. Checks all values, what references say of themselves, and the errors.
#include "check_driver.h"
#include "ranks.h"

#include <cstring>
#include <vector>

static const char text[] = R"(
.version 6.4
.target sm_75
.address_size 64
.global .texref image;
.global .texref line;
.visible .entry sample(.param .u64 out, .param .u32 width, .param .f32 step)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<5>;
    .reg .f32 %f<9>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [width];
    ld.param.f32 %f7, [step];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %tid.y;
    cvt.rn.f32.u32 %f1, %r2;
    cvt.rn.f32.u32 %f2, %r3;
    add.f32 %f1, %f1, 0f3f000000;
    add.f32 %f2, %f2, 0f3f000000;
    mul.f32 %f1, %f1, %f7;
    mul.f32 %f2, %f2, %f7;
    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [image, {%f1, %f2}];
    mad.lo.u32 %r4, %r3, %r1, %r2;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f3;
    ret;
}
.visible .entry fetch(.param .u64 out, .param .u32 spin)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<5>;
    .reg .f32 %f<5>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [spin];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, 0;
again:
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 bra done;
    mov.u32 %r4, %clock;
    add.u32 %r3, %r3, 1;
    bra again;
done:
    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [line, {%r2}];
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f1;
    ret;
}
)";

constexpr unsigned width = 16, height = 8, count = width * height;

static CUdeviceptr filled(float value, size_t values) {
    CUdeviceptr at = 0;
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    CHECK_DRIVER(cuMemAlloc(&at, values * sizeof(float)));
    CHECK_DRIVER(cuMemsetD32(at, bits, values));
    return at;
}

struct Program {
    CUmodule module = nullptr;
    CUfunction sample = nullptr, fetch = nullptr;
    CUtexref image = nullptr, line = nullptr;
    CUdeviceptr out = 0;
    Verdict verdict;

    Program() {
        CHECK_DRIVER(cuModuleLoadData(&module, text));
        CHECK_DRIVER(cuModuleGetFunction(&sample, module, "sample"));
        CHECK_DRIVER(cuModuleGetFunction(&fetch, module, "fetch"));
        CHECK_DRIVER(cuModuleGetTexRef(&image, module, "image"));
        CHECK_DRIVER(cuModuleGetTexRef(&line, module, "line"));
        CHECK_DRIVER(cuMemAlloc(&out, count * sizeof(float)));
    }

    void launch_sample(float step = 1) {
        unsigned columns = width;
        void *parameters[] = {&out, &columns, &step};
        CHECK_DRIVER(cuLaunchKernel(sample, 1, 1, 1, width, height, 1, 0, nullptr, parameters, nullptr));
    }

    void launch_fetch(CUstream stream = nullptr, unsigned spin = 0) {
        void *parameters[] = {&out, &spin};
        CHECK_DRIVER(cuLaunchKernel(fetch, 1, 1, 1, width, 1, 1, 0, stream, parameters, nullptr));
    }

    std::vector<float> read(unsigned values = count) {
        std::vector<float> got(values);
        CHECK_DRIVER(cuCtxSynchronize());
        CHECK_DRIVER(cuMemcpyDtoH(got.data(), out, values * sizeof(float)));
        return got;
    }

    void equal(const char *what, const std::vector<float> &expected) {
        const auto got = read(static_cast<unsigned>(expected.size()));
        verdict.equal(what, got.data(), expected.data(), expected.size());
    }
};

static void unbound(Program &its) {
    CHECK_DRIVER(cuMemsetD32(its.out, 0x42280000, count));
    its.launch_sample();
    its.equal("a reference of nothing reads 0", std::vector<float>(count, 0));
    int channels = 0;
    CUarray_format format = CU_AD_FORMAT_HALF;
    CUaddress_mode mode = CU_TR_ADDRESS_MODE_WRAP;
    CUfilter_mode filter = CU_TR_FILTER_MODE_LINEAR;
    CUarray none = nullptr;
    CUdeviceptr at = 0;
    unsigned flags = 1;
    CHECK_DRIVER(cuTexRefGetFormat(&format, &channels, its.image));
    CHECK_DRIVER(cuTexRefGetAddressMode(&mode, its.image, 2));
    CHECK_DRIVER(cuTexRefGetFilterMode(&filter, its.image));
    CHECK_DRIVER(cuTexRefGetFlags(&flags, its.image));
    its.verdict.expect(format == CU_AD_FORMAT_FLOAT && channels == 1 && mode == CU_TR_ADDRESS_MODE_CLAMP &&
                           filter == CU_TR_FILTER_MODE_POINT && flags == 0,
                       "what nobody said");
    says(cuTexRefGetArray(&none, its.image), CUDA_ERROR_INVALID_VALUE, "no array", its.verdict);
    says(cuTexRefGetAddress(&at, its.image), CUDA_ERROR_INVALID_VALUE, "no address", its.verdict);
}

static CUarray array_of(const std::vector<float> &values) {
    CUDA_ARRAY_DESCRIPTOR shape = {width, height, CU_AD_FORMAT_FLOAT, 1};
    CUarray array;
    CHECK_DRIVER(cuArrayCreate(&array, &shape));
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = values.data();
    copy.srcPitch = width * sizeof(float);
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = width * sizeof(float);
    copy.Height = height;
    CHECK_DRIVER(cuMemcpy2D(&copy));
    return array;
}

static void arrays(Program &its) {
    std::vector<float> values(count), halves(count);
    for (unsigned index = 0; index < count; ++index) values[index] = static_cast<float>(index);
    CUarray array = array_of(values), got = nullptr;
    CHECK_DRIVER(cuTexRefSetArray(its.image, array, CU_TRSA_OVERRIDE_FORMAT));
    its.launch_sample();
    its.equal("an array", values);
    CHECK_DRIVER(cuTexRefGetArray(&got, its.image));
    its.verdict.expect(got == array, "the array that it is of");
    // Beyond the ends: clamped, then zeros.
    its.launch_sample(2);
    for (unsigned index = 0; index < count; ++index) {
        const unsigned x = std::min(width - 1, 2 * (index % width) + 1);
        const unsigned y = std::min(height - 1, 2 * (index / width) + 1);
        halves[index] = values[y * width + x];
    }
    its.equal("clamped", halves);
    for (int axis = 0; axis < 2; ++axis) {
        CHECK_DRIVER(cuTexRefSetAddressMode(its.image, axis, CU_TR_ADDRESS_MODE_BORDER));
    }
    its.launch_sample(2);
    for (unsigned index = 0; index < count; ++index) {
        if (2 * (index % width) + 1 >= width || 2 * (index / width) + 1 >= height) halves[index] = 0;
    }
    its.equal("with a border", halves);
    // Means of two rows and columns.
    CHECK_DRIVER(cuTexRefSetFilterMode(its.image, CU_TR_FILTER_MODE_LINEAR));
    for (int axis = 0; axis < 2; ++axis) {
        CHECK_DRIVER(cuTexRefSetAddressMode(its.image, axis, CU_TR_ADDRESS_MODE_CLAMP));
    }
    its.launch_sample(2);
    std::vector<float> means(count);
    for (unsigned index = 0; index < count; ++index) {
        const float x = std::min<float>(width - 1, 2 * static_cast<float>(index % width) + 0.5F);
        const float y = std::min<float>(height - 1, 2 * static_cast<float>(index / width) + 0.5F);
        means[index] = y * width + x;
    }
    its.equal("means", means);
    CHECK_DRIVER(cuTexRefSetFilterMode(its.image, CU_TR_FILTER_MODE_POINT));
}

static void rows(Program &its) {
    const size_t pitch = 512;
    CUdeviceptr at = filled(3, pitch / sizeof(float) * height);
    CUDA_ARRAY_DESCRIPTOR shape = {width, height, CU_AD_FORMAT_FLOAT, 1};
    CHECK_DRIVER(cuTexRefSetAddress2D(its.image, &shape, at, pitch));
    its.launch_sample();
    its.equal("memory in rows", std::vector<float>(count, 3));
    says(cuTexRefSetAddress2D(its.image, &shape, at, 100), CUDA_ERROR_INVALID_VALUE, "rows that no texture has",
         its.verdict);
    its.launch_sample();
    its.equal("refused, it is what it was", std::vector<float>(count, 3));
    CUdeviceptr got = 0;
    CHECK_DRIVER(cuTexRefGetAddress(&got, its.image));
    its.verdict.expect(got == at, "the memory that it is of");
}

// Other elements and other arrays in their place, also where what was read before is gone.
static void in_place(Program &its) {
    const size_t pitch = 512;
    const unsigned columns = pitch / sizeof(float);
    std::vector<float> words(columns * height), narrow(count), wide(count);
    for (unsigned index = 0; index < words.size(); ++index) words[index] = static_cast<float>(index);
    for (unsigned index = 0; index < count; ++index) {
        const unsigned row = index / width * columns, column = index % width;
        narrow[index] = words[row + column];
        wide[index] = words[row + 4 * column];
    }
    CUdeviceptr at = 0;
    CHECK_DRIVER(cuMemAlloc(&at, words.size() * sizeof(float)));
    CHECK_DRIVER(cuMemcpyHtoD(at, words.data(), words.size() * sizeof(float)));
    CUDA_ARRAY_DESCRIPTOR shape = {columns, height, CU_AD_FORMAT_FLOAT, 1};
    CHECK_DRIVER(cuTexRefSetAddress2D(its.image, &shape, at, pitch));
    its.launch_sample();
    its.equal("rows as wide as their pitch", narrow);
    shape = {columns / 4, height, CU_AD_FORMAT_FLOAT, 4};
    CHECK_DRIVER(cuTexRefSetAddress2D(its.image, &shape, at, pitch));
    its.launch_sample();
    its.equal("the same of wider elements", wide);
    std::vector<float> first(count, 5), second(count, 6);
    CUarray array = array_of(first);
    CHECK_DRIVER(cuTexRefSetArray(its.image, array, CU_TRSA_OVERRIDE_FORMAT));
    its.launch_sample();
    its.equal("an array in place of memory", first);
    CHECK_DRIVER(cuArrayDestroy(array));
    array = array_of(second);
    CHECK_DRIVER(cuTexRefSetFlags(its.image, 0));
    CHECK_DRIVER(cuTexRefSetFilterMode(its.image, CU_TR_FILTER_MODE_POINT));
    CHECK_DRIVER(cuTexRefSetArray(its.image, array, CU_TRSA_OVERRIDE_FORMAT));
    its.launch_sample();
    its.equal("another array in place of one that is gone", second);
}

static void lines(Program &its) {
    CUdeviceptr ones = filled(1, 1024), twos = filled(2, 1024);
    size_t offset = 7;
    CHECK_DRIVER(cuTexRefSetFormat(its.line, CU_AD_FORMAT_FLOAT, 1));
    CHECK_DRIVER(cuTexRefSetAddress(&offset, its.line, ones, 12 * sizeof(float)));
    its.verdict.expect(offset == 0, "memory of its own has no offset");
    its.launch_fetch();
    std::vector<float> expected(width, 1);
    for (unsigned index = 12; index < width; ++index) expected[index] = 0;
    its.equal("a line, and zeros behind it", expected);
    CHECK_DRIVER(cuTexRefSetAddress(&offset, its.line, ones + 4, 64));
    its.verdict.expect(offset == 4, "what lies between two places of textures has an offset");
    says(cuTexRefSetAddress(nullptr, its.line, ones + 4, 64), CUDA_ERROR_INVALID_VALUE, "which has to be taken",
         its.verdict);

    // A kernel that runs, and one that waits behind it, read what they were launched with.
    CUstream stream;
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_DRIVER(cuTexRefSetAddress(&offset, its.line, ones, 1024));
    its.launch_fetch(stream, 200000);
    its.launch_fetch(stream, 0);
    CHECK_DRIVER(cuTexRefSetAddress(&offset, its.line, twos, 1024));
    its.equal("launched before", std::vector<float>(width, 1));
    its.launch_fetch(stream);
    its.equal("launched behind", std::vector<float>(width, 2));
    CHECK_DRIVER(cuStreamDestroy(stream));
}

static void errors(Program &its) {
    CUtexref reference, again;
    says(cuModuleGetTexRef(&reference, its.module, "nothing"), CUDA_ERROR_NOT_FOUND, "no such name", its.verdict);
    says(cuModuleGetTexRef(&reference, its.module, "fetch"), CUDA_ERROR_NOT_FOUND, "a kernel", its.verdict);
    CHECK_DRIVER(cuModuleGetTexRef(&again, its.module, "line"));
    its.verdict.expect(again == its.line, "a name has one reference");
    says(cuTexRefSetFormat(its.line, CU_AD_FORMAT_FLOAT, 3), CUDA_ERROR_INVALID_VALUE, "three channels", its.verdict);
    says(cuTexRefSetAddressMode(its.line, 3, CU_TR_ADDRESS_MODE_WRAP), CUDA_ERROR_INVALID_VALUE, "a fourth axis",
         its.verdict);
    says(cuTexRefSetFlags(its.line, 0x40), CUDA_ERROR_INVALID_VALUE, "a flag that is none", its.verdict);
    CHECK_DRIVER(cuTexRefCreate(&reference));
    CHECK_DRIVER(cuTexRefSetFlags(reference, CU_TRSF_NORMALIZED_COORDINATES));
    unsigned flags = 0;
    CHECK_DRIVER(cuTexRefGetFlags(&flags, reference));
    its.verdict.expect(flags == CU_TRSF_NORMALIZED_COORDINATES, "one that no module reads keeps what is said");
    CHECK_DRIVER(cuTexRefDestroy(reference));
}

int main() {
    begin(0);
    Program its;
    unbound(its);
    arrays(its);
    rows(its);
    in_place(its);
    lines(its);
    errors(its);
    CHECK_DRIVER(cuModuleUnload(its.module));
    return its.verdict.finish();
}
