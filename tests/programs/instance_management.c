/* A management library of two GPUs: one divided into two instances, with an empty place between them, and a whole one. Their handles
   are numbers. It says how much memory each uses: that of processes on an instance is asked by the instance's handle. */
#include <stdint.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };
enum { DIVIDED = 1, WHOLE, FIRST, SECOND };

static const char *const UUIDS[] = {
    [DIVIDED] = "GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
    [WHOLE] = "GPU-bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb",
    [FIRST] = "MIG-11111111-1111-1111-1111-111111111111",
    [SECOND] = "MIG-22222222-2222-2222-2222-222222222222",
};

int nvmlInit_v2(void) { return OK; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    strncpy(version, "580.00", length);
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, uintptr_t *device) {
    *device = index + DIVIDED;
    return index < 2 ? OK : INVALID;
}

int nvmlDeviceGetMigMode(uintptr_t device, unsigned *current, unsigned *pending) {
    *current = *pending = device == DIVIDED;
    return device <= WHOLE ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxMigDeviceCount(uintptr_t device, unsigned *count) {
    *count = device == DIVIDED ? 7 : 0;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(uintptr_t device, unsigned index, uintptr_t *instance) {
    if (device != DIVIDED || (index != 0 && index != 2)) return NOT_FOUND;
    *instance = index == 0 ? FIRST : SECOND;
    return OK;
}

int nvmlDeviceGetUUID(uintptr_t device, char *uuid, unsigned length) {
    strncpy(uuid, UUIDS[device], length);
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, uintptr_t *device) {
    for (uintptr_t one = DIVIDED; one <= SECOND; one++) {
        if (strcmp(uuid, UUIDS[one]) == 0) { *device = one; return OK; }
    }
    return NOT_FOUND;
}

struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo_v2(uintptr_t device, struct memory_v2 *memory) {
    memory->total = 1 << 20;
    memory->used = 1000 + device;
    return OK;
}

struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };

int nvmlDeviceGetComputeRunningProcesses_v3(uintptr_t device, unsigned *count, struct process *processes) {
    (void)device, (void)processes;
    *count = 0;
    return OK;
}
