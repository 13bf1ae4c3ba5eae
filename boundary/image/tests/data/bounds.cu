// Kernels of which the machine code says more or less of what a launch needs to know.
extern "C" __global__ void plain(float* to, int n) { to[n] = 1; }
extern "C" __global__ void __launch_bounds__(256) bounded(float* to, int n) {
    __shared__ float some[1000];
    some[threadIdx.x] = to[threadIdx.x];
    __syncthreads();
    to[n] = some[n];
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) clustered(float* to, int n) { to[n] = 1; }
static __global__ void hidden(float* to) { to[0] = 1; }
__device__ __noinline__ float called(float x) { return x * x + 1; }
__device__ float (*pointer)(float) = called;
extern "C" __global__ void calls(float* to, int n) { to[n] = pointer(to[n]); }
void *use() { return (void*)hidden; }
