// With other.cu: two source files linked as relocatable device code.
extern __device__ int other(int);

extern "C" __global__ void calls(int *out) { out[threadIdx.x] = other(out[threadIdx.x]); }

int main() { calls<<<1, 1>>>(nullptr); }
