//! Names the library as programs ask for it: `libnvidia-ml.so.1`, whatever file it is built as. Once loaded it stays:
//! its threads run, and what it registered is called, until the end of the process.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    floe_glibc::link_with_old_versions();
    println!("cargo::rerun-if-changed=build.rs");
}
