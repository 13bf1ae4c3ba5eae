//! The table's part in moves: who may move what, the second worker of a session, and the commit.
//! In: what a move's coordinator decides. Out: the table as it is then. Each is one step under the table's lock.

use std::sync::Arc;

use floe_migrate::Phase;

use super::{Movable, Sessions, Worker};
use crate::entrance::limits::Source;
use crate::usage::accounting::{HOST_MEMORY, NoRoom};
use crate::usage::seat::Seat;
use crate::workers::worker_channel::WorkerChannel;

/// What a session is to a caller who wants to move it.
#[derive(Debug)]
pub(crate) enum Found {
    /// The caller may move it.
    Its(Movable),
    /// The caller is shown no such session.
    Nothing,
}

/// Who asks for a move.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// The peer; `None`: the operator.
    pub(crate) source: Option<Source>,
    /// Whether it may move what it is shown, without a key.
    pub(crate) has_proved: bool,
    /// The session's key, or nothing.
    pub(crate) key: &'a [u8],
}

impl Sessions {
    /// The session that this caller wants to move. One that it is not shown is as one that is not there.
    pub(crate) fn movable(&self, session: u64, asker: &Asker<'_>) -> Found {
        let Some(row) = self.rows.get(&session) else { return Found::Nothing };
        let is_its = row.is_of(asker.source) && asker.has_proved;
        if !is_its && !row.door.is_key(asker.key) {
            return Found::Nothing;
        }
        let worker = &row.worker;
        Found::Its(Movable {
            gpu: row.gpu,
            is_suspended: worker.gpu == HOST_MEMORY,
            used: worker.used,
            conditions: Arc::clone(&row.conditions),
            seat: worker.seat.clone(),
            channel: Arc::clone(&worker.channel),
        })
    }

    /// The process of the worker of this number; 0: there is none.
    pub(crate) fn process(&self, number: u64) -> u32 {
        self.worker(number).map_or(0, |worker| worker.process)
    }

    /// A number for a move, and for its target until the commit.
    pub(crate) fn number_move(&mut self) -> u64 {
        self.next()
    }

    /// Adds the target of a move by its number, if the GPU has room for what the session holds.
    pub(crate) fn arrive(
        &mut self,
        (number, session): (u64, u64),
        gpu: u32,
        bytes: u64,
        channel: Arc<WorkerChannel>,
    ) -> Result<Seat, NoRoom> {
        let Some(row) = self.rows.get(&session) else { return Err(NoRoom { free: 0 }) };
        // A quota is one of device memory.
        let quota = if gpu == HOST_MEMORY { 0 } else { row.conditions.quota };
        self.accounting.arrive((number, session), gpu, quota, bytes)?;
        let seat = Seat::new(number);
        self.beside.insert(number, Worker::new(seat.clone(), gpu, channel));
        Ok(seat)
    }

    /// Whether a session may have links to other servers.
    pub(crate) fn has_links(&self, session: u64) -> bool {
        self.accounting.has_links(session)
    }

    /// Where a session moves to, and the phase of that; `None`: it stays.
    pub(crate) fn moves(&mut self, session: u64, to: Option<(u32, Phase)>) {
        if let Some(row) = self.rows.get_mut(&session) {
            row.moves = to;
        }
    }

    /// The commit: the worker of number `target` has the session, and the one that had it has that number. Everything that a
    /// number stands for changes: channel, process, account. False: one of them has ended or is to end, and nothing is changed.
    pub(crate) fn commit(&mut self, session: u64, target: u64) -> bool {
        let Self { rows, beside, accounting, .. } = self;
        let (Some(row), Some(arrived)) = (rows.get_mut(&session), beside.get_mut(&target)) else { return false };
        let runs = |worker: &Worker| worker.ender.as_ref().is_some_and(|ender| !ender.has_ended());
        if row.ending.is_some() || !runs(&row.worker) || !runs(arrived) {
            return false;
        }
        row.moved = row.moved.saturating_add(1);
        row.before = row.before.plus(row.worker.said.counts());
        row.worker.seat.swap(&arrived.seat);
        std::mem::swap(&mut row.worker, arrived);
        if row.worker.gpu != HOST_MEMORY {
            row.gpu = row.worker.gpu;
        }
        // Until it reports the next time.
        row.worker.used = row.worker.used.max(arrived.used);
        accounting.swap(session, target);
        true
    }
}
