//! Names the library as programs ask for it: `libnccl.so.2`, whatever file it is built as. Once loaded it stays.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnccl.so.2");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    floe_glibc::link_with_old_versions();
    println!("cargo::rerun-if-changed=build.rs");
}
