// More than 4 KiB of parameters: they are described by other items than usual.
template <int bytes> struct Block {
    char content[bytes];
};

extern "C" __global__ void wide(int x, Block<20000> a, int y, Block<5000> b, short z, int *out) {
    out[x & 3] = a.content[y] + b.content[z];
}
