//! The incoming half of the session's connection.
//! In: frames. Out: commands in the queue; the ends of host functions and what copies behind them write straight to who
//! waits for them, past the issuer, which may be in a call that waits for the very stream; the data of large
//! copies to the device in staging memory, so that they are touched once; the one descriptor a
//! client may send.
//! It decodes nothing else, and it stops reading while the queue or the staging memory is full.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};

use floe_transport::{Arrival, Bulk, Frame, LinkError, Receiver};
use floe_wire::{
    CopyToDevice, Decode as _, DecodeError, FunctionId, HostFunctionDone, LateBytes, Message as _, ShareMemory,
};

use crate::device::{Device, Pinned as _};
use crate::host_functions::{Done, HostFunctions};
use crate::queue::Command;
use crate::shared::Shared;
use crate::staging::{Staged, Uploads};

/// Why nothing more comes in.
#[derive(Debug)]
pub(crate) enum InputEnd {
    /// The client closed the connection.
    Closed,
    /// The client broke the contract.
    Contract(String),
    /// The connection broke.
    Link(LinkError),
}

impl From<LinkError> for InputEnd {
    fn from(error: LinkError) -> Self {
        if error.is_broken_contract() { Self::Contract(error.to_string()) } else { Self::Link(error) }
    }
}

/// What the thread works with.
pub(crate) struct Reader<D: Device> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) functions: Arc<HostFunctions>,
    pub(crate) uploads: Arc<Uploads<D>>,
}

impl<D: Device> Reader<D> {
    /// Reads until the connection ends.
    pub(crate) fn run(&self, mut receiver: Receiver) -> InputEnd {
        loop {
            let taken = match receiver.next_arrival(CopyToDevice::KIND) {
                Ok(Some(Arrival::Frame(frame))) => self.take(frame),
                Ok(Some(Arrival::Bulk(bulk))) => self.take_bulk(bulk).map(Some),
                Ok(None) => return InputEnd::Closed,
                Err(error) => return error.into(),
            };
            let pushed = taken.and_then(|command| {
                let Some(command) = command else { return Ok(()) };
                if command.kind == ShareMemory::KIND {
                    self.keep(receiver.descriptor());
                    // It is said once.
                    receiver.take_descriptors(false);
                }
                self.push(command)
            });
            if let Err(end) = pushed {
                return end;
            }
        }
    }

    /// What is to stand in line for the issuer, if anything.
    fn take(&self, frame: Frame<'_>) -> Result<Option<Command>, InputEnd> {
        let Frame { sequence, kind, payload } = frame;
        let unreadable = |error: DecodeError| InputEnd::Contract(error.to_string());
        if kind == HostFunctionDone::KIND {
            let message = HostFunctionDone::decode(payload).map_err(unreadable)?;
            return self.goes_on(message.function, self.functions.done(message.function)).map(|()| None);
        }
        if kind == LateBytes::KIND {
            let message = LateBytes::decode(payload).map_err(unreadable)?;
            let filled = self.functions.filled(message.function, message.bytes);
            return self.goes_on(message.function, filled).map(|()| None);
        }
        Ok(Some(Command { sequence, kind, payload: payload.to_vec(), staged: None }))
    }

    fn keep(&self, descriptor: Option<OwnedFd>) {
        *self.shared.descriptor.lock().unwrap_or_else(PoisonError::into_inner) = descriptor;
    }

    fn goes_on(&self, function: FunctionId, done: Done) -> Result<(), InputEnd> {
        match done {
            Done::GoesOn => self.shared.queue.host_functions_end(1),
            Done::GivenUp => {}
            Done::Unknown => {
                return Err(InputEnd::Contract(format!("no host function runs with the id: {}", function.0)));
            }
        }
        Ok(())
    }

    fn take_bulk(&self, mut bulk: Bulk<'_>) -> Result<Command, InputEnd> {
        let head = bulk.hollow()?;
        let (sequence, kind) = (bulk.sequence(), bulk.kind());
        let (payload, staged) = match self.stage(&mut bulk)? {
            Some(staged) => (head.to_vec(), Some(staged)),
            None => (bulk.read_whole()?, None),
        };
        Ok(Command { sequence, kind, payload, staged })
    }

    /// Reads the data into staging memory; `None` where there is none to be had.
    fn stage(&self, bulk: &mut Bulk<'_>) -> Result<Option<Staged>, LinkError> {
        let device = &*self.shared.device;
        // A device that gives no memory says so to the command.
        if self.uploads.begin(device).is_err() {
            return Ok(None);
        }
        // While a stream is held, what lets it go on may be behind this frame, and copies behind what holds it.
        let wait = || !self.shared.queue.has_held_streams();
        let Some(staged) = self.uploads.room(device, bulk.left(), wait) else { return Ok(None) };
        let memory = self.uploads.memory(staged);
        let mut read = Ok(());
        memory.fill(staged.offset, staged.bytes, &mut |target| read = bulk.read(target));
        read.map(|()| Some(staged))
    }

    fn push(&self, command: Command) -> Result<(), InputEnd> {
        let overrun =
            |_| InputEnd::Contract("4 GiB of commands wait behind a host function or a wait that does not end".into());
        self.shared.queue.push(command).map_err(overrun)
    }
}
