//! Page faults of managed memory. The faulting thread sleeps; floe waits for the device's work, as CUDA asks of the
//! program, then fetches the granule and opens it. After a wait, floe fetches at once the little that the program
//! touched before. If the device is gone, the program gets the fault and the log says why.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_touch::{Access, FaultHandler, PageFault, install};
use floe_wire::SynchronizeContext;

use super::close::EAGER_BYTES;
use super::residency::{Fetch, GRANULE};
use super::transfer::Down;
use super::{Attachment, Held, State};
use crate::log::log;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// Looks for the end of calls that name managed memory, and what lies between two: a second in all.
const MOST_LOOKS: u32 = 10_000;

const LOOK: Duration = Duration::from_micros(100);
/// The number of times that a prefetch waits for a moment with nothing in flight.
const MOST_PREFETCHES: u32 = 8;

/// Asks the vGPU to answer page faults.
#[derive(Debug)]
pub(super) struct VgpuFaultHandler(pub(super) Weak<Vgpu>);

impl FaultHandler for VgpuFaultHandler {
    fn handle(&self, fault: PageFault) -> bool {
        self.0.upgrade().is_some_and(|vgpu| vgpu.handle_fault(fault))
    }
}

impl Held {
    fn downs(&self, fetch: &Fetch) -> Vec<Down> {
        let parts = if fetch.fetched { self.parts_of(&fetch.bytes) } else { Vec::new() };
        let down =
            |part: Range<u64>| Some(Down { target: self.place.span.behind(&part)?, from: DevicePtr(part.start) });
        parts.into_iter().filter_map(down).collect()
    }

    fn open_pages(&self, fetch: &Fetch) -> bool {
        let access = if fetch.writable { Access::Open } else { Access::Reads };
        self.place.span.allow(&fetch.bytes, access)
    }
}

impl State {
    fn held_at(&mut self, address: u64) -> Option<&mut Held> {
        let (_, held) = self.held.range_mut(..=address).next_back()?;
        held.residency.bytes().contains(&address).then_some(held)
    }

    /// What a page fault needs: its granule.
    fn needs(&mut self, fault: PageFault) -> Vec<(u64, Fetch)> {
        let Some(held) = self.held_at(fault.address) else { return Vec::new() };
        let fetch = held.residency.touch(fault.address, fault.writes, false);
        fetch.map(|fetch| (held.residency.bytes().start, fetch)).into_iter().collect()
    }

    /// The fetches of a page fault while nothing may write them: what follows where faults come in a row, and as much of small
    /// allocations that lie behind one another as a granule.
    fn brings(&mut self, fault: PageFault) -> Vec<(u64, Fetch)> {
        let Some(held) = self.held_at(fault.address) else { return Vec::new() };
        let Some(fetch) = held.residency.touch(fault.address, fault.writes, true) else { return Vec::new() };
        let (own, attached) = (held.residency.bytes(), held.attached);
        let (mut end, mut bytes) = (own.end, fetch.bytes.end - fetch.bytes.start);
        let mut brought = vec![(own.start, fetch)];
        for (start, next) in self.held.range(own.end..) {
            bytes += next.residency.bytes().end - start;
            if *start != end || next.attached != attached || bytes > GRANULE {
                break;
            }
            end = next.residency.bytes().end;
            brought.extend(next.residency.look(&next.residency.bytes()).into_iter().map(|fetch| (*start, fetch)));
        }
        brought
    }
}

impl Vgpu {
    fn handle_fault(self: &Arc<Self>, fault: PageFault) -> bool {
        self.statistics.managed_fault();
        // Threads that a function of the program has work for it are in its turn, too: its stream stands until they are done.
        let in_host_function = fault.in_host_function || self.connection.runs_function();
        let attached = {
            let mut state = lock(&self.managed.state);
            let Some(held) = state.held_at(fault.address) else { return false };
            held.let_go_of_stream(self);
            held.idle = 0;
            if !in_host_function && std::mem::take(&mut held.of_others) { Attachment::Global } else { held.attached }
        };
        let opened = if in_host_function { self.open_touched(fault) } else { self.open_behind_work(fault, attached) };
        match opened {
            Ok(()) => true,
            Err(error) => {
                log!(Error, "cannot fetch managed memory at {:#x} after a page fault: {error}", fault.address);
                false
            }
        }
    }

    /// Opens behind the work so far, and behind calls that name managed memory and have not posted their work yet.
    fn open_behind_work(self: &Arc<Self>, fault: PageFault, attached: Attachment) -> CudaResult<()> {
        for _ in 0..MOST_LOOKS {
            self.wait_for_work(attached);
            let mut state = lock(&self.managed.state);
            if self.managed.naming.load(Ordering::SeqCst) == 0 {
                // Another thread may have launched since the wait, and its kernel writes anything but what is touched here.
                let brought = state.brings(fault);
                return match self.open_in_stillness(&mut state, &brought, false, attached) {
                    Some(opened) => opened,
                    None => self.open_needed(&mut state, fault),
                };
            }
            drop(state);
            std::thread::sleep(LOOK);
        }
        // Such a call waits for long, and CUDA lets nobody touch what it names meanwhile.
        self.open_touched(fault)
    }

    /// Waits for what may still write the memory. The program's calls report failed work.
    fn wait_for_work(&self, attached: Attachment) {
        // The work may wait for what the program has written elsewhere.
        let _ = self.send_mirrors();
        if let Attachment::Single(stream) = attached
            && let Some(progress) = self.order.stream(stream)
        {
            let message = floe_wire::SynchronizeStream { stream: floe_wire::StreamId(stream) };
            if !self.is_quiet(&progress)
                && let Ok((_, sequence)) = self.connection.call(&message)
            {
                self.order.stream_completed(&progress, sequence);
            }
        } else if !self.order.is_idle()
            && let Ok((_, sequence)) = self.connection.call(&SynchronizeContext {})
        {
            self.order.all_completed(sequence);
        }
        if attached == Attachment::Global {
            self.managed.guests.wait();
        }
    }

    fn open_touched(self: &Arc<Self>, fault: PageFault) -> CudaResult<()> {
        self.open_needed(&mut lock(&self.managed.state), fault)
    }

    fn open_needed(self: &Arc<Self>, state: &mut State, fault: PageFault) -> CudaResult<()> {
        let needed = state.needs(fault);
        self.open_all(state, &needed, false)
    }

    /// Fetches and opens. `shadowed`: what the program leaves as it comes is not sent back.
    fn open_all(self: &Arc<Self>, state: &mut State, brought: &[(u64, Fetch)], shadowed: bool) -> CudaResult<()> {
        self.errors.check()?;
        let mut downs = Vec::new();
        for (start, fetch) in brought {
            downs.extend(state.held.get(start).into_iter().flat_map(|held| held.downs(fetch)));
        }
        if !downs.is_empty() {
            self.fetch_down(state, &downs)?;
        }
        for (start, fetch) in brought {
            if let Some(held) = state.held.get_mut(start).filter(|_| shadowed) {
                held.keep_shadow(&fetch.bytes);
            }
            self.open_one(state, *start, fetch)?;
        }
        Ok(())
    }

    fn open_one(self: &Arc<Self>, state: &mut State, start: u64, fetch: &Fetch) -> CudaResult<()> {
        let Some(mut held) = state.held.remove(&start) else { return Ok(()) };
        // Before the pages: a launch that comes now must see that there is something to close.
        state.open.insert(start);
        if held.attached != Attachment::Host {
            self.managed.open.store(true, Ordering::SeqCst);
        }
        held.residency.opened(fetch);
        let opened = if held.open_pages(fetch) { Ok(()) } else { self.open_whole(state, &mut held) };
        state.held.insert(start, held);
        opened
    }

    /// The system has no room for more mappings: all pages with one protection take less.
    fn open_whole(self: &Arc<Self>, state: &mut State, held: &mut Held) -> CudaResult<()> {
        let whole = held.residency.bytes();
        for mut fetch in held.residency.look(&whole) {
            self.fetch_down(state, &held.downs(&fetch))?;
            fetch.writable = true;
            held.residency.opened(&fetch);
        }
        held.residency.opened(&Fetch { bytes: whole.clone(), fetched: false, writable: true });
        if held.place.span.allow(&whole, Access::Open) { Ok(()) } else { Err(CudaError::OPERATING_SYSTEM) }
    }

    /// The program has waited: it will touch again what it touched before. System calls may do so too; they do not wait
    /// at closed pages but fail. Only little is fetched, and only while nothing is in flight.
    pub(crate) fn open_after_wait(self: &Arc<Self>) {
        // While work is in flight nothing is opened, and the closed ranges stay remembered.
        if !self.managed.exists.load(Ordering::Relaxed) || !self.is_still() {
            return;
        }
        install();
        let mut state = lock(&self.managed.state);
        let closed = state.closed.replace(Vec::new());
        let wanted = if state.is_small() { Some(state.worth_fetching()) } else { closed };
        let brought = wanted.map(|wanted| state.closed_among(&wanted)).unwrap_or_default();
        if !brought.is_empty() {
            // The next touch meets the failure again.
            let _ = self.open_in_stillness(&mut state, &brought, true, Attachment::Global);
        }
    }

    /// Whether nothing in flight may use managed memory.
    fn is_still(&self) -> bool {
        self.order.is_idle() && self.managed.guests.are_idle()
    }

    /// Opens while nothing is in flight that may use memory of this attachment; `None`: something is. Work that comes meanwhile
    /// sees that there is something open, waits for the state and closes it.
    fn open_in_stillness(
        self: &Arc<Self>,
        state: &mut State,
        brought: &[(u64, Fetch)],
        shadowed: bool,
        attached: Attachment,
    ) -> Option<CudaResult<()>> {
        self.managed.open.store(true, Ordering::SeqCst);
        let of_stream = |stream| self.order.stream(stream).is_none_or(|progress| self.is_quiet(&progress));
        let is_over = match attached {
            Attachment::Single(stream) => of_stream(stream),
            Attachment::Global | Attachment::Host => self.is_still(),
        };
        let is_still = self.managed.leaving.load(Ordering::SeqCst) == 0 && is_over;
        let opened = is_still.then(|| self.open_all(state, brought, shadowed));
        self.tell_open(state);
        opened
    }

    /// Opens these bytes, after all work so far. It is a hint: where other threads' work leaves no moment, nothing is opened.
    pub(crate) fn prefetch_managed(self: &Arc<Self>, bytes: &Range<u64>) -> CudaResult<()> {
        for _ in 0..MOST_PREFETCHES {
            self.wait_for_work(Attachment::Global);
            let mut state = lock(&self.managed.state);
            let brought = state.closed_among(std::slice::from_ref(bytes));
            if let Some(opened) = self.open_in_stillness(&mut state, &brought, false, Attachment::Global) {
                return opened;
            }
        }
        Ok(())
    }
}

impl State {
    fn worth_fetching(&self) -> Vec<Range<u64>> {
        self.held.values().filter(|held| held.is_worth_fetching()).map(|held| held.residency.bytes()).collect()
    }

    fn is_small(&self) -> bool {
        let mut bytes = 0;
        self.held.values().all(|held| {
            let range = held.residency.bytes();
            bytes += range.end - range.start;
            bytes <= EAGER_BYTES
        })
    }

    /// The parts of these bytes that are the device's alone, to be opened for reading and writing: a system call may do
    /// either.
    fn closed_among(&self, wanted: &[Range<u64>]) -> Vec<(u64, Fetch)> {
        let mut brought = Vec::new();
        for bytes in wanted {
            for start in self.holding_any(bytes) {
                let Some(held) = self.held.get(&start) else { continue };
                let writable = |fetch| Fetch { writable: true, ..fetch };
                brought.extend(held.residency.look(bytes).into_iter().map(|fetch| (start, writable(fetch))));
            }
        }
        brought
    }
}
