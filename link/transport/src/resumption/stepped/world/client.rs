//! How the client of the stepped tests reconnects, as the keeper of a real one does: all connections of an epoch at once.
//! In: breaks, answers and the time. Out: wires that it dials, and channels that it resumes once all of them are agreed on.

use std::time::Duration;

use super::{CHANNELS, CLIENT, Id, SERVER, Said, World};
use crate::error::Lost;
use crate::resumption::channels::ACKNOWLEDGEMENT_CHANNEL;
use crate::resumption::history::HistoryDigest;
use crate::resumption::log::Impossible;
use crate::resumption::session::{LinkState, Time};

/// Between attempts of the client to reconnect.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the client waits for the connections of an epoch.
const PATIENCE: Duration = Duration::from_secs(2);
/// The connections of one epoch, while the client makes them.
pub(super) struct Round {
    epoch: u64,
    wires: Vec<(Id, u32, Option<HistoryDigest>)>,
    pub(super) until: Time,
}

impl Round {
    pub(super) fn has(&self, id: Id) -> bool {
        self.wires.iter().any(|wire| wire.0 == id)
    }
}

impl World {
    /// The client hears what its attempt to resume came to.
    pub(super) fn answered(&mut self, id: Id, said: Said) -> Result<(), Impossible> {
        let Some(round) = self.round.as_mut().filter(|round| round.has(id)) else {
            self.net.close(id, CLIENT);
            return Ok(());
        };
        let (client, epoch) = (&mut self.ends[CLIENT], round.epoch);
        let Some((_, channel, agreed)) = round.wires.iter_mut().find(|wire| wire.0 == id) else { return Ok(()) };
        match said {
            Said::Joined => {
                client.session.heard(self.now);
                let mark = client.freeze(*channel);
                self.net.say(id, SERVER, Said::Continue(epoch, *channel, mark));
            }
            Said::Gone => client.end(&mut self.net, Some(Lost::Gone)),
            Said::Continued(mark) => {
                client.session.heard(self.now);
                client.check(*channel, mark)?;
                *agreed = Some(mark);
                if *channel == ACKNOWLEDGEMENT_CHANNEL {
                    client.take(&mut self.net, id, (epoch, *channel), mark)?;
                }
            }
            _ => client.broke(&mut self.net, epoch, self.now),
        }
        if round.wires.iter().any(|(_, _, agreed)| agreed.is_none()) {
            return Ok(());
        }
        // None goes on before it is certain of each that both sides have the same history.
        let wires = self.round.take().map(|round| round.wires).unwrap_or_default();
        wires.into_iter().filter(|(_, channel, _)| *channel != ACKNOWLEDGEMENT_CHANNEL).try_for_each(
            |(id, channel, mark)| {
                client.take(&mut self.net, id, (epoch, channel), mark.unwrap_or(HistoryDigest::none()))
            },
        )
    }

    /// The client makes the connections of an epoch, of channels from this one on.
    pub(super) fn dial(&mut self, epoch: u64, from: u32) {
        let channels = (from..u32::try_from(CHANNELS).expect("a few")).chain([ACKNOWLEDGEMENT_CHANNEL]);
        let said = if self.ends[SERVER].is_over() { Said::Gone } else { Said::Joined };
        let wires = channels.map(|channel| {
            let id = self.net.dial(epoch, channel);
            self.net.say(id, CLIENT, said);
            (id, channel, None)
        });
        self.round = Some(Round { epoch, wires: wires.collect(), until: self.now + PATIENCE });
    }

    /// What the client does with a session whose connections have broken, as its keeper does.
    pub(super) fn keep(&mut self) {
        let client = &mut self.ends[CLIENT];
        if let Some(round) = &self.round {
            let late = self.now >= round.until;
            if late {
                client.broke(&mut self.net, round.epoch, self.now);
            }
            if !client.session.is_of(round.epoch) {
                round.wires.iter().for_each(|(id, ..)| self.net.close(*id, CLIENT));
                (self.round, self.next_attempt) = (None, self.now + PAUSE);
            }
            return;
        }
        if client.session.link_state() != LinkState::Broken || self.now < self.next_attempt {
            return;
        }
        if self.now < self.away_until {
            self.next_attempt = self.now + PAUSE;
            return;
        }
        client.session.heard(self.now);
        let epoch = client.session.epoch() + 1;
        let left = client.session.begin(epoch, self.now);
        client.leave(&mut self.net, left);
        self.dial(epoch, 0);
    }
}
