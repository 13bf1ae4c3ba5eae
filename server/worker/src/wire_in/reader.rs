//! The incoming half of the session's connection.
//! In: frames. Out: commands in the queue, the data of large copies in the transfer buffers, and the last
//! descriptor that the client sent. The ends of host functions and of streams' waits, the bytes of deferred reads, and changes of
//! mirrored memory bypass the issuer, which may be in a call that waits for this stream.
//! It decodes nothing else, and it stops reading while the queue or the the transfer buffers is full. It pushes
//! together what it read together, and before it waits for anything.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use floe_abi::CudaError;
use floe_device::{Device, Pinned as _};
use floe_transport::{Arrival, Bulk, Frame, LinkError, Receiver, sleep_precisely};
use floe_wire::{
    AbortComm, AskActivityClock, AskActivityClockReply, AskComm, AskCommReply, CopyBulkToDevice, CopyToDevice,
    Decode as _, DecodeError, Field as _, FunctionId, HostFunctionDone, LateBytes, Message as _, PIECE_BYTES, RaiseNow,
    ShareFile, ShareMemory, WriteMirror,
};

use super::batch::{Batch, Command};
use crate::issue::host_functions::{Done, HostFunctions};
use crate::life::ending::InputEnd;
use crate::life::shared::Shared;
use crate::memory::transfer_buffers::{UploadRange, Uploads};
use crate::memory::upload::Upload;
use crate::peer::collective::network::abort;

/// Whether a descriptor goes with a frame of this kind. A client passes one at a time, and waits for the answer.
fn carries_descriptor(kind: u16) -> bool {
    [ShareMemory::KIND, ShareFile::KIND].contains(&kind)
}

/// The reading thread's state.
pub(crate) struct Reader<D: Device> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) functions: Arc<HostFunctions>,
    pub(crate) uploads: Arc<Uploads<D>>,
}

impl<D: Device> Reader<D> {
    /// Reads until the connection ends, or the reader is to rest: then what it has read is in the queue.
    pub(crate) fn run(&self, receiver: &mut Receiver) -> InputEnd {
        // It looks for room in short steps.
        sleep_precisely();
        let mut batch = Batch::default();
        loop {
            match self.read(receiver, &mut batch) {
                Ok(()) => {}
                Err(InputEnd::Stopped) => return self.push_batch(&mut batch).err().unwrap_or(InputEnd::Stopped),
                Err(end) => return end,
            }
        }
    }

    /// Takes the next frame into the batch, which is pushed first where that would wait.
    pub(crate) fn read(&self, receiver: &mut Receiver, batch: &mut Batch) -> Result<(), InputEnd> {
        if batch.is_full() || !receiver.has_whole_frame() {
            self.push_batch(batch)?;
        }
        let shares = match receiver.next_arrival(CopyToDevice::KIND)? {
            Some(Arrival::Frame(frame)) => {
                self.take(frame, batch)?;
                carries_descriptor(frame.kind)
            }
            Some(Arrival::Bulk(bulk)) => {
                // The wait for room or for data may be for what is in the batch.
                self.push_batch(batch)?;
                self.take_bulk(bulk, batch)?;
                false
            }
            None => return Err(InputEnd::Closed),
        };
        if shares {
            self.keep(receiver.descriptor());
        }
        Ok(())
    }

    /// Queues the frame for the issuer, or handles it at once if it may not wait there.
    fn take(&self, frame: Frame<'_>, batch: &mut Batch) -> Result<(), InputEnd> {
        let Frame { sequence, kind, payload } = frame;
        self.shared.client.has_frame(sequence);
        let unreadable = |error: DecodeError| InputEnd::ProtocolViolation(error.to_string());
        if kind == HostFunctionDone::KIND {
            let message = HostFunctionDone::decode(payload).map_err(unreadable)?;
            return self.goes_on(message.function, self.functions.done(message.function));
        }
        if kind == LateBytes::KIND {
            let message = LateBytes::decode(payload).map_err(unreadable)?;
            let filled = self.functions.filled(message.function, message.bytes);
            return self.goes_on(message.function, filled);
        }
        if kind == RaiseNow::KIND {
            let message = RaiseNow::decode(payload).map_err(unreadable)?;
            return self.shared.hub.raise_now(&message).map_err(InputEnd::ProtocolViolation);
        }
        if kind == WriteMirror::KIND {
            let message = WriteMirror::decode(payload).map_err(unreadable)?;
            return self.shared.mirrors.write(message.at, &message.runs).map_err(InputEnd::ProtocolViolation);
        }
        if self.answers_at_once(sequence, kind, payload)? {
            return Ok(());
        }
        if kind == CopyBulkToDevice::KIND {
            let message = CopyBulkToDevice::decode(payload).map_err(unreadable)?;
            // The wait for room may be for what is in the batch.
            self.push_batch(batch)?;
            batch.costs(self.announce(sequence, message.bytes)?);
        }
        let command = Command { sequence, kind, payload, range: None };
        // A frame that announces data counts with that data, which the batch knows; and a descriptor is kept first.
        let is_plain = kind != CopyBulkToDevice::KIND && !carries_descriptor(kind);
        if is_plain && batch.is_empty() && self.shared.queue.push_small(&command) {
            return Ok(());
        }
        batch.push(command);
        Ok(())
    }

    /// What is asked of a communicator whose work may hold the issuer.
    fn answers_at_once(&self, sequence: u64, kind: u16, payload: &[u8]) -> Result<bool, InputEnd> {
        let unreadable = |error: DecodeError| InputEnd::ProtocolViolation(error.to_string());
        match kind {
            AskComm::KIND => {
                let (result, words) = self.shared.collectives.ask(AskComm::decode(payload).map_err(unreadable)?.comm.0);
                let mut body = Vec::new();
                AskCommReply { result, words: &words }.write(&mut body);
                // A connection that is gone is noticed by the next read.
                let _ = self.shared.reply(sequence, 0, "", &body);
            }
            AskActivityClock::KIND => {
                let (status, words, now) = match self.shared.recording.now() {
                    Ok(now) => (0, String::new(), now),
                    Err(words) => (CudaError::NOT_SUPPORTED.code(), words, 0),
                };
                let mut body = Vec::new();
                AskActivityClockReply { now }.write(&mut body);
                let _ = self.shared.reply(sequence, status, &words, &body);
            }
            AbortComm::KIND => {
                let comm = AbortComm::decode(payload).map_err(unreadable)?.comm;
                abort(&self.shared, sequence, comm.0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Has the data of a command put together that bulk connections bring; the bytes this takes beside the buffer.
    fn announce(&self, sequence: u64, bytes: u64) -> Result<usize, InputEnd> {
        let no_piece = || InputEnd::ProtocolViolation(format!("command {sequence}: not the bytes of a piece: {bytes}"));
        let bytes =
            usize::try_from(bytes).ok().filter(|bytes| (1..=PIECE_BYTES).contains(bytes)).ok_or_else(no_piece)?;
        let range = self.room(bytes);
        let upload = match range {
            Some(range) => Upload::Pinned { memory: self.uploads.memory(range), range },
            None => Upload::heap(bytes),
        };
        let beside = if range.is_some() { 0 } else { bytes };
        self.shared.transfers.announce(sequence, bytes, upload).then_some(beside).ok_or_else(no_piece)
    }

    fn keep(&self, descriptor: Option<OwnedFd>) {
        *floe_lock::lock(&self.shared.descriptor) = descriptor;
    }

    fn goes_on(&self, function: FunctionId, done: Done) -> Result<(), InputEnd> {
        match done {
            Done::GoesOn => self.shared.queue.host_functions_end(1),
            Done::GivenUp => {}
            Done::Unknown => {
                return Err(InputEnd::ProtocolViolation(format!("no host function runs with the id: {}", function.0)));
            }
        }
        Ok(())
    }

    fn take_bulk(&self, mut bulk: Bulk<'_>, batch: &mut Batch) -> Result<(), InputEnd> {
        let hollow = bulk.hollow()?;
        let (sequence, kind) = (bulk.sequence(), bulk.kind());
        self.shared.client.has_frame(sequence);
        if let Some(range) = self.read_into_buffer(&mut bulk)? {
            batch.push(Command { sequence, kind, payload: &hollow, range: Some(range) });
            return Ok(());
        }
        let (head, bytes) = (bulk.head().to_vec(), bulk.left());
        Ok(batch.push_read((sequence, kind), &head, bytes, |target| bulk.read(target))?)
    }

    /// Room in the transfer buffers; `None` where there is none to be had.
    fn room(&self, bytes: usize) -> Option<UploadRange> {
        let device = &*self.shared.device;
        // A device that gives no memory says so to the command.
        self.uploads.begin(device).ok()?;
        // While a stream is held, the frame that releases it may be behind this one, and so may further copies. And
        // while the session is parked, nothing is given back.
        self.uploads.room(device, bytes, || !self.shared.queue.has_held_streams() && !self.shared.queue.lets_pass())
    }

    /// Reads the data into the transfer buffers; `None` where there is none to be had.
    fn read_into_buffer(&self, bulk: &mut Bulk<'_>) -> Result<Option<UploadRange>, LinkError> {
        let Some(range) = self.room(bulk.left()) else { return Ok(None) };
        let memory = self.uploads.memory(range);
        let mut read = Ok(());
        memory.fill(range.offset, range.bytes, &mut |target| read = bulk.read(target));
        read.map(|()| Some(range))
    }

    /// Queues the batch, unless it is empty.
    pub(crate) fn push_batch(&self, batch: &mut Batch) -> Result<(), InputEnd> {
        if batch.is_empty() {
            self.shared.queue.tell_issuer();
            return Ok(());
        }
        let overrun = |_| {
            InputEnd::ProtocolViolation(
                "1 GiB of commands waits behind a host function or a wait that does not end".into(),
            )
        };
        self.shared.queue.push(batch).map_err(overrun)
    }
}
