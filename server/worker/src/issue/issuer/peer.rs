//! What other sessions import from this one, and what this one imports from others.
//! In: tickets, and objects of others with the key of a ticket. Out: entries of the tables of blocks and signal pages, as if
//! they were the session's own.
//! It waits for the daemon's answer to an import, for as long as that may take, and for nothing of the other session's.

mod collective;
pub(crate) mod signals;
pub(crate) mod transfer;

use std::os::fd::AsFd as _;

use floe_abi::{CudaError, MemHandle};
use floe_device::Device;
use floe_wire::{
    AskPeer, AskPeerReply, AwaitSignal, BlockId, ConnectPeer, CreateSignals, DropPeer, DropSignals, Export,
    ImportBlock, ImportBlockReply, ImportSignals, PeerRequests, RaiseSignal, ReadSignals, ReceiveFrom, RecordSignal,
    SendTo, TicketId, WINDOW_BYTES, Withdraw,
};

use super::{Answer, Issuer, body};
use crate::daemon::peer_notices::{Kind, Returned};
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::block::Block;
use crate::peer::hub::Wanted;
use crate::peer::imports::Imported;
use crate::peer::proof::Key;
use crate::peer::tickets::{New, Scope};

impl<D: Device> PeerRequests for Issuer<D> {
    fn export(&mut self, message: Export<'_>) -> Result<Answer, Fault> {
        let Export { ticket, key, scope, object, uses, seconds } = message;
        let new = New { key: key_of(key)?, scope: Scope::of(scope, object)?, uses, seconds };
        if let Scope::Link(link) = new.scope {
            self.expect_peer(link, uses)?;
        }
        self.shared.hub.add_ticket(ticket.0, new)?;
        body(&())
    }

    fn connect_peer(&mut self, message: ConnectPeer<'_>) -> Result<Answer, Fault> {
        let key = key_of(message.key)?;
        self.make_peer_link(&message, &key)
    }

    fn drop_peer(&mut self, message: DropPeer) -> Result<Answer, Fault> {
        Ok(self.drop_peer_link(message))
    }

    fn send_to(&mut self, message: SendTo) -> Result<Answer, Fault> {
        self.transfer(message.into())
    }

    fn receive_from(&mut self, message: ReceiveFrom) -> Result<Answer, Fault> {
        self.transfer(message.into())
    }

    fn withdraw(&mut self, message: Withdraw) -> Result<Answer, Fault> {
        self.shared.hub.withdraw(message.ticket.0);
        Ok(Answer::Nothing)
    }

    fn import_block(&mut self, message: ImportBlock<'_>) -> Result<Answer, Fault> {
        let ImportBlock { session, ticket, key, object, block } = message;
        self.blocks.check_new(block.0)?;
        // Else a session could hold any number of blocks whose owners are over.
        self.allowance.ledger.cover()?;
        let wanted = wanted(session, ticket, key, Kind::Block, object.0)?;
        let imported = self.shared.hub.ask(&wanted)?;
        let bytes = imported.bytes;
        let memory = self.take_in(&imported).inspect_err(|_| self.shared.hub.give_back(returned(&wanted)));
        let bound = memory.map(|memory| self.bind_import(block, memory, &wanted, bytes));
        self.shared.hub.settle(&wanted);
        bound?;
        body(&ImportBlockReply { bytes })
    }

    fn create_signals(&mut self, message: CreateSignals) -> Result<Answer, Fault> {
        self.make_signals(message.signals)
    }

    fn import_signals(&mut self, message: ImportSignals<'_>) -> Result<Answer, Fault> {
        let ImportSignals { session, ticket, key, object, signals } = message;
        self.signals.check_new(signals.0)?;
        let wanted = wanted(session, ticket, key, Kind::Signals, object.0)?;
        let Imported { file, .. } = self.shared.hub.ask(&wanted)?;
        let its = returned(&wanted);
        let mapped = self.map_signals(signals, file, Some(its)).inspect_err(|_| self.shared.hub.give_back(its));
        self.shared.hub.settle(&wanted);
        mapped
    }

    fn drop_signals(&mut self, message: DropSignals) -> Result<Answer, Fault> {
        self.give_signals_up(message.signals)
    }

    fn raise_signal(&mut self, message: RaiseSignal) -> Result<Answer, Fault> {
        self.raise(&message)
    }

    fn await_signal(&mut self, message: AwaitSignal) -> Result<Answer, Fault> {
        self.stand_at(&message)
    }

    fn record_signal(&mut self, message: RecordSignal) -> Result<Answer, Fault> {
        self.record_shared(&message)
    }

    fn read_signals(&mut self, message: ReadSignals) -> Result<Answer, Fault> {
        self.read_words(&message)
    }

    fn ask_peer(&mut self, message: AskPeer) -> Result<Answer, Fault> {
        let gpu = i32::try_from(message.gpu).map_err(|_| CudaError::INVALID_DEVICE)?;
        let [rank, access, atomics, arrays] = self.device().peer_attributes(gpu)?;
        body(&AskPeerReply { rank, access, atomics, arrays })
    }
}

impl<D: Device> Issuer<D> {
    /// Memory that another session's worker has exported, whose size is what that one says.
    fn take_in(&mut self, imported: &Imported) -> Result<MemHandle, Fault> {
        let Imported { file, bytes, gpu } = imported;
        if *bytes == 0 || !bytes.is_multiple_of(self.allowance.granularity) || *bytes > WINDOW_BYTES {
            return Err(Fault::Explained(CudaError::INVALID_HANDLE, format!("no block has so many bytes: {bytes}")));
        }
        if !self.reaches(*gpu)? {
            let words = format!("this GPU does not reach memory of GPU {gpu}");
            return Err(Fault::Explained(CudaError::PEER_ACCESS_UNSUPPORTED, words));
        }
        Ok(self.device().import_memory(file.as_fd())?)
    }

    fn reaches(&mut self, gpu: i32) -> Result<bool, CudaError> {
        if let Some(reaches) = self.reaches.get(&gpu) {
            return Ok(*reaches);
        }
        let [_, access, ..] = self.device().peer_attributes(gpu)?;
        self.reaches.insert(gpu, access != 0);
        Ok(access != 0)
    }

    fn bind_import(&mut self, block: BlockId, memory: MemHandle, wanted: &Wanted, bytes: u64) {
        self.shared.hub.add_import(block.0, (wanted.session, wanted.object), bytes);
        self.blocks.bind(block.0, Ok(Block { memory, bytes, mappings: 0, released: false }));
    }
}

fn key_of(bytes: &[u8]) -> Result<Key, Fault> {
    Key::of(bytes).map_or_else(|| violation(format!("a ticket's key has no: {} bytes", bytes.len())), Ok)
}

fn wanted(session: u64, ticket: TicketId, key: &[u8], kind: Kind, object: u64) -> Result<Wanted, Fault> {
    Ok(Wanted { session, ticket: ticket.0, key: key_of(key)?, kind, object })
}

/// What is said when it is let go.
fn returned(wanted: &Wanted) -> Returned {
    Returned { session: wanted.session, kind: wanted.kind, object: wanted.object }
}
