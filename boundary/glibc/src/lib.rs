//! Lets the client's libraries load beside older C libraries than the one they are built with: programs bring theirs.
//! In: the names that glibc gave a new version after 2.28, most of them when it took libpthread in (2.34).
//! Out: linker arguments for the libraries' build scripts, and thunks that call each name's old version.
//! It has no code of its own; where the machine is no x86-64 with glibc, both are empty.
#![forbid(unsafe_code)]

/// Libraries with the old versions before 2.34. Both files are there, and empty, since.
const LIBRARIES: [&str; 2] = ["libpthread.so.0", "libdl.so.2"];

/// The names, once: the linker arguments and the thunks are made from this list.
/// - `old`: the old version does what the new one does.
/// - `status`: older headers made calls of another name, which takes the version of the structure first.
/// - `system_call`: glibc has had the function since 2.30 only; the thunk makes the system call of this number.
macro_rules! names {
    (
        old { $($old:ident $version:literal)* }
        status { $($status:ident $before:literal)* }
        system_call { $($call:ident $number:literal)* }
    ) => {
        const NAMES: &[&str] = &[$(stringify!($old),)* $(stringify!($status),)* $(stringify!($call),)*];

        /// The thunks: the linker sends calls of a name to `__wrap_` and the name, whose thunk jumps to the old version.
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
                    .cfi_startproc
                    .endm

                    .macro floe_thunk_end name
                    .cfi_endproc
                    .size __wrap_\name, . - __wrap_\name
                    .endm

                    .macro floe_old name, version
                    .symver floe_old_\name, \name@\version
                    floe_thunk \name
                    jmp [rip + floe_old_\name@GOTPCREL]
                    floe_thunk_end \name
                    .endm

                    .macro floe_status name, old
                    .symver floe_old_\name, \old@GLIBC_2.2.5
                    floe_thunk \name
                    mov rdx, rsi
                    mov rsi, rdi
                    mov edi, 1
                    jmp [rip + floe_old_\name@GOTPCREL]
                    floe_thunk_end \name
                    .endm

                    .macro floe_system_call name, number
                    floe_thunk \name
                    mov eax, \number
                    syscall
                    ret
                    floe_thunk_end \name
                    .endm
                    "#,
                    $(concat!("floe_old ", stringify!($old), ", ", $version),)*
                    $(concat!("floe_status ", stringify!($status), ", ", $before),)*
                    $(concat!("floe_system_call ", stringify!($call), ", ", $number),)*
                    ".popsection"
                );
            };
        }
    };
}

names! {
    old {
        dladdr "GLIBC_2.2.5"
        dlsym "GLIBC_2.2.5"
        pthread_attr_getguardsize "GLIBC_2.2.5"
        pthread_attr_getstack "GLIBC_2.2.5"
        pthread_attr_setstacksize "GLIBC_2.2.5"
        pthread_create "GLIBC_2.2.5"
        pthread_detach "GLIBC_2.2.5"
        pthread_getattr_np "GLIBC_2.2.5"
        pthread_getspecific "GLIBC_2.2.5"
        pthread_join "GLIBC_2.2.5"
        pthread_key_create "GLIBC_2.2.5"
        pthread_key_delete "GLIBC_2.2.5"
        pthread_once "GLIBC_2.2.5"
        pthread_rwlock_destroy "GLIBC_2.2.5"
        pthread_rwlock_init "GLIBC_2.2.5"
        pthread_rwlock_rdlock "GLIBC_2.2.5"
        pthread_rwlock_unlock "GLIBC_2.2.5"
        pthread_rwlock_wrlock "GLIBC_2.2.5"
        pthread_setname_np "GLIBC_2.12"
        pthread_setspecific "GLIBC_2.2.5"
        pthread_sigmask "GLIBC_2.2.5"
    }
    status {
        stat "__xstat"
        stat64 "__xstat64"
        fstat64 "__fxstat64"
        lstat64 "__lxstat64"
    }
    system_call {
        gettid "186"
    }
}

/// Has a build script's C-like library call the old versions. The library itself names [`thunks!`] once.
pub fn link_with_old_versions() {
    let target = ["CARGO_CFG_TARGET_ARCH", "CARGO_CFG_TARGET_ENV"].map(|name| std::env::var(name).unwrap_or_default());
    if target != ["x86_64", "gnu"] {
        return;
    }
    for name in NAMES {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
    let libraries = LIBRARIES.map(|library| format!("-l:{library}"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,--push-state,--no-as-needed,{},--pop-state", libraries.join(","));
}
