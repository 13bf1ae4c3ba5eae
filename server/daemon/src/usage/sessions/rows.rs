//! The table as `floe ps` shows it.
//! In: who asks. Out: a row for each session that this caller is shown.

use std::time::{Duration, Instant};

use floe_shares::Class;
use floe_wire::SessionRow;

use super::{Session, Sessions, View};
use crate::usage::accounting::HOST_MEMORY;
use crate::usage::turns::TurnPlace;

impl Sessions {
    /// Rows for `ListSessions`: those that the caller is shown. The workers' process ids are the operator's to see.
    pub(crate) fn rows(&mut self, now: Instant, view: impl Into<View>) -> Vec<SessionRow<'_>> {
        let View { source: peer, sees_others } = view.into();
        for row in self.rows.values_mut() {
            row.transport = row.session_request.transport.to_owned();
            if let Some(since) = row.worker.broken {
                let seconds = now.saturating_duration_since(since).as_secs();
                row.transport += &format!(", broken {seconds} s");
            }
            match (row.moves, row.worker.gpu) {
                (Some((HOST_MEMORY, phase)), _) => row.transport += &format!(", is being suspended: {phase}"),
                (Some((gpu, phase)), _) => row.transport += &format!(", moves to {gpu}: {phase}"),
                (None, HOST_MEMORY) => row.transport += ", suspended",
                (None, _) => {}
            }
        }
        let shown = self.rows.iter().filter(|(_, row)| sees_others || row.is_of(peer));
        let (numbers, rows): (Vec<u64>, Vec<&Session>) = shown.map(|(session, row)| (*session, row)).unzip();
        let places: Vec<_> = rows.iter().map(|row| row.worker.turn.as_deref()).collect();
        let rows = numbers.into_iter().zip(rows).zip(TurnPlace::usages(&places));
        rows.map(|((session, row), usage)| (session, row, usage, row.before.plus(row.worker.said.counts())))
            .map(|(session, row, usage, carried)| SessionRow {
                session,
                gpu: row.gpu,
                client: &row.session_request.client,
                pid: row.session_request.pid,
                program: &row.session_request.program,
                memory: row.conditions.quota,
                used: row.worker.used,
                seconds: now.saturating_duration_since(row.since).as_secs(),
                worker: if peer.is_none() { row.worker.process } else { 0 },
                transport: &row.transport,
                guaranteed: row.conditions.is_guaranteed,
                user: &row.session_request.user,
                share: row.conditions.terms.share,
                weight: row.conditions.terms.weight,
                class: u32::from(row.conditions.terms.class == Class::Latency),
                gpu_ms: millis(usage.time),
                of_ms: millis(usage.of),
                moves: row.moved,
                received: carried.received,
                sent: carried.sent,
                waits: carried.waits,
                counted_ms: millis(row.worker.said.known(now).saturating_duration_since(row.since)),
            })
            .collect()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
