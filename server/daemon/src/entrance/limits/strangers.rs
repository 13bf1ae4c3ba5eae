//! Connections that have not proved who they are, from their acceptance to the proof.
//! In: new connections, those whose first message is complete, those that have ended, and the time. Out: which may
//! speak on a thread, and which are closed.
//! Peers of this machine and peers from the network have separate places and threads. So no number of addresses can
//! shut out the server's own user.

use std::time::Instant;

use super::Source;
use super::pool::{Decision, Pool, Room};

/// All connections that have not proved who they are.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// Those of this machine.
    near: Pool,
    /// Those from the network.
    far: Pool,
}

impl Strangers {
    /// Rooms of these sizes, for peers of this machine and for those from the network.
    pub(crate) fn new(near: Room, far: Room) -> Self {
        Self { near: Pool::new(near), far: Pool::new(far) }
    }

    /// Adds a connection. Returns the connection that is closed for it.
    pub(crate) fn arrive(&mut self, connection: u64, source: Source, now: Instant) -> Option<u64> {
        let pool = if source.is_of_this_machine() { &mut self.near } else { &mut self.far };
        pool.arrive(connection, source, now)
    }

    /// A connection's first message is complete.
    pub(crate) fn is_ready(&mut self, connection: u64) {
        self.pools().into_iter().for_each(|pool| pool.is_ready(connection));
    }

    /// A connection and its thread have ended, or it has proved who it is.
    pub(crate) fn over(&mut self, connection: u64) {
        self.pools().into_iter().for_each(|pool| pool.over(connection));
    }

    /// The number of connections.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.near.count() + self.far.count()
    }

    /// What to do now.
    pub(crate) fn decide(&mut self, now: Instant) -> Vec<Decision> {
        self.pools().into_iter().flat_map(|pool| pool.decide(now)).collect()
    }

    /// When to decide again, unless an event comes first.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.near.deadline().into_iter().chain(self.far.deadline()).min()
    }

    fn pools(&mut self) -> [&mut Pool; 2] {
        [&mut self.near, &mut self.far]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::entrance::limits::pool::{LONGEST_IN_THE_WAY as IN_THE_WAY, SHORTEST_IN_THE_WAY};
    use crate::entrance::limits::{Share, UNPROVED};

    const ATTACKER: Source = Source::User(1);
    const CLIENT: Source = Source::User(2);

    fn strangers() -> Strangers {
        let room = Room { connections: Share { all: 20, each: 5 }, threads: Share { all: 4, each: 2 } };
        Strangers::new(room, room)
    }

    /// Room for many, with few threads.
    fn crowded() -> Strangers {
        let room = Room { connections: Share { all: 1024, each: 256 }, threads: Share { all: 64, each: 16 } };
        Strangers::new(room, room)
    }

    fn host(address: u32) -> Source {
        Source::Host(Ipv4Addr::from_bits(address))
    }

    fn greet(strangers: &mut Strangers, connection: u64, source: Source, now: Instant) {
        strangers.arrive(connection, source, now);
        strangers.is_ready(connection);
    }

    fn spoken(decisions: &[Decision]) -> Vec<u64> {
        let spoken =
            |decision: &Decision| if let Decision::Speak(connection) = decision { Some(*connection) } else { None };
        decisions.iter().filter_map(spoken).collect()
    }

    #[test]
    fn silent_connections_cost_their_own_peer_its_places_and_nobody_a_thread() {
        let (mut strangers, now) = (strangers(), Instant::now());
        let evicted: Vec<u64> = (0..1000).filter_map(|number| strangers.arrive(number, ATTACKER, now)).collect();
        assert_eq!(evicted, (0..995).collect::<Vec<u64>>());
        assert_eq!(strangers.decide(now), []);
        assert_eq!(strangers.arrive(1000, CLIENT, now), None);
        strangers.is_ready(1000);
        assert_eq!(strangers.decide(now), [Decision::Speak(1000)]);
    }

    #[test]
    fn what_is_not_proved_in_time_is_closed() {
        let (mut strangers, start) = (strangers(), Instant::now());
        strangers.arrive(0, ATTACKER, start);
        strangers.arrive(1, CLIENT, start + Duration::from_secs(1));
        strangers.is_ready(1);
        assert_eq!(strangers.decide(start + Duration::from_secs(2)), [Decision::Speak(1)]);
        assert_eq!(strangers.deadline(), Some(start + UNPROVED));
        assert_eq!(strangers.decide(start + UNPROVED), [Decision::Close(0)]);
        assert_eq!(strangers.decide(start + UNPROVED + Duration::from_secs(1)), [Decision::Close(1)]);
        assert_eq!((strangers.count(), strangers.deadline()), (0, None));
    }

    #[test]
    fn a_peer_that_greets_and_is_silent_has_its_share_of_threads_and_no_more() {
        let (mut strangers, now) = (strangers(), Instant::now());
        for number in 0..5 {
            strangers.arrive(number, ATTACKER, now);
            strangers.is_ready(number);
        }
        assert_eq!(spoken(&strangers.decide(now)), [0, 1]);
        for number in 5..7 {
            strangers.arrive(number, CLIENT, now);
            strangers.is_ready(number);
        }
        assert_eq!(spoken(&strangers.decide(now)), [5, 6]);
    }

    #[test]
    fn a_silent_speaker_makes_way_after_a_second_where_others_wait() {
        let (mut strangers, start) = (strangers(), Instant::now());
        for number in 0..4 {
            strangers.arrive(number, ATTACKER, start);
            strangers.is_ready(number);
        }
        assert_eq!(spoken(&strangers.decide(start)), [0, 1]);
        assert_eq!(strangers.deadline(), Some(start + IN_THE_WAY));
        assert_eq!(strangers.decide(start + IN_THE_WAY / 2), []);
        assert_eq!(strangers.decide(start + IN_THE_WAY), [Decision::Close(0)]);
        assert_eq!(strangers.decide(start + IN_THE_WAY), [], "its thread has not ended");
        strangers.over(0);
        assert_eq!(strangers.decide(start + IN_THE_WAY), [Decision::Speak(2), Decision::Close(1)]);
    }

    #[test]
    fn threads_of_closed_connections_count_until_they_have_ended() {
        let (mut strangers, now) = (strangers(), Instant::now());
        let mut threads = 0;
        for number in 0..100 {
            strangers.arrive(number, ATTACKER, now);
            strangers.is_ready(number);
            threads += spoken(&strangers.decide(now)).len();
        }
        assert_eq!(threads, 2, "each arrival closes an older one, whose thread is still there");
    }

    #[test]
    fn who_proves_itself_makes_room_at_once() {
        let (mut strangers, now) = (strangers(), Instant::now());
        for number in 0..4 {
            strangers.arrive(number, CLIENT, now);
            strangers.is_ready(number);
        }
        assert_eq!(spoken(&strangers.decide(now)), [0, 1]);
        strangers.over(0);
        assert_eq!(spoken(&strangers.decide(now)), [2]);
        strangers.over(1);
        strangers.over(2);
        assert_eq!(spoken(&strangers.decide(now)), [3]);
        strangers.over(3);
        assert_eq!((strangers.count(), strangers.deadline()), (0, None));
    }

    #[test]
    fn many_attackers_with_all_threads_make_way_for_one_more_peer() {
        let (mut strangers, start) = (strangers(), Instant::now());
        for number in 0..4 {
            strangers.arrive(number, Source::User(10 + u32::try_from(number).expect("small") / 2), start);
            strangers.is_ready(number);
        }
        assert_eq!(spoken(&strangers.decide(start)).len(), 4);
        strangers.arrive(4, CLIENT, start);
        strangers.is_ready(4);
        assert_eq!(strangers.decide(start), []);
        let decisions = strangers.decide(start + IN_THE_WAY);
        let [Decision::Close(late)] = decisions[..] else { panic!("one makes way: {decisions:?}") };
        strangers.over(late);
        assert_eq!(spoken(&strangers.decide(start + IN_THE_WAY)), [4]);
    }

    #[test]
    fn no_number_of_addresses_takes_the_threads_or_places_of_a_user_of_this_machine() {
        let (mut strangers, now) = (crowded(), Instant::now());
        for number in 0..5000 {
            greet(&mut strangers, u64::from(number), host(number), now);
            strangers.decide(now);
        }
        greet(&mut strangers, 5000, CLIENT, now);
        assert_eq!(strangers.decide(now), [Decision::Speak(5000)]);
        assert!((5001..9000).all(|number| strangers.arrive(number, host(7), now) != Some(5000)));
    }

    #[test]
    fn all_of_a_thousand_addresses_get_a_thread_in_time_where_each_keeps_its_own_as_long_as_it_may() {
        let (mut strangers, start) = (crowded(), Instant::now());
        // Addresses in falling order: the last to come would be the first by their address.
        (0..1000).for_each(|number| greet(&mut strangers, u64::from(number), host(9000 - number), start));
        let (mut now, mut spoken) = (start, Vec::new());
        while spoken.len() < 1000 {
            let decisions = strangers.decide(now);
            for decision in &decisions {
                match decision {
                    Decision::Speak(number) => spoken.push(*number),
                    // Its thread ends at once, and others may speak.
                    Decision::Close(number) => strangers.over(*number),
                }
            }
            if decisions.is_empty() {
                now = strangers.deadline().expect("some are there");
            }
            assert!(now < start + UNPROVED, "had a thread until then: {}", spoken.len());
        }
        assert!(spoken.is_sorted(), "who has waited longest is next");
    }

    #[test]
    fn the_more_wait_the_sooner_a_thread_is_taken_back() {
        for (waiting, patience) in [(1, IN_THE_WAY), (64, IN_THE_WAY), (65, IN_THE_WAY / 4), (950, SHORTEST_IN_THE_WAY)]
        {
            let (mut strangers, start) = (crowded(), Instant::now());
            (0..64 + waiting).for_each(|number| greet(&mut strangers, u64::from(number), host(number), start));
            assert_eq!(strangers.decide(start).len(), 64);
            let until = strangers.deadline().expect("some are there").duration_since(start);
            assert!(until.abs_diff(patience) < Duration::from_millis(10), "where {waiting} wait: {until:?}");
        }
    }

    #[test]
    fn of_equally_heavy_peers_the_one_that_has_spoken_longest_makes_way_not_the_one_that_came_first() {
        let (mut strangers, start) = (strangers(), Instant::now());
        // It comes first and says nothing until the others have their threads.
        strangers.arrive(0, host(1), start);
        (1..4)
            .for_each(|number| greet(&mut strangers, number, host(10 - u32::try_from(number).expect("small")), start));
        assert_eq!(spoken(&strangers.decide(start)), [1, 2, 3]);
        let late = start + IN_THE_WAY / 2;
        strangers.is_ready(0);
        assert_eq!(spoken(&strangers.decide(late)), [0]);
        greet(&mut strangers, 4, host(20), late);
        assert_eq!(strangers.decide(start + IN_THE_WAY), [Decision::Close(1)]);
    }

    /// An action of a stranger.
    #[derive(Clone, Debug)]
    enum Act {
        /// A connection of this address greets.
        Greet(u32),
        /// One that comes and says nothing.
        Silent(u32),
        /// Of those with a thread one proves itself or leaves.
        Over(usize),
        /// So many milliseconds pass.
        Pass(u64),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            8 => (0_u32..40).prop_map(Act::Greet),
            1 => (0_u32..40).prop_map(Act::Silent),
            4 => (0_usize..64).prop_map(Act::Over),
            2 => (1_u64..400).prop_map(Act::Pass),
        ];
        prop::collection::vec(act, 1..400)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// A waiting peer without a thread is next after those that have waited longer. Meanwhile no more threads go to
        /// others than others were waiting.
        #[test]
        fn who_waits_is_served_before_all_that_come_later(acts in acts()) {
            let (mut strangers, mut now) = (strangers(), Instant::now());
            // Connections that wait, each with its address and how many may still be served before it.
            let mut waiting: BTreeMap<u64, (u32, usize)> = BTreeMap::new();
            let mut speaking: Vec<(u64, u32)> = Vec::new();
            for (number, act) in (0..).zip(acts) {
                match act {
                    Act::Greet(address) | Act::Silent(address) => {
                        let leaving = strangers.arrive(number, host(address), now);
                        leaving.map(|leaving| waiting.remove(&leaving));
                        if matches!(act, Act::Greet(_)) {
                            strangers.is_ready(number);
                            waiting.insert(number, (address, waiting.len()));
                        }
                    }
                    Act::Over(which) if !speaking.is_empty() => {
                        let (over, _) = speaking.swap_remove(which % speaking.len());
                        strangers.over(over);
                    }
                    Act::Over(_) => {}
                    Act::Pass(milliseconds) => now += Duration::from_millis(milliseconds),
                }
                for decision in strangers.decide(now) {
                    match decision {
                        Decision::Close(closed) => drop(waiting.remove(&closed)),
                        Decision::Speak(served) => {
                            let (address, _) = waiting.remove(&served).expect("it waited");
                            let has_thread: Vec<u32> = speaking.iter().map(|(_, address)| *address).collect();
                            speaking.push((served, address));
                            // A peer with a thread yields to peers without one. Each of the others counts those served
                            // before it.
                            for (other, before) in waiting.values_mut().filter(|(other, _)| !has_thread.contains(other)) {
                                prop_assert!(*other == address || *before > 0, "served before {other}: {address}");
                                *before = before.saturating_sub(1);
                            }
                        }
                    }
                }
            }
        }
    }
}
