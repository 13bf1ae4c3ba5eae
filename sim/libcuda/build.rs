//! Gives the library the soname `libcuda.so.1`. Programs, and libraries that were linked against `-lcuda`, ask the
//! loader for this name. Once loaded it stays: its threads run to the end of the process.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
