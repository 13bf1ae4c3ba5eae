//! Tickets: what another session needs to import from this one, and importing with one. Sessions, tickets and keys come in;
//! blocks and pages of this session's own numbering go out. Keys are shown to nobody, and no ticket goes out before the worker
//! has it.

use floe_abi::{CudaError, CudaResult};
use floe_wire::{
    BlockId, Call, CreateSignals, DropSignals, Export, ImportBlock, ImportSignals, MemoryInfo, ReleaseBlock, SignalsId,
    TicketId, Withdraw,
};

use super::ticket::{Exporter, Imported, KEY_BYTES, Scope};
use crate::vgpu::Vgpu;
use floe_lock::lock;

impl Vgpu {
    /// Makes a ticket for so many imports (0: any number) within so many seconds (0: while its object is there). The worker
    /// has it when this returns, since others name it on connections of their own.
    pub(crate) fn export(&self, scope: Scope, uses: u32, seconds: u32) -> CudaResult<Exporter> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|_| CudaError::OPERATING_SYSTEM)?;
        self.export_by(key, scope, uses, seconds)
    }

    /// The same with a key of the caller's.
    pub(crate) fn export_by(
        &self,
        key: [u8; KEY_BYTES],
        scope: Scope,
        uses: u32,
        seconds: u32,
    ) -> CudaResult<Exporter> {
        let ticket = self.next_id();
        self.begin_to_share()?;
        let (scope, object) = scope.on_wire();
        // Its own failure is told here: whoever is refused a ticket must not pass it on.
        self.call(&Export { ticket: TicketId(ticket), key: &key, scope, object, uses, seconds })?;
        Ok(Exporter { session: self.peers.seat.session, ticket, key })
    }

    /// Ends a ticket; what was imported with it stays.
    pub(crate) fn withdraw(&self, exporter: &Exporter) -> CudaResult<()> {
        self.connection.post(&Withdraw { ticket: TicketId(exporter.ticket) }).map(drop)
    }

    /// Waits for copies that have returned to the program before their bytes were there: others may read them from now on. Copies
    /// that come later wait by themselves.
    pub(crate) fn begin_to_share(&self) -> CudaResult<()> {
        self.peers.begin_to_share();
        let owing = self.order.owing_copies();
        if owing.iter().any(|progress| progress.is_retired()) {
            return self.synchronize();
        }
        owing.iter().try_for_each(|progress| self.synchronize_stream(progress))
    }

    /// Waits until the worker has taken everything that was posted; for no work of the device.
    pub(super) fn catch_up(&self) -> CudaResult<()> {
        self.call(&MemoryInfo {}).map(drop)
    }

    /// The ticket by which the program's other vGPUs import from this one.
    pub(super) fn ticket(&self) -> CudaResult<Exporter> {
        let mut ticket = lock(&self.peers.ticket);
        if let Some(ticket) = &*ticket {
            return Ok(ticket.clone());
        }
        let made = self.export(Scope::Everything, 0, 0)?;
        Ok(ticket.insert(made).clone())
    }

    /// Imports a block of another session of the server, for the caller to map.
    ///
    /// # Errors
    /// INVALID_HANDLE where the exporter has no such block or ticket, or has ended; PEER_ACCESS_UNSUPPORTED where the two
    /// GPUs do not reach each other.
    pub(crate) fn import(&self, from: &Exporter, object: u64) -> CudaResult<Imported> {
        let block = self.next_id();
        self.peers.begin_to_share();
        let answer = self.call(&ImportBlock {
            session: from.session,
            ticket: TicketId(from.ticket),
            key: &from.key,
            object: BlockId(object),
            block: BlockId(block),
        })?;
        let reply = self.connection.read(ImportBlock::decode_reply(&answer.body))?;
        Ok(Imported { block, bytes: reply.bytes })
    }

    /// Gives an imported block back that is mapped nowhere.
    pub(crate) fn give_back(&self, imported: Imported) -> CudaResult<()> {
        self.connection.post(&ReleaseBlock { block: BlockId(imported.block) }).map(drop)
    }

    /// Makes a page of words, all 0.
    pub(crate) fn create_signals(&self) -> CudaResult<SignalsId> {
        let signals = SignalsId(self.next_id());
        self.call(&CreateSignals { signals })?;
        Ok(signals)
    }

    /// Imports a page of words of another session.
    ///
    /// # Errors
    /// As [`Vgpu::import`].
    pub(crate) fn import_signals(&self, from: &Exporter, object: SignalsId) -> CudaResult<SignalsId> {
        let signals = SignalsId(self.next_id());
        let ticket = TicketId(from.ticket);
        self.call(&ImportSignals { session: from.session, ticket, key: &from.key, object, signals })?;
        Ok(signals)
    }

    /// Drops a page; work that was issued before may still use it.
    pub(crate) fn drop_signals(&self, signals: SignalsId) -> CudaResult<()> {
        self.connection.post(&DropSignals { signals }).map(drop)
    }
}
