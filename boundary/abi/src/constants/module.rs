//! Constants about modules, libraries and functions: the numbers come from the CUDA headers by way of the bindings crate, the
//! names lose their prefix. Values are plain integers, since what C passes in may be a number nobody has named yet.
//! Nothing here decides whether a value is supported.

/// Function and kernel attributes.
pub mod function_attribute {
    use cudarc::driver::sys::CUfunction_attribute_enum as Raw;
    /// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`.
    pub const MAX_THREADS_PER_BLOCK: u32 = Raw::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as u32;
    /// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`.
    pub const SHARED_SIZE_BYTES: u32 = Raw::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as u32;
    /// `CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES`.
    pub const CONST_SIZE_BYTES: u32 = Raw::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES as u32;
    /// `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES`.
    pub const LOCAL_SIZE_BYTES: u32 = Raw::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES as u32;
    /// `CU_FUNC_ATTRIBUTE_NUM_REGS`.
    pub const NUM_REGS: u32 = Raw::CU_FUNC_ATTRIBUTE_NUM_REGS as u32;
    /// `CU_FUNC_ATTRIBUTE_PTX_VERSION`.
    pub const PTX_VERSION: u32 = Raw::CU_FUNC_ATTRIBUTE_PTX_VERSION as u32;
    /// `CU_FUNC_ATTRIBUTE_BINARY_VERSION`.
    pub const BINARY_VERSION: u32 = Raw::CU_FUNC_ATTRIBUTE_BINARY_VERSION as u32;
    /// `CU_FUNC_ATTRIBUTE_CACHE_MODE_CA`.
    pub const CACHE_MODE_CA: u32 = Raw::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA as u32;
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = Raw::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
    /// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`.
    pub const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = Raw::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT as u32;
    /// `CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET`.
    pub const CLUSTER_SIZE_MUST_BE_SET: u32 = Raw::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET as u32;
    /// `CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH`.
    pub const REQUIRED_CLUSTER_WIDTH: u32 = Raw::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH as u32;
    /// `CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT`.
    pub const REQUIRED_CLUSTER_HEIGHT: u32 = Raw::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT as u32;
    /// `CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH`.
    pub const REQUIRED_CLUSTER_DEPTH: u32 = Raw::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH as u32;
    /// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
    pub const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: u32 = Raw::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED as u32;
    /// `CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE`.
    pub const CLUSTER_SCHEDULING_POLICY_PREFERENCE: u32 =
        Raw::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE as u32;
}

/// Options of a module load.
pub mod jit_option {
    use cudarc::driver::sys::CUjit_option_enum as Raw;
    /// `CU_JIT_MAX_REGISTERS`.
    pub const MAX_REGISTERS: u32 = Raw::CU_JIT_MAX_REGISTERS as u32;
    /// `CU_JIT_THREADS_PER_BLOCK`.
    pub const THREADS_PER_BLOCK: u32 = Raw::CU_JIT_THREADS_PER_BLOCK as u32;
    /// `CU_JIT_WALL_TIME`.
    pub const WALL_TIME: u32 = Raw::CU_JIT_WALL_TIME as u32;
    /// `CU_JIT_INFO_LOG_BUFFER`.
    pub const INFO_LOG_BUFFER: u32 = Raw::CU_JIT_INFO_LOG_BUFFER as u32;
    /// `CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES`.
    pub const INFO_LOG_BUFFER_SIZE_BYTES: u32 = Raw::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES as u32;
    /// `CU_JIT_ERROR_LOG_BUFFER`.
    pub const ERROR_LOG_BUFFER: u32 = Raw::CU_JIT_ERROR_LOG_BUFFER as u32;
    /// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
    pub const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = Raw::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as u32;
    /// `CU_JIT_OPTIMIZATION_LEVEL`.
    pub const OPTIMIZATION_LEVEL: u32 = Raw::CU_JIT_OPTIMIZATION_LEVEL as u32;
    /// `CU_JIT_TARGET_FROM_CUCONTEXT`.
    pub const TARGET_FROM_CUCONTEXT: u32 = Raw::CU_JIT_TARGET_FROM_CUCONTEXT as u32;
    /// `CU_JIT_TARGET`.
    pub const TARGET: u32 = Raw::CU_JIT_TARGET as u32;
    /// `CU_JIT_FALLBACK_STRATEGY`.
    pub const FALLBACK_STRATEGY: u32 = Raw::CU_JIT_FALLBACK_STRATEGY as u32;
    /// `CU_JIT_GENERATE_DEBUG_INFO`.
    pub const GENERATE_DEBUG_INFO: u32 = Raw::CU_JIT_GENERATE_DEBUG_INFO as u32;
    /// `CU_JIT_LOG_VERBOSE`.
    pub const LOG_VERBOSE: u32 = Raw::CU_JIT_LOG_VERBOSE as u32;
    /// `CU_JIT_GENERATE_LINE_INFO`.
    pub const GENERATE_LINE_INFO: u32 = Raw::CU_JIT_GENERATE_LINE_INFO as u32;
    /// `CU_JIT_CACHE_MODE`.
    pub const CACHE_MODE: u32 = Raw::CU_JIT_CACHE_MODE as u32;
    /// `CU_JIT_NEW_SM3X_OPT`.
    pub const NEW_SM3X_OPT: u32 = Raw::CU_JIT_NEW_SM3X_OPT as u32;
    /// `CU_JIT_FAST_COMPILE`.
    pub const FAST_COMPILE: u32 = Raw::CU_JIT_FAST_COMPILE as u32;
    /// `CU_JIT_GLOBAL_SYMBOL_NAMES`.
    pub const GLOBAL_SYMBOL_NAMES: u32 = Raw::CU_JIT_GLOBAL_SYMBOL_NAMES as u32;
    /// `CU_JIT_GLOBAL_SYMBOL_ADDRESSES`.
    pub const GLOBAL_SYMBOL_ADDRESSES: u32 = Raw::CU_JIT_GLOBAL_SYMBOL_ADDRESSES as u32;
    /// `CU_JIT_GLOBAL_SYMBOL_COUNT`.
    pub const GLOBAL_SYMBOL_COUNT: u32 = Raw::CU_JIT_GLOBAL_SYMBOL_COUNT as u32;
    /// `CU_JIT_LTO`.
    pub const LTO: u32 = Raw::CU_JIT_LTO as u32;
    /// `CU_JIT_FTZ`.
    pub const FTZ: u32 = Raw::CU_JIT_FTZ as u32;
    /// `CU_JIT_PREC_DIV`.
    pub const PREC_DIV: u32 = Raw::CU_JIT_PREC_DIV as u32;
    /// `CU_JIT_PREC_SQRT`.
    pub const PREC_SQRT: u32 = Raw::CU_JIT_PREC_SQRT as u32;
    /// `CU_JIT_FMA`.
    pub const FMA: u32 = Raw::CU_JIT_FMA as u32;
    /// `CU_JIT_REFERENCED_KERNEL_NAMES`.
    pub const REFERENCED_KERNEL_NAMES: u32 = Raw::CU_JIT_REFERENCED_KERNEL_NAMES as u32;
    /// `CU_JIT_REFERENCED_KERNEL_COUNT`.
    pub const REFERENCED_KERNEL_COUNT: u32 = Raw::CU_JIT_REFERENCED_KERNEL_COUNT as u32;
    /// `CU_JIT_REFERENCED_VARIABLE_NAMES`.
    pub const REFERENCED_VARIABLE_NAMES: u32 = Raw::CU_JIT_REFERENCED_VARIABLE_NAMES as u32;
    /// `CU_JIT_REFERENCED_VARIABLE_COUNT`.
    pub const REFERENCED_VARIABLE_COUNT: u32 = Raw::CU_JIT_REFERENCED_VARIABLE_COUNT as u32;
    /// `CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES`.
    pub const OPTIMIZE_UNUSED_DEVICE_VARIABLES: u32 = Raw::CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES as u32;
    /// `CU_JIT_POSITION_INDEPENDENT_CODE`.
    pub const POSITION_INDEPENDENT_CODE: u32 = Raw::CU_JIT_POSITION_INDEPENDENT_CODE as u32;
    /// `CU_JIT_MIN_CTA_PER_SM`.
    pub const MIN_CTA_PER_SM: u32 = Raw::CU_JIT_MIN_CTA_PER_SM as u32;
    /// `CU_JIT_MAX_THREADS_PER_BLOCK`.
    pub const MAX_THREADS_PER_BLOCK: u32 = Raw::CU_JIT_MAX_THREADS_PER_BLOCK as u32;
    /// `CU_JIT_OVERRIDE_DIRECTIVE_VALUES`.
    pub const OVERRIDE_DIRECTIVE_VALUES: u32 = Raw::CU_JIT_OVERRIDE_DIRECTIVE_VALUES as u32;
    /// `CU_JIT_SPLIT_COMPILE`.
    pub const SPLIT_COMPILE: u32 = Raw::CU_JIT_SPLIT_COMPILE as u32;
    /// `CU_JIT_NUM_OPTIONS`.
    pub const NUM_OPTIONS: u32 = Raw::CU_JIT_NUM_OPTIONS as u32;
}

/// Options of a library load.
pub mod library_option {
    use cudarc::driver::sys::CUlibraryOption_enum as Raw;
    /// `CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE`.
    pub const HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE: u32 =
        Raw::CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE as u32;
    /// `CU_LIBRARY_BINARY_IS_PRESERVED`.
    pub const BINARY_IS_PRESERVED: u32 = Raw::CU_LIBRARY_BINARY_IS_PRESERVED as u32;
    /// `CU_LIBRARY_NUM_OPTIONS`.
    pub const NUM_OPTIONS: u32 = Raw::CU_LIBRARY_NUM_OPTIONS as u32;
}

/// When kernels are loaded.
pub mod module_loading_mode {
    use cudarc::driver::sys::CUmoduleLoadingMode_enum as Raw;
    /// `CU_MODULE_EAGER_LOADING`.
    pub const EAGER_LOADING: u32 = Raw::CU_MODULE_EAGER_LOADING as u32;
    /// `CU_MODULE_LAZY_LOADING`.
    pub const LAZY_LOADING: u32 = Raw::CU_MODULE_LAZY_LOADING as u32;
}

/// Whether a function is on the device yet.
pub mod function_loading_state {
    use cudarc::driver::sys::CUfunctionLoadingState_enum as Raw;
    /// `CU_FUNCTION_LOADING_STATE_UNLOADED`.
    pub const UNLOADED: u32 = Raw::CU_FUNCTION_LOADING_STATE_UNLOADED as u32;
    /// `CU_FUNCTION_LOADING_STATE_LOADED`.
    pub const LOADED: u32 = Raw::CU_FUNCTION_LOADING_STATE_LOADED as u32;
    /// `CU_FUNCTION_LOADING_STATE_MAX`.
    pub const MAX: u32 = Raw::CU_FUNCTION_LOADING_STATE_MAX as u32;
}

/// Kinds of inputs of a link.
pub mod jit_input {
    use cudarc::driver::sys::CUjitInputType_enum as Raw;
    /// `CU_JIT_INPUT_CUBIN`.
    pub const CUBIN: u32 = Raw::CU_JIT_INPUT_CUBIN as u32;
    /// `CU_JIT_INPUT_PTX`.
    pub const PTX: u32 = Raw::CU_JIT_INPUT_PTX as u32;
    /// `CU_JIT_INPUT_FATBINARY`.
    pub const FATBINARY: u32 = Raw::CU_JIT_INPUT_FATBINARY as u32;
    /// `CU_JIT_INPUT_OBJECT`: a host object with device code in it.
    pub const OBJECT: u32 = Raw::CU_JIT_INPUT_OBJECT as u32;
    /// `CU_JIT_INPUT_LIBRARY`: an archive of such objects.
    pub const LIBRARY: u32 = Raw::CU_JIT_INPUT_LIBRARY as u32;
    /// `CU_JIT_INPUT_NVVM`: code for optimization while linking.
    pub const NVVM: u32 = Raw::CU_JIT_INPUT_NVVM as u32;
}
