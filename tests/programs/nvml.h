/* The management library as programs find it: by name in libnvidia-ml.so.1, with the layouts NVIDIA documents. A check that
   does not hold ends the program with 1 and says which. */
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*fn)();
static void *nvml;

static fn find(void *library, const char *name)
{
    fn found = (fn)dlsym(library, name);
    if (!found) {
        printf("not exported: %s\n", name);
        exit(1);
    }
    return found;
}

#define NVML(name) find(nvml, #name)
#define CHECK(what)                                              \
    do {                                                         \
        if (!(what)) {                                           \
            printf("line %d does not hold: %s\n", __LINE__, #what); \
            exit(1);                                             \
        }                                                        \
    } while (0)

enum { SUCCESS, UNINITIALIZED, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };

struct memory { uint64_t total, free, used; };
struct process { uint32_t pid; uint64_t used; uint32_t gpu_instance, compute_instance; };
struct pci { char short_id[16]; uint32_t domain, bus, device, id, subsystem; char id_text[32]; };
