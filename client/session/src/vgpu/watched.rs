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
    /// Waits that this process ends by a message, which are not known to be over.
    ended_here: Mutex<Vec<(Arc<StreamProgress>, u64)>>,
}

impl Watched {
    /// A stream stands at a wait from this frame on.
    pub(crate) fn stands(&self, progress: &Arc<StreamProgress>, sequence: u64) {
        self.any_stand();
        lock(&self.standing).push((Arc::clone(progress), sequence));
    }

    /// A stream stands at a wait that a message of this process ends.
    pub(crate) fn stands_for_process(&self, progress: &Arc<StreamProgress>, sequence: u64) {
        self.any_for_process();
        lock(&self.ended_here).push((Arc::clone(progress), sequence));
    }

    /// Whether a stream may stand at a wait that a message of this process ends. Nothing may hold up messages then.
    pub(crate) fn any_for_process(&self) -> bool {
        let mut waits = lock(&self.ended_here);
        waits.retain(|(progress, sequence)| progress.completed() < *sequence);
        !waits.is_empty()
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
