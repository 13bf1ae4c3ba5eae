//! Passports as descriptors: a sealed memory file of 64 bytes, which programs pass on by a socket, by a fork, or have taken
//! from them. A passport's bytes come in and a descriptor goes out; of a program's descriptor come bytes. It is read at
//! an offset, so whoever shares it notices nothing, and nothing about it is believed.

use std::os::fd::{BorrowedFd, OwnedFd};

use floe_abi::{CudaError, CudaResult};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create};
use rustix::io::{pread, pwrite};

use super::passport::BYTES;

/// A descriptor that holds these bytes for good.
///
/// # Errors
/// OPERATING_SYSTEM where the system gives no file.
pub(crate) fn make(bytes: &[u8; BYTES]) -> CudaResult<OwnedFd> {
    let made = || -> rustix::io::Result<OwnedFd> {
        let file = memfd_create("floe-memory", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        if pwrite(&file, bytes, 0)? != BYTES {
            return Err(rustix::io::Errno::NOSPC);
        }
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(file)
    };
    made().map_err(|_| CudaError::OPERATING_SYSTEM)
}

/// The bytes of a descriptor that a program calls shared memory.
///
/// # Errors
/// UNKNOWN, as CUDA has it, where it is not open, no memory file that stays as it is, or of another length.
pub(crate) fn read(descriptor: BorrowedFd<'_>) -> CudaResult<[u8; BYTES]> {
    let found = || -> rustix::io::Result<Option<[u8; BYTES]>> {
        // Of anything but memory a look or a read may wait as long as somebody likes, such as the server of a FUSE file, or
        // take bytes from somebody. Only memory has seals, and this question waits for nobody.
        if !fcntl_get_seals(descriptor)?.contains(SealFlags::WRITE | SealFlags::SHRINK) {
            return Ok(None);
        }
        if u64::try_from(fstat(descriptor)?.st_size) != Ok(BYTES as u64) {
            return Ok(None);
        }
        let mut bytes = [0; BYTES];
        let read = pread(descriptor, &mut bytes, 0)?;
        Ok((read == BYTES).then_some(bytes))
    };
    found().ok().flatten().ok_or(CudaError::UNKNOWN)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn bytes_come_back_from_every_copy_of_the_descriptor_and_cannot_be_changed() {
        let bytes = std::array::from_fn(|index| index as u8);
        let made = make(&bytes).unwrap();
        let copy = made.try_clone().unwrap();
        assert_eq!(read(made.as_fd()), Ok(bytes));
        assert_eq!(read(copy.as_fd()), Ok(bytes));
        let mut file = std::fs::File::from(copy);
        assert!(file.write_all(b"x").is_err());
        assert!(file.set_len(3).is_err());
        assert_eq!(read(made.as_fd()), Ok(bytes));
    }

    #[test]
    fn pipes_sockets_folders_and_other_files_are_refused_without_waiting() {
        let (pipe, _other_end) = std::io::pipe().unwrap();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let folder = std::fs::File::open("/").unwrap();
        let short = tempfile::tempfile().unwrap();
        short.set_len(63).unwrap();
        let long = tempfile::tempfile().unwrap();
        long.set_len(65).unwrap();
        // As long, but whoever serves its file system may have its readers wait.
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES as u64).unwrap();
        let open = memfd_create("floe-memory", MemfdFlags::ALLOW_SEALING).unwrap();
        pwrite(&open, &[0; BYTES], 0).unwrap();
        let others = [short.as_fd(), long.as_fd(), file.as_fd(), open.as_fd()];
        for descriptor in [pipe.as_fd(), socket.as_fd(), folder.as_fd()].into_iter().chain(others) {
            assert_eq!(read(descriptor), Err(CudaError::UNKNOWN));
        }
    }
}
