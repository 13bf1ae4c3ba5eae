//! Gives shared memory up beside the completer.
//! In: memory whose work is over, in order. Out: replies. One thread of a session does it, however much the client
//! releases. The driver may wait in a release for work that waits for the completer.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use floe_abi::CudaError;
use floe_device::Device;

use super::open::Open;
use crate::life::shared::Shared;
use crate::memory::shared_pages::SharedPages;

/// Shared memory that the worker is to release.
pub(crate) struct Release<D: Device> {
    /// The client's request, which is answered after the release.
    pub(super) request: u64,
    pub(super) pages: SharedPages<D::Mapped>,
    /// The error that the work naming this memory ended with.
    pub(super) error: Option<CudaError>,
}

/// The thread's state.
pub(crate) struct Releaser<D: Device> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) incoming: Receiver<Release<D>>,
    pub(super) open: Arc<Open>,
}

impl<D: Device> Releaser<D> {
    /// Runs until nobody is left who gives memory up.
    pub(crate) fn run(&mut self) {
        while let Ok(Release { request, pages, error }) = self.incoming.recv() {
            // After a reset the context is another one. On one beyond use the driver refuses; the pages go all the same.
            let _ = self.shared.device.enter();
            drop(pages);
            // If the reply does not reach the client, it is gone; other threads notice.
            let status = error.map_or(0, CudaError::code);
            let _ = self.shared.queue_reply(request, status).and_then(|()| self.shared.sender.flush());
            self.open.change(-1);
        }
    }
}
