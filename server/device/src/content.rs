//! Bytes of a module on the server: in memory of our own, or in a file that is mapped. Bytes or a file come in, a slice
//! goes out. It stays where it is until the value is dropped, so a driver may read it again later.
//! It never writes to a file.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes that stay where they are, aligned for a driver that reads them as words. Clones share them.
#[derive(Clone, Debug)]
pub struct Content {
    held: Arc<Held>,
}

#[derive(Debug)]
enum Held {
    Memory { words: Vec<u64>, bytes: usize },
    File(memmap2::Mmap),
}

impl Content {
    /// The first `bytes` of a file, without reading them: unread pages take no memory, and the system can drop those
    /// that were read.
    ///
    /// The file must not change as long as the value lives. Files of the daemon's cache never do. They are complete
    /// before they get their name, and they are for reading only. Workers have no other descriptor of them and cannot
    /// open their paths. A removed file stays as long as it is mapped, and the daemon refuses a folder that another
    /// user could write to.
    ///
    /// # Errors
    /// INVALID_DATA for a file of another size, else the system's.
    pub fn of_file(file: &File, bytes: u64) -> io::Result<Self> {
        let present = file.metadata()?.len();
        if present != bytes {
            let words = format!("it has {present} bytes where {bytes} are expected");
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        if bytes == 0 {
            return Ok(Self::from(&[][..]));
        }
        // SAFETY: the mapping is of a file that does not change, as our caller answers for.
        let mapping = unsafe { memmap2::Mmap::map(file)? };
        Ok(Self { held: Arc::new(Held::File(mapping)) })
    }

    /// Whether the bytes lie in memory of this process's own.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        matches!(&*self.held, Held::Memory { .. })
    }
}

impl From<&[u8]> for Content {
    fn from(bytes: &[u8]) -> Self {
        let mut words = vec![0; bytes.len().div_ceil(8)];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut filled = [0; 8];
            filled[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(filled);
        }
        Self { held: Arc::new(Held::Memory { words, bytes: bytes.len() }) }
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.held {
            // SAFETY: the words hold at least so many bytes, and every byte of a word has a value.
            Held::Memory { words, bytes } => unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), *bytes) },
            Held::File(mapping) => mapping,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use std::io::Write as _;

    use super::*;

    #[test]
    fn memory_is_aligned_and_of_its_length() {
        for length in [0, 1, 7, 8, 9] {
            let content = Content::from(&vec![0xAA; length][..]);
            assert_eq!(*content, vec![0xAA; length]);
            assert_eq!(content.as_ptr().addr() % 8, 0);
        }
    }

    #[test]
    fn file_outlives_its_name_and_must_have_its_size() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"container").unwrap();
        let content = Content::of_file(file.as_file(), 9).unwrap();
        assert_eq!(Content::of_file(file.as_file(), 10).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(file);
        assert_eq!(*content, *b"container");
    }
}
