// Where the processes of an example begin: each makes the primary context of its device current. In: the process's rank. Out:
// its device. It makes nothing else.
#pragma once

#include "check_driver.h"

// Ranks share devices where there are fewer.
inline CUdevice begin(int rank) {
    CHECK_DRIVER(cuInit(0));
    int devices = 0;
    CHECK_DRIVER(cuDeviceGetCount(&devices));
    CUdevice device;
    CHECK_DRIVER(cuDeviceGet(&device, rank % devices));
    CUcontext context;
    CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
    CHECK_DRIVER(cuCtxSetCurrent(context));
    return device;
}
