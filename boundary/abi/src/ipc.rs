//! What one process gives another, as C passes it: 64 bytes for memory, for an event, for a fabric handle, for an
//! allocation of a pool. Bytes come in and go out as they are, and layouts are checked against the bindings. Nothing here
//! reads them.

use crate::memory::same_layout;

macro_rules! sixty_four_bytes {
    ($($(#[$doc:meta])* $name:ident = $raw:ident.$field:ident;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            /// Only the driver that made them knows what they mean.
            pub bytes: [u8; 64],
        }

        impl Default for $name {
            fn default() -> Self {
                Self { bytes: [0; 64] }
            }
        }

        same_layout!($name, $raw, { bytes: $field });
    )*};
}

sixty_four_bytes! {
    /// `CUipcMemHandle`: an allocation of another process.
    IpcMemHandle = CUipcMemHandle_st.reserved;
    /// `CUipcEventHandle`: an event of another process.
    IpcEventHandle = CUipcEventHandle_st.reserved;
    /// `CUmemFabricHandle`: physical memory, or a pool, by bytes instead of a descriptor.
    FabricHandle = CUmemFabricHandle_st.data;
    /// `CUmemPoolPtrExportData`: an allocation of another process's pool.
    PoolPointerData = CUmemPoolPtrExportData_st.reserved;
}
