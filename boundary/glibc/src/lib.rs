//! Lets the client's libraries load beside older C libraries than the one they are built with: programs bring theirs.
//! In: the names that glibc gave a new version after 2.28, most of them when it took libpthread in (2.34).
//! Out: linker arguments for the libraries' build scripts, and thunks that call each name's old version.
//! It has no code of its own; where the machine is no x86-64 with glibc, both are empty.
#![forbid(unsafe_code)]

/// Names whose old version does what the new one does.
const SAME: [&str; 21] = [
    "dlsym",
    "pthread_attr_getguardsize",
    "pthread_attr_getstack",
    "pthread_attr_setstacksize",
    "pthread_create",
    "pthread_detach",
    "pthread_getattr_np",
    "pthread_getspecific",
    "pthread_join",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_once",
    "pthread_rwlock_destroy",
    "pthread_rwlock_init",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_unlock",
    "pthread_rwlock_wrlock",
    "pthread_setname_np",
    "pthread_setspecific",
    "pthread_sigmask",
    "gettid",
];
/// Names that older headers made calls of another: `__xstat` and its kin take the version of the structure first.
const STATUS: [&str; 4] = ["stat", "stat64", "fstat64", "lstat64"];
/// Where the old versions lie before 2.34. Both files are there, and empty, since.
const LIBRARIES: [&str; 2] = ["libpthread.so.0", "libdl.so.2"];

/// Has a build script's C-like library call the old versions. The library itself names [`thunks!`] once.
pub fn link_with_old_versions() {
    let target = ["CARGO_CFG_TARGET_ARCH", "CARGO_CFG_TARGET_ENV"].map(|name| std::env::var(name).unwrap_or_default());
    if target != ["x86_64", "gnu"] {
        return;
    }
    for name in SAME.iter().chain(&STATUS) {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
    let libraries = LIBRARIES.map(|library| format!("-l:{library}"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,--push-state,--no-as-needed,{},--pop-state", libraries.join(","));
}

/// The thunks: the linker sends calls of a name to `__wrap_` and the name, which goes on to the old version.
#[macro_export]
macro_rules! thunks {
    () => {
        #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
        ::core::arch::global_asm!(
            r#"
            .pushsection .text.floe_glibc,"ax",@progbits
            .macro floe_thunk name
            .globl __wrap_\name
            .hidden __wrap_\name
            .type __wrap_\name, @function
            __wrap_\name:
            .endm

            .macro floe_old name, version
            .symver floe_old_\name, \name@\version
            floe_thunk \name
            .cfi_startproc
            jmp [rip + floe_old_\name@GOTPCREL]
            .cfi_endproc
            .size __wrap_\name, . - __wrap_\name
            .endm

            .macro floe_status name, old
            .symver floe_old_\name, \old@GLIBC_2.2.5
            floe_thunk \name
            .cfi_startproc
            mov rdx, rsi
            mov rsi, rdi
            mov edi, 1
            jmp [rip + floe_old_\name@GOTPCREL]
            .cfi_endproc
            .size __wrap_\name, . - __wrap_\name
            .endm

            floe_old dlsym, GLIBC_2.2.5
            floe_old pthread_attr_getguardsize, GLIBC_2.2.5
            floe_old pthread_attr_getstack, GLIBC_2.2.5
            floe_old pthread_attr_setstacksize, GLIBC_2.2.5
            floe_old pthread_create, GLIBC_2.2.5
            floe_old pthread_detach, GLIBC_2.2.5
            floe_old pthread_getattr_np, GLIBC_2.2.5
            floe_old pthread_getspecific, GLIBC_2.2.5
            floe_old pthread_join, GLIBC_2.2.5
            floe_old pthread_key_create, GLIBC_2.2.5
            floe_old pthread_key_delete, GLIBC_2.2.5
            floe_old pthread_once, GLIBC_2.2.5
            floe_old pthread_rwlock_destroy, GLIBC_2.2.5
            floe_old pthread_rwlock_init, GLIBC_2.2.5
            floe_old pthread_rwlock_rdlock, GLIBC_2.2.5
            floe_old pthread_rwlock_unlock, GLIBC_2.2.5
            floe_old pthread_rwlock_wrlock, GLIBC_2.2.5
            floe_old pthread_setname_np, GLIBC_2.12
            floe_old pthread_setspecific, GLIBC_2.2.5
            floe_old pthread_sigmask, GLIBC_2.2.5

            floe_status stat, __xstat
            floe_status stat64, __xstat64
            floe_status fstat64, __fxstat64
            floe_status lstat64, __lxstat64

            floe_thunk gettid
            .cfi_startproc
            mov eax, 186
            syscall
            ret
            .cfi_endproc
            .size __wrap_gettid, . - __wrap_gettid
            .popsection
            "#
        );
    };
}
