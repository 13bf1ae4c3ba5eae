/* Textures, surfaces, texture references, tensor maps. */
#include "probe.h"

static CUarray an_array(unsigned flags) {
    static CUarray made[2];
    if (!made[!!flags]) {
        CUDA_ARRAY3D_DESCRIPTOR it = {.Width = 64, .Height = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4};
        it.Flags = flags;
        MUST(cuArray3DCreate_v2(&made[!!flags], &it));
    }
    return made[!!flags];
}

static CUmipmappedArray mipmaps(void) {
    static CUmipmappedArray made;
    if (!made) {
        CUDA_ARRAY3D_DESCRIPTOR it = {.Width = 64, .Height = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4};
        MUST(cuMipmappedArrayCreate(&made, &it, 2));
    }
    return made;
}

static CUresult created(const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *way, const CUDA_RESOURCE_VIEW_DESC *view) {
    CUtexObject made;
    CUresult code = cuTexObjectCreate(&made, resource, way, view);
    if (!code) MUST(cuTexObjectDestroy(made));
    return code;
}

/* Each kind of resource stands where its kind looks for it. */
static void place(CUDA_RESOURCE_DESC *it) {
    /* Of levels coordinates go from 0 to 1. */
    if (it->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) it->res.mipmap.hMipmappedArray = mipmaps();
    if (it->resType == CU_RESOURCE_TYPE_LINEAR) {
        it->res.linear.devPtr = bench.buffer;
        it->res.linear.format = CU_AD_FORMAT_FLOAT;
        it->res.linear.numChannels = 1;
        it->res.linear.sizeInBytes = 4096;
    }
    if (it->resType == CU_RESOURCE_TYPE_PITCH2D) {
        it->res.pitch2D.devPtr = bench.buffer;
        it->res.pitch2D.format = CU_AD_FORMAT_FLOAT;
        it->res.pitch2D.numChannels = 1;
        it->res.pitch2D.width = it->res.pitch2D.height = 16;
        it->res.pitch2D.pitchInBytes = 1024;
    }
}

static const struct member resources[] = {MEMBER(CUDA_RESOURCE_DESC, resType), MEMBER(CUDA_RESOURCE_DESC, flags)};
static void fill_resource(CUDA_RESOURCE_DESC *it) { it->res.array.hArray = an_array(0); }
STRUCT(cuTexObjectCreate, pResDesc, CUDA_RESOURCE_DESC, resources, fill_resource) {
    CUDA_TEXTURE_DESC way = {0};
    place(it);
    if (it->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) way.flags = CU_TRSF_NORMALIZED_COORDINATES;
    return created(it, &way, 0);
}
static void fill_surface(CUDA_RESOURCE_DESC *it) { it->res.array.hArray = an_array(CUDA_ARRAY3D_SURFACE_LDST); }
STRUCT(cuSurfObjectCreate, pResDesc, CUDA_RESOURCE_DESC, resources, fill_surface) {
    CUsurfObject made;
    place(it);
    CUresult code = cuSurfObjectCreate(&made, it);
    if (!code) MUST(cuSurfObjectDestroy(made));
    return code;
}

static const struct member linear[] = {MEMBER(CUDA_RESOURCE_DESC, res.linear.format),
                                       MEMBER(CUDA_RESOURCE_DESC, res.linear.numChannels)};
static void fill_linear(CUDA_RESOURCE_DESC *it) {
    it->resType = CU_RESOURCE_TYPE_LINEAR;
    place(it);
}
STRUCT(cuTexObjectCreate, linear, CUDA_RESOURCE_DESC, linear, fill_linear) {
    CUDA_TEXTURE_DESC plain = {0};
    return created(it, &plain, 0);
}

static const struct member rows[] = {MEMBER(CUDA_RESOURCE_DESC, res.pitch2D.format),
                                     MEMBER(CUDA_RESOURCE_DESC, res.pitch2D.numChannels)};
static void fill_rows(CUDA_RESOURCE_DESC *it) {
    it->resType = CU_RESOURCE_TYPE_PITCH2D;
    place(it);
}
STRUCT(cuTexObjectCreate, rows, CUDA_RESOURCE_DESC, rows, fill_rows) {
    CUDA_TEXTURE_DESC plain = {0};
    return created(it, &plain, 0);
}

static const struct member ways[] = {
    ELEMENTS(CUDA_TEXTURE_DESC, addressMode), MEMBER(CUDA_TEXTURE_DESC, filterMode),
    MEMBER(CUDA_TEXTURE_DESC, flags),         MEMBER(CUDA_TEXTURE_DESC, maxAnisotropy),
    MEMBER(CUDA_TEXTURE_DESC, mipmapFilterMode), ELEMENTS(CUDA_TEXTURE_DESC, reserved),
};
static void fill_way(CUDA_TEXTURE_DESC *it) { (void)it; }
STRUCT(cuTexObjectCreate, pTexDesc, CUDA_TEXTURE_DESC, ways, fill_way) {
    CUDA_RESOURCE_DESC resource = {.res.array.hArray = an_array(0)};
    return created(&resource, it, 0);
}

static const struct member views[] = {MEMBER(CUDA_RESOURCE_VIEW_DESC, format), ELEMENTS(CUDA_RESOURCE_VIEW_DESC, reserved)};
static void fill_view(CUDA_RESOURCE_VIEW_DESC *it) {
    it->format = CU_RES_VIEW_FORMAT_UINT_4X8;
    it->width = 64;
    it->height = 8;
}
STRUCT(cuTexObjectCreate, pResViewDesc, CUDA_RESOURCE_VIEW_DESC, views, fill_view) {
    CUDA_TEXTURE_DESC plain = {0};
    CUDA_RESOURCE_DESC resource = {.res.array.hArray = an_array(0)};
    return created(&resource, &plain, it);
}

PROBE(cuTexRefSetArray, Flags) { return cuTexRefSetArray(bench.reference, an_array(0), (unsigned)value); }
PROBE(cuTexRefSetMipmappedArray, Flags) {
    MUST(cuTexRefSetArray(bench.reference, an_array(0), CU_TRSA_OVERRIDE_FORMAT));
    MUST(cuTexRefSetFlags(bench.reference, CU_TRSF_NORMALIZED_COORDINATES));
    CUresult code = cuTexRefSetMipmappedArray(bench.reference, mipmaps(), (unsigned)value);
    MUST(cuTexRefSetArray(bench.reference, an_array(0), CU_TRSA_OVERRIDE_FORMAT));
    MUST(cuTexRefSetFlags(bench.reference, 0));
    return code;
}
PROBE(cuTexRefSetAddressMode, am) {
    MUST(cuTexRefSetArray(bench.reference, an_array(0), CU_TRSA_OVERRIDE_FORMAT));
    return cuTexRefSetAddressMode(bench.reference, 0, (CUaddress_mode)value);
}
PROBE(cuTexRefSetAddressMode, dim) { return cuTexRefSetAddressMode(bench.reference, (int)value, CU_TR_ADDRESS_MODE_WRAP); }
PROBE(cuTexRefSetFilterMode, fm) {
    CUresult code = cuTexRefSetFilterMode(bench.reference, (CUfilter_mode)value);
    MUST(cuTexRefSetFilterMode(bench.reference, CU_TR_FILTER_MODE_POINT));
    return code;
}
PROBE(cuTexRefSetMipmapFilterMode, fm) {
    CUresult code = cuTexRefSetMipmapFilterMode(bench.reference, (CUfilter_mode)value);
    MUST(cuTexRefSetMipmapFilterMode(bench.reference, CU_TR_FILTER_MODE_POINT));
    return code;
}
PROBE(cuTexRefSetFlags, Flags) {
    CUresult code = cuTexRefSetFlags(bench.reference, (unsigned)value);
    MUST(cuTexRefSetFlags(bench.reference, 0));
    return code;
}
/* Of a reference of its own: the one of the module has an array, whose format it keeps. */
PROBE(cuTexRefSetFormat, fmt) {
    CUtexref made;
    MUST(cuTexRefCreate(&made));
    CUresult code = cuTexRefSetFormat(made, (CUarray_format)value, 1);
    MUST(cuTexRefDestroy(made));
    return code;
}
PROBE(cuTexRefSetFormat, NumPackedComponents) {
    CUtexref made;
    MUST(cuTexRefCreate(&made));
    CUresult code = cuTexRefSetFormat(made, CU_AD_FORMAT_FLOAT, (int)value);
    MUST(cuTexRefDestroy(made));
    return code;
}

struct map {
    uint64_t data_type, rank, interleave, swizzle, promotion, fill, mode;
};

/* Rows of 64 elements and boxes of 16, which are at least 16 bytes of every type; of a way of swizzling that moves 128 bytes a
 * box has as many in a row. */
static CUresult encode(struct map it) {
    static CUtensorMap map __attribute__((aligned(64)));
    cuuint64_t dimensions[5] = {64, 64, 4, 4, 4}, strides[4] = {4096, 4096 * 64, 4096 * 256, 4096 * 1024};
    cuuint32_t box[5] = {16, 4, 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
    if (it.swizzle == CU_TENSOR_MAP_SWIZZLE_32B) box[0] = 8;
    if (it.swizzle > CU_TENSOR_MAP_SWIZZLE_64B) box[0] = 32;
    /* Packed types have 128 elements in a row of their box. */
    if (it.data_type >= CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B) box[0] = dimensions[0] = 128;
    return cuTensorMapEncodeTiled(&map, (CUtensorMapDataType)it.data_type, (cuuint32_t)it.rank, (void *)bench.buffer, dimensions,
                                  strides, box, steps, (CUtensorMapInterleave)it.interleave, (CUtensorMapSwizzle)it.swizzle,
                                  (CUtensorMapL2promotion)it.promotion, (CUtensorMapFloatOOBfill)it.fill);
}
static CUresult encode_columns(struct map it) {
    static CUtensorMap map __attribute__((aligned(64)));
    cuuint64_t dimensions[5] = {64, 64, 4, 4, 4}, strides[4] = {4096, 4096 * 64, 4096 * 256, 4096 * 1024};
    cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    int lower[3] = {0}, upper[3] = {0};
    return cuTensorMapEncodeIm2col(&map, (CUtensorMapDataType)it.data_type, (cuuint32_t)it.rank, (void *)bench.buffer, dimensions,
                                   strides, lower, upper, 16, 4, steps, (CUtensorMapInterleave)it.interleave,
                                   (CUtensorMapSwizzle)it.swizzle, (CUtensorMapL2promotion)it.promotion,
                                   (CUtensorMapFloatOOBfill)it.fill);
}
static CUresult encode_wide(struct map it) {
    static CUtensorMap map __attribute__((aligned(64)));
    cuuint64_t dimensions[5] = {64, 64, 4, 4, 4}, strides[4] = {4096, 4096 * 64, 4096 * 256, 4096 * 1024};
    cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    return cuTensorMapEncodeIm2colWide(&map, (CUtensorMapDataType)it.data_type, (cuuint32_t)it.rank, (void *)bench.buffer,
                                       dimensions, strides, 0, 0, 32, 4, steps, (CUtensorMapInterleave)it.interleave,
                                       (CUtensorMapIm2ColWideMode)it.mode, (CUtensorMapSwizzle)it.swizzle,
                                       (CUtensorMapL2promotion)it.promotion, (CUtensorMapFloatOOBfill)it.fill);
}
#define MAP(function, encode, parameter, member)                                             \
    PROBE(function, parameter) {                                                             \
        struct map it = {.data_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32, .rank = 3};           \
        if (encode == encode_wide) it.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;                  \
        it.member = value;                                                                   \
        return encode(it);                                                                   \
    }
#define MAPS(function, encode)                      \
    MAP(function, encode, tensorDataType, data_type) \
    MAP(function, encode, interleave, interleave)   \
    MAP(function, encode, swizzle, swizzle)         \
    MAP(function, encode, l2Promotion, promotion)   \
    MAP(function, encode, oobFill, fill)
MAPS(cuTensorMapEncodeTiled, encode)
MAPS(cuTensorMapEncodeIm2col, encode_columns)
MAPS(cuTensorMapEncodeIm2colWide, encode_wide)
MAP(cuTensorMapEncodeTiled, encode, tensorRank, rank)
MAP(cuTensorMapEncodeIm2colWide, encode_wide, mode, mode)
