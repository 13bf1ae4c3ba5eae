//! The queue, stepped: waiters that come, leave, go and are late, beside the account that they wait for.

use std::collections::VecDeque;
use std::time::Duration;

use floe_worker::contract::Asks;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::*;
use crate::usage::accounting::{Accounting, TOLERANCE};

const GIB: u64 = 1 << 30;
/// Bytes of each GPU.
const CAPACITY: u64 = 10 * GIB;
/// Bytes of a context: no less than each is counted with.
const CONTEXT: u64 = GIB / 2;

fn memory(bytes: u64) -> Room {
    Room { bytes, share: 0 }
}

fn waiter(gpu: u32, bytes: u64, user: Option<u32>, until: Instant) -> Waiter {
    Waiter { gpu, wants: memory(bytes), source: user.map(Source::User), since: until, until }
}

#[test]
fn one_that_has_not_fitted_for_long_holds_up_nobody_and_goes_first_when_it_fits() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let until = now + 9 * HOLDS;
    let [large, small] = [8, 1].map(|bytes| {
        let waiter = Waiter { since: now, ..waiter(0, bytes, Some(1), until) };
        queue.join(waiter).expect("there is room to wait")
    });
    let just = now + HOLDS - Duration::from_millis(1);
    assert_eq!([large, small].map(|it| queue.turn(it, (memory(7), memory(9)), just)), [Turn::Wait(0), Turn::Wait(1)]);
    assert_eq!((queue.ahead(0, memory(1), memory(7), just), queue.ahead(0, memory(1), memory(7), now + HOLDS)), (2, 1));
    assert_eq!([large, small].map(|it| queue.turn(it, (memory(7), memory(9)), now + HOLDS)), [Turn::Wait(0), Turn::Go]);
    assert_eq!([large, small].map(|it| queue.turn(it, (memory(8), memory(9)), now + HOLDS)), [Turn::Go, Turn::Wait(1)]);
}

#[test]
fn a_small_one_does_not_overtake_a_large_one_and_gpus_do_not_wait_for_each_other() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let until = now + Duration::from_secs(9);
    let [large, small, other] = [(0, 8), (0, 1), (1, 1)]
        .map(|(gpu, bytes)| queue.join(waiter(gpu, bytes, Some(1), until)).expect("there is room to wait"));
    assert_eq!(
        [large, small, other].map(|it| queue.turn(it, (memory(7), memory(9)), now)),
        [Turn::Wait(0), Turn::Wait(1), Turn::Go]
    );
    assert_eq!([large, small].map(|it| queue.turn(it, (memory(8), memory(9)), now)), [Turn::Go, Turn::Wait(1)]);
    queue.leave(large);
    assert_eq!(queue.turn(small, (memory(1), memory(9)), now), Turn::Go);
}

/// Who waits for memory does not wait for those that wait for time, and the other way around.
#[test]
fn requests_wait_for_those_that_want_of_the_same() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let until = now + Duration::from_secs(9);
    let wants =
        [Room { bytes: 0, share: 800 }, memory(4), Room { bytes: 4, share: 100 }, Room { bytes: 0, share: 100 }];
    let all = wants.map(|wants| queue.join(Waiter { wants, ..waiter(0, 0, Some(1), until) }).expect("there is room"));
    let (free, most) = (Room { bytes: 8, share: 300 }, Room { bytes: 9, share: 1000 });
    let turns = all.map(|it| queue.turn(it, (free, most), now));
    assert_eq!(turns, [Turn::Wait(0), Turn::Go, Turn::Wait(2), Turn::Wait(2)]);
    let free = Room { share: 800, ..free };
    assert_eq!(queue.turn(all[0], (free, most), now), Turn::Go);
    queue.leave(all[0]);
    assert_eq!(all.map(|it| queue.turn(it, (free, most), now))[1..], [Turn::Go, Turn::Wait(1), Turn::Wait(1)]);
    let never = Room { share: 90, ..most };
    assert_eq!(queue.turn(all[3], (free, never), now), Turn::Never);
}

/// Who lacks time keeps its memory free for itself, and no more of it.
#[test]
fn one_that_lacks_time_leaves_others_the_memory_that_it_does_not_want() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let until = now + Duration::from_secs(9);
    let wants = [Room { bytes: 3, share: 1000 }, Room { bytes: 2, share: 900 }, memory(3), memory(4)];
    let all = wants.map(|wants| queue.join(Waiter { wants, ..waiter(0, 0, Some(1), until) }).expect("there is room"));
    let (free, most) = (Room { bytes: 8, share: 300 }, Room { bytes: 9, share: 1000 });
    let turns = all.map(|it| queue.turn(it, (free, most), now));
    assert_eq!(turns, [Turn::Wait(0), Turn::Wait(1), Turn::Go, Turn::Wait(2)]);
    // One that lacks both is waited for by all that want either.
    let free = Room { bytes: 2, share: 300 };
    assert_eq!(all.map(|it| queue.turn(it, (free, most), now))[2..], [Turn::Wait(2), Turn::Wait(3)]);
}

#[test]
fn one_whose_time_is_up_is_late_unless_there_is_room_at_last() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let first = queue.join(waiter(0, 8, Some(1), now)).expect("there is room to wait");
    let second = queue.join(waiter(0, 8, Some(1), now)).expect("there is room to wait");
    assert_eq!([first, second].map(|it| queue.turn(it, (memory(7), memory(9)), now)), [Turn::Late(0), Turn::Late(1)]);
    assert_eq!(queue.turn(first, (memory(8), memory(9)), now), Turn::Go);
}

#[test]
fn one_that_can_no_more_have_its_room_does_not_hold_up_those_behind_it() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let until = now + Duration::from_secs(9);
    let [large, small] =
        [8, 1].map(|bytes| queue.join(waiter(0, bytes, Some(1), until)).expect("there is room to wait"));
    assert_eq!([large, small].map(|it| queue.turn(it, (memory(5), memory(8)), now)), [Turn::Wait(0), Turn::Wait(1)]);
    assert_eq!(queue.turn(large, (memory(5), memory(7)), now), Turn::Never);
    queue.leave(large);
    assert_eq!(queue.turn(small, (memory(5), memory(7)), now), Turn::Go);
}

#[test]
fn a_peer_meets_its_own_limit_before_that_of_all_and_what_leaves_makes_room() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let Share { all, each } = WAITING;
    let numbers: Vec<_> = (0..each).filter_map(|_| queue.join(waiter(0, 1, Some(1), now)).ok()).collect();
    assert_eq!(queue.join(waiter(1, 1, Some(1), now)), Err(QueueFull::OfPeer(each)));
    assert!((each..all).all(|_| queue.join(waiter(0, 1, None, now)).is_ok()), "the server's own user has no share");
    assert_eq!(queue.join(waiter(0, 1, Some(2), now)), Err(QueueFull::All(all)));
    assert_eq!(queue.join(waiter(0, 1, None, now)), Err(QueueFull::All(all)));
    queue.leave(numbers[3]);
    queue.leave(numbers[3]);
    assert!(queue.join(waiter(0, 1, Some(2), now)).is_ok());
    assert_eq!(
        (queue.count(), queue.ahead(0, memory(1), memory(0), now), queue.ahead(1, memory(1), memory(0), now)),
        (all, all, 0)
    );
}

#[derive(Debug, Clone)]
enum Event {
    /// A request of a user for so many bytes of a GPU, which waits so many seconds.
    Comes(u32, u64, u32, u64),
    /// One of those that wait closes its connection.
    Leaves(prop::sample::Index),
    /// One of the sessions ends.
    Ends(prop::sample::Index),
    /// A session without a guarantee takes what it can get.
    Greedy(u32, u64),
    /// One of the sessions asks for so many bytes in all, whether it may have them or not.
    Wants(prop::sample::Index, u64),
    /// One of the sessions gives back all but so many bytes.
    Keeps(prop::sample::Index, u64),
    /// One of the sessions has its context measured.
    Measured(prop::sample::Index),
    /// Seconds pass.
    Passes(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let (gpu, bytes, index) = (0..2_u32, 1..12 * GIB, any::<prop::sample::Index>());
    prop_oneof![
        4 => (gpu.clone(), bytes.clone(), 0..4_u32, 0..60_u64).prop_map(|(gpu, bytes, user, wait)| Event::Comes(gpu, bytes, user, wait)),
        1 => index.clone().prop_map(Event::Leaves),
        3 => index.clone().prop_map(Event::Ends),
        1 => index.clone().prop_map(Event::Measured),
        2 => (index.clone(), bytes.clone()).prop_map(|(index, bytes)| Event::Wants(index, bytes)),
        1 => (index, bytes.clone()).prop_map(|(index, bytes)| Event::Keeps(index, bytes)),
        1 => (gpu, bytes).prop_map(|(gpu, bytes)| Event::Greedy(gpu, bytes)),
        1 => (0..30_u64).prop_map(Event::Passes),
    ]
}

/// A session of the stage.
#[derive(Debug, Clone, Copy)]
struct Held {
    session: u64,
    gpu: u32,
    /// 0: it has no guarantee.
    quota: u64,
    granted: u64,
}

/// A daemon made of its two pure parts, and a model of who waits and who has what.
struct Stage {
    queue: Queue,
    accounting: Accounting,
    is_shared_out: bool,
    now: Instant,
    last: u64,
    sessions: Vec<Held>,
    waiting: [VecDeque<(u64, Waiter)>; 2],
}

impl Stage {
    fn new(is_shared_out: bool) -> Self {
        let mut accounting = Accounting::default();
        (0..2).for_each(|gpu| accounting.offer(gpu, CAPACITY, is_shared_out));
        let waiting = [VecDeque::new(), VecDeque::new()];
        Self {
            queue: Queue::default(),
            accounting,
            is_shared_out,
            now: Instant::now(),
            last: 0,
            sessions: Vec::new(),
            waiting,
        }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Comes(gpu, bytes, user, wait) => {
                let waiter = waiter(*gpu, *bytes, Some(*user), self.now + Duration::from_secs(*wait));
                if let Ok(number) = self.queue.join(waiter) {
                    self.waiting[*gpu as usize].push_back((number, waiter));
                }
            }
            Event::Leaves(index) => {
                let gpu = usize::from(self.waiting[0].is_empty());
                let its = &mut self.waiting[gpu];
                if !its.is_empty() {
                    let (number, _) = its.remove(index.index(its.len())).expect("it is there");
                    self.queue.leave(number);
                }
            }
            Event::Greedy(gpu, bytes) => {
                let session = self.next();
                if self.accounting.best_effort(session, *gpu, 0).is_ok() {
                    self.sessions.push(Held { session, gpu: *gpu, quota: 0, granted: 0 });
                    self.wants(self.sessions.len() - 1, *bytes);
                }
            }
            Event::Passes(seconds) => self.now += Duration::from_secs(*seconds),
            Event::Ends(index) | Event::Wants(index, _) | Event::Keeps(index, _) | Event::Measured(index) => {
                if !self.sessions.is_empty() {
                    self.of_session(index.index(self.sessions.len()), event);
                }
            }
        }
    }

    fn of_session(&mut self, at: usize, event: &Event) {
        let session = self.sessions[at].session;
        match event {
            Event::Ends(_) => {
                self.sessions.swap_remove(at);
                self.accounting.end(session);
            }
            Event::Wants(_, bytes) => self.wants(at, *bytes),
            Event::Keeps(_, bytes) => {
                self.accounting.keep(session, *bytes);
                let granted = &mut self.sessions[at].granted;
                *granted = (*granted).min(*bytes);
            }
            _ => self.accounting.measured(session, CONTEXT),
        }
    }

    /// A session asks as its worker would, and uses all that it may.
    fn wants(&mut self, at: usize, bytes: u64) {
        let Held { session, gpu, quota, .. } = self.sessions[at];
        if self.accounting.asks(gpu, quota != 0) == Asks::Never {
            self.accounting.uses(session, bytes.min(quota));
            return;
        }
        let share = self.accounting.want(session, bytes);
        self.accounting.uses(session, share.total);
        // A driver has no more than there is.
        self.sessions[at].granted = share.total.min(CAPACITY);
    }

    /// All look whose turn it is, in any order: only the first may go.
    fn look(&mut self) -> Result<(), TestCaseError> {
        for gpu in [0, 1_u32] {
            let mut its: Vec<_> = self.waiting[gpu as usize].iter().copied().collect();
            its.reverse();
            for (number, waiter) in its {
                let (free, most) = (self.accounting.free_for_guarantee(gpu), self.accounting.most_for_guarantee(gpu));
                match self.queue.turn(number, (memory(free), memory(most)), self.now) {
                    Turn::Go => {
                        prop_assert_eq!(self.waiting[gpu as usize].front().map(|(first, _)| *first), Some(number));
                        let session = self.next();
                        prop_assert!(self.accounting.guarantee(session, gpu, waiter.wants.bytes).is_ok());
                        self.sessions.push(Held { session, gpu, quota: waiter.wants.bytes, granted: 0 });
                        self.forget(gpu, number);
                    }
                    Turn::Late(_) => {
                        prop_assert!(self.now >= waiter.until);
                        self.forget(gpu, number);
                    }
                    Turn::Never => {
                        prop_assert!(waiter.wants.bytes > most);
                        self.forget(gpu, number);
                    }
                    Turn::Wait(_) => prop_assert!(self.now < waiter.until),
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self, gpu: u32, number: u64) {
        self.queue.leave(number);
        self.waiting[gpu as usize].retain(|(other, _)| *other != number);
    }

    /// What must hold after every event.
    fn check(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.queue.count(), self.waiting.iter().map(VecDeque::len).sum::<usize>());
        let beside = if self.is_shared_out { 0 } else { CONTEXT + TOLERANCE };
        for gpu in [0, 1] {
            let its = || self.sessions.iter().filter(|held| held.gpu == gpu);
            let all: u64 = its().map(|held| held.quota.max(held.granted) + beside).sum();
            // Without a guarantee a driver may have been asked for more than there is.
            if self.is_shared_out || its().any(|held| held.quota != 0) {
                prop_assert!(all <= CAPACITY, "promised and taken: {all}");
            }
            prop_assert!(self.accounting.free_for_guarantee(gpu) <= CAPACITY.saturating_sub(all + beside));
        }
        // A guarantee is there for who has it, whatever others have taken.
        for Held { session, quota, .. } in self.sessions.iter().filter(|held| held.quota != 0 && self.is_shared_out) {
            let mut accounting = self.accounting.clone();
            prop_assert_eq!(accounting.want(*session, *quota).total, *quota);
        }
        Ok(())
    }

    fn step(&mut self, event: &Event) -> Result<(), TestCaseError> {
        self.apply(event);
        self.look()?;
        self.check()
    }

    /// Nobody starves: once all sessions are over, nobody waits. Nothing is left.
    fn finish(mut self) -> Result<(), TestCaseError> {
        for _ in 0..=self.queue.count() {
            self.look()?;
        }
        while let Some(Held { session, .. }) = self.sessions.pop() {
            self.accounting.end(session);
            self.look()?;
        }
        for gpu in [0, 1_u32] {
            prop_assert!(self.waiting[gpu as usize].is_empty());
            prop_assert_eq!((self.accounting.free(gpu), self.accounting.used(gpu)), (CAPACITY, 0));
        }
        self.now += Duration::from_secs(60);
        self.look()?;
        prop_assert_eq!(self.queue.count(), 0);
        Ok(())
    }
}

proptest! {
    #[test]
    fn guarantees_fit_go_in_order_and_whoever_leaves_is_forgotten(
        events in prop::collection::vec(event(), 0..100), is_shared_out: bool
    ) {
        let mut stage = Stage::new(is_shared_out);
        for event in &events {
            stage.step(event)?;
        }
        stage.finish()?;
    }
}

#[test]
fn ten_thousand_events_of_one_server_break_no_promise_and_leave_nothing() {
    for is_shared_out in [false, true] {
        let mut runner = TestRunner::deterministic();
        let mut stage = Stage::new(is_shared_out);
        let mut admitted = 0;
        for number in 0..10_000 {
            let event = event().new_tree(&mut runner).expect("an event").current();
            let before = stage.last;
            stage.step(&event).unwrap_or_else(|error| panic!("event {number}, {event:?}: {error}"));
            admitted += stage.last - before;
        }
        assert!(admitted > 1000, "sessions: {admitted}");
        stage.finish().expect("nothing is left");
    }
}
