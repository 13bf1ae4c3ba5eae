//! The numbers that say how large the CPU device is to programs: threads, registers, shared memory, grids.
//! Attributes, launch checks and occupancy all read them here, so that they cannot contradict each other.
//! They are those of compute capability 9.0, the device's default, wherever the machine can do as much.

/// Lanes of a warp.
pub(crate) const WARP_SIZE: u32 = 32;
/// Threads of a block.
pub(crate) const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// Largest block, per dimension.
pub(crate) const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Largest grid, per dimension.
pub(crate) const MAX_GRID: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Threads that one multiprocessor holds at once.
pub(crate) const MAX_THREADS_PER_MULTIPROCESSOR: u32 = 2048;
/// Blocks that one multiprocessor holds at once.
pub(crate) const MAX_BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// 32-bit registers of a multiprocessor and of a block.
pub(crate) const REGISTERS: u32 = 65_536;
/// Registers are given to warps in units of this many.
pub(crate) const REGISTER_UNIT_PER_WARP: u32 = 256;
/// Registers one thread can have.
pub(crate) const MAX_REGISTERS_PER_THREAD: u32 = 255;
/// A multiprocessor has this many schedulers; warps are spread over them evenly.
pub(crate) const SCHEDULERS: u32 = 4;
/// Shared memory of a block without asking for more, bytes.
pub(crate) const SHARED_PER_BLOCK: u32 = 48 << 10;
/// Shared memory of a block after `MAX_DYNAMIC_SHARED_SIZE_BYTES` was raised, bytes.
pub(crate) const SHARED_PER_BLOCK_OPT_IN: u32 = 227 << 10;
/// Shared memory of a multiprocessor, bytes.
pub(crate) const SHARED_PER_MULTIPROCESSOR: u32 = 228 << 10;
/// Shared memory of each block that the system keeps for itself, bytes.
pub(crate) const SHARED_RESERVED: u32 = 1 << 10;
/// Shared memory is given to blocks in units of this many bytes.
pub(crate) const SHARED_UNIT: u32 = 128;
/// Constant memory of a module, bytes.
pub(crate) const CONSTANT_MEMORY: u32 = 64 << 10;
/// Largest pitch of a copy, bytes.
pub(crate) const MAX_PITCH: u32 = 0x7fff_ffff;
/// Elements of a texture or surface of one dimension.
pub(crate) const TEXTURE_1D: u32 = 131_072;
/// Elements and rows of one of two dimensions.
pub(crate) const TEXTURE_2D: [u32; 2] = [131_072, 65_536];
/// Elements, rows and slices of one of three.
pub(crate) const TEXTURE_3D: [u32; 3] = [16_384; 3];
/// Elements and layers of one dimension.
pub(crate) const TEXTURE_1D_LAYERED: [u32; 2] = [32_768, 2048];
/// Elements, rows and layers of two dimensions.
pub(crate) const TEXTURE_2D_LAYERED: [u32; 3] = [32_768, 32_768, 2048];
/// Elements of linear memory.
pub(crate) const TEXTURE_1D_LINEAR: u32 = 1 << 28;
/// Elements, rows and bytes of a row of pitched memory.
pub(crate) const TEXTURE_2D_LINEAR: [u32; 3] = [131_072, 65_000, 2_097_120];
/// Memory that textures read begins at a multiple of this.
pub(crate) const TEXTURE_ALIGNMENT: u32 = 512;
/// Rows of pitched memory that textures read are multiples of this apart.
pub(crate) const TEXTURE_PITCH_ALIGNMENT: u32 = 32;
/// Bytes of parameters one launch can carry (since CUDA 12.1).
pub(crate) const MAX_PARAMETER_BYTES: usize = 32_764;
/// Virtual-memory granularity, bytes.
pub(crate) const GRANULARITY: u64 = 2 << 20;
/// Alignment of every allocation, bytes.
pub(crate) const ALIGNMENT: u64 = 512;
/// The answer of `cuDriverGetVersion`: CUDA 13.0.
pub(crate) const DRIVER_VERSION: i32 = 13_000;
