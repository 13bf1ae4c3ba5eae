//! A peer that keeps to no order: it resumes, acknowledges, asks and leaves as it likes, and reads nothing or everything.
//! In: seeds. Out: nothing, or the seed of a server's end that panicked, kept something without bound, or outlived its peer.

use std::time::Duration;

use floe_wire::Heartbeat;

use super::Seed;
use super::end::{End, How};
use super::network::{Id, Network, Random};
use super::world::{GRACE, SERVER};
use crate::error::Lost;
use crate::frames::salt::SALTED_FROM;
use crate::resumption::channels::ACKNOWLEDGEMENT_CHANNEL;
use crate::resumption::history::{HistoryDigest, marked};
use crate::resumption::session::{Admission, Time};

const CHANNELS: usize = 3;
const STEPS: usize = 400;

/// A server's end, and what its peer could say.
struct Attack {
    random: Random,
    net: Network,
    end: End,
    now: Time,
    said_goodbye: bool,
}

impl Attack {
    fn new(seed: u64) -> Self {
        let mut net = Network::new(Random(seed ^ 0x5555));
        let mut end = End::new(SERVER, CHANNELS, GRACE);
        end.session.hear_goodbye();
        let own = net.dial(1, 0);
        end.take(&mut net, own, (1, 0), HistoryDigest::none()).expect("nothing has been said");
        Self { random: Random(seed), net, end, now: Time::ZERO, said_goodbye: false }
    }

    /// Where a peer may be: the right digest of any number of bytes that were written.
    fn mark(&mut self, channel: usize) -> HistoryDigest {
        let written = &self.end.channels[channel].written;
        marked(&written[..self.random.below(written.len() + 1)])
    }

    fn word(&mut self) -> u64 {
        [0, 1, 2, 3, u64::MAX - 1, u64::MAX][self.random.below(6)]
    }

    fn resume(&mut self) {
        let channel = [0, 1, 2, ACKNOWLEDGEMENT_CHANNEL][self.random.below(4)];
        let now = self.end.session.epoch();
        let epoch = [now.saturating_sub(1), now, now, now.saturating_add(1), self.word()][self.random.below(5)];
        let (admission, left) = self.end.session.admit(epoch, channel, self.now);
        self.end.leave(&mut self.net, left);
        match admission {
            Admission::Late { .. } | Admission::Parked | Admission::Twice => return,
            Admission::Taken => {}
        }
        assert!(!self.said_goodbye, "a session whose peer has left goes on");
        let mark = match usize::try_from(channel) {
            Ok(channel) if channel < CHANNELS => self.mark(channel),
            _ => HistoryDigest::none(),
        };
        if self.end.check(channel, mark).is_err() {
            return;
        }
        self.end.freeze(channel);
        let id: Id = self.net.dial(epoch, channel);
        let _ = self.end.take(&mut self.net, id, (epoch, channel), mark);
    }

    fn acknowledge(&mut self) {
        let channel = self.random.below(CHANNELS);
        let mark = self.mark(channel);
        let sent = self.end.channels[channel].written.len() as u64;
        let index = u32::try_from(channel).expect("a few");
        self.end.acknowledged(index, mark).expect("it was written");
        let wrong = HistoryDigest { received: sent + 1 + self.word() / 2, digest: mark.digest };
        let is_refused = self.end.acknowledged(index, wrong).is_err();
        assert!(is_refused || self.end.session.is_ended(), "more than was written");
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.below(300) as u64);
        match self.random.below(40) {
            0..12 => {
                let channel = self.random.below(CHANNELS);
                if self.end.may_write(channel) {
                    let how = [How::Copied, How::BorrowedBuffer, How::Through][self.random.below(3)];
                    let payload = match how {
                        How::Copied => 1 + self.random.below(SALTED_FROM + 500),
                        How::BorrowedBuffer | How::Through => SALTED_FROM + self.random.below(20_000),
                    };
                    self.end.write(&mut self.net, self.now, channel, payload, how);
                }
            }
            12..18 => {
                let busy: Vec<usize> = self.end.busy().collect();
                for channel in busy {
                    self.end.advance(&mut self.net, self.now, channel);
                }
            }
            18..26 => self.resume(),
            26..32 => self.acknowledge(),
            32..36 => {
                let heartbeat = Heartbeat { asks: self.word(), answers: self.word() };
                self.end.hear_heartbeat(&mut self.net, heartbeat, self.now);
            }
            36 => {
                let epoch = self.end.session.epoch();
                self.end.broke(&mut self.net, epoch, self.now);
            }
            37 if self.random.one_in(20) => {
                self.end.session.peer_says_goodbye();
                self.said_goodbye = true;
            }
            _ => {}
        }
        let _ = self.end.timeout(&mut self.net, self.now, false);
    }
}

#[test]
fn whatever_a_peer_says_nothing_is_kept_for_ever_and_the_session_ends_with_it() {
    for seed in 0..500 {
        let _seed = Seed(seed);
        let mut attack = Attack::new(seed);
        (0..STEPS).for_each(|_| attack.step());
        // From here on nobody is there.
        let epoch = attack.end.session.epoch();
        attack.end.broke(&mut attack.net, epoch, attack.now);
        let until = attack.now + GRACE + Duration::from_secs(1);
        while attack.now < until {
            attack.now += Duration::from_millis(250);
            let _ = attack.end.timeout(&mut attack.net, attack.now, true);
        }
        assert!(attack.end.is_over());
        attack.end.end(&mut attack.net, Some(Lost::Gone));
        assert_eq!((attack.end.copied(), attack.end.borrowed()), (0, 0));
    }
}
