//! Pageable memory to the device: threads fill slots, each full slot is the device's to read at once. The call returns when
//! all bytes have been read from the program's memory, as CUDA's own do.

use std::sync::{Arc, Mutex};

use floe_abi::{CudaError, CudaResult, DevicePtr};
use floe_surface::HostRange;

use super::copiers::{Copiers, Work};
use super::path::SlotPath;
use super::pieces::{Piece, Pieces};
use super::{SLOT, Slot, WAKES_FROM};
use floe_lock::lock;

struct Upload {
    path: SlotPath,
    to: DevicePtr,
    source: HostRange,
    pieces: Pieces,
    failed: Mutex<Option<CudaError>>,
}

impl SlotPath {
    /// Queues a copy to the device through slots, from its beginning on. Returns the number of bytes copied; the others
    /// must travel.
    pub(crate) fn upload(self, copiers: &Arc<Copiers>, to: DevicePtr, source: &HostRange) -> CudaResult<usize> {
        let pieces = Pieces::new(source.len(), copiers.threads(), SLOT);
        let upload = Arc::new(Upload { path: self, to, source: *source, pieces, failed: Mutex::default() });
        let call = || copiers.call(&upload, upload.pieces.most() - 1, source.len() >= WAKES_FROM);
        call();
        upload.run(|| {
            let (slot, helpers_left) = upload.path.slot(&upload.pieces);
            if helpers_left && slot.is_some() {
                call();
            }
            slot
        });
        let staged = upload.pieces.close(copiers.spin());
        if let Some(error) = *lock(&upload.failed) {
            return Err(error);
        }
        upload.path.vgpu.statistics.staged_to_device(staged as u64);
        Ok(staged)
    }
}

impl Upload {
    fn run(&self, slot: impl Fn() -> Option<Slot>) {
        while self.pieces.are_left() {
            let Some(slot) = slot() else { return };
            let Some(piece) = self.pieces.take() else { return };
            let moved = self.stage(piece, slot);
            self.pieces.is_done();
            if let Err(error) = moved {
                *lock(&self.failed) = Some(error);
                return;
            }
        }
    }

    fn stage(&self, piece: Piece, slot: Slot) -> CudaResult<()> {
        let source = self.source.sub(piece.offset, piece.bytes)?;
        slot.range(piece.bytes).copy_from(&source, piece.bytes)?;
        let to = self.to.offset(piece.offset as u64).ok_or(CudaError::INVALID_VALUE)?;
        let ticket = self.path.queue(to, slot.address(), piece.bytes)?;
        slot.leave_until(ticket);
        Ok(())
    }
}

impl Work for Upload {
    fn help(&self) {
        self.run(|| self.path.slot_soon(&self.pieces));
    }
}
