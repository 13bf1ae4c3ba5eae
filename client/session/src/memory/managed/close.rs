//! The flush of granules to the device: the client closes pages, sends what the program wrote there, and waits for it. Work that
//! comes next finds the bytes on the device, on whatever stream. Pages whose bytes cannot be sent are opened again.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_touch::{Access, install};

use super::residency::Flush;
use super::shadow::{merged, without};
use super::transfer::Up;
use super::{Attachment, Held, State};
use crate::log::log;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// The client remembers so many closed bytes since a wait: the next wait fetches no more.
pub(super) const EAGER_BYTES: u64 = 1 << 20;

impl Held {
    /// The bytes among these that the device has.
    pub(super) fn parts_of(&self, bytes: &Range<u64>) -> Vec<Range<u64>> {
        if self.parts.is_empty() {
            return vec![bytes.clone()];
        }
        let cut = |part: &Range<u64>| part.start.max(bytes.start)..part.end.min(bytes.end);
        self.parts.iter().map(cut).filter(|part| part.start < part.end).collect()
    }

    /// The bytes of a flush that the client sends.
    fn sent(&self, flush: &Flush) -> CudaResult<Vec<Range<u64>>> {
        if !self.residency.is_fresh() {
            return Ok(flush.sent.iter().flat_map(|bytes| self.parts_of(bytes)).collect());
        }
        self.place.span.touched(&self.residency.bytes()).map_err(|error| {
            log!(Error, "cannot find the touched pages of managed memory: {error}");
            CudaError::OPERATING_SYSTEM
        })
    }

    /// Nothing is attached to a stream that is gone.
    pub(super) fn let_go_of_stream(&mut self, vgpu: &Vgpu) {
        if let Attachment::Single(stream) = self.attached
            && vgpu.order.stream(stream).is_none()
        {
            self.attached = self.at_first;
        }
    }

    fn close_pages(&self, flush: &Flush) -> bool {
        flush.closed.iter().all(|bytes| self.place.span.allow(bytes, Access::Closed))
    }

    /// Opens pages as they were before they were closed.
    fn open_again(&self, flush: &Flush) {
        let as_before = if self.residency.is_fresh() { Access::Open } else { Access::Reads };
        for bytes in &flush.closed {
            self.place.span.allow(bytes, as_before);
        }
        for bytes in &flush.sent {
            self.place.span.allow(bytes, Access::Open);
        }
    }
}

impl State {
    /// Remembers what the program had touched.
    fn remember(&mut self, touched: &[Range<u64>]) {
        let Some(mut closed) = self.closed.take() else { return };
        closed.extend_from_slice(touched);
        let closed = merged(closed);
        if closed.iter().map(|bytes| bytes.end - bytes.start).sum::<u64>() <= EAGER_BYTES {
            self.closed = Some(closed);
        }
    }

    /// The holdings that have any of these bytes.
    pub(super) fn holding_any(&self, bytes: &Range<u64>) -> Vec<u64> {
        let overlapping = self.held.range(..bytes.end).rev();
        let ends_behind = |held: &&Held| held.residency.bytes().end > bytes.start;
        overlapping.map(|(_, held)| held).take_while(ends_behind).map(|held| held.residency.bytes().start).collect()
    }

    /// The holdings the program can touch that are to be closed.
    fn open_for(&self, wanted: impl Fn(Attachment) -> bool) -> Vec<u64> {
        let wanted = |start: &&u64| self.held.get(start).is_some_and(|held| wanted(held.attached));
        self.open.iter().filter(wanted).copied().collect()
    }
}

impl Vgpu {
    /// Closes what work of this stream may use.
    pub(super) fn close_for_launch(self: &Arc<Self>, stream: u64) -> CudaResult<()> {
        let mut state = lock(&self.managed.state);
        self.let_go_of_streams(&mut state);
        let starts = state.open_for(|attached| match attached {
            Attachment::Global => true,
            Attachment::Host => false,
            Attachment::Single(own) => own == stream,
        });
        let (sent, outcome) = self.close_unsettled(&mut state, &starts, |held| held.residency.bytes());
        let others = !state.settling.is_empty();
        outcome.and(self.settle_aside(state, sent, others))
    }

    /// Waits until what was sent is on the device, by this caller or by others whose bytes it awaits. Others may use managed memory
    /// meanwhile: a function of the program may have to return first, since a GPU has few queues for copies, and those of its stream
    /// may be ahead of these. Only a sender has others wait. If each waiter had, threads that launch would keep each other waiting.
    fn settle_aside(self: &Arc<Self>, mut state: MutexGuard<'_, State>, sent: bool, awaits: bool) -> CudaResult<()> {
        if !sent && !awaits {
            self.tell_open(&state);
            return Ok(());
        }
        let progress = self.lane(&mut state)?;
        let closing = sent.then(|| self.managed.closings.fetch_add(1, Ordering::SeqCst));
        state.settling.extend(closing);
        self.tell_open(&state);
        drop(state);
        let settled = self.settle(&progress);
        let mut state = lock(&self.managed.state);
        if let Some(closing) = closing {
            state.settling.remove(&closing);
        }
        self.tell_open(&state);
        settled
    }

    /// How many launches and copies have closed pages so far: what they closed, a function that begins now cannot write without a fault.
    pub(super) fn closings(&self) -> u64 {
        self.managed.closings.load(Ordering::SeqCst)
    }

    /// A host function that a stream waited for is over: its writes go ahead of the work behind it. Before it began there were so many
    /// closings, whose bytes hold none of its writes.
    pub(super) fn close_behind_function(self: &Arc<Self>, closings: u64) -> CudaResult<()> {
        if !self.managed.open.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut state = lock(&self.managed.state);
        let starts = state.open_for(|attached| attached != Attachment::Host);
        let (sent, outcome) = self.close_unsettled(&mut state, &starts, |held| held.residency.bytes());
        let may_hold_writes = state.settling.range(closings..).next().is_some();
        outcome.and(self.settle_aside(state, sent, may_hold_writes))
    }

    /// Closes these bytes, whatever they are attached to.
    pub(super) fn close_bytes(self: &Arc<Self>, bytes: &Range<u64>) -> CudaResult<()> {
        let mut state = lock(&self.managed.state);
        let starts = state.holding_any(bytes);
        for start in &starts {
            if let Some(held) = state.held.get_mut(start) {
                held.of_others = true;
            }
        }
        let (sent, outcome) = self.close_unsettled(&mut state, &starts, |_| bytes.clone());
        let others = !state.settling.is_empty();
        outcome.and(self.settle_aside(state, sent, others))
    }

    /// Closes bytes of these holdings, for one wait, during which nobody else uses managed memory.
    pub(super) fn close_all(
        self: &Arc<Self>,
        state: &mut State,
        starts: &[u64],
        bytes: impl Fn(&Held) -> Range<u64>,
    ) -> CudaResult<()> {
        let (sent, outcome) = self.close_unsettled(state, starts, bytes);
        // What launches have sent is to be there for this work, too.
        let settled = if sent || !state.settling.is_empty() { self.settle_lane(state) } else { Ok(()) };
        self.tell_open(state);
        outcome.and(settled)
    }

    /// Closes bytes of these holdings. Says whether any were sent, which then are to be waited for.
    fn close_unsettled(
        self: &Arc<Self>,
        state: &mut State,
        starts: &[u64],
        bytes: impl Fn(&Held) -> Range<u64>,
    ) -> (bool, CudaResult<()>) {
        if !starts.is_empty() {
            install();
        }
        let (mut sent, mut outcome) = (false, Ok(()));
        for start in starts {
            let Some(mut held) = state.held.remove(start) else { continue };
            let wanted = bytes(&held);
            let closed = self.close_one(state, &mut held, &wanted);
            if !held.residency.is_open() {
                state.open.remove(start);
            }
            state.held.insert(*start, held);
            // A failed close may have sent a part.
            sent |= closed.unwrap_or(true);
            outcome = outcome.and(closed.map(drop));
        }
        (sent, outcome)
    }

    /// Whether anything was sent.
    fn close_one(self: &Arc<Self>, state: &mut State, held: &mut Held, bytes: &Range<u64>) -> CudaResult<bool> {
        let mut flush = held.residency.flush(bytes);
        if flush.closed.is_empty() {
            return Ok(false);
        }
        if !held.close_pages(&flush) {
            // The system has no room for more mappings: all pages with one protection take less.
            let whole = held.residency.bytes();
            flush = held.residency.flush(&whole);
            if !held.place.span.allow(&whole, Access::Closed) {
                held.open_again(&flush);
                log!(Error, "cannot close pages of managed memory at {:#x}", whole.start);
                return Err(CudaError::OPERATING_SYSTEM);
            }
        }
        match self.send_closed(state, held, &flush) {
            Ok(sent) => {
                held.residency.closed(&flush);
                Ok(sent)
            }
            Err(error) => {
                held.open_again(&flush);
                Err(error)
            }
        }
    }

    fn send_closed(self: &Arc<Self>, state: &mut State, held: &mut Held, flush: &Flush) -> CudaResult<bool> {
        let unchanged = held.unchanged(&flush.closed);
        let (sent, is_fresh) = (without(&held.sent(flush)?, &unchanged), held.residency.is_fresh());
        if is_fresh {
            // Untouched memory is zero on both sides.
            self.clear_on_device(state, &held.residency.bytes())?;
        }
        let up =
            |bytes: &Range<u64>| held.place.span.behind(bytes).map(|source| Up { to: DevicePtr(bytes.start), source });
        sent.iter().filter_map(up).try_for_each(|up| self.send_up(state, &up))?;
        if held.is_worth_fetching() {
            state.remember(if is_fresh { &sent } else { &flush.closed });
        }
        Ok(is_fresh || !sent.is_empty())
    }

    /// Says to launches whether there is anything to close.
    pub(super) fn tell_open(&self, state: &State) {
        let any = state.open.iter().filter_map(|start| state.held.get(start));
        let any = !state.settling.is_empty() || any.into_iter().any(|held| held.attached != Attachment::Host);
        self.managed.open.store(any, Ordering::SeqCst);
    }

    /// Of what the program can touch, nothing is attached to a stream that is gone.
    fn let_go_of_streams(&self, state: &mut State) {
        for start in &state.open {
            if let Some(held) = state.held.get_mut(start) {
                held.let_go_of_stream(self);
            }
        }
    }
}
