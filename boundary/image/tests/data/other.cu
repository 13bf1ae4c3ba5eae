// With calls.cu: two source files linked as relocatable device code.
__device__ int other(int x) { return x * 3; }
