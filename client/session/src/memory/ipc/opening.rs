//! Taking memory of other processes: passports come in, the worker is asked to import, addresses go out. A mapping goes back when the
//! last close is made and all work before it is over. No passport is believed: the worker says how large a block is,
//! and the exporter's worker whether it may be had.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use floe_abi::{Context, CudaError, CudaResult, DevicePtr};
use floe_surface::ShareableHandle;

use super::descriptor;
use super::opened::{Door, Mapped, Source};
use super::passport::{Forged, Passport, Subject};
use crate::log::log;
use crate::memory::peers::ticket::Exporter;
use crate::vgpu::Vgpu;
use crate::vgpu::order::Fence;
use floe_lock::lock;

/// Bytes that a program calls another's memory or event, as a passport.
///
/// # Errors
/// INVALID_VALUE, and why in the log.
pub(crate) fn passport(bytes: &[u8; 64], subject: Subject) -> CudaResult<Passport> {
    Passport::read(bytes, subject).map_err(|forged: Forged| {
        log!(Warn, "what another process passed on cannot be opened: {forged}");
        CudaError::INVALID_VALUE
    })
}

/// The same of a descriptor or a fabric handle.
///
/// # Errors
/// As CUDA has it: NOT_SUPPORTED of a handle of something else, and of a fabric handle that is not CUDA's; UNKNOWN of such
/// a descriptor.
pub(crate) fn passport_of(shared: &ShareableHandle<BorrowedFd<'_>>, subject: Subject) -> CudaResult<Passport> {
    let (read, foreign) = match shared {
        ShareableHandle::Descriptor(file) => (Passport::read(&descriptor::read(*file)?, subject), CudaError::UNKNOWN),
        ShareableHandle::Fabric(handle) => (Passport::read(&handle.bytes, subject), CudaError::NOT_SUPPORTED),
    };
    read.map_err(|forged| {
        log!(Warn, "a handle of memory cannot be imported: {forged}");
        if let Forged::Subject(_) = forged { CudaError::NOT_SUPPORTED } else { foreign }
    })
}

impl Vgpu {
    /// By what a passport's object is imported.
    ///
    /// # Errors
    /// NOT_SUPPORTED of another server's.
    pub(crate) fn exporter_of(&self, passport: &Passport) -> CudaResult<Exporter> {
        if !self.peers.seat.server.is_some_and(|server| passport.is_of(&server)) {
            log!(Warn, "memory and events of a vGPU on another server cannot be opened");
            return Err(CudaError::NOT_SUPPORTED);
        }
        Ok(Exporter { session: passport.session, ticket: passport.ticket, key: passport.key() })
    }

    /// Opens another process's allocation, or opens it once more.
    ///
    /// # Errors
    /// INVALID_HANDLE where it is freed, or its process has ended; NOT_SUPPORTED of another server's.
    pub(crate) fn open(&self, passport: &Passport, context: Context, door: Door) -> CudaResult<DevicePtr> {
        let _opening = self.openings.begin();
        let &Passport { session, object, ticket, secret, .. } = passport;
        let source = Source { session, object, ticket, secret };
        if let Some(at) = lock(&self.openings.opened).open_again(source, door) {
            return Ok(DevicePtr(at));
        }
        let exporter = self.exporter_of(passport)?;
        let held = lock(&self.openings.opened).hold(source, passport.offset);
        let mapped = match held {
            Some(mapped) => {
                // Asked all the same: the allocation may have been freed.
                let asked = self.import(&exporter, passport.object).and_then(|block| self.give_back(block));
                if let Err(error) = asked {
                    self.let_mapping_go(mapped)?;
                    return Err(error);
                }
                mapped
            }
            None => {
                let (DevicePtr(at), bytes) = self.import_foreign(&exporter, passport.object)?;
                let mapped = Mapped { at, bytes };
                lock(&self.openings.opened).add(source, mapped);
                mapped
            }
        };
        let part = passport.offset..passport.offset + passport.bytes;
        let at = lock(&self.openings.opened).open(mapped.at, source, part, context, door);
        self.let_mapping_go(mapped)?;
        at.map(DevicePtr).ok_or(CudaError::INVALID_VALUE)
    }

    /// Opening something of a mapping has ended. Where nothing is open in it by now, it goes behind the work so far: other threads
    /// may have closed what they used.
    fn let_mapping_go(&self, mapped: Mapped) -> CudaResult<()> {
        let fence = self.fence_of(mapped.at);
        lock(&self.openings.opened).let_go(mapped.at, fence);
        self.unmap_closed()
    }

    /// Closes opened memory, once, behind work that `fence` stands for; whether it was opened by this door.
    pub(crate) fn close(&self, at: DevicePtr, door: Door, fence: &Fence) -> CudaResult<bool> {
        if !self.openings.any() {
            return Ok(false);
        }
        let was_open = lock(&self.openings.opened).close(at.0, door, fence.clone());
        self.unmap_closed()?;
        Ok(was_open)
    }

    /// Unmaps what nobody has open any more and no work uses.
    pub(crate) fn unmap_closed(&self) -> CudaResult<()> {
        if !self.openings.any() {
            return Ok(());
        }
        let gone = {
            let mut opened = lock(&self.openings.opened);
            if !opened.any_leaves() {
                return Ok(());
            }
            opened.collect(Fence::is_passed)
        };
        gone.into_iter().try_for_each(|mapped| self.return_foreign(DevicePtr(mapped.at)))
    }

    /// The vGPU will be reset: nobody opens any more what it exported.
    pub(crate) fn withdraw_everything(&self) {
        for passport in lock(&self.exports).clear() {
            self.withdraw_passport(&passport);
        }
    }

    /// The server has reset the vGPU: what it had opened is gone.
    pub(crate) fn forget_opened(&self) {
        lock(&self.openings.opened).clear();
    }

    /// One context has ended, others live on: what it opened is closed.
    pub(crate) fn close_all_of(&self, context: Context, fence: &Fence) -> CudaResult<()> {
        lock(&self.openings.opened).close_of(context, fence);
        self.unmap_closed()
    }

    /// A signal page of another process.
    ///
    /// # Errors
    /// As [`Vgpu::open`].
    pub(crate) fn open_signals(self: &Arc<Self>, passport: &Passport) -> CudaResult<floe_wire::SignalsId> {
        self.import_signals(&self.exporter_of(passport)?, floe_wire::SignalsId(passport.object))
    }
}
