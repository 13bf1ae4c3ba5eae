//! Numbers and byte strings of a snapshot: little-endian, lengths before contents.
//! In go values, out come bytes, and back. Reading never goes past the end and never allocates more than there is.

use super::error::SnapshotError;

/// Collects bytes.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.u32(*word));
    }

    /// Bytes without their length: the reader knows it.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn slice(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.raw(bytes);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes bytes apart.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], SnapshotError> {
        let (taken, rest) =
            self.rest.split_at_checked(length).ok_or(SnapshotError::Malformed { what: "it ends too early" })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn words<const N: usize>(&mut self) -> Result<[u32; N], SnapshotError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u32()?;
        }
        Ok(words)
    }

    pub(crate) fn slice(&mut self) -> Result<&'a [u8], SnapshotError> {
        let length = self.u32()? as usize;
        self.raw(length)
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<(), SnapshotError> {
        if self.rest.is_empty() { Ok(()) } else { Err(SnapshotError::Malformed { what: "it goes on after its end" }) }
    }
}
