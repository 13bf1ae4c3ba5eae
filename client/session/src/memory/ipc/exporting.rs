//! Giving memory to other processes: allocations, blocks and pages of words come in, passports go out, and a ticket for each goes to
//! the worker first. The same allocation has the same passport until it is freed. Nothing here reads memory.

use std::os::fd::OwnedFd;

use floe_abi::{CudaError, CudaResult, DevicePtr, FabricHandle};
use floe_surface::{ShareableHandle, ShareableKind};
use floe_wire::TicketId;

use super::descriptor;
use super::exports::Exports;
use super::passport::{Passport, Secret, Subject};
use crate::log::log_once;
use crate::memory::peers::ticket::{Exporter, Scope};
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// What a passport is of, beside its object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The pool that it is of, or 0.
    pub(crate) pool: u64,
}

impl Part {
    /// All of an object that has no parts.
    pub(crate) const WHOLE: Self = Self { offset: 0, bytes: 0, pool: 0 };
}

/// What a passport is passed on as.
///
/// # Errors
/// As of [`Passport::to_bytes`]; OPERATING_SYSTEM where the system gives no file.
pub(crate) fn handle_of(passport: &Passport, kind: ShareableKind) -> CudaResult<ShareableHandle<OwnedFd>> {
    let bytes = passport.to_bytes()?;
    match kind {
        ShareableKind::Descriptor => descriptor::make(&bytes).map(ShareableHandle::Descriptor),
        ShareableKind::Fabric => Ok(ShareableHandle::Fabric(FabricHandle { bytes })),
    }
}

impl Vgpu {
    /// A passport with a new ticket. The worker has the ticket when this returns.
    ///
    /// # Errors
    /// NOT_SUPPORTED of a server that passes nothing from session to session.
    pub(crate) fn issue(&self, subject: Subject, scope: Scope, part: Part) -> CudaResult<Passport> {
        let server = self.server_name()?;
        let (Scope::Block(object) | Scope::Signals(floe_wire::SignalsId(object))) = scope else {
            return Err(CudaError::NOT_SUPPORTED);
        };
        let Part { offset, bytes, pool } = part;
        let (session, secret) = (self.peers.seat.session, Secret::new()?);
        let passport = Passport { subject, server, session, secret, ticket: 0, object, offset, bytes, pool };
        let Exporter { ticket, .. } = self.export_by(passport.key(), scope, 0, 0)?;
        Ok(Passport { ticket, ..passport })
    }

    /// The first bytes of what the daemon chose at its start.
    pub(crate) fn server_name(&self) -> CudaResult<[u8; 8]> {
        let name = self.peers.seat.server.and_then(|server| server.first_chunk().copied());
        name.ok_or_else(|| {
            log_once!(Warn, "this server passes no memory from one session to another");
            CudaError::NOT_SUPPORTED
        })
    }

    /// The passport of the allocation that holds an address. INVALID_VALUE where none does.
    pub(crate) fn export_allocation(&self, at: DevicePtr, subject: Subject, pool: u64) -> CudaResult<Passport> {
        self.wait_before_first_export(|exports, vgpu| {
            let found = lock(&vgpu.blocks).find(at.0).copied();
            found.is_none_or(|allocation| exports.of_allocation(allocation.at, allocation.serial).is_some())
        })?;
        let mut exports = lock(&self.exports);
        let (allocation, block) = {
            let blocks = lock(&self.blocks);
            (blocks.find(at.0).copied(), blocks.block_at(at.0))
        };
        let (allocation, block) = allocation.zip(block).ok_or(CudaError::INVALID_VALUE)?;
        if let Some(known) = exports.of_allocation(allocation.at, allocation.serial) {
            return Ok(known);
        }
        let part = Part { offset: allocation.at - block.at, bytes: allocation.bytes, pool };
        let passport = self.issue(subject, Scope::Block(block.block), part)?;
        exports.add_allocation(allocation.at, allocation.serial, passport);
        Ok(passport)
    }

    /// The passport of physical memory of `cuMemCreate`.
    pub(crate) fn export_physical(&self, block: u64, bytes: u64) -> CudaResult<Passport> {
        self.wait_before_first_export(|exports, _| exports.of_physical(block).is_some())?;
        let mut exports = lock(&self.exports);
        if let Some(known) = exports.of_physical(block) {
            return Ok(known);
        }
        let part = Part { bytes, ..Part::WHOLE };
        let passport = self.issue(Subject::Physical, Scope::Block(block), part)?;
        exports.add_physical(block, passport);
        Ok(passport)
    }

    /// An export waits for copies that have returned, and those for the program. Frees and releases of other threads do not: they
    /// want the list of exports, which nobody has meanwhile.
    fn wait_before_first_export(&self, is_known: impl Fn(&Exports, &Self) -> bool) -> CudaResult<()> {
        let is_known = is_known(&lock(&self.exports), self);
        if is_known {
            return Ok(());
        }
        self.begin_to_share()
    }

    /// The allocation that began here is freed: nobody opens it any more.
    pub(crate) fn withdraw_allocation(&self, at: u64) {
        let freed = lock(&self.exports).freed(at);
        if let Some(passport) = freed {
            self.withdraw_passport(&passport);
        }
    }

    /// Ends a passport's ticket. A link that has failed needs no telling.
    pub(crate) fn withdraw_passport(&self, passport: &Passport) {
        let _ = self.connection.post(&floe_wire::Withdraw { ticket: TicketId(passport.ticket) });
    }
}
