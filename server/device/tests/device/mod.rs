//! The library of the CPU device.

use std::path::PathBuf;

/// Its path, in `FLOE_DIST`, else in `target/dist`.
pub(crate) fn cpu_device() -> String {
    let target =
        || std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "../../target".into(), PathBuf::from).join("dist");
    let library = std::env::var_os("FLOE_DIST").map_or_else(target, PathBuf::from).join("lib/device/libcuda.so.1");
    library.canonicalize().expect("`cargo xtask dist` makes it").display().to_string()
}
