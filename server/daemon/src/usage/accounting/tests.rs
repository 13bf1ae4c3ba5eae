//! The account, stepped: honest sessions, liars, and moves.

use proptest::prelude::*;

use super::*;

const GIB: u64 = 1 << 30;

fn one_gpu(is_shared_out: bool) -> Accounting {
    let mut accounting = Accounting::default();
    accounting.offer(0, 10 * GIB, is_shared_out);
    accounting
}

impl Accounting {
    /// Adds a session without a guarantee.
    fn begin(&mut self, session: u64, gpu: u32, quota: u64) {
        self.best_effort(session, gpu, quota).expect("there is room for its context");
    }
}

#[test]
fn four_sessions_that_want_all_get_what_is_left_and_no_more() {
    let mut accounting = one_gpu(true);
    for session in 1..=4 {
        accounting.begin(session, 0, 0);
    }
    let shares: Vec<_> = (1..=4).map(|session| accounting.want(session, 4 * GIB).total).collect();
    assert_eq!(shares, [4 * GIB, 4 * GIB, 0, 0]);
    assert_eq!(accounting.want(3, 2 * GIB), Share { total: 2 * GIB, left: 0 });
    accounting.end(1);
    assert_eq!(accounting.want(4, 5 * GIB), Share { total: 0, left: 4 * GIB });
    accounting.keep(2, GIB);
    assert_eq!(accounting.want(4, 7 * GIB), Share { total: 7 * GIB, left: 0 });
    assert_eq!(accounting.free(0), 0);
}

#[test]
fn a_context_takes_what_the_one_in_the_middle_was_seen_to_take() {
    let mut accounting = one_gpu(false);
    for session in 1..=4 {
        accounting.begin(session, 0, GIB);
    }
    assert_eq!(accounting.free(0), 10 * GIB);
    for (session, bytes) in [(1, 3 * GIB), (1, GIB), (2, GIB / 2), (3, 1), (2, 2), (4, GIB / 2)] {
        accounting.measured(session, bytes);
    }
    (3..=4).for_each(|session| accounting.end(session));
    accounting.uses(1, GIB);
    assert_eq!(accounting.free(0), 8 * GIB);
    accounting.seen(2, 2 * GIB);
    assert_eq!(accounting.free(0), 6 * GIB + GIB / 2, "it has more than it says");
}

#[test]
fn no_worker_lowers_what_others_are_allowed_for_their_contexts() {
    let mut accounting = one_gpu(false);
    accounting.begin(1, 0, GIB);
    accounting.measured(1, GIB);
    for liar in 2..=20 {
        accounting.begin(liar, 0, GIB);
        (0..9).for_each(|_| accounting.measured(liar, 1));
    }
    let may = 2 * GIB + TOLERANCE;
    assert!((0..3).all(|_| accounting.seen(1, may).is_none()), "its own figure stays");
    accounting.begin(21, 0, GIB);
    let least = GIB + LEAST_OVERHEAD + TOLERANCE;
    assert!((0..3).all(|_| accounting.seen(21, least).is_none()), "it has none yet");
    assert_eq!((0..2).filter_map(|_| accounting.seen(2, least + 1)).count(), 1, "an early figure buys nothing");
}

#[test]
fn a_session_has_no_more_than_its_quota_and_its_gpu_whatever_it_says() {
    let mut accounting = one_gpu(false);
    accounting.begin(1, 0, GIB);
    accounting.begin(2, 0, 0);
    assert_eq!(accounting.uses(1, GIB), GIB);
    assert_eq!(accounting.free(0), 9 * GIB);
    assert_eq!(accounting.uses(1, u64::MAX), GIB);
    assert_eq!((accounting.used(0), accounting.free(0)), (GIB, 0), "all of it is no more than the GPU has");
    assert_eq!(accounting.uses(2, u64::MAX), 10 * GIB);
}

#[test]
fn what_a_session_has_beyond_its_quota_is_promised_to_nobody_until_somebody_misses_it() {
    for is_shared_out in [false, true] {
        let mut accounting = one_gpu(is_shared_out);
        let free = accounting.free_for_guarantee(0);
        accounting.guarantee(1, 0, GIB).expect("room");
        let beside = accounting.free_for_guarantee(0);
        // It has all of what a session with 4 GiB had, which has ended.
        assert_eq!(accounting.uses(1, 5 * GIB), GIB);
        assert_eq!(accounting.free_for_guarantee(0), beside - 4 * GIB, "{is_shared_out}");
        accounting.guarantee(2, 0, beside - 3 * GIB).expect_err("it has that");
        assert_eq!(accounting.beyond(0, GIB), [(1, 4 * GIB)]);
        assert_eq!([0, 4 * GIB + 1, u64::MAX].map(|missing| accounting.beyond(0, missing).len()), [0; 3], "no use");
        assert_eq!(accounting.beyond(1, GIB), [], "another GPU");
        accounting.end(1);
        assert_eq!(accounting.free_for_guarantee(0), free);
        // Given back, it is no excess any more.
        accounting.guarantee(1, 0, GIB).expect("room");
        accounting.uses(1, 5 * GIB);
        accounting.uses(1, GIB);
        assert_eq!((accounting.beyond(0, GIB), accounting.free_for_guarantee(0)), (vec![], beside));
    }
}

#[test]
fn a_session_that_has_more_than_its_quota_its_context_and_the_tolerance_ends_at_the_second_look() {
    let mut accounting = one_gpu(false);
    accounting.begin(1, 0, GIB);
    accounting.begin(2, 0, 0);
    let may = GIB + GIB / 2 + TOLERANCE;
    assert_eq!(accounting.seen(1, 9 * GIB), None, "what a context takes is not known");
    accounting.measured(1, GIB / 2);
    assert_eq!(accounting.seen(1, may + 1), None);
    assert_eq!(accounting.seen(1, may), None, "it gave back what it had for a moment");
    assert_eq!(accounting.seen(1, may + 1), None);
    assert_eq!(accounting.seen(1, may + 2), Some(Excess { has: may + 2, may }));
    assert!((0..3).all(|_| accounting.seen(2, 9 * GIB).is_none()), "it has no quota");
}

#[test]
fn a_session_with_links_may_have_a_further_context() {
    let mut accounting = one_gpu(false);
    accounting.begin(1, 0, GIB);
    accounting.measured(1, GIB / 2);
    accounting.links(1);
    let may = 2 * GIB + TOLERANCE;
    assert!((0..3).all(|_| accounting.seen(1, may).is_none()));
    assert_eq!(accounting.seen(1, may + 1), None);
    assert_eq!(accounting.seen(1, may + 1), Some(Excess { has: may + 1, may }));
}

#[test]
fn a_session_that_moves_is_counted_where_it_goes_before_it_is_there() {
    for is_shared_out in [false, true] {
        let mut accounting = one_gpu(is_shared_out);
        accounting.offer(1, 10 * GIB, is_shared_out);
        accounting.begin(1, 0, 8 * GIB);
        accounting.want(1, 6 * GIB);
        accounting.uses(1, 6 * GIB);
        accounting.begin(2, 1, 0);
        accounting.want(2, 5 * GIB);
        accounting.uses(2, 5 * GIB);
        assert_eq!(accounting.arrive((3, 1), 1, 8 * GIB, 6 * GIB), Err(NoRoom { free: 5 * GIB }));
        accounting.want(2, 4 * GIB);
        accounting.keep(2, 4 * GIB);
        assert_eq!(accounting.arrive((3, 1), 1, 8 * GIB, 6 * GIB), Ok(()));
        assert_eq!((accounting.free(0), accounting.free(1)), (4 * GIB, 0), "on both, until one has ended");
        accounting.swap(1, 3);
        assert_eq!((accounting.free(0), accounting.free(1)), (4 * GIB, 0));
        accounting.uses(1, 6 * GIB);
        accounting.end(3);
        assert_eq!((accounting.free(0), accounting.free(1)), (10 * GIB, 0));
        accounting.end(1);
        assert_eq!(accounting.free(1), 6 * GIB);
    }
}

#[test]
fn a_session_that_moves_to_its_own_gpu_is_counted_once() {
    for is_shared_out in [false, true] {
        let mut accounting = one_gpu(is_shared_out);
        accounting.begin(1, 0, 0);
        accounting.want(1, 9 * GIB);
        accounting.uses(1, 9 * GIB);
        assert_eq!(accounting.arrive((2, 1), 0, 0, 9 * GIB), Ok(()));
        if is_shared_out {
            assert_eq!(accounting.want(2, 9 * GIB).total, 9 * GIB, "it takes over what the other has");
        }
        accounting.uses(2, 9 * GIB);
        assert_eq!(accounting.free(0), GIB);
        accounting.swap(1, 2);
        assert_eq!(accounting.free(0), GIB);
        accounting.end(2);
        assert_eq!(accounting.free(0), GIB);
        accounting.end(1);
        assert_eq!(accounting.free(0), 10 * GIB);
    }
}

#[test]
fn a_move_that_is_given_up_frees_what_was_kept() {
    let mut accounting = one_gpu(true);
    accounting.offer(1, 10 * GIB, true);
    accounting.begin(1, 0, 0);
    assert_eq!(accounting.arrive((2, 1), 1, 0, 7 * GIB), Ok(()));
    assert_eq!(accounting.arrive((3, 1), 1, GIB, 2 * GIB), Err(NoRoom { free: 3 * GIB }), "more than its quota");
    accounting.end(2);
    assert_eq!(accounting.free(1), 10 * GIB);
}

#[test]
fn a_guarantee_is_kept_for_its_session_also_before_it_is_used() {
    let mut accounting = one_gpu(true);
    assert_eq!(accounting.most_for_guarantee(0), 10 * GIB);
    assert_eq!(accounting.guarantee(1, 0, 6 * GIB), Ok(()));
    assert_eq!((accounting.free(0), accounting.free_for_guarantee(0)), (10 * GIB, 4 * GIB));
    accounting.begin(2, 0, 0);
    assert_eq!(accounting.want(2, 5 * GIB), Share { total: 0, left: 4 * GIB }, "it takes what is left");
    assert_eq!(accounting.want(2, 3 * GIB), Share { total: 3 * GIB, left: GIB });
    assert_eq!(accounting.guarantee(3, 0, 2 * GIB), Err(NoRoom { free: GIB }));
    assert_eq!(accounting.want(1, 6 * GIB).total, 6 * GIB);
    accounting.end(1);
    assert_eq!(accounting.guarantee(3, 0, 7 * GIB), Ok(()));
    assert_eq!(accounting.free_for_guarantee(0), 0);
}

#[test]
fn a_guarantee_counts_context_and_tolerance_as_measured_on_its_gpu() {
    let mut accounting = one_gpu(false);
    let most = 10 * GIB - LEAST_OVERHEAD - TOLERANCE;
    assert_eq!((accounting.most_for_guarantee(0), accounting.free_for_guarantee(0)), (most, most), "none was measured");
    assert_eq!(accounting.guarantee(1, 0, most + 1), Err(NoRoom { free: most }));
    assert_eq!(accounting.guarantee(1, 0, 4 * GIB), Ok(()));
    accounting.measured(1, GIB);
    let each = GIB + TOLERANCE;
    assert_eq!(accounting.free_for_guarantee(0), 10 * GIB - 4 * GIB - 2 * each);
    accounting.links(1);
    assert_eq!(accounting.free_for_guarantee(0), 10 * GIB - 4 * GIB - 2 * each - GIB, "a second context");
    accounting.begin(2, 0, 0);
    accounting.uses(2, GIB);
    assert_eq!(
        accounting.free_for_guarantee(0),
        10 * GIB - 4 * GIB - 2 * each - GIB - GIB - each,
        "what it has, and beside that as much as the others"
    );
}

#[test]
fn a_guarantee_goes_with_a_session_that_moves_and_rests_in_host_memory() {
    for is_shared_out in [false, true] {
        let mut accounting = one_gpu(is_shared_out);
        accounting.offer(1, 10 * GIB, is_shared_out);
        accounting.offer(HOST_MEMORY, GIB, false);
        assert_eq!(accounting.guarantee(1, 0, 4 * GIB), Ok(()));
        let left = accounting.free_for_guarantee(0);
        assert_eq!(accounting.arrive((2, 1), 0, 4 * GIB, GIB), Ok(()));
        assert!(accounting.free_for_guarantee(0) >= left - GIB, "the same quota is kept once");
        accounting.swap(1, 2);
        accounting.end(2);
        assert_eq!(accounting.free_for_guarantee(0), left);
        assert_eq!(accounting.guarantee(3, 1, 7 * GIB), Ok(()));
        assert!(
            accounting.arrive((4, 1), 1, 4 * GIB, GIB).is_err(),
            "there is room for what it holds, not for its quota"
        );
        assert_eq!(accounting.arrive((5, 1), HOST_MEMORY, 0, GIB / 2), Ok(()));
        accounting.swap(1, 5);
        accounting.end(5);
        assert_eq!(
            accounting.free_for_guarantee(0),
            accounting.most_for_guarantee(0),
            "a suspended session has no GPU"
        );
        assert_eq!(accounting.free(HOST_MEMORY), GIB / 2);
        assert_eq!(accounting.arrive((6, 1), 0, 4 * GIB, GIB / 2), Ok(()));
        assert_eq!(accounting.free_for_guarantee(0), left, "it has its guarantee again");
    }
}

#[test]
fn a_best_effort_session_gets_nothing_of_a_drivers_gpu_that_others_were_promised() {
    let mut accounting = one_gpu(false);
    accounting.begin(1, 0, 0);
    assert_eq!(accounting.want(1, 20 * GIB).total, 20 * GIB, "without a promise the driver is the limit");
    accounting.keep(1, GIB);
    assert_eq!(accounting.guarantee(2, 0, 6 * GIB), Ok(()));
    let beside = LEAST_OVERHEAD + TOLERANCE;
    let most = 10 * GIB - 6 * GIB - 2 * beside;
    assert_eq!(accounting.want(1, most + 1), Share { total: GIB, left: most - GIB }, "it keeps what it has");
    let steps = GIB + 4 * STEP;
    assert_eq!(accounting.want(1, GIB + 1), Share { total: steps, left: most - steps }, "in steps");
    assert_eq!(accounting.want(1, 4 * STEP), Share { total: 4 * STEP, left: most - 4 * STEP }, "of what it has");
    assert_eq!(accounting.want(1, 4 * STEP + 1), Share { total: 5 * STEP, left: most - 5 * STEP }, "of what it has");
    assert_eq!(accounting.want(1, most - 1), Share { total: most, left: 0 });
    assert_eq!(accounting.want(1, most), Share { total: most, left: 0 });
    assert_eq!(accounting.free_for_guarantee(0), 0);
    assert_eq!(accounting.best_effort(3, 0, 0), Err(NoRoom { free: 0 }), "there is no room for its context");
    accounting.end(2);
    assert_eq!(accounting.best_effort(3, 0, 0), Ok(()));
    assert_eq!(accounting.want(1, 9 * GIB).total, 9 * GIB);
}

#[test]
fn who_asks_is_who_could_take_what_is_not_his() {
    let mut accounting = one_gpu(false);
    accounting.offer(1, GIB, true);
    accounting.offer(HOST_MEMORY, GIB, false);
    let asks = [(0, false), (0, true), (1, false), (1, true), (HOST_MEMORY, false), (HOST_MEMORY, true)];
    let asks = asks.map(|(gpu, is_guaranteed)| accounting.asks(gpu, is_guaranteed));
    let [divided, never] = [Asks::OfDividedDevice, Asks::Never];
    assert_eq!(asks, [Asks::BestEffort, never, divided, divided, never, never]);
}

#[test]
fn a_best_effort_session_that_has_more_than_it_was_granted_ends_where_promises_are_short() {
    let mut accounting = one_gpu(false);
    accounting.begin(1, 0, 0);
    accounting.want(1, GIB);
    accounting.measured(1, GIB / 2);
    let may = GIB + GIB / 2 + TOLERANCE;
    assert_eq!(accounting.guarantee(2, 0, 6 * GIB), Ok(()));
    let beside = GIB / 2 + TOLERANCE;
    let rest = 10 * GIB - 6 * GIB - beside;
    assert!((0..3).all(|_| accounting.seen(1, rest).is_none()), "nobody misses it");
    assert_eq!(accounting.seen(1, rest + 1), None, "one look may be mistaken");
    assert_eq!(accounting.seen(1, rest + 1), Some(Excess { has: rest + 1, may }));
    accounting.end(1);
    accounting.begin(3, 0, 0);
    accounting.want(3, rest - beside);
    assert!((0..3).all(|_| accounting.seen(3, rest).is_none()), "it has what it was granted");
    accounting.end(2);
    assert!((0..3).all(|_| accounting.seen(3, 10 * GIB).is_none()), "nobody was promised anything");
}

#[test]
fn suspended_sessions_with_a_guarantee_have_no_context_in_host_memory() {
    let mut accounting = one_gpu(false);
    accounting.offer(HOST_MEMORY, GIB, false);
    for (session, target) in [(1, 11), (2, 12)] {
        assert_eq!(accounting.guarantee(session, 0, 2 * GIB), Ok(()));
        assert_eq!(accounting.arrive((target, session), HOST_MEMORY, 0, GIB / 2), Ok(()));
        accounting.swap(session, target);
        accounting.end(target);
    }
    assert_eq!(accounting.free(HOST_MEMORY), 0);
}

#[test]
fn a_best_effort_session_moves_only_to_where_it_takes_nothing_that_was_promised() {
    let mut accounting = one_gpu(false);
    accounting.offer(1, 10 * GIB, false);
    accounting.begin(1, 0, 0);
    assert_eq!(accounting.guarantee(2, 1, 6 * GIB), Ok(()));
    let free = 10 * GIB - 6 * GIB - 2 * (LEAST_OVERHEAD + TOLERANCE);
    assert_eq!(accounting.arrive((3, 1), 1, 0, free + 1), Err(NoRoom { free }));
    assert_eq!(accounting.arrive((3, 1), 1, 0, free), Ok(()));
    assert_eq!(accounting.free_for_guarantee(1), 0);
    assert_eq!(accounting.want(3, free), Share { total: free, left: 0 }, "what was kept for it is its own");
}

#[derive(Debug, Clone)]
enum Event {
    Arrive(u64, u64, u32, u64),
    Swap(u64, u64),
    Begin(u64, u32, u64),
    Guarantee(u64, u32, u64),
    End(u64),
    Uses(u64, u64),
    Want(u64, u64),
    Keep(u64, u64),
    Measured(u64, u64),
    Seen(u64, u64),
}

fn event() -> impl Strategy<Value = Event> {
    let (session, gpu) = (0..6_u64, 0..3_u32);
    let bytes = prop_oneof![0..20 * GIB, Just(u64::MAX), Just(0)];
    prop_oneof![
        (session.clone(), session.clone(), gpu.clone(), bytes.clone())
            .prop_map(|(id, of, gpu, bytes)| Event::Arrive(id, of, gpu, bytes)),
        (session.clone(), session.clone()).prop_map(|(id, other)| Event::Swap(id, other)),
        (session.clone(), gpu.clone(), bytes.clone()).prop_map(|(id, gpu, quota)| Event::Begin(id, gpu, quota)),
        (session.clone(), gpu.clone(), bytes.clone()).prop_map(|(id, gpu, quota)| Event::Guarantee(id, gpu, quota)),
        session.clone().prop_map(Event::End),
        (session.clone(), bytes.clone()).prop_map(|(id, bytes)| Event::Uses(id, bytes)),
        (session.clone(), bytes.clone()).prop_map(|(id, bytes)| Event::Want(id, bytes)),
        (session.clone(), bytes.clone()).prop_map(|(id, bytes)| Event::Keep(id, bytes)),
        (session.clone(), bytes.clone()).prop_map(|(id, bytes)| Event::Measured(id, bytes)),
        (session, bytes).prop_map(|(id, bytes)| Event::Seen(id, bytes)),
    ]
}

fn apply(accounting: &mut Accounting, event: &Event) {
    match *event {
        // As the table has it: a new number for a session that is there, of which no other move is on.
        Event::Arrive(number, session, gpu, bytes) => {
            let accounts = &accounting.accounts;
            let has_one =
                accounts.values().any(|account| account.twin == Some(session) || account.twin == Some(number));
            if accounts.contains_key(&session) && !accounts.contains_key(&number) && !has_one {
                let _ = accounting.arrive((number, session), gpu, 0, bytes);
            }
        }
        Event::Swap(session, other) => {
            let is_move = accounting.accounts.get(&other).is_some_and(|account| account.twin == Some(session));
            if is_move {
                accounting.swap(session, other);
            }
        }
        Event::Begin(session, gpu, quota) => {
            accounting.end(session);
            let _ = accounting.best_effort(session, gpu, quota);
        }
        Event::Guarantee(session, gpu, quota) => {
            accounting.end(session);
            let free = accounting.free_for_guarantee(gpu);
            assert_eq!(accounting.guarantee(session, gpu, quota).is_ok(), quota <= free);
        }
        Event::End(session) => accounting.end(session),
        Event::Uses(session, bytes) => {
            let believed = accounting.uses(session, bytes);
            assert!(believed <= bytes);
        }
        Event::Want(session, bytes) => {
            let share = accounting.want(session, bytes);
            let account = accounting.accounts.get(&session);
            assert_eq!(share.total, account.map_or(0, |account| account.granted));
            assert!(account.is_none_or(|account| account.quota == 0 || account.granted <= account.quota));
        }
        Event::Keep(session, bytes) => accounting.keep(session, bytes),
        Event::Measured(session, bytes) => accounting.measured(session, bytes),
        Event::Seen(session, bytes) => {
            let excess = accounting.seen(session, bytes);
            assert!(excess.is_none_or(|excess| excess.has > excess.may));
        }
    }
}

proptest! {
    #[test]
    fn grants_never_exceed_the_device_and_everything_ends_with_its_session(
        events in prop::collection::vec(event(), 0..80)
    ) {
        let mut accounting = Accounting::default();
        for gpu in 0..2 {
            accounting.offer(gpu, 10 * GIB, true);
        }
        for event in &events {
            apply(&mut accounting, event);
            for gpu in 0..3 {
                let granted = accounting.of_gpu(gpu).map(|(_, account)| accounting.beyond_twin(account, account.granted)).sum::<u64>();
                let capacity = if gpu < 2 { 10 * GIB } else { 0 };
                let promised = |account: &Account| account.granted.max(account.guarantee());
                let promised = accounting.of_gpu(gpu).map(|(_, its)| accounting.beyond_twin(its, promised(its))).sum::<u64>();
                prop_assert!(promised <= capacity);
                prop_assert!(granted <= capacity);
                prop_assert!(accounting.free(gpu) <= capacity - granted);
                prop_assert!(accounting.used(gpu) == accounting.of_gpu(gpu).fold(0, |sum: u64, (_, account)| sum.saturating_add(account.used)));
            }
        }
        for session in 0..6 {
            accounting.end(session);
        }
        prop_assert!((0..2).all(|gpu| accounting.free(gpu) == 10 * GIB && accounting.used(gpu) == 0));
    }
}
