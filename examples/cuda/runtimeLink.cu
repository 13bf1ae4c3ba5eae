// Device code that is linked while the program runs: a kernel in one PTX text calls a function and reads a variable of
// another. The result is loaded as a module. Inputs that do not fit together are refused, with the reason in the log.
// No argument. Checks the kernel's results, the variable by name, and the errors.
#include "check_driver.h"

#include <cstring>
#include <string>
#include <unistd.h>

static const char functions[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 offset = 5;
.visible .func (.param .b32 result) twice(.param .b32 value)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [value];
    add.s32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
)";

static const char kernel[] = R"(
.version 7.0
.target sm_75
.address_size 64
.extern .global .align 4 .u32 offset;
.extern .func (.param .b32 result) twice(.param .b32 value);
.visible .entry apply(.param .u64 out, .param .u32 value)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd2, %rd1;
    {
        .param .b32 given;
        .param .b32 got;
        st.param.b32 [given], %r1;
        call.uni (got), twice, (given);
        ld.param.b32 %r2, [got];
    }
    ld.global.u32 %r3, [offset];
    add.u32 %r4, %r2, %r3;
    st.global.u32 [%rd2], %r4;
    ret;
}
)";

// A link with buffers for both logs.
struct Link {
    char info[4096] = "", error[4096] = "";
    CUjit_option keys[4] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[4] = {info, reinterpret_cast<void *>(sizeof info), error, reinterpret_cast<void *>(sizeof error)};
    CUlinkState state = nullptr;

    Link() { CHECK_DRIVER(cuLinkCreate(4, keys, values, &state)); }
    ~Link() { CHECK_DRIVER(cuLinkDestroy(state)); }
    CUresult add(const char *text, const char *name) {
        return cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char *>(text), std::strlen(text) + 1, name, 0, nullptr,
                             nullptr);
    }
};

static unsigned run(CUfunction function, CUdeviceptr out, unsigned value) {
    void *parameters[] = {&out, &value};
    unsigned result = 0;
    CHECK_DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    CHECK_DRIVER(cuMemcpyDtoH(&result, out, sizeof result));
    return result;
}

static void use(Verdict &verdict, CUmodule module) {
    CUfunction function;
    CUdeviceptr out, offset;
    size_t bytes = 0;
    CHECK_DRIVER(cuModuleGetFunction(&function, module, "apply"));
    CHECK_DRIVER(cuMemAlloc(&out, 4));
    verdict.expect(run(function, out, 20) == 45, "the kernel calls the other text's function and reads its variable");
    CHECK_DRIVER(cuModuleGetGlobal(&offset, &bytes, module, "offset"));
    const unsigned other = 1000;
    CHECK_DRIVER(cuMemcpyHtoD(offset, &other, sizeof other));
    verdict.expect(bytes == 4 && run(function, out, 1) == 1002, "the variable is the linked module's");
    CHECK_DRIVER(cuMemFree(out));
}

static void linked(Verdict &verdict) {
    CUmodule module;
    {
        Link link;
        CHECK_DRIVER(link.add(functions, "functions"));
        CHECK_DRIVER(link.add(kernel, "kernel"));
        void *image = nullptr;
        size_t bytes = 0;
        CHECK_DRIVER(cuLinkComplete(link.state, &image, &bytes));
        verdict.expect(image != nullptr && bytes > 64 && std::memcmp(image, "\x7f" "ELF", 4) == 0, "an image comes out");
        CHECK_DRIVER(cuModuleLoadData(&module, image));
    }
    use(verdict, module);
    CHECK_DRIVER(cuModuleUnload(module));
}

static void from_files(Verdict &verdict) {
    std::string path = "/tmp/floe-runtimeLink-XXXXXX";
    const int file = mkstemp(path.data());
    verdict.expect(file >= 0 && write(file, functions, std::strlen(functions)) > 0, "a file was written");
    close(file);
    Link link;
    CUmodule module;
    void *image = nullptr;
    CHECK_DRIVER(cuLinkAddFile(link.state, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr));
    unlink(path.c_str());
    CHECK_DRIVER(link.add(kernel, nullptr));
    CHECK_DRIVER(cuLinkComplete(link.state, &image, nullptr));
    CHECK_DRIVER(cuModuleLoadData(&module, image));
    use(verdict, module);
    CHECK_DRIVER(cuModuleUnload(module));
}

static void errors(Verdict &verdict) {
    Link missing;
    void *image = nullptr;
    CHECK_DRIVER(missing.add(kernel, "kernel"));
    verdict.expect(cuLinkComplete(missing.state, &image, nullptr) != CUDA_SUCCESS, "symbols that are nowhere");
    verdict.expect(std::strstr(missing.error, "twice") || std::strstr(missing.error, "offset"), "the log names it");
    Link other;
    verdict.expect(cuLinkAddFile(other.state, CU_JIT_INPUT_PTX, "/nowhere/at/all", 0, nullptr, nullptr) ==
                       CUDA_ERROR_FILE_NOT_FOUND,
                   "a missing file");
    verdict.expect(cuLinkAddData(other.state, static_cast<CUjitInputType>(99), const_cast<char *>(kernel),
                                 sizeof kernel, nullptr, 0, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE,
                   "a kind of input that is none");
}

int main() {
    CHECK(cudaFree(nullptr));
    Verdict verdict;
    linked(verdict);
    from_files(verdict);
    errors(verdict);
    return verdict.finish();
}
