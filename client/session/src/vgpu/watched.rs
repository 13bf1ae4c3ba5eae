//! Streams that wait for words of memory: which waits are not known to be over. Frames come in when waits are posted; whether any
//! wait is left goes out, for callers that must not wait behind one. It looks at no memory.

use std::sync::{Arc, Mutex};

use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// Waits for words of mirrored memory that are not known to be over: the stream and the frame.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) waits: Mutex<Vec<(Arc<StreamProgress>, u64)>>,
    /// Waits for words wherever they are that are not known to be over.
    standing: Mutex<Vec<(Arc<StreamProgress>, u64)>>,
}

impl Watched {
    /// A stream stands at a wait from this frame on.
    pub(crate) fn stands(&self, progress: &Arc<StreamProgress>, sequence: u64) {
        self.any_stand();
        lock(&self.standing).push((Arc::clone(progress), sequence));
    }

    /// Whether a stream may stand at a wait for a word.
    pub(crate) fn any_stand(&self) -> bool {
        let mut standing = lock(&self.standing);
        standing.retain(|(progress, sequence)| progress.completed() < *sequence);
        !standing.is_empty()
    }

    /// Forgets the waits that are over; whether there are others.
    pub(crate) fn any_left(&self) -> bool {
        let mut waits = lock(&self.waits);
        waits.retain(|(progress, sequence)| progress.completed() < *sequence);
        !waits.is_empty()
    }
}
