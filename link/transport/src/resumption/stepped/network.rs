//! A network of the stepped tests: wires between two ends, which carry words and bytes, and are cut at any byte.
//! In: what ends say, and what happens to wires. Out: the same, in order for each wire and in any order between them.

use std::collections::{BTreeMap, VecDeque};

use floe_wire::Heartbeat;

use crate::resumption::history::HistoryDigest;
use crate::resumption::session::Time;

/// A wire's number.
pub(super) type Id = usize;

/// Numbers that look random and are the same each time.
#[derive(Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).expect("it is below a usize")
    }

    pub(super) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// What ends say to each other beside a channel's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said {
    /// The daemon knows the session, or does not.
    Joined,
    Gone,
    Continue(u64, u32, HistoryDigest),
    Continued(HistoryDigest),
    Refused,
    Acknowledge(u32, HistoryDigest),
    Heartbeat(Heartbeat),
    Goodbye,
}

/// What lies on a wire.
#[derive(Debug)]
pub(super) enum Item {
    Said(Said),
    Bytes(Vec<u8>),
    Ended,
}

#[derive(Debug)]
pub(super) struct Wire {
    pub(super) epoch: u64,
    pub(super) channel: u32,
    /// On its way to either side.
    to: [VecDeque<Item>; 2],
    ended: bool,
    /// It swallows everything since then.
    silent: Option<Time>,
}

pub(super) struct Network {
    pub(super) wires: BTreeMap<Id, Wire>,
    next: Id,
    random: Random,
    pub(super) cuts: usize,
}

impl Network {
    pub(super) fn new(random: Random) -> Self {
        Self { wires: BTreeMap::new(), next: 0, random, cuts: 0 }
    }

    pub(super) fn dial(&mut self, epoch: u64, channel: u32) -> Id {
        let wire = Wire { epoch, channel, to: Default::default(), ended: false, silent: None };
        self.next += 1;
        self.wires.insert(self.next, wire);
        self.next
    }

    pub(super) fn say(&mut self, id: Id, to: usize, said: Said) {
        if let Some(wire) = self.wires.get_mut(&id).filter(|wire| !wire.ended && wire.silent.is_none()) {
            wire.to[to].push_back(Item::Said(said));
        }
    }

    /// Writes bytes. False: the writer hears that the wire has ended; it may also hear nothing.
    pub(super) fn write(&mut self, id: Id, to: usize, bytes: &[u8]) -> bool {
        match self.wires.get_mut(&id) {
            Some(wire) if wire.silent.is_some() => true,
            Some(wire) if !wire.ended => {
                if !bytes.is_empty() {
                    wire.to[to].push_back(Item::Bytes(bytes.to_vec()));
                }
                true
            }
            _ => self.random.one_in(2),
        }
    }

    /// Ends a wire in both directions: some of what lies on it still arrives.
    pub(super) fn end(&mut self, id: Id) {
        self.end_for(id, [true; 2]);
    }

    /// A side closes a wire: all that it has written still arrives.
    pub(super) fn close(&mut self, id: Id, by: usize) {
        self.end_for(id, [by == 0, by == 1]);
    }

    /// Ends a wire, of which what is on its way to these sides is lost in part.
    fn end_for(&mut self, id: Id, lost: [bool; 2]) {
        let Some(wire) = self.wires.get_mut(&id).filter(|wire| !wire.ended) else { return };
        (wire.ended, wire.silent) = (true, None);
        for (items, lost) in wire.to.iter_mut().zip(lost) {
            if lost && self.random.one_in(2) {
                items.truncate(self.random.below(items.len() + 1));
                if let Some(Item::Bytes(bytes)) = items.back_mut() {
                    bytes.truncate(self.random.below(bytes.len() + 1));
                }
            }
            items.push_back(Item::Ended);
        }
    }

    /// Cuts a wire, where it is there.
    pub(super) fn cut(&mut self, id: Id) {
        if self.wires.get(&id).is_some_and(|wire| !wire.ended) {
            self.cuts += 1;
            self.end(id);
        }
    }

    /// From now on the wires there are swallow everything.
    pub(super) fn swallow(&mut self, now: Time) {
        for wire in self.wires.values_mut().filter(|wire| !wire.ended && wire.silent.is_none()) {
            wire.silent = Some(now);
            wire.to = Default::default();
        }
        self.cuts += 1;
    }

    /// Since when the oldest silent wire is, and which it is.
    pub(super) fn silent(&self) -> Option<(Time, Id)> {
        self.wires.iter().filter_map(|(id, wire)| Some((wire.silent?, *id))).min()
    }

    /// What lies in front, per wire and side.
    pub(super) fn fronts(&self) -> impl Iterator<Item = (Id, usize, &Wire, &Item)> {
        self.wires.iter().flat_map(|(id, wire)| {
            [0, 1].into_iter().filter_map(move |side| Some((*id, side, wire, wire.to[side].front()?)))
        })
    }

    /// Takes what lies in front, of bytes often a part.
    pub(super) fn take(&mut self, id: Id, side: usize) -> Option<Item> {
        let wire = self.wires.get_mut(&id)?;
        let item = match wire.to[side].front_mut()? {
            Item::Bytes(bytes) if bytes.len() > 1 && self.random.one_in(2) => {
                let rest = bytes.split_off(1 + self.random.below(bytes.len() - 1));
                Item::Bytes(std::mem::replace(bytes, rest))
            }
            _ => wire.to[side].pop_front()?,
        };
        if wire.ended && wire.to.iter().all(VecDeque::is_empty) {
            self.wires.remove(&id);
        }
        Some(item)
    }

    /// Whether nothing more lies there for a side.
    pub(super) fn is_drained(&self, id: Id, side: usize) -> bool {
        self.wires.get(&id).is_none_or(|wire| wire.to[side].is_empty())
    }
}
