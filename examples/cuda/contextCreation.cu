// Contexts made with cuCtxCreate as CUDA 13 compiles it (cuCtxCreate_v4): without parameters, with zeroed ones, and
// with unsupported ones. The older versions are looked up by name.
// No argument. Checks error codes, which context is current, and the results of a kernel in each context that was made.
#include "check_driver.h"

static_assert(CUDA_VERSION >= 13000, "cuCtxCreate takes parameters since CUDA 13");

// values[i] = 3 * i + seed
static const char *const fill_ptx = R"(
.version 7.5
.target sm_75
.address_size 64

.visible .entry fill(
    .param .u64 fill_values,
    .param .u32 fill_seed
)
{
    .reg .b32 %r<7>;
    .reg .b64 %rd<5>;

    ld.param.u64 %rd1, [fill_values];
    ld.param.u32 %r1, [fill_seed];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mad.lo.u32 %r6, %r5, 3, %r1;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r6;
    ret;
}
)";

static void expect_code(Verdict &verdict, const char *what, CUresult got, CUresult want) {
    std::printf("%s: %d\n", what, static_cast<int>(got));
    verdict.expect(got == want, what);
}

// The context just made is current and works; it is destroyed.
static void works(Verdict &verdict, const char *what, CUcontext context, unsigned seed) {
    constexpr unsigned count = 512;
    CUcontext current = nullptr;
    CUmodule module;
    CUfunction fill;
    CUdeviceptr values;
    CHECK_DRIVER(cuCtxGetCurrent(&current));
    verdict.expect(current == context, "the new context is current");
    CHECK_DRIVER(cuModuleLoadData(&module, fill_ptx));
    CHECK_DRIVER(cuModuleGetFunction(&fill, module, "fill"));
    CHECK_DRIVER(cuMemAlloc(&values, count * sizeof(unsigned)));
    void *parameters[] = {&values, &seed};
    CHECK_DRIVER(cuLaunchKernel(fill, count / 128, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
    std::vector<unsigned> got(count), want(count);
    CHECK_DRIVER(cuMemcpyDtoH(got.data(), values, count * sizeof(unsigned)));
    for (unsigned i = 0; i < count; ++i) want[i] = 3 * i + seed;
    verdict.equal(what, got.data(), want.data(), count);
    CHECK_DRIVER(cuMemFree(values));
    CHECK_DRIVER(cuModuleUnload(module));
    CHECK_DRIVER(cuCtxDestroy(context));
}

using CreateV2 = CUresult (*)(CUcontext *, unsigned, CUdevice);
using CreateV3 = CUresult (*)(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice);

// A version of cuCtxCreate as programs of older toolkits ask for it.
template <typename Function> static Function version(int cuda) {
    void *found = nullptr;
    CHECK_DRIVER(cuGetProcAddress("cuCtxCreate", &found, cuda, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
    return reinterpret_cast<Function>(found);
}

// Codes of driver 13.0 on an H100 without MPS.
static void refusals(Verdict &verdict, CUdevice device) {
    CUcontext context = nullptr;
    CUexecAffinityParam affinity = {};
    affinity.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    affinity.param.smCount.val = 32;
    CUctxCreateParams parameters = {};
    parameters.execAffinityParams = &affinity;
    parameters.numExecAffinityParams = 1;
    expect_code(verdict, "an affinity", cuCtxCreate(&context, &parameters, 0, device),
                CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    parameters.execAffinityParams = nullptr;
    expect_code(verdict, "an affinity that does not exist", cuCtxCreate(&context, &parameters, 0, device),
                CUDA_ERROR_INVALID_VALUE);
    CUctxCigParam graphics = {};
    parameters = {};
    parameters.cigParams = &graphics;
    expect_code(verdict, "graphics work of no kind", cuCtxCreate(&context, &parameters, 0, device),
                CUDA_ERROR_INVALID_VALUE);
    parameters = {};
    expect_code(verdict, "flags that are none", cuCtxCreate(&context, &parameters, 0x10000, device),
                CUDA_ERROR_INVALID_VALUE);
    expect_code(verdict, "an affinity, asked for in the old way",
                version<CreateV3>(11040)(&context, &affinity, 1, 0, device), CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    verdict.expect(context == nullptr, "what is refused makes no context");
}

int main() {
    Verdict verdict;
    CUdevice device;
    CUcontext context = nullptr;
    CHECK_DRIVER(cuInit(0));
    CHECK_DRIVER(cuDeviceGet(&device, 0));
    CHECK_DRIVER(cuCtxCreate(&context, nullptr, 0, device));
    works(verdict, "a context without parameters", context, 1);
    CUctxCreateParams parameters = {};
    CHECK_DRIVER(cuCtxCreate(&context, &parameters, CU_CTX_SCHED_BLOCKING_SYNC, device));
    works(verdict, "a context with zeroed parameters", context, 2);
    CUexecAffinityParam unread = {};
    parameters.execAffinityParams = &unread;
    CHECK_DRIVER(cuCtxCreate(&context, &parameters, 0, device));
    works(verdict, "a context with an affinity of no entry", context, 3);
    CHECK_DRIVER(version<CreateV3>(11040)(&context, nullptr, 0, 0, device));
    works(verdict, "a context of version 3", context, 4);
    CHECK_DRIVER(version<CreateV2>(4000)(&context, 0, device));
    works(verdict, "a context of version 2", context, 5);
    context = nullptr;
    refusals(verdict, device);
    return verdict.finish();
}
