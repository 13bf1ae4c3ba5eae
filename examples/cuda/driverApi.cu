// The driver API called by its own names, without the runtime: a module from PTX text in the program, and launches with
// both ways of passing arguments. Also virtual memory management, occupancy, attributes, and faulty PTX.
// No argument. Checks results, error codes, and that the JIT's log names the line of a syntax error.
#include "check_driver.h"

#include <cstddef>
#include <cstring>

// y[i] = factor * x[i] + y[i]; the factor is a global of the module.
static const char *const saxpy_ptx = R"(
.version 7.5
.target sm_75
.address_size 64

.visible .global .align 4 .f32 factor = 0f40000000;

.visible .entry saxpy(
    .param .u64 saxpy_x,
    .param .u64 saxpy_y,
    .param .u32 saxpy_count
)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;

    ld.param.u64 %rd1, [saxpy_x];
    ld.param.u64 %rd2, [saxpy_y];
    ld.param.u32 %r1, [saxpy_count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r5, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f1, [%rd6];
    ld.global.f32 %f2, [%rd7];
    ld.global.f32 %f3, [factor];
    fma.rn.f32 %f4, %f3, %f1, %f2;
    st.global.f32 [%rd7], %f4;
done:
    ret;
}
)";

// The same header; line 7 of the text has an instruction that does not exist.
static const char *const wrong_ptx =
    ".version 7.5\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry broken()\n"
    "{\n"
    "    .reg .b32 %r<3>;\n"
    "    frobnicate.u32 %r1, %r2;\n"
    "    ret;\n"
    "}\n";

static bool expect_code(Verdict &verdict, const char *what, CUresult got, CUresult want) {
    const char *name = nullptr;
    cuGetErrorName(got, &name);
    std::printf("%s: %d %s\n", what, static_cast<int>(got), name != nullptr ? name : "?");
    return verdict.expect(got == want, what);
}

static void device_facts(Verdict &verdict, CUdevice device) {
    int version = 0, count = 0, warp = 0, major = 0, virtual_memory = 0, unified = 0;
    size_t total = 0;
    char name[128] = "";
    CUuuid uuid = {};
    CHECK_DRIVER(cuDriverGetVersion(&version));
    CHECK_DRIVER(cuDeviceGetCount(&count));
    CHECK_DRIVER(cuDeviceGetName(name, sizeof(name), device));
    CHECK_DRIVER(cuDeviceTotalMem(&total, device));
    CHECK_DRIVER(cuDeviceGetUuid(&uuid, device));
    CHECK_DRIVER(cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    CHECK_DRIVER(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CHECK_DRIVER(cuDeviceGetAttribute(&unified, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device));
    CHECK_DRIVER(cuDeviceGetAttribute(&virtual_memory,
                                      CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
    std::printf("driver %d, device 0 of %d: %s, %zu MiB\n", version, count, name, total >> 20);
    verdict.expect(version >= 12000 && count >= 1 && total > 0 && name[0] != '\0', "facts about the device");
    verdict.expect(warp == 32 && major >= 7 && unified == 1 && virtual_memory == 1, "attributes");
    CUdevice none = 0;
    expect_code(verdict, "device 77", cuDeviceGet(&none, 77), CUDA_ERROR_INVALID_DEVICE);
    void *function = nullptr;
    CHECK_DRIVER(cuGetProcAddress("cuMemAlloc", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
    verdict.expect(function != nullptr, "cuGetProcAddress finds cuMemAlloc");
}

static CUmodule load(const char *text) {
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
    CUmodule module = nullptr;
    const CUresult status = cuModuleLoadDataEx(&module, text, 2, options, values);
    if (status != CUDA_SUCCESS) std::fprintf(stderr, "the JIT says: %s\n", log);
    CHECK_DRIVER(status);
    return module;
}

// Launches saxpy on `count` values, twice: arguments as pointers, and as one packed buffer.
static void launches(Verdict &verdict, CUmodule module) {
    constexpr unsigned count = 10000;
    CUfunction saxpy;
    CUdeviceptr factor;
    size_t factor_size = 0;
    CHECK_DRIVER(cuModuleGetFunction(&saxpy, module, "saxpy"));
    CHECK_DRIVER(cuModuleGetGlobal(&factor, &factor_size, module, "factor"));
    verdict.expect(factor_size == sizeof(float), "the size of a module's global");
    CUfunction none;
    expect_code(verdict, "a kernel that does not exist", cuModuleGetFunction(&none, module, "saxpi"),
                CUDA_ERROR_NOT_FOUND);

    std::vector<float> x(count), y(count), want(count), got(count);
    Inputs inputs;
    for (unsigned i = 0; i < count; ++i) {
        x[i] = inputs.uniform(-1, 1);
        y[i] = inputs.uniform(-1, 1);
        want[i] = std::fma(-0.5f, x[i], std::fma(2.0f, x[i], y[i]));
    }
    CUdeviceptr device_x, device_y;
    CUstream stream;
    CHECK_DRIVER(cuMemAlloc(&device_x, count * sizeof(float)));
    CHECK_DRIVER(cuMemAlloc(&device_y, count * sizeof(float)));
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_DRIVER(cuMemcpyHtoD(device_x, x.data(), count * sizeof(float)));
    CHECK_DRIVER(cuMemcpyHtoDAsync(device_y, y.data(), count * sizeof(float), stream));

    unsigned length = count;
    void *parameters[] = {&device_x, &device_y, &length};
    const unsigned blocks = blocks_for(count, 128);
    CHECK_DRIVER(cuLaunchKernel(saxpy, blocks, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr));
    const float minus_half = -0.5f;
    CHECK_DRIVER(cuStreamSynchronize(stream));
    CHECK_DRIVER(cuMemcpyHtoD(factor, &minus_half, sizeof(float)));
    struct {
        CUdeviceptr x, y;
        unsigned count;
    } packed = {device_x, device_y, count};
    // The size must be that of the parameters, without the padding a struct ends with.
    size_t packed_size = offsetof(decltype(packed), count) + sizeof(packed.count);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_size,
                     CU_LAUNCH_PARAM_END};
    CHECK_DRIVER(cuLaunchKernel(saxpy, blocks, 1, 1, 128, 1, 1, 0, stream, nullptr, extra));
    packed_size = sizeof(packed);
    expect_code(verdict, "a parameter buffer of another size",
                cuLaunchKernel(saxpy, blocks, 1, 1, 128, 1, 1, 0, stream, nullptr, extra),
                CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CHECK_DRIVER(cuMemcpyDtoHAsync(got.data(), device_y, count * sizeof(float), stream));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    verdict.near("saxpy, launched both ways", got.data(), want.data(), count, 0, 0);

    CUdeviceptr base;
    size_t size = 0;
    CHECK_DRIVER(cuMemGetAddressRange(&base, &size, device_y + 400));
    verdict.expect(base == device_y && size == count * sizeof(float), "the allocation an address lies in");
    expect_code(verdict, "too many threads",
                cuLaunchKernel(saxpy, 1, 1, 1, 4096, 1, 1, 0, stream, parameters, nullptr),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_DRIVER(cuStreamDestroy(stream));
    CHECK_DRIVER(cuMemFree(device_x));
    CHECK_DRIVER(cuMemFree(device_y));

    int threads = 0, resident = 0, grid = 0, block = 0;
    CHECK_DRIVER(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, saxpy));
    CHECK_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, saxpy, 128, 0));
    CHECK_DRIVER(cuOccupancyMaxPotentialBlockSize(&grid, &block, saxpy, nullptr, 0, 0));
    std::printf("occupancy: %d blocks of 128 on a multiprocessor, best %d blocks of %d\n", resident, grid, block);
    verdict.expect(threads >= 128 && resident >= 1 && grid >= 1 && block >= 32, "occupancy");
}

static void widths_of_memset(Verdict &verdict) {
    CUdeviceptr data;
    CHECK_DRIVER(cuMemAlloc(&data, 64));
    CHECK_DRIVER(cuMemsetD32(data, 0x11223344, 16));
    CHECK_DRIVER(cuMemsetD16(data + 8, 0xabcd, 3));
    CHECK_DRIVER(cuMemsetD8(data + 33, 0xee, 5));
    uint8_t got[64], want[64];
    CHECK_DRIVER(cuMemcpyDtoH(got, data, 64));
    for (int i = 0; i < 64; ++i) {
        static const uint8_t word[] = {0x44, 0x33, 0x22, 0x11};
        want[i] = i >= 8 && i < 14 ? (i % 2 == 0 ? 0xcd : 0xab) : i >= 33 && i < 38 ? 0xee : word[i % 4];
    }
    verdict.equal("memsets of 8, 16 and 32 bits", got, want, 64);
    CHECK_DRIVER(cuMemFree(data));
}

// Reserves addresses, maps two pieces of memory there, copies across their border, and gives all back.
static void virtual_memory(Verdict &verdict, CUdevice device) {
    CUmemAllocationProp what = {};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    what.location.id = device;
    size_t granule = 0;
    CHECK_DRIVER(cuMemGetAllocationGranularity(&granule, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    verdict.expect(granule >= 4096 && (granule & (granule - 1)) == 0, "the granularity is a power of two");

    CUdeviceptr window;
    CUmemGenericAllocationHandle pieces[2];
    CHECK_DRIVER(cuMemAddressReserve(&window, 2 * granule, 0, 0, 0));
    for (int i = 0; i < 2; ++i) {
        CHECK_DRIVER(cuMemCreate(&pieces[i], granule, &what, 0));
        CHECK_DRIVER(cuMemMap(window + i * granule, granule, 0, pieces[i], 0));
    }
    CUmemAccessDesc access = {};
    access.location = what.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_DRIVER(cuMemSetAccess(window, 2 * granule, &access, 1));
    unsigned long long flags = 0;
    CHECK_DRIVER(cuMemGetAccess(&flags, &what.location, window + granule));
    verdict.expect(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "the access is what was set");

    std::vector<uint8_t> values(2048), got(2048);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 7);
    CHECK_DRIVER(cuMemcpyHtoD(window + granule - 1024, values.data(), values.size()));
    CHECK_DRIVER(cuMemcpyDtoH(got.data(), window + granule - 1024, got.size()));
    verdict.equal("a copy across two pieces", got.data(), values.data(), got.size());
    CHECK_DRIVER(cuMemUnmap(window, 2 * granule));
    for (const CUmemGenericAllocationHandle piece : pieces) CHECK_DRIVER(cuMemRelease(piece));
    CHECK_DRIVER(cuMemAddressFree(window, 2 * granule));
}

static void wrong_modules(Verdict &verdict) {
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
    CUmodule module = nullptr;
    expect_code(verdict, "PTX with an unknown instruction",
                cuModuleLoadDataEx(&module, wrong_ptx, 2, options, values), CUDA_ERROR_INVALID_PTX);
    std::printf("the JIT says: %s\n", log);
    verdict.expect(std::strstr(log, "line 7") != nullptr, "the log names the line");
    CUdeviceptr pointer = 0;
    size_t size = 0;
    CHECK_DRIVER(cuMemAlloc(&pointer, 16));
    CHECK_DRIVER(cuMemGetAddressRange(nullptr, &size, pointer));
    verdict.expect(size == 16, "the context works after a refused module");
    CHECK_DRIVER(cuMemFree(pointer));
}

int main() {
    Verdict verdict;
    CUdeviceptr early = 0;
    expect_code(verdict, "before cuInit", cuMemAlloc(&early, 16), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_DRIVER(cuInit(0));
    expect_code(verdict, "without a context", cuMemAlloc(&early, 16), CUDA_ERROR_INVALID_CONTEXT);
    CUdevice device;
    CUcontext context, current;
    CHECK_DRIVER(cuDeviceGet(&device, 0));
    device_facts(verdict, device);
    unsigned flags = 77;
    int active = 77;
    CHECK_DRIVER(cuDevicePrimaryCtxGetState(device, &flags, &active));
    verdict.expect(flags == 0 && active == 0, "the primary context is not active before anybody retains it");
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
    CHECK_DRIVER(cuDevicePrimaryCtxGetState(device, &flags, &active));
    verdict.expect(active == 1, "the primary context is active once it is retained");
    CHECK_DRIVER(cuCtxSetCurrent(context));
    CHECK_DRIVER(cuCtxGetCurrent(&current));
    verdict.expect(current == context, "the current context is the one set");

    CUmodule module = load(saxpy_ptx);
    launches(verdict, module);
    widths_of_memset(verdict);
    virtual_memory(verdict, device);
    wrong_modules(verdict);
    CHECK_DRIVER(cuModuleUnload(module));
    CHECK_DRIVER(cuCtxSynchronize());
    CHECK_DRIVER(cuDevicePrimaryCtxRelease(device));
    return verdict.finish();
}
