//! Gives memory up beside the completer that client or other sessions share.
//! In: memory whose work is over, in order. Out: replies. One thread of a session does it, however much the client
//! releases. The driver may wait in a release for work that waits for the completer.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use floe_abi::CudaError;
use floe_device::Device;

use super::open::Open;
use crate::issue::objects::signals::Signals;
use crate::life::shared::Shared;
use crate::memory::shared_pages::SharedPages;

/// Shared memory that the worker is to release.
pub(crate) enum Release<D: Device> {
    /// The client's pages.
    Pages {
        /// The client's request, which is answered after the release.
        request: u64,
        pages: SharedPages<D::Mapped>,
        /// The error that the work naming this memory ended with.
        error: Option<CudaError>,
    },
    /// A page of words.
    Signals(Signals<D::Mapped>),
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
        while let Ok(release) = self.incoming.recv() {
            // After a reset the context is another one. On one beyond use the driver refuses; the pages go all the same.
            let _ = self.shared.device.enter();
            match release {
                Release::Pages { request, pages, error } => {
                    drop(pages);
                    // If the reply does not reach the client, it is gone; other threads notice.
                    let status = error.map_or(0, CudaError::code);
                    let _ = self.shared.queue_reply(request, status, &[]).and_then(|()| self.shared.sender.flush());
                }
                Release::Signals(signals) => self.shared.hub.let_page_go(signals),
            }
            self.open.change(-1);
        }
    }
}
