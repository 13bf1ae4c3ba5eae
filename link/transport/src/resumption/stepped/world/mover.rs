//! How the server of the stepped tests moves to another process: it stands still, is taken down, and goes on there or here.
//! In: the world at any moment. Out: a third end in the place of the server's, made of bytes alone, or the same one again.

use floe_wire::{Field as _, Reader};

use super::{CLIENT, End, GRACE, SERVER, World};
use crate::resumption::session::LinkState;

/// A server that stands still, until it goes on here or there.
pub(super) struct Standstill {
    pub(super) until: super::Time,
    moves: bool,
}

impl World {
    /// The server stands still from now on, where it does not already: what its peer makes is refused.
    pub(super) fn park(&mut self) -> bool {
        let server = &mut self.ends[SERVER];
        if self.standstill.is_some() || self.weather.moves == 0 || server.session.link_state() == LinkState::Over {
            return false;
        }
        let Some(left) = server.session.park() else { return false };
        server.leave(&mut self.net, Some(left));
        let pause = std::time::Duration::from_millis(self.random.below(2000) as u64);
        // A writer whose bytes stay with it until the peer has them cannot move.
        let moves = server.may_move() && !self.random.one_in(4);
        self.standstill = Some(Standstill { until: self.now + pause, moves });
        self.weather.moves -= usize::from(moves);
        true
    }

    /// The pause is over: the server goes on.
    pub(super) fn unpark(&mut self) {
        let Some(standstill) = self.standstill.take_if(|standstill| self.now >= standstill.until) else { return };
        if self.ends[SERVER].is_over() {
            return;
        }
        if standstill.moves {
            let arrived = self.ends[SERVER].elsewhere();
            let left = std::mem::replace(&mut self.ends[SERVER], arrived);
            left.dies(&mut self.net);
            self.moved += 1;
        }
        self.ends[SERVER].session.unpark(self.now);
    }
}

impl End {
    /// Whether nothing of what it sends is with who writes it.
    fn may_move(&self) -> bool {
        self.channels.iter().all(|channel| channel.through.is_none())
    }

    /// The end that another process makes of what this one remembers.
    fn elsewhere(&self) -> Self {
        let mut other = Self::new(self.side, 0, GRACE);
        other.session.recall(self.session.image());
        other.session.hear_goodbye();
        other.looked = self.looked;
        for channel in &self.channels {
            let (acknowledged, kept) = channel.outbound.image().expect("nobody writes");
            let mut bytes = Vec::new();
            channel.read.image().write(&mut bytes);
            acknowledged.write(&mut bytes);
            let mut reader = Reader::new("image", &bytes);
            let [inbound, acknowledged] =
                ["inbound", "acknowledged"].map(|name| reader.field(name).expect("written so"));
            other.channels.push(super::super::end::Channel::recalled(
                &inbound,
                (&acknowledged, &kept),
                (channel.written.clone(), channel.came),
            ));
        }
        other
    }

    /// The process that it was in ends.
    fn dies(mut self, net: &mut super::Network) {
        if let Some(id) = self.session.stop_hearing() {
            net.close(id, self.side);
        }
        assert!(self.side != CLIENT);
    }
}
