// A kernel, and nothing beside it.
extern "C" __global__ void doubles(float *values) { values[threadIdx.x] *= 2; }
