//! Names the library as programs ask for it: `libcupti.so.13`, whatever file it is built as. Once loaded it stays.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcupti.so.13");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}/versions.map",
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()
    );
    floe_glibc::link_with_old_versions();
    println!("cargo::rerun-if-changed=build.rs");
}
