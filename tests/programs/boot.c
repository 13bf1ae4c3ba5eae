/* Boots one CUDA runtime: loads the libcudart named, brings a device up through it, moves bytes there and back.
 * Prints the runtime's version and PASSED. Built by `cargo xtask test` with the C compiler; needs no CUDA header. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TO_DEVICE = 1, TO_HOST = 2, BYTES = 1 << 20 };

static void *runtime;

static void *symbol(const char *name) {
    void *address = dlsym(runtime, name);
    if (!address) {
        fprintf(stderr, "boot: no symbol: %s\n", name);
        exit(1);
    }
    return address;
}

static void check(const char *what, int error) {
    if (error) {
        fprintf(stderr, "boot: %s: error %d\n", what, error);
        exit(1);
    }
}

int main(int count, char **arguments) {
    if (count != 2 || !(runtime = dlopen(arguments[1], RTLD_NOW))) {
        fprintf(stderr, "boot: usage: boot LIBCUDART (%s)\n", count == 2 ? dlerror() : "no argument");
        return 2;
    }
    int (*runtime_version)(int *) = symbol("cudaRuntimeGetVersion");
    int (*device_count)(int *) = symbol("cudaGetDeviceCount");
    int (*allocate)(void **, size_t) = symbol("cudaMalloc");
    int (*copy)(void *, const void *, size_t, int) = symbol("cudaMemcpy");
    int (*fill)(void *, int, size_t) = symbol("cudaMemset");
    int (*synchronize)(void) = symbol("cudaDeviceSynchronize");
    int (*release)(void *) = symbol("cudaFree");
    int (*stream_create)(void **) = symbol("cudaStreamCreate");
    int (*stream_destroy)(void *) = symbol("cudaStreamDestroy");
    int (*reset)(void) = symbol("cudaDeviceReset");

    int version = 0, devices = 0;
    check("cudaRuntimeGetVersion", runtime_version(&version));
    check("cudaGetDeviceCount", device_count(&devices));
    if (devices < 1) {
        fprintf(stderr, "boot: no device\n");
        return 1;
    }
    unsigned char *sent = malloc(BYTES), *back = calloc(1, BYTES);
    for (size_t i = 0; i < BYTES; i++) sent[i] = (unsigned char)(i * 31 + i / 257);
    void *memory = NULL, *stream = NULL;
    check("cudaMalloc", allocate(&memory, BYTES));
    check("cudaMemcpy to the device", copy(memory, sent, BYTES, TO_DEVICE));
    check("cudaMemset", fill((char *)memory + 100, 0x5a, 50));
    check("cudaStreamCreate", stream_create(&stream));
    check("cudaDeviceSynchronize", synchronize());
    check("cudaMemcpy to the host", copy(back, memory, BYTES, TO_HOST));
    memset(sent + 100, 0x5a, 50);
    if (memcmp(sent, back, BYTES)) {
        fprintf(stderr, "boot: the bytes differ\n");
        return 1;
    }
    check("cudaStreamDestroy", stream_destroy(stream));
    check("cudaFree", release(memory));
    check("cudaDeviceReset", reset());
    printf("cudart %d\nPASSED\n", version);
    return 0;
}
