//! Exports the calls that the executable answers for the libraries it loads.

fn main() {
    for name in [
        "socket",
        "bind",
        "listen",
        "accept",
        "accept4",
        "connect",
        "getsockname",
        "setsockopt",
        "getsockopt",
        "shutdown",
        "getifaddrs",
        "freeifaddrs",
        "mkstemp",
        "open",
        "unlink",
    ] {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
