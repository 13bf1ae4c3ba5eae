/* The driver's library for programs that need no CUDA header: its functions by name, and an end at the first error. A program that
 * uses it opens the library first: `open_driver()`, or `use_first_device()`. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *cuda;

static void *in(void *library, const char *name) {
    void *address = dlsym(library, name);
    if (!address) { fprintf(stderr, "no symbol: %s\n", name); exit(1); }
    return address;
}

static void open_driver(void) {
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) { fprintf(stderr, "%s\n", dlerror()); exit(1); }
}

#define CUDA(name, ...) ((int (*)())in(cuda, name))(__VA_ARGS__)
#define DO(what) do { int code_ = (what); if (code_) { printf("%s: %d\n", #what, code_); exit(1); } } while (0)

/* The driver's library, and the primary context of the first device as the thread's own. */
static inline void use_first_device(void **context) {
    open_driver();
    DO(CUDA("cuInit", 0u));
    DO(CUDA("cuDevicePrimaryCtxRetain", context, 0));
    DO(CUDA("cuCtxSetCurrent", *context));
}

/* Pinned memory of zeros. */
static inline void *new_pinned(size_t bytes) {
    void *made;
    DO(CUDA("cuMemHostAlloc", &made, bytes, 0u));
    memset(made, 0, bytes);
    return made;
}

/* The address that kernels have for pinned or registered memory. */
static inline uint64_t place_of(void *host) {
    uint64_t at;
    DO(CUDA("cuMemHostGetDevicePointer_v2", &at, host, 0u));
    return at;
}
