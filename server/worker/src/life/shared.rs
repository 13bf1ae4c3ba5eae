//! State that the threads of a worker share: the device, the sender, and failures for later replies.
//! In: outcomes. Out: frames to the client.
//! It keeps no objects of the session; these are the issuer's alone.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use floe_abi::CudaError;
use floe_device::Device;
use floe_transport::{LinkError, Sender, Stripes, Transfers};
use floe_wire::{Ended, Reply};

use super::carried::Carried;
use super::log::Log;
use super::recording::Recording;
use super::watch::Use;
use crate::complete::failures::Failures;
use crate::complete::output::Output;
use crate::complete::printing::Printing;
use crate::issue::turn::Turn;
use crate::memory::mirrors::Mirrors;
use crate::memory::upload::Upload;
use crate::peer::collective::Collectives;
use crate::peer::hub::Hub;
use crate::peer::link::table::Links;
use crate::wire_in::queue::Queue;

/// State that the threads of a worker share.
pub(crate) struct Shared<D: Device> {
    pub(crate) device: Arc<D>,
    pub(crate) sender: Sender,
    /// The bulk connections, outwards.
    pub(crate) stripes: Stripes,
    /// Transfers that arrive on the bulk connections, for the device.
    pub(crate) transfers: Transfers<Upload<D>>,
    pub(crate) failures: Failures,
    pub(crate) output: Output,
    pub(crate) printing: Printing,
    pub(crate) queue: Queue,
    pub(crate) log: Log,
    /// Host memory of the client that kernels reach.
    pub(crate) mirrors: Mirrors<D::Mapped>,
    /// The descriptor that came with `ShareMemory`, until that is carried out.
    pub(crate) descriptor: Mutex<Option<OwnedFd>>,
    /// What the session shares with others.
    pub(crate) hub: Arc<Hub<D::Mapped>>,
    /// Its links to sessions of other servers.
    pub(crate) links: Links<D>,
    /// Its communicators.
    pub(crate) collectives: Collectives,
    /// What its profiler wants to know.
    pub(crate) recording: Recording,
    /// Its turn on a GPU that it shares.
    pub(crate) turn: Turn<D>,
    /// How far the client has used the session.
    pub(crate) client: Arc<Use>,
    /// What its link carries.
    pub(crate) carried: Arc<Carried>,
}

impl<D: Device> Shared<D> {
    /// Answers a request, with the first posted failure no reply has carried yet.
    pub(crate) fn reply(&self, request: u64, status: u32, detail: &str, body: &[u8]) -> Result<(), LinkError> {
        // NOT_READY is no failure, and programs ask in loops.
        if status != 0 && status != CudaError::NOT_READY.code() {
            self.show_printed(true)?;
        }
        let earlier = self.failures.take();
        self.carried.answers();
        self.sender.send(&Reply { request, status, earlier, detail, body }, |_| ()).map(|_| ())
    }

    /// Answers a request that waited; the answer leaves with the next flush.
    pub(crate) fn queue_reply(&self, request: u64, status: u32, body: &[u8]) -> Result<(), LinkError> {
        let earlier = self.failures.take();
        self.carried.answers();
        self.sender.queue(&Reply { request, status, earlier, detail: "", body }).map(|_| ())
    }

    /// Posts the output of kernels, where they may print. It comes ahead of the message that they are over. If
    /// something `failed`, the driver may have printed more.
    pub(crate) fn show_printed(&self, failed: bool) -> Result<(), LinkError> {
        if failed || self.printing.is_possible() { self.output.send_new(&self.sender) } else { Ok(()) }
    }

    /// Says that the session is over.
    pub(crate) fn ended(&self, status: u32, detail: &str) -> Result<(), LinkError> {
        self.sender.send(&Ended { status, detail }, |_| ()).map(|_| ())
    }

    /// Notes the failure of a command nobody waits for.
    pub(crate) fn note(&self, command: &str, sequence: u64, error: CudaError, why: &impl std::fmt::Display) {
        if self.failures.note(error) {
            self.log.line(format_args!("{command} (command {sequence}) failed, nobody was waiting: {why}"));
        }
    }
}
