//! Host memory of the program that kernels of one vGPU reach: what the server knows of it. Ranges come in; before work and
//! waits go out the bytes the program has changed, and what the device has changed is written here before a wait's reply is
//! seen. It never sends a byte that has not changed, so that neither side undoes what the other is doing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, DevicePtr, device_attribute};
use floe_surface::HostRange;
use floe_wire::{MirrorMemory, MirrorRun, UnmirrorMemory, WriteMirror, changed_runs};

use crate::client::Client;
use crate::host_memory::{has_placed, placed_addresses};
use crate::log::log;
use crate::session::Session;
use crate::table::lock;

/// All mirrors of a vGPU together: all of it is looked through before every launch.
const MOST_BYTES: u64 = 16 << 20;
/// How much is compared, and sent in one message, at a time.
const PIECE: usize = 64 << 10;

/// One range.
#[derive(Debug)]
struct Mirror {
    range: HostRange,
    /// What the server has, as far as is known here.
    known: Vec<u8>,
}

/// The mirrored ranges of one vGPU.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    any: AtomicBool,
    /// Held from the look at the memory to the post: what one thread found changed is sent before another thread's work.
    sending: Mutex<()>,
    /// By first address. Never held while something is sent: the receiving thread needs it.
    ranges: Mutex<BTreeMap<u64, Mirror>>,
}

/// Changed bytes of one mirror.
struct Change {
    at: u64,
    runs: Vec<(u32, Vec<u8>)>,
}

impl Mirrors {
    /// Whether there are any.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether any of these bytes is mirrored.
    pub(crate) fn touches(&self, at: u64, bytes: u64) -> bool {
        if !self.any() {
            return false;
        }
        let end = at.saturating_add(bytes);
        let ranges = lock(&self.ranges);
        ranges.range(..end).next_back().is_some_and(|(start, mirror)| start + mirror.known.len() as u64 > at)
    }

    /// Whether all of these bytes are of one mirror.
    pub(crate) fn covers(&self, at: u64, bytes: u64) -> bool {
        if !self.any() {
            return false;
        }
        let ranges = lock(&self.ranges);
        let found = ranges.range(..=at).next_back();
        found.is_some_and(|(start, mirror)| {
            at.checked_add(bytes).is_some_and(|end| end <= start + mirror.known.len() as u64)
        })
    }

    fn is_mirror(&self, start: u64) -> bool {
        self.any() && lock(&self.ranges).contains_key(&start)
    }

    fn bytes(&self) -> u64 {
        lock(&self.ranges).values().map(|mirror| mirror.known.len() as u64).sum()
    }

    fn add(&self, range: HostRange) {
        lock(&self.ranges).insert(range.pointer().0, Mirror { range, known: vec![0; range.len()] });
        self.any.store(true, Ordering::Release);
    }

    fn remove(&self, start: u64) {
        let mut ranges = lock(&self.ranges);
        ranges.remove(&start);
        self.any.store(!ranges.is_empty(), Ordering::Release);
    }

    /// The server has none of them any more.
    pub(crate) fn clear(&self) {
        lock(&self.ranges).clear();
        self.any.store(false, Ordering::Release);
    }

    /// What the program has changed since the last look.
    fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut now = vec![0; PIECE];
        for (at, mirror) in lock(&self.ranges).iter_mut() {
            let mut start = 0;
            for known in mirror.known.chunks_mut(PIECE) {
                let now = &mut now[..known.len()];
                let read = mirror.range.sub(start, known.len()).and_then(|piece| piece.read_into(now));
                let offset = u32::try_from(start).unwrap_or(u32::MAX);
                let runs = changed_runs(known, now, offset);
                if read.is_ok() && !runs.is_empty() {
                    let runs = runs.iter().map(|run| (run.offset, run.bytes.to_vec())).collect();
                    changes.push(Change { at: *at, runs });
                    known.copy_from_slice(now);
                }
                start += known.len();
            }
        }
        changes
    }

    /// Writes what the device has changed. What is not mirrored any more is nobody's.
    pub(crate) fn apply(&self, at: u64, runs: &[MirrorRun<'_>]) {
        let mut ranges = lock(&self.ranges);
        let Some(mirror) = ranges.get_mut(&at) else {
            return;
        };
        for run in runs {
            let offset = run.offset as usize;
            let known = offset.checked_add(run.bytes.len()).and_then(|end| mirror.known.get_mut(offset..end));
            let target = mirror.range.sub(offset, run.bytes.len());
            if let (Some(known), Ok(target)) = (known, target)
                && target.write(run.bytes).is_ok()
            {
                known.copy_from_slice(run.bytes);
            }
        }
    }
}

impl Session {
    /// Lets kernels of this vGPU reach host memory, at its own address.
    ///
    /// # Errors
    /// NOT_SUPPORTED beyond what can be looked through before every launch, or where the server cannot have the address.
    pub(crate) fn mirror(&self, range: HostRange) -> CudaResult<()> {
        let (at, bytes) = (range.pointer().0, range.len() as u64);
        let sending = lock(&self.mirrors.sending);
        if self.mirrors.covers(at, bytes) {
            return Ok(());
        }
        if !self.has_room_to_mirror(&range) {
            log!(
                Warn,
                "cuMemHostGetDevicePointer: kernels reach at most {MOST_BYTES} bytes of host memory, not {bytes} more\n  \
                 copy it to the device instead"
            );
            return Err(CudaError::NOT_SUPPORTED);
        }
        self.call(&MirrorMemory { at: floe_wire::DevicePtr(at), bytes }).inspect_err(|error| {
            log!(Warn, "cuMemHostGetDevicePointer: the server cannot have {bytes} bytes at {at:#x}: {error}");
        })?;
        log!(Debug, "host memory is mirrored: {bytes} bytes at {at:#x}");
        self.mirrors.add(range);
        drop(sending);
        self.send_mirrors()
    }

    /// Whether the device's kernels can reach host memory at all.
    fn can_mirror(&self) -> bool {
        self.snapshot.attribute(device_attribute::CAN_MAP_HOST_MEMORY).is_some_and(|can| can != 0)
    }

    /// Whether a range can be mirrored beside those that are.
    fn has_room_to_mirror(&self, range: &HostRange) -> bool {
        self.mirrors.bytes() + range.len() as u64 <= MOST_BYTES
    }

    /// Sends what the program has changed in mirrored memory, ahead of work and waits.
    #[inline]
    pub(crate) fn send_mirrors(&self) -> CudaResult<()> {
        if self.mirrors.any() { self.send_changes() } else { Ok(()) }
    }

    fn send_changes(&self) -> CudaResult<()> {
        let _sending = lock(&self.mirrors.sending);
        for change in self.mirrors.changes() {
            let runs = change.runs.iter().map(|(offset, bytes)| MirrorRun { offset: *offset, bytes }).collect();
            self.connection.post(&WriteMirror { at: floe_wire::DevicePtr(change.at), runs })?;
        }
        Ok(())
    }

    /// Ends a mirror, with what the device wrote last.
    fn unmirror(&self, start: u64) -> CudaResult<()> {
        if !self.mirrors.is_mirror(start) {
            return Ok(());
        }
        let settled = self.synchronize();
        let ended = self.call(&UnmirrorMemory { at: floe_wire::DevicePtr(start) });
        self.mirrors.remove(start);
        settled.and(ended.map(drop))
    }
}

impl Client {
    /// The memory of the program is about to be freed or unregistered.
    pub(crate) fn unmirror(&self, start: u64) -> CudaResult<()> {
        self.devices()?.iter().try_for_each(|device| device.session.unmirror(start))
    }

    /// A context is gone, and what was registered in it is not pinned any more.
    pub(crate) fn forget_registered(&self, context: floe_abi::Context) {
        for start in self.host_memory.registered_in(context) {
            // What cannot be told any more is told by the calls that follow.
            let _ = self.unmirror(start);
        }
        self.host_memory.forget_registered(context);
    }

    /// Whether kernels of any vGPU may read or write these bytes.
    pub(crate) fn is_mirrored(&self, at: u64, bytes: u64) -> bool {
        let devices = self.devices().unwrap_or_default();
        devices.iter().any(|device| device.session.mirrors.touches(at, bytes))
    }

    /// Pinned host memory where a device's address is asked for: with unified addresses it may stand there, whether or not
    /// the program has asked for its device pointer. An address that is a variable's of a device stays the device's.
    pub(crate) fn host_side(&self, at: DevicePtr, bytes: usize, current: &Arc<Session>) -> Option<HostRange> {
        let bytes = bytes as u64;
        let is_host = self.is_mirrored(at.0, bytes) || self.owner(at, Some(current)).is_none();
        if is_host { self.host_memory.range(at.0, bytes) } else { None }
    }

    /// Lets a kernel reach the pinned memory whose addresses it is given, as unified addresses promise. Addresses it finds
    /// in memory are not seen here: memory behind those is reached once its device pointer was asked for.
    #[inline(always)]
    pub(crate) fn mirror_named(&self, parameters: &[u8], session: &Session) {
        if has_placed() {
            self.mirror_placed(parameters, session);
        }
    }

    fn mirror_placed(&self, parameters: &[u8], session: &Session) {
        for at in placed_addresses(parameters) {
            let at = DevicePtr(at);
            let reached = session.mirrors.touches(at.0, 1) || self.reaches_shared(at, 1, session);
            if !reached && self.host_memory.find(at.0).is_some() && !self.mirror_pinned(at, session) {
                session.errors.suspect(at.0);
            }
        }
    }

    /// Lets kernels reach pinned memory that the program uses as a device's, where there is room for it.
    pub(crate) fn mirror_pinned(&self, at: DevicePtr, session: &Session) -> bool {
        let pinned = self.host_memory.find(at.0);
        let whole = pinned.and_then(|pinned| self.host_memory.range(pinned.start, pinned.bytes));
        whole.is_some_and(|whole| {
            session.can_mirror() && session.has_room_to_mirror(&whole) && session.mirror(whole).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use floe_surface::HostBlock;

    use super::*;

    #[test]
    fn only_what_changed_is_sent_and_what_came_is_not_sent_back() {
        let (mirrors, block) = (Mirrors::default(), HostBlock::new(PIECE + 8).unwrap());
        mirrors.add(block.range());
        assert!(mirrors.changes().is_empty());
        block.range().sub(PIECE + 4, 2).unwrap().write(&[1, 2]).unwrap();
        let changes = mirrors.changes();
        assert_eq!((changes.len(), changes[0].at), (1, block.pointer().0));
        assert_eq!(changes[0].runs, [(u32::try_from(PIECE).unwrap() + 4, vec![1, 2])]);
        mirrors.apply(block.pointer().0, &[MirrorRun { offset: 0, bytes: &[7] }]);
        assert_eq!(block.range().to_vec()[0], 7);
        assert!(mirrors.changes().is_empty());
    }

    #[test]
    fn what_does_not_fit_a_mirror_is_not_written() {
        let (mirrors, block) = (Mirrors::default(), HostBlock::new(16).unwrap());
        mirrors.add(block.range());
        for offset in [15, 16, u32::MAX] {
            mirrors.apply(block.pointer().0, &[MirrorRun { offset, bytes: &[7, 7] }]);
        }
        mirrors.apply(block.pointer().0 + 1, &[MirrorRun { offset: 0, bytes: &[7] }]);
        assert_eq!(block.range().to_vec(), [0; 16]);
        assert!(mirrors.covers(block.pointer().0 + 8, 8) && !mirrors.covers(block.pointer().0 + 8, 9));
        assert!(mirrors.touches(block.pointer().0 + 15, 9) && !mirrors.touches(block.pointer().0 + 16, 1));
    }
}
