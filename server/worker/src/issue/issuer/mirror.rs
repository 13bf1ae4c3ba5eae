//! Host memory of the client that kernels reach.
//! In: where it lies in the client, what the client changed there. Out: memory of this process at the same place, known to
//! the device. An address that is not free here is refused, never moved; nothing that is mapped already is touched.

use floe_abi::CudaError;
use floe_device::Device;
use floe_wire::{MirrorMemory, MirrorRequests, UnmirrorMemory, WINDOW_BASE, WINDOW_BYTES, WINDOW_COUNT};

use super::{Answer, Issuer, body};
use crate::issue::fault::Fault;
use crate::peer::page;

/// Below lies what programs without address-space randomization use; above ends what a process can map.
const PLACES: std::ops::Range<u64> = 1 << 32..0x7fff_ffff_f000;
/// The addresses of all windows.
const WINDOWS: std::ops::Range<u64> = WINDOW_BASE..WINDOW_BASE + WINDOW_COUNT as u64 * WINDOW_BYTES;

/// Whether host memory may lie there at all.
pub(super) fn is_place(at: u64, bytes: u64) -> bool {
    let Some(end) = at.checked_add(bytes) else { return false };
    let apart_from = |taken: &std::ops::Range<u64>| end <= taken.start || at >= taken.end;
    at >= PLACES.start && end <= PLACES.end && apart_from(&WINDOWS) && apart_from(&page::PLACES)
}

impl<D: Device> MirrorRequests for Issuer<D> {
    fn mirror_memory(&mut self, message: MirrorMemory) -> Result<Answer, Fault> {
        let MirrorMemory { at, bytes } = message;
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let room = self.shared.mirrors.room(at, bytes)?;
        if !is_place(at.0, bytes) {
            let words = format!("no place for host memory of {bytes} bytes: {:#x}", at.0);
            return Err(Fault::Explained(CudaError::NOT_SUPPORTED, words));
        }
        let memory = self.device().map_host(at, size)?;
        self.shared.mirrors.add(at, memory, room);
        body(&())
    }

    fn unmirror_memory(&mut self, message: UnmirrorMemory) -> Result<Answer, Fault> {
        // The device's last writes go ahead of the reply.
        if let Err(error) = self.shared.mirrors.tell(&self.shared.sender) {
            self.shared.log.line(format_args!("cannot send changes of mirrored memory to the client: {error}"));
        }
        self.shared.mirrors.remove(message.at)?;
        body(&())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_lies_where_programs_have_it_and_never_among_device_addresses() {
        assert!(is_place(0x6000_0000_0000, 4096) && is_place(0x7f12_3456_7000, 4));
        for (at, bytes) in [
            (0, 4096),
            (WINDOW_BASE, 1),
            (WINDOW_BASE - 1, 2),
            (0x3fff_ffff_ffff, 1),
            (u64::MAX, 2),
            (0x7fff_ffff_f000, 1),
            (page::PLACES.start - 1, 2),
            (page::PLACES.end - 1, 1),
        ] {
            assert!(!is_place(at, bytes), "{at:#x} {bytes}");
        }
    }
}
