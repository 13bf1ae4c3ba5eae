/* The driver's library for programs that need no CUDA header: its functions by name, and an end at the first error. A program that
 * uses it opens the library first: `open_driver()`, or `use_first_device()`. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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
