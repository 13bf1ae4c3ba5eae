//! The queue, stepped: waiters that come, leave, go and are late, beside the account that they wait for.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::usage::accounting::Accounting;

const GIB: u64 = 1 << 30;

fn waiter(gpu: u32, bytes: u64, user: Option<u32>, until: Instant) -> Waiter {
    Waiter { gpu, bytes, source: user.map(Source::User), until }
}

#[test]
fn a_small_one_does_not_overtake_a_large_one_and_gpus_do_not_wait_for_each_other() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let until = now + Duration::from_secs(9);
    let [large, small, other] = [(0, 8), (0, 1), (1, 1)]
        .map(|(gpu, bytes)| queue.join(waiter(gpu, bytes, Some(1), until)).expect("there is room to wait"));
    assert_eq!([large, small, other].map(|it| queue.turn(it, 7, now)), [Turn::Wait(0), Turn::Wait(1), Turn::Go]);
    assert_eq!([large, small].map(|it| queue.turn(it, 8, now)), [Turn::Go, Turn::Wait(1)]);
    queue.leave(large);
    assert_eq!(queue.turn(small, 1, now), Turn::Go);
}

#[test]
fn one_whose_time_is_up_is_late_unless_there_is_room_at_last() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let first = queue.join(waiter(0, 8, Some(1), now)).expect("there is room to wait");
    let second = queue.join(waiter(0, 8, Some(1), now)).expect("there is room to wait");
    assert_eq!([first, second].map(|it| queue.turn(it, 7, now)), [Turn::Late(0), Turn::Late(1)]);
    assert_eq!(queue.turn(first, 8, now), Turn::Go);
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
    assert_eq!((queue.count(), queue.of_gpu(0), queue.of_gpu(1)), (all, all, 0));
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
    /// Seconds pass.
    Passes(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let (gpu, bytes, index) = (0..2_u32, 1..12 * GIB, any::<prop::sample::Index>());
    prop_oneof![
        4 => (gpu.clone(), bytes.clone(), 0..4_u32, 0..60_u64).prop_map(|(gpu, bytes, user, wait)| Event::Comes(gpu, bytes, user, wait)),
        1 => index.clone().prop_map(Event::Leaves),
        3 => index.prop_map(Event::Ends),
        1 => (gpu, bytes).prop_map(|(gpu, bytes)| Event::Greedy(gpu, bytes)),
        1 => (0..30_u64).prop_map(Event::Passes),
    ]
}

/// A daemon made of its two pure parts, and a model of who waits.
struct Stage {
    queue: Queue,
    accounting: Accounting,
    now: Instant,
    last: u64,
    sessions: Vec<(u64, u32, u64)>,
    waiting: [VecDeque<(u64, Waiter)>; 2],
}

impl Stage {
    fn new(is_shared_out: bool) -> Self {
        let mut accounting = Accounting::default();
        (0..2).for_each(|gpu| accounting.offer(gpu, 10 * GIB, is_shared_out));
        let waiting = [VecDeque::new(), VecDeque::new()];
        Self { queue: Queue::default(), accounting, now: Instant::now(), last: 0, sessions: Vec::new(), waiting }
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
            Event::Ends(index) if !self.sessions.is_empty() => {
                let (session, ..) = self.sessions.remove(index.index(self.sessions.len()));
                self.accounting.end(session);
            }
            Event::Ends(_) => {}
            Event::Greedy(gpu, bytes) => {
                let session = self.next();
                self.accounting.begin(session, *gpu, 0);
                let share = self.accounting.want(session, *bytes);
                self.accounting.uses(session, share.total);
                self.sessions.push((session, *gpu, 0));
            }
            Event::Passes(seconds) => self.now += Duration::from_secs(*seconds),
        }
    }

    /// All look whose turn it is, in any order: only the first may go.
    fn look(&mut self) -> Result<(), TestCaseError> {
        for gpu in [0, 1_u32] {
            let mut its: Vec<_> = self.waiting[gpu as usize].iter().copied().collect();
            its.reverse();
            for (number, waiter) in its {
                let free = self.accounting.free_for_guarantee(gpu);
                match self.queue.turn(number, free, self.now) {
                    Turn::Go => {
                        prop_assert_eq!(self.waiting[gpu as usize].front().map(|(first, _)| *first), Some(number));
                        let session = self.next();
                        prop_assert!(self.accounting.guarantee(session, gpu, waiter.bytes).is_ok());
                        self.sessions.push((session, gpu, waiter.bytes));
                        self.forget(gpu, number);
                    }
                    Turn::Late(_) => {
                        prop_assert!(self.now >= waiter.until);
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
}

proptest! {
    #[test]
    fn guarantees_fit_go_in_order_and_whoever_leaves_is_forgotten(
        events in prop::collection::vec(event(), 0..100), is_shared_out: bool
    ) {
        let mut stage = Stage::new(is_shared_out);
        for event in &events {
            stage.apply(event);
            stage.look()?;
            prop_assert_eq!(stage.queue.count(), stage.waiting.iter().map(VecDeque::len).sum::<usize>());
            for gpu in [0, 1] {
                let promised: u64 = stage.sessions.iter().filter(|(_, its, _)| *its == gpu).map(|(_, _, bytes)| *bytes).sum();
                prop_assert!(promised <= 10 * GIB);
                prop_assert!(stage.accounting.free_for_guarantee(gpu) <= 10 * GIB - promised);
            }
            // A guarantee is there for who has it, whatever others have taken.
            if is_shared_out {
                for (session, _, bytes) in stage.sessions.iter().filter(|(_, _, bytes)| *bytes != 0) {
                    prop_assert_eq!(stage.accounting.want(*session, *bytes).total, *bytes);
                }
            }
        }
        // Nobody starves: once all sessions are over, the first of each GPU is one that never fits there.
        for _ in 0..=stage.queue.count() {
            stage.look()?;
        }
        while let Some((session, ..)) = stage.sessions.pop() {
            stage.accounting.end(session);
            stage.look()?;
        }
        for gpu in [0, 1_u32] {
            let first = stage.waiting[gpu as usize].front();
            prop_assert!(first.is_none_or(|(_, its)| its.bytes > stage.accounting.most_for_guarantee(gpu)));
        }
        stage.now += Duration::from_secs(60);
        stage.look()?;
        prop_assert_eq!(stage.queue.count(), 0);
    }
}
