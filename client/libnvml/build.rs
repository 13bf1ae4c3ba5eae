//! Names the library as programs ask for it: `libnvidia-ml.so.1`, whatever file it is built as.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
