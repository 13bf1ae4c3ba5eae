//! Transfers of managed memory, on a stream of its own, which waits for nothing that the program has queued. Ranges come in. The
//! client waits for all uploads together, and for downloads before the program sees them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use floe_abi::{CudaError, CudaResult, stream_flags};
use floe_surface::HostRange;
use floe_wire::{CopyFromDevice, CreateApartStream, CreateStream, DevicePtr, Fill, StreamId};

use super::{Lane, State};
use crate::log::log;
use crate::memory::sending::send_at_once;
use crate::memory::staging::FROM;
use crate::memory::staging::copiers::Copiers;
use crate::vgpu::Vgpu;
use crate::vgpu::connection::{Target, Ticket};
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// Bytes for the device.
pub(super) struct Up {
    pub(super) to: DevicePtr,
    pub(super) source: HostRange,
}

/// Bytes from the device.
pub(super) struct Down {
    pub(super) target: HostRange,
    pub(super) from: DevicePtr,
}

impl Vgpu {
    pub(super) fn lane(&self, state: &mut State) -> CudaResult<Arc<StreamProgress>> {
        if let Some(lane) = &state.lane {
            return Ok(Arc::clone(&lane.progress));
        }
        let is_apart = self.managed.beside_functions.load(Ordering::SeqCst);
        let id = self.make_lane(is_apart)?;
        let progress = self.order.add(id, false);
        state.lane = Some(Lane { progress: Arc::clone(&progress), is_apart });
        Ok(progress)
    }

    /// The id of a stream for the bytes, apart from the program's where that is wanted and the server has it.
    fn make_lane(&self, apart: bool) -> CudaResult<u64> {
        let id = self.next_id();
        match apart.then(|| self.call(&CreateApartStream { stream: StreamId(id) })) {
            Some(Ok(_)) => return Ok(id),
            Some(Err(error)) if self.errors.is_lost() => return Err(error),
            Some(Err(error)) => log!(
                Warn,
                "managed memory: the server has no stream apart for it: {error}\n  \
                 a function of the program that touches managed memory may not end; a context takes 528 MiB of the GPU"
            ),
            None => {}
        }
        let id = if apart { self.next_id() } else { id };
        let message = CreateStream { stream: StreamId(id), flags: stream_flags::NON_BLOCKING, priority: 0 };
        self.connection.post(&message)?;
        Ok(id)
    }

    /// A stream is about to stand at a function of the program, which may touch managed memory. From now on its bytes have a stream
    /// apart: in the program's context they may stand behind the very function that needs them.
    pub(crate) fn expect_functions(&self) -> CudaResult<()> {
        if self.managed.beside_functions.load(Ordering::Acquire) {
            return Ok(());
        }
        for vgpu in self.family() {
            let left = vgpu.leave_ordinary_lane();
            // Another vGPU's failure is for calls on that one to report.
            if vgpu.ordinal == self.ordinal {
                left?;
            }
        }
        Ok(())
    }

    fn leave_ordinary_lane(&self) -> CudaResult<()> {
        let mut state = lock(&self.managed.state);
        let ordinary = state.lane.take_if(|lane| !lane.is_apart);
        // Its bytes are there before others take the other way.
        let settled = ordinary.map_or(Ok(()), |lane| self.settle(&lane.progress));
        self.managed.beside_functions.store(true, Ordering::SeqCst);
        settled
    }

    /// Has the server end the context, and the stream with it: what is sent later has another.
    pub(crate) fn end_lane_with<T>(&self, reset: impl FnOnce() -> CudaResult<T>) -> CudaResult<T> {
        let mut state = lock(&self.managed.state);
        let sent = reset();
        state.lane = None;
        sent
    }

    fn copiers_of_managed(&self) -> CudaResult<&Arc<Copiers>> {
        self.managed.copiers.get().ok_or(CudaError::NOT_INITIALIZED)
    }

    /// Zeros on the device.
    pub(super) fn clear_on_device(&self, state: &mut State, bytes: &Range<u64>) -> CudaResult<()> {
        let progress = self.lane(state)?;
        let (stream, at) = (StreamId(progress.stream()), DevicePtr(bytes.start));
        let width = bytes.end - bytes.start;
        let zeros = Fill { stream, at, pitch: width, element: 1, value: 0, width, height: 1 };
        self.connection.post_on(&progress, &zeros).map(drop)
    }

    /// Sends bytes. They have been read when this returns.
    pub(super) fn send_up(self: &Arc<Self>, state: &mut State, up: &Up) -> CudaResult<()> {
        let progress = self.lane(state)?;
        let path = (up.source.len() >= FROM).then(|| self.slot_path(&progress)).flatten();
        let staged = path.map_or(Ok(0), |path| path.upload(self.copiers_of_managed()?, up.to, &up.source))?;
        let rest = up.source.sub(staged, up.source.len() - staged)?;
        self.statistics.managed_to_device(up.source.len() as u64);
        let to = up.to.offset(staged as u64).ok_or(CudaError::INVALID_VALUE)?;
        send_at_once(self, &progress, to, &rest)
    }

    /// Waits until what was sent is on the device.
    pub(super) fn settle_lane(&self, state: &mut State) -> CudaResult<()> {
        let progress = self.lane(state)?;
        self.settle(&progress)
    }

    /// The same of a lane, while others may use managed memory.
    pub(super) fn settle(&self, progress: &Arc<StreamProgress>) -> CudaResult<()> {
        let message = floe_wire::SynchronizeStream { stream: StreamId(progress.stream()) };
        let (_, sequence) = self.connection.call(&message)?;
        self.order.stream_completed(progress, sequence);
        // A failure of something else is for the program's calls to report.
        self.errors.check()
    }

    /// Fetches bytes: all are asked for before any is waited for.
    pub(super) fn fetch_down(self: &Arc<Self>, state: &mut State, downs: &[Down]) -> CudaResult<()> {
        let progress = self.lane(state)?;
        let mut tickets = Vec::new();
        let asked = downs.iter().try_for_each(|down| {
            tickets.extend(self.begin_down(&progress, down)?);
            Ok(())
        });
        // Each is waited for, whatever became of the others: it may still be written.
        let came = tickets.iter().map(|ticket| self.connection.wait(ticket).map(drop)).fold(Ok(()), Result::and);
        asked.and(came)
    }

    fn begin_down(self: &Arc<Self>, progress: &Arc<StreamProgress>, down: &Down) -> CudaResult<Option<Ticket>> {
        let bytes = down.target.len();
        self.statistics.managed_from_device(bytes as u64);
        let path = (bytes >= FROM).then(|| self.slot_path(progress)).flatten();
        let staged = path.map_or(Ok(0), |path| path.download(self.copiers_of_managed()?, &down.target, down.from))?;
        let rest = down.target.sub(staged, bytes - staged)?;
        if rest.is_empty() {
            return Ok(None);
        }
        let from = down.from.offset(staged as u64).ok_or(CudaError::INVALID_VALUE)?;
        let message = CopyFromDevice { stream: StreamId(progress.stream()), from, bytes: rest.len() as u64 };
        self.statistics.came_from_device(message.bytes);
        self.connection.fetch(&message, Target::Line(rest), progress).map(Some)
    }
}
