/* A driver of a divided GPU: floe's CPU device, of which CUDA_VISIBLE_DEVICES names an instance by its UUID, as NVIDIA's driver has it:
   a process is shown one at most. An instance has a name, an id and memory of its own. A test builds it with the functions' names
   (SYMBOLS is a file of X(index, name), without those below) and the place of the CPU device (REAL). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("hidden"))) void *slots[1024];

#define X(index, name) __asm__(".globl " #name "\n.type " #name ", @function\n" #name ": jmp *slots+8*" #index "(%rip)\n");
#include SYMBOLS
#undef X

static const struct { const char *uuid, *name, *memory; } INSTANCES[] = {
    {"MIG-11111111-1111-1111-1111-111111111111", "Stand-in MIG 1g.1gb", "1G"},
    {"MIG-22222222-2222-2222-2222-222222222222", "Stand-in MIG 2g.2gb", "2G"},
    {"GPU-bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb", "Stand-in", "3G"},
};
static unsigned shown;

__attribute__((constructor)) static void begin(void) {
    /* Of several it shows the first. */
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    for (unsigned i = 0; visible && i < 3; i++) {
        if (strncmp(visible, INSTANCES[i].uuid, strlen(INSTANCES[i].uuid)) == 0) shown = i;
    }
    setenv("FLOE_CPU_MEMORY", INSTANCES[shown].memory, 1);
    /* It knows no instances. */
    unsetenv("CUDA_VISIBLE_DEVICES");
    void *real = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    if (!real) { fprintf(stderr, "%s\n", dlerror()); abort(); }
#define X(index, name) slots[index] = dlsym(real, #name);
#include SYMBOLS
}

int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    snprintf(name, length, "%s", INSTANCES[shown].name);
    return 0;
}

static void bytes_of(const char *text, unsigned char *bytes) {
    unsigned at = 0, byte;
    for (text += 4; at < 16; text += 2) {
        text += *text == '-';
        sscanf(text, "%2x", &byte);
        bytes[at++] = (unsigned char)byte;
    }
}

/* The GPU's, which its instances share. */
int cuDeviceGetUuid(unsigned char *uuid, int device) {
    (void)device;
    bytes_of(shown < 2 ? "GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa" : INSTANCES[shown].uuid, uuid);
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    (void)device;
    bytes_of(INSTANCES[shown].uuid, uuid);
    return 0;
}
