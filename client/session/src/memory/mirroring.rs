//! Host memory that a vGPU's kernels begin and cease to reach. While a stream waits for a word of it, a thread sends
//! the program's writes. Changes go out before work and waits; memory beyond the server's limit is refused.

use std::sync::Arc;
use std::time::Duration;

use floe_abi::{CudaError, CudaResult, device_attribute};
use floe_surface::HostRange;
use floe_wire::{MirrorMemory, UnmirrorMemory};

use crate::log::log;
use crate::memory::host_memory::sharing::Access;
use crate::memory::host_memory::{Pages, PinnedRange};
use crate::vgpu::Vgpu;
use crate::vgpu::order::StreamProgress;
use floe_lock::lock;

/// Mirrors of a vGPU together that are made without being asked for. The server bounds the others.
const MOST_UNASKED: u64 = 16 << 20;
/// How soon mirrored memory is looked at again after a wait for a word of it was queued.
const SOON: Duration = Duration::from_micros(50);
/// How seldom it is looked at in the end: what a release by the program alone may be late.
const LATE: Duration = Duration::from_millis(1);

/// How kernels of a vGPU reach pinned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The worker maps its very pages.
    Shared,
    /// The worker has a copy, and each side sends its changes.
    Mirrored,
}

impl Vgpu {
    /// How kernels of this vGPU reach pinned memory now.
    pub(crate) fn reach(&self, pinned: &PinnedRange) -> Option<Reach> {
        if self.mirrors.is_mirror(pinned.host_start) {
            return Some(Reach::Mirrored);
        }
        (self.access_of(pinned) == Access::Reached).then_some(Reach::Shared)
    }

    /// The same after mirroring pinned memory that the program uses as a device's, where there is room for it.
    pub(crate) fn make_reachable(&self, pinned: &PinnedRange) -> Option<Reach> {
        let mirror = || {
            if !self.can_map() || !self.has_room_to_mirror(&pinned.whole) {
                return None;
            }
            // Its own bytes, at the address by which it is named: its own, or the second one that another vGPU has.
            let mirrored = self.mirror_by(pinned.own, pinned.pages.as_ref(), |ask| ask(pinned.start));
            mirrored.is_ok().then_some(Reach::Mirrored)
        };
        match self.reach(pinned) {
            // Another thread may be about to send its first bytes.
            Some(Reach::Mirrored) if !self.mirrors.serves(pinned.host_start, 1) => {
                self.send_mirrors().ok().map(|()| Reach::Mirrored)
            }
            reached => reached.or_else(mirror),
        }
    }

    /// Whether kernels reach pinned memory at the very address by which they are given it, after making it so. What cannot be
    /// is not tried with each launch again.
    pub(crate) fn has_where_named(&self, pinned: &PinnedRange) -> bool {
        if self.mirrors.is_refused(pinned.host_start) {
            return false;
        }
        let is_there = match self.make_reachable(pinned) {
            Some(Reach::Shared) => true,
            Some(Reach::Mirrored) => self.mirrors.place_of(pinned.host_start) == Some(pinned.start),
            None => false,
        };
        if !is_there {
            self.mirrors.refuse(pinned.host_start);
        }
        is_there
    }

    /// Lets kernels of this vGPU reach host memory, at its own address, else at a second one, if it has one.
    ///
    /// # Errors
    /// OUT_OF_MEMORY beyond what the server mirrors (`floe serve --mirrored-memory`), NOT_SUPPORTED where it has neither
    /// address.
    pub(crate) fn mirror(&self, pinned: &PinnedRange, second: impl FnOnce() -> Option<u64>) -> CudaResult<()> {
        let own = pinned.own.pointer().0;
        self.mirror_by(pinned.own, pinned.pages.as_ref(), |ask| match (ask(own), second) {
            (Err(CudaError::NOT_SUPPORTED), second) => second().map_or(Err(CudaError::NOT_SUPPORTED), ask),
            (asked, _) => asked,
        })
    }

    /// The same at an address that is chosen by asking for it.
    fn mirror_by(
        &self,
        range: HostRange,
        pages: Option<&Pages>,
        choose: impl FnOnce(&dyn Fn(u64) -> CudaResult<u64>) -> CudaResult<u64>,
    ) -> CudaResult<()> {
        let (at, bytes) = (range.pointer().0, range.len() as u64);
        // Bytes that are on their way there were issued ahead of what reads the mirror, and come to this process alone.
        self.family().for_each(|vgpu| vgpu.connection.wait_for_writes(at, bytes));
        let making = lock(&self.mirrors.making);
        if self.mirrors.covers(at, bytes) {
            drop(making);
            // Another thread has made it, and may not have sent its bytes yet.
            return self.send_mirrors();
        }
        let ask = |at| self.call(&MirrorMemory { at: floe_wire::DevicePtr(at), bytes }).map(|_| at);
        let place = choose(&ask).inspect_err(|error| match error {
            &CudaError::OUT_OF_MEMORY => log!(
                Warn,
                "cuMemHostGetDevicePointer: the server mirrors no {bytes} bytes of host memory more\n  \
                 copy it to the device instead, or raise the limits there: floe serve --mirrored-memory, --host-memory"
            ),
            _ => log!(Warn, "cuMemHostGetDevicePointer: the server cannot have {bytes} bytes at {at:#x}: {error}"),
        })?;
        log!(Debug, "host memory is mirrored: {bytes} bytes at {at:#x}, for kernels at {place:#x}");
        let own = pages.and_then(|pages| if let Pages::Arena(own) = pages { Some(*own) } else { None });
        self.mirrors.add(range, place, own.zip(self.far.opener()));
        drop(making);
        self.send_mirrors()
    }

    /// The address that the device has for pinned memory which its kernels reach.
    pub(crate) fn device_place(&self, host: &HostRange) -> floe_abi::DevicePtr {
        let own = host.pointer().0;
        floe_abi::DevicePtr(self.mirrors.place_of(own).unwrap_or(own))
    }

    /// Whether the device's kernels can reach host memory at all.
    pub(crate) fn can_map(&self) -> bool {
        self.snapshot.attribute(device_attribute::CAN_MAP_HOST_MEMORY).is_some_and(|can| can != 0)
    }

    /// Whether a range can be mirrored unasked beside those that are.
    fn has_room_to_mirror(&self, range: &HostRange) -> bool {
        self.mirrors.bytes() + range.len() as u64 <= MOST_UNASKED
    }

    /// Ends a mirror, with what the device wrote last.
    pub(crate) fn unmirror(&self, start: u64) -> CudaResult<()> {
        self.mirrors.forgive(start);
        let Some(place) = self.mirrors.place_of(start).filter(|_| self.mirrors.is_mirror(start)) else {
            return Ok(());
        };
        let settled = self.synchronize();
        let ended = self.call(&UnmirrorMemory { at: floe_wire::DevicePtr(place) });
        self.mirrors.remove(start);
        settled.and(ended.map(drop))
    }

    /// Sends what the program writes to mirrored memory until the wait of this frame is over.
    pub(crate) fn watch_mirrors(self: &Arc<Self>, progress: &Arc<StreamProgress>, sequence: u64) -> CudaResult<()> {
        let mut waits = lock(&self.watched.waits);
        waits.push((Arc::clone(progress), sequence));
        if waits.len() > 1 {
            // The thread runs: it ends only when it finds none.
            return Ok(());
        }
        let vgpu = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("floe-words".into()).spawn(move || vgpu.keep_mirrors());
        spawned.map(drop).map_err(|error| {
            waits.clear();
            log!(Warn, "cuStreamWaitValue: no thread to watch host memory: {error}");
            CudaError::OPERATING_SYSTEM
        })
    }

    fn keep_mirrors(&self) {
        let mut pause = SOON;
        while self.watched.any_left() {
            std::thread::sleep(pause);
            pause = LATE.min(pause * 2);
            // Without a change nothing is sent that could fail.
            if self.send_mirrors().is_err() || self.errors.is_lost() {
                // The link is over, and so are all waits.
                lock(&self.watched.waits).clear();
            }
        }
    }
}
