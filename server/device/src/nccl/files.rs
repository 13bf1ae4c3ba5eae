//! What NCCL gets where it asks for a file in `/dev/shm`, which workers do not reach: memory of this process.
//! In: the C library's calls for such names, once sockets are answered too. Out: descriptors of memory files. All other names are
//! the system's to answer.
//! Only this process opens them: NCCL shares such files with processes of its own machine, and to it there are none.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::sync::Mutex;

use rustix::fs::MemfdFlags;

/// NCCL's names begin so, and end with six characters.
const PREFIX: &[u8] = b"/dev/shm/nccl-";
const SUFFIX: usize = 6;
/// Files at once: NCCL has one for each communicator.
const MOST: usize = 4096;

#[derive(Debug, Default)]
struct Files {
    by_name: BTreeMap<Vec<u8>, OwnedFd>,
    made: u32,
}

static FILES: Mutex<Files> = Mutex::new(Files { by_name: BTreeMap::new(), made: 0 });

fn is_nccls(name: &[u8]) -> bool {
    name.len() == PREFIX.len() + SUFFIX && name.starts_with(PREFIX) && super::sockets::place().is_some()
}

fn given(file: io::Result<OwnedFd>) -> c_int {
    file.map_or_else(super::sockets::failed, OwnedFd::into_raw_fd)
}

/// `mkstemp`: fills the end of the name in. `None`: it is the system's to answer.
pub fn make(name: &mut [u8]) -> Option<c_int> {
    if !is_nccls(name) {
        return None;
    }
    let mut files = floe_lock::lock(&FILES);
    if files.by_name.len() >= MOST {
        return Some(super::sockets::failed(io::Error::from_raw_os_error(libc::ENOSPC)));
    }
    files.made = files.made.wrapping_add(1);
    name[PREFIX.len()..].copy_from_slice(&format!("{:06x}", files.made & 0xff_ffff).into_bytes());
    let made = rustix::fs::memfd_create("nccl", MemfdFlags::CLOEXEC).map_err(io::Error::from);
    let kept = made.and_then(|file| Ok((file.try_clone()?, file)));
    Some(given(kept.map(|(kept, file)| {
        files.by_name.insert(name.to_vec(), kept);
        file
    })))
}

/// `open`.
pub fn open(name: &[u8]) -> Option<c_int> {
    if !is_nccls(name) {
        return None;
    }
    let files = floe_lock::lock(&FILES);
    let file = files.by_name.get(name).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT));
    Some(given(file.and_then(OwnedFd::try_clone)))
}

/// `unlink`: who has the file open keeps it.
pub fn remove(name: &[u8]) -> Option<c_int> {
    if !is_nccls(name) {
        return None;
    }
    let removed = floe_lock::lock(&FILES).by_name.remove(name);
    let missing = || super::sockets::failed(io::Error::from_raw_os_error(libc::ENOENT));
    Some(removed.map_or_else(missing, |_| 0))
}
