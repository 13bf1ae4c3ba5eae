//! Data that a test lends, and how often they have gone back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use floe_transport::BorrowedBuffer;

/// The data, and the count that grows when they go back.
pub(crate) struct Bytes(pub(crate) Arc<Vec<u8>>, pub(crate) Arc<AtomicUsize>);

impl BorrowedBuffer for Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn with_bytes(&self, write: &mut dyn FnMut(&[u8])) {
        write(&self.0);
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // Memory that was given back is its owner's again, who may write to it at once.
        if let Some(bytes) = Arc::get_mut(&mut self.0) {
            bytes.fill(0xee);
        }
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}
