//! Addresses of workers as the C library's structures hold them, and the C functions that a worker's executable exports.
//! In: pointers of NCCL's. Out: typed values for the calls, and structures back. The functions are a macro, so that no other
//! executable that has this crate answers socket calls.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

/// A worker's address: an IPv6 address that no network has.
pub type Place = [u8; 16];

/// The name of the one interface that there is.
const INTERFACE: &std::ffi::CStr = c"floe0";

/// The address and port of a `sockaddr`; `None`: it is of no worker.
///
/// # Safety
/// `address` is NULL or has `bytes` bytes.
pub unsafe fn read_address(address: *const libc::sockaddr, bytes: libc::socklen_t) -> Option<(Place, u16)> {
    let whole = usize::try_from(bytes).is_ok_and(|bytes| bytes >= size_of::<libc::sockaddr_in6>());
    if address.is_null() || !whole {
        return None;
    }
    // SAFETY: it is not NULL and has the bytes of this structure, any of which are values of it.
    let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
    let is_one = c_int::from(address.sin6_family) == libc::AF_INET6;
    is_one.then(|| (address.sin6_addr.s6_addr, u16::from_be(address.sin6_port)))
}

fn structure(place: Place, port: u16) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::sa_family_t::try_from(libc::AF_INET6).unwrap_or_default(),
        sin6_port: port.to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: place },
        sin6_scope_id: 0,
    }
}

/// Writes an address where the caller has room for one, as `getsockname` does.
///
/// # Safety
/// Both are NULL, or `bytes` says how many `address` has.
pub unsafe fn write_address(address: *mut libc::sockaddr, bytes: *mut libc::socklen_t, place: Place, port: u16) {
    if address.is_null() || bytes.is_null() {
        return;
    }
    let from = structure(place, port);
    // SAFETY: the caller says that it is a number.
    let room = usize::try_from(unsafe { *bytes }).unwrap_or_default();
    let length = room.min(size_of_val(&from));
    // SAFETY: `from` has as many bytes, and so has the caller's memory.
    unsafe { std::ptr::copy_nonoverlapping((&raw const from).cast::<u8>(), address.cast(), length) };
    let whole = libc::socklen_t::try_from(size_of_val(&from)).unwrap_or_default();
    // SAFETY: as above.
    unsafe { *bytes = whole };
}

/// The list of interfaces with the addresses in it, which stay.
struct Interfaces(libc::ifaddrs);

// SAFETY: nobody writes to it after it was made.
unsafe impl Send for Interfaces {}
// SAFETY: the same.
unsafe impl Sync for Interfaces {}

/// What `getifaddrs` gives: one interface with this worker's address. NULL where there is no network.
pub fn interfaces() -> *mut libc::ifaddrs {
    static LIST: OnceLock<Interfaces> = OnceLock::new();
    let Some(place) = super::place() else { return std::ptr::null_mut() };
    let list = LIST.get_or_init(|| {
        let address = Box::leak(Box::new(structure(place, 0)));
        let mask = Box::leak(Box::new(structure([0xff; 16], 0)));
        let up = libc::IFF_UP | libc::IFF_RUNNING;
        Interfaces(libc::ifaddrs {
            ifa_next: std::ptr::null_mut(),
            ifa_name: INTERFACE.as_ptr().cast::<c_char>().cast_mut(),
            ifa_flags: up.unsigned_abs(),
            ifa_addr: std::ptr::from_mut(address).cast(),
            ifa_netmask: std::ptr::from_mut(mask).cast(),
            ifa_ifu: std::ptr::null_mut(),
            ifa_data: std::ptr::null_mut(),
        })
    });
    (&raw const list.0).cast_mut()
}

/// Exports the C library's socket calls, and those for NCCL's files, from an executable. Before [`super::begin`], and for sockets that are none of NCCL's,
/// each is the system call it always was.
#[macro_export]
macro_rules! export_sockets {
    () => {
        const _: () = {
            use std::ffi::{c_char, c_int, c_void};

            use libc::{sockaddr, socklen_t};
            use $crate::nccl::{files, sockets};

            fn system(result: libc::c_long) -> c_int {
                c_int::try_from(result).unwrap_or(-1)
            }

            #[unsafe(no_mangle)]
            extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
                sockets::socket(domain, kind).unwrap_or_else(|| {
                    // SAFETY: numbers only.
                    system(unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) })
                })
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int {
                // SAFETY: the caller's address has as many bytes.
                let port = unsafe { sockets::read_address(address, bytes) }.map(|(_, port)| port);
                sockets::bind(fd, port).unwrap_or_else(|| {
                    // SAFETY: the caller's arguments, for the system to check.
                    system(unsafe { libc::syscall(libc::SYS_bind, fd, address, bytes) })
                })
            }

            #[unsafe(no_mangle)]
            extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
                sockets::listen(fd).unwrap_or_else(|| {
                    // SAFETY: numbers only.
                    system(unsafe { libc::syscall(libc::SYS_listen, fd, backlog) })
                })
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn accept4(
                fd: c_int,
                address: *mut sockaddr,
                bytes: *mut socklen_t,
                flags: c_int,
            ) -> c_int {
                match sockets::accept(fd, flags) {
                    Some(accepted) => {
                        if accepted >= 0 {
                            // SAFETY: the caller's memory, with its size.
                            unsafe { sockets::write_address(address, bytes, [0; 16], 0) };
                        }
                        accepted
                    }
                    // SAFETY: the caller's arguments, for the system to check.
                    None => system(unsafe { libc::syscall(libc::SYS_accept4, fd, address, bytes, flags) }),
                }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn accept(fd: c_int, address: *mut sockaddr, bytes: *mut socklen_t) -> c_int {
                // SAFETY: the caller's arguments, as they are.
                unsafe { accept4(fd, address, bytes, 0) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int {
                // SAFETY: the caller's address has as many bytes.
                let to = unsafe { sockets::read_address(address, bytes) };
                sockets::connect(fd, to).unwrap_or_else(|| {
                    // SAFETY: the caller's arguments, for the system to check.
                    system(unsafe { libc::syscall(libc::SYS_connect, fd, address, bytes) })
                })
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn getsockname(fd: c_int, address: *mut sockaddr, bytes: *mut socklen_t) -> c_int {
                match sockets::name(fd) {
                    Some((place, port)) => {
                        // SAFETY: the caller's memory, with its size.
                        unsafe { sockets::write_address(address, bytes, place, port) };
                        0
                    }
                    // SAFETY: the caller's arguments, for the system to check.
                    None => system(unsafe { libc::syscall(libc::SYS_getsockname, fd, address, bytes) }),
                }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn setsockopt(
                fd: c_int,
                level: c_int,
                name: c_int,
                value: *const c_void,
                bytes: socklen_t,
            ) -> c_int {
                if sockets::is_placeholder(fd) {
                    return 0;
                }
                // SAFETY: the caller's arguments, for the system to check.
                let set = system(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, bytes) });
                // A connection within this machine is no TCP, which NCCL takes it for.
                if set < 0 && level == libc::IPPROTO_TCP && sockets::place().is_some() { 0 } else { set }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn getsockopt(
                fd: c_int,
                level: c_int,
                name: c_int,
                value: *mut c_void,
                bytes: *mut socklen_t,
            ) -> c_int {
                if sockets::is_placeholder(fd) && !value.is_null() && !bytes.is_null() {
                    // SAFETY: the caller's memory has as many bytes as it says.
                    unsafe { std::ptr::write_bytes(value.cast::<u8>(), 0, (*bytes).min(4) as usize) };
                    return 0;
                }
                // SAFETY: the caller's arguments, for the system to check.
                system(unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, bytes) })
            }

            #[unsafe(no_mangle)]
            extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
                sockets::shutdown(fd).unwrap_or_else(|| {
                    // SAFETY: numbers only.
                    system(unsafe { libc::syscall(libc::SYS_shutdown, fd, how) })
                })
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn getifaddrs(list: *mut *mut libc::ifaddrs) -> c_int {
                if list.is_null() {
                    return -1;
                }
                // SAFETY: it is not NULL, and the caller's to be written.
                unsafe { *list = sockets::interfaces() };
                0
            }

            #[unsafe(no_mangle)]
            extern "C" fn freeifaddrs(_list: *mut libc::ifaddrs) {}

            /// The bytes of a name without its zero.
            ///
            /// # Safety
            /// `name` is NULL or ends.
            unsafe fn bytes<'a>(name: *const c_char) -> &'a [u8] {
                if name.is_null() {
                    return &[];
                }
                // SAFETY: our caller says that it ends.
                unsafe { std::ffi::CStr::from_ptr(name) }.to_bytes()
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn mkstemp(name: *mut c_char) -> c_int {
                // SAFETY: the caller's name ends.
                let length = unsafe { bytes(name) }.len();
                if length == 0 {
                    return -1;
                }
                // SAFETY: it has as many bytes, which are the caller's to have filled in.
                let made = files::make(unsafe { std::slice::from_raw_parts_mut(name.cast::<u8>(), length) });
                // Nobody else makes files in a worker, which may write none.
                made.unwrap_or(-1)
            }

            // C's has the mode only where a file may be made; any bits are taken otherwise.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn open(name: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
                // SAFETY: the caller's name ends.
                files::open(unsafe { bytes(name) }).unwrap_or_else(|| {
                    // SAFETY: the caller's arguments, for the system to check.
                    system(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name, flags, mode) })
                })
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
                // SAFETY: the caller's name ends.
                files::remove(unsafe { bytes(name) }).unwrap_or_else(|| {
                    // SAFETY: the caller's arguments, for the system to check.
                    system(unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, name, 0) })
                })
            }
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written_and_nothing_else_is_one() {
        let (place, mut room) = ([7; 16], std::mem::MaybeUninit::<libc::sockaddr_in6>::zeroed());
        let mut bytes = libc::socklen_t::try_from(size_of::<libc::sockaddr_in6>()).expect("it is small");
        // SAFETY: the room has as many bytes.
        unsafe { write_address(room.as_mut_ptr().cast(), &raw mut bytes, place, 4711) };
        // SAFETY: the same.
        assert_eq!(unsafe { read_address(room.as_ptr().cast(), bytes) }, Some((place, 4711)));
        // SAFETY: it looks at no byte of these.
        unsafe {
            assert_eq!(read_address(room.as_ptr().cast(), 16), None);
            assert_eq!(read_address(std::ptr::null(), bytes), None);
        }
    }
}
