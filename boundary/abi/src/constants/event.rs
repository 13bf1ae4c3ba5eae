//! Constants about events: the numbers come from the CUDA headers by way of the bindings crate, the names lose
//! their prefix. Values are plain integers, since what C passes in may be a number nobody has named yet.
//! Nothing here decides whether a value is supported.

/// Flags of an event.
pub mod event_flags {
    use cudarc::driver::sys::CUevent_flags_enum as Raw;
    /// `CU_EVENT_DEFAULT`.
    pub const DEFAULT: u32 = Raw::CU_EVENT_DEFAULT as u32;
    /// `CU_EVENT_BLOCKING_SYNC`.
    pub const BLOCKING_SYNC: u32 = Raw::CU_EVENT_BLOCKING_SYNC as u32;
    /// `CU_EVENT_DISABLE_TIMING`.
    pub const DISABLE_TIMING: u32 = Raw::CU_EVENT_DISABLE_TIMING as u32;
    /// `CU_EVENT_INTERPROCESS`.
    pub const INTERPROCESS: u32 = Raw::CU_EVENT_INTERPROCESS as u32;
}

/// Flags of a record.
pub mod event_record_flags {
    use cudarc::driver::sys::CUevent_record_flags_enum as Raw;
    /// `CU_EVENT_RECORD_DEFAULT`.
    pub const DEFAULT: u32 = Raw::CU_EVENT_RECORD_DEFAULT as u32;
    /// `CU_EVENT_RECORD_EXTERNAL`.
    pub const EXTERNAL: u32 = Raw::CU_EVENT_RECORD_EXTERNAL as u32;
}

/// Flags of a wait.
pub mod event_wait_flags {
    use cudarc::driver::sys::CUevent_wait_flags_enum as Raw;
    /// `CU_EVENT_WAIT_DEFAULT`.
    pub const DEFAULT: u32 = Raw::CU_EVENT_WAIT_DEFAULT as u32;
    /// `CU_EVENT_WAIT_EXTERNAL`.
    pub const EXTERNAL: u32 = Raw::CU_EVENT_WAIT_EXTERNAL as u32;
}
