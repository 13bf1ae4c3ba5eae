//! A kept session, said to the worker that it goes to.
//! In: what is kept, the daemon's order, the move stream. Out: the session at the other end; or it is kept on.
//! Everything is said by reference: a resume that fails changes nothing.

use std::sync::Arc;

use floe_device::Mapped;
use floe_migrate::{Phase, Progress};

use super::kept::Kept;
use super::waiting::Waiting;
use crate::daemon::move_notices::{Described, Said};
use crate::life::moving::leave::departure::begin_lending;
use crate::life::moving::leave::off::Off;
use crate::life::moving::leave::partner::{Partner, unexpected};
use crate::life::moving::leave::sides::Daemon;
use crate::life::moving::words::{Answer, Contents, Description, Step};
use crate::peer::hub::Hub;

/// Bytes of a piece of an array.
fn bytes_of_array((contents, bytes): &(Contents, u64)) -> Option<u64> {
    matches!(contents, Contents::Array { .. }).then_some(*bytes)
}

/// One resume.
pub(super) struct Resume<'a, M> {
    pub(super) kept: &'a Kept,
    pub(super) hub: &'a Arc<Hub<M>>,
    pub(super) daemon: &'a Daemon<'a>,
    pub(super) waiting: &'a Waiting,
    /// The session's number.
    pub(super) number: u64,
}

impl<M: Mapped> Resume<'_, M> {
    /// Says everything. Ok: the session is the target's.
    pub(super) fn go(&self, partner: &mut Partner<'_>) -> Result<(), Off> {
        let gone = self.say_all(partner);
        self.hub.end_move();
        gone
    }

    fn say_all(&self, partner: &mut Partner<'_>) -> Result<(), Off> {
        let Kept { code, objects, blocks, variables, contents, compared, last, digest, .. } = self.kept;
        let whole = compared.as_ref().zip(last.as_ref()).zip(digest.as_ref());
        let Some((((points, hashes), (last, bodies)), digest)) = whole else {
            return Err(Off::Ended("the session was not kept whole".into()));
        };
        let lent: Vec<_> = blocks.values().map(|block| block.lent).collect();
        let bytes: u64 = lent.iter().map(|block| block.bytes).sum();
        let arrays = contents.iter().flat_map(|(heads, _)| heads).filter_map(bytes_of_array);
        self.begin(partner, arrays.fold(bytes, u64::saturating_add), objects.len() as u64)?;
        let progress = |bytes_sent| Progress { bytes: bytes_sent, of: bytes, rounds: 0 };
        self.phase(Phase::Replay, progress(0))?;
        let named: Vec<([u8; 32], &[u8])> = code.iter().map(|(hash, content)| (*hash, &**content)).collect();
        partner.send_code(&named)?;
        partner.demand_done(&Step::Blocks(lent), &[])?;
        partner.demand_done(&Step::Places(variables.clone()), &[])?;
        objects.iter().try_for_each(|image| partner.demand_done(&Step::Objects, &[image]))?;
        if !variables.is_empty() {
            partner.demand_done(&Step::Variables(variables.clone()), &[])?;
        }
        self.phase(Phase::Precopy, progress(0))?;
        for (heads, bytes) in contents {
            partner.demand_done(&Step::Contents(heads.clone()), &[bytes])?;
        }
        self.send_blocks(partner, &progress)?;
        let compare = Step::Compare { key: *points, last: true };
        match partner.ask(&compare, &[hashes])? {
            Answer::Copied(0) => {}
            Answer::Copied(_) | Answer::Send { .. } => {
                return Err(Off::Ended("memory differs after it was copied".into()));
            }
            other => return Err(unexpected(&other)),
        }
        self.phase(Phase::Park, progress(bytes))?;
        // The daemon keeps those that the client makes from here on.
        self.waiting.leave();
        self.phase(Phase::Finish, progress(bytes))?;
        partner.demand_done(&Step::Last(last.clone()), &[bodies])?;
        partner.demand_done(&Step::Frozen(*digest), &[])?;
        self.daemon.say(Said::Frozen);
        self.daemon.last_word()
    }

    /// Offers descriptors, and says what the session is.
    fn begin(&self, partner: &mut Partner<'_>, bytes: u64, objects: u64) -> Result<(), Off> {
        let (ticket, key) = begin_lending(self.hub, self.daemon)?;
        for (number, file) in &self.kept.files {
            let file = file.try_clone().map_err(|error| Off::Ended(format!("a descriptor: {error}")))?;
            self.hub.offer_file(*number, file);
        }
        self.daemon.say(Said::Described(Described { bytes, objects }));
        let description =
            Description { session: self.number, ticket, key, kept: true, ..self.kept.description.clone() };
        partner.demand_done(&Step::Describe(description), &[])
    }

    fn phase(&self, phase: Phase, progress: Progress) -> Result<(), Off> {
        self.daemon.say(Said::Phase(phase, progress));
        self.daemon.demand_on()
    }

    fn send_blocks(&self, partner: &mut Partner<'_>, progress: &impl Fn(u64) -> Progress) -> Result<(), Off> {
        let pieces = match partner.ask(&Step::Copy, &[])? {
            Answer::Copied(_) => return Ok(()),
            Answer::Send { pieces, .. } => pieces,
            other => return Err(unexpected(&other)),
        };
        let read = |block, offset, bytes| {
            let piece = self.kept.piece(block, offset, bytes);
            piece.ok_or_else(|| Off::Ended(format!("the other worker asks for {bytes} bytes of no block: {block}")))
        };
        partner.send_pieces(&pieces, read, |sent| self.phase(Phase::Precopy, progress(sent))).map(drop)
    }
}
