//! The scheduler with fake workers on a fake GPU: what each gets, who waits how long, and what never happens.

mod fairness;
mod simulation;

use std::time::Duration;

use proptest::prelude::*;

use crate::scheduler::{BESIDE, LASTS, OVERRUN, Order, RETURNS, SLICE, Scheduler, Totals, Usage};
use crate::terms::{Class, Member, NoShare, Terms};
use simulation::{Load, Simulation};

const MS: fn(u64) -> Duration = Duration::from_millis;
const TEN_SECONDS: Duration = Duration::from_secs(10);

fn member(user: u8, terms: Terms) -> Member<u8> {
    Member { user, user_weight: 1, is_named: false, terms }
}

/// A session of a user with a name, without terms.
fn named(user: u8) -> Member<u8> {
    Member { is_named: true, ..member(user, Terms::default()) }
}

fn share(share: u32) -> Terms {
    Terms { share, ..Terms::default() }
}

fn weight(weight: u32) -> Terms {
    Terms { weight, ..Terms::default() }
}

/// Whether `is` is within so many thousandths of the whole of `wanted`, both in thousandths.
fn near(is: u64, wanted: u64, tolerance: u64) -> bool {
    is.abs_diff(wanted) <= tolerance
}

#[test]
fn sessions_without_terms_are_never_spoken_to() {
    let mut scheduler = Scheduler::default();
    for number in 0..8 {
        scheduler.join(number, member(u8::try_from(number % 3).unwrap(), Terms::default()), None, MS(number)).unwrap();
    }
    scheduler.leave(3, MS(20));
    assert!(scheduler.take_orders().is_empty() && !scheduler.is_scheduled());
    assert_eq!(scheduler.deadline(), None);
}

#[test]
fn weights_divide_the_gpu_as_they_are() {
    let mut simulation = Simulation::new();
    for (number, its) in [(1, 1), (2, 2), (3, 4)] {
        simulation.add(number, member(7, weight(its)), Load::kernels(MS(1)));
    }
    simulation.run(TEN_SECONDS);
    let got: Vec<u64> = [1, 2, 3].map(|number| simulation.thousandths(number)).to_vec();
    assert!(near(got[0], 143, 7) && near(got[1], 286, 14) && near(got[2], 571, 28), "{got:?}");
}

#[test]
fn a_quarter_is_a_quarter_whatever_the_kernels_are_like() {
    for kernel in [Duration::from_micros(50), MS(8), MS(200)] {
        for others in [1, 3] {
            let mut simulation = Simulation::new();
            simulation.add(1, member(1, share(250)), Load::kernels(kernel));
            for number in 2..2 + others {
                simulation.add(number, member(u8::try_from(number).unwrap(), Terms::default()), Load::kernels(MS(1)));
            }
            simulation.run(TEN_SECONDS);
            let got = simulation.thousandths(1);
            assert!(near(got, 250, 20), "kernels of {kernel:?} beside {others}: {got}");
        }
    }
}

/// Also of programs that wait for what they have in flight again and again, and so have nothing to do for a moment.
#[test]
fn a_quarter_is_a_quarter_of_programs_that_synchronize() {
    let micros = Duration::from_micros;
    for (kernel, work) in [(MS(1), MS(16)), (micros(50), MS(2)), (MS(200), MS(200)), (MS(16), MS(16)), (MS(4), MS(4))] {
        for pause in [micros(50), micros(200), MS(1)] {
            for other in [MS(1), MS(16)] {
                let mut simulation = Simulation::new();
                simulation.add(1, member(1, share(250)), Load { kernel, work, pause });
                simulation.add(2, member(1, Terms::default()), Load { kernel: other, work: MS(16), pause: micros(50) });
                simulation.run(TEN_SECONDS);
                let got = [1, 2].map(|number| simulation.thousandths(number));
                let words = format!("{kernel:?} of {work:?}, a pause of {pause:?}, beside {other:?}: {got:?}");
                // Who pauses meets kernels of 16 ms that have begun meanwhile.
                let least = if pause > micros(50) && other > MS(1) { 180 } else { 230 };
                assert!((least..=270).contains(&got[0]) && got[0] + got[1] >= 970, "{words}");
            }
        }
    }
}

#[test]
fn a_user_has_no_more_of_the_gpu_for_more_sessions() {
    let mut simulation = Simulation::new();
    for number in 1..=5 {
        simulation.add(number, member(1, Terms::default()), Load::kernels(MS(1)));
    }
    simulation.add(6, member(2, weight(1)), Load::kernels(MS(1)));
    simulation.run(TEN_SECONDS);
    let first: u64 = (1..=5).map(|number| simulation.thousandths(number)).sum();
    assert!(near(first, 500, 20), "{first}");
    assert!(near(simulation.thousandths(6), 500, 20));
}

#[test]
fn users_with_names_divide_the_gpu_also_where_nobody_has_terms() {
    let mut simulation = Simulation::new();
    for number in 1..=6 {
        simulation.add(number, named(if number < 6 { 1 } else { 2 }), Load::kernels(MS(1)));
    }
    simulation.run(TEN_SECONDS);
    let first: u64 = (1..=5).map(|number| simulation.thousandths(number)).sum();
    assert!(near(first, 500, 20), "{first}");
    assert!(near(simulation.thousandths(6), 500, 20));
}

#[test]
fn turns_are_taken_only_while_one_of_several_users_with_names_has_several_sessions() {
    let mut scheduler = Scheduler::default();
    scheduler.join(1, named(1), None, MS(0)).unwrap();
    scheduler.join(2, named(2), None, MS(0)).unwrap();
    // Peers without a name may be anybody.
    for number in 3..6 {
        scheduler.join(number, member(9, Terms::default()), None, MS(0)).unwrap();
    }
    // A session that moves has two places.
    scheduler.join(6, named(1), Some(1), MS(1)).unwrap();
    scheduler.leave(1, MS(1));
    assert!(scheduler.take_orders().is_empty() && !scheduler.is_scheduled());
    scheduler.join(7, named(2), None, MS(2)).unwrap();
    assert!(scheduler.is_scheduled());
    scheduler.join(8, named(1), None, MS(3)).unwrap();
    scheduler.tick(MS(3) + LASTS);
    assert!(scheduler.is_scheduled(), "two each, which may be idle");
    scheduler.leave(6, MS(4) + LASTS);
    scheduler.leave(7, MS(4) + LASTS);
    scheduler.tick(MS(4) + LASTS * 2);
    assert!(!scheduler.is_scheduled(), "one each");
    scheduler.join(9, named(1), None, MS(5) + LASTS * 2).unwrap();
    scheduler.leave(2, MS(6) + LASTS * 2);
    scheduler.tick(MS(6) + LASTS * 3);
    assert!(!scheduler.is_scheduled(), "one user is left");
}

#[test]
fn a_user_takes_no_time_by_as_many_sessions_as_another_user_has_idle_ones() {
    let mut simulation = Simulation::new();
    simulation.add(0, named(2), Load::kernels(MS(1)));
    for number in 1..4 {
        simulation.add(number, named(2), Load::nothing());
    }
    for number in 4..8 {
        simulation.add(number, named(1), Load::kernels(MS(1)));
    }
    simulation.run(TEN_SECONDS);
    assert!(near(simulation.thousandths(0), 500, 20), "{}", simulation.thousandths(0));
}

/// Everybody stops when turns begin, so that they must not begin each time a session comes.
#[test]
fn a_user_takes_no_time_by_sessions_with_which_turns_begin_again_and_again() {
    let weighted = [member(2, Terms::default()), member(1, Terms::default()), member(1, weight(1))];
    for [victim, stays, comes] in [[named(2), named(1), named(1)], weighted] {
        for (stay, away) in [(20, 1), (5, 5), (21, 21), (30, 5), (50, 300)] {
            let mut simulation = Simulation::new();
            simulation.add(0, victim, Load::kernels(MS(1)));
            simulation.add(1, stays, Load::kernels(MS(200)));
            for number in 2..2 + 8000 / (stay + away) {
                simulation.add(number, comes, Load::kernels(MS(200)));
                simulation.run(MS(stay));
                simulation.remove(number);
                simulation.run(MS(away));
            }
            let had = simulation.thousandths(0);
            assert!(had >= 450, "{stays:?} for {stay} of {} ms: {had}", stay + away);
        }
    }
}

#[test]
fn what_nobody_else_wants_is_had_by_whoever_does() {
    let mut simulation = Simulation::new();
    simulation.add(1, member(1, share(250)), Load::kernels(MS(1)));
    simulation.add(2, member(2, share(500)), Load::nothing());
    simulation.add(3, member(3, Terms::default()), Load::nothing());
    simulation.run(TEN_SECONDS);
    assert!(simulation.thousandths(1) >= 990, "{}", simulation.thousandths(1));
}

/// One that computes half of its time and has half of the GPU waits little for one that always computes.
#[test]
fn a_session_with_pauses_gets_its_share_while_it_has_work() {
    let mut simulation = Simulation::new();
    simulation.add(1, member(1, share(500)), Load { kernel: MS(1), work: MS(4), pause: MS(4) });
    simulation.add(2, member(2, Terms::default()), Load::kernels(MS(1)));
    simulation.run(TEN_SECONDS);
    // 4 ms of work in 8 ms and the end of others' turns.
    assert!(simulation.thousandths(1) >= 350, "{}", simulation.thousandths(1));
    assert!(simulation.busy() >= 980, "{}", simulation.busy());
}

#[test]
fn a_latency_class_waits_for_one_kernel_only_and_not_for_turns() {
    let latency = Terms { class: Class::Latency, ..Terms::default() };
    let mut simulation = Simulation::new();
    simulation.add(1, member(1, latency), Load { kernel: MS(1), work: MS(1), pause: MS(19) });
    for number in 2..=4 {
        simulation.add(number, member(u8::try_from(number).unwrap(), Terms::default()), Load::kernels(MS(2)));
    }
    simulation.run(TEN_SECONDS);
    assert!(simulation.longest_wait(1) <= MS(3), "{:?}", simulation.longest_wait(1));
}

/// Also where a kernel cannot be stopped: the driver's slices let it through.
#[test]
fn a_latency_class_does_not_wait_for_a_kernel_of_a_fifth_of_a_second() {
    let latency = Terms { class: Class::Latency, ..Terms::default() };
    let mut simulation = Simulation::new();
    simulation.add(1, member(1, latency), Load { kernel: MS(1), work: MS(1), pause: MS(19) });
    simulation.add(2, member(2, Terms::default()), Load::kernels(MS(200)));
    simulation.run(TEN_SECONDS);
    assert!(simulation.longest_wait(1) <= MS(1), "{:?}", simulation.longest_wait(1));
    // Half of the time for which both were there is charged to each.
    assert!(simulation.busy() >= 990 && simulation.thousandths(2) >= 900, "{}", simulation.thousandths(2));
}

/// One that wakes up for a moment takes no turn for it, and one that does so all the time has its share and no more.
#[test]
fn who_wakes_up_for_a_moment_stops_nobody() {
    let micros = Duration::from_micros;
    let mut scheduler = Scheduler::default();
    scheduler.join(1, member(1, weight(1)), None, MS(0)).unwrap();
    scheduler.join(2, member(2, weight(1)), None, MS(0)).unwrap();
    scheduler.rests(1, 1, true, MS(1));
    scheduler.rests(2, 1, false, MS(1));
    assert_eq!(scheduler.take_orders().last(), Some(&(1, 2, Order::Go { others_wait: false, brief: false })));
    scheduler.wants(2, 1, MS(50));
    let [paced, alone] = [true, false].map(|others_wait| Order::Go { others_wait, brief: false });
    assert_eq!(scheduler.take_orders(), [(2, 2, paced), (1, 3, paced)]);
    assert_eq!(scheduler.deadline(), Some(MS(50) + BESIDE));
    scheduler.rests(2, 2, false, MS(51));
    // It may go on in a moment: until then little is in flight.
    assert!(scheduler.take_orders().is_empty());
    assert_eq!(scheduler.deadline(), Some(MS(51) + RETURNS));
    scheduler.tick(MS(51) + RETURNS);
    assert_eq!(scheduler.take_orders(), [(1, 4, alone)]);
    // It has more to do the next time, and takes the turn: it is far behind.
    scheduler.wants(2, 2, MS(90));
    assert_eq!(scheduler.take_orders().len(), 2);
    scheduler.tick(MS(90) + BESIDE);
    assert_eq!(scheduler.take_orders(), [(1, 6, Order::Stop)]);

    let mut simulation = Simulation::new();
    simulation.add(1, member(1, share(100)), Load { kernel: micros(500), work: MS(1), pause: micros(200) });
    simulation.add(2, member(2, Terms::default()), Load::kernels(MS(1)));
    simulation.run(TEN_SECONDS);
    assert!(simulation.thousandths(2) >= 880, "{}", simulation.thousandths(2));
}

/// It cannot take more than its share by saying that it is in a hurry.
#[test]
fn a_latency_class_that_never_rests_gets_its_share() {
    let mut simulation = Simulation::new();
    let latency = Terms { class: Class::Latency, share: 250, weight: 0 };
    simulation.add(1, member(1, latency), Load::kernels(MS(1)));
    simulation.add(2, member(2, Terms::default()), Load::kernels(MS(1)));
    simulation.run(TEN_SECONDS);
    assert!(near(simulation.thousandths(1), 250, 20), "{}", simulation.thousandths(1));
}

#[test]
fn a_kernel_without_end_holds_others_up_for_a_bounded_time_once() {
    let mut simulation = Simulation::new();
    simulation.add(1, member(1, share(500)), Load::kernels(Duration::from_secs(3600)));
    simulation.add(2, member(2, Terms::default()), Load::kernels(MS(1)));
    simulation.run(TEN_SECONDS);
    assert!(simulation.longest_wait(2) <= OVERRUN + SLICE * 2, "{:?}", simulation.longest_wait(2));
    // The driver's own slices leave it half.
    assert!(simulation.thousandths(2) >= 450, "{}", simulation.thousandths(2));
}

/// What a session left in a stream that waits for something may be work that goes on: it is charged, and nobody waits for it.
#[test]
fn what_may_wait_for_somebody_is_charged_and_waited_for_by_nobody() {
    let mut scheduler = Scheduler::default();
    scheduler.join(1, member(1, share(500)), None, MS(0)).unwrap();
    scheduler.join(2, member(2, Terms::default()), None, MS(0)).unwrap();
    scheduler.holds(1, 1, MS(10));
    scheduler.rests(2, 1, true, MS(10));
    assert_eq!(scheduler.take_orders().last(), Some(&(2, 2, Order::Go { others_wait: false, brief: false })));
    scheduler.tick(MS(110));
    assert_eq!((scheduler.usage(1, MS(110)).time, scheduler.usage(2, MS(110)).time), (MS(60), MS(50)));
    assert_eq!(scheduler.totals(MS(111)), Totals { scheduled: MS(111), had: MS(111), turns: 1 });
    // It has more to do, and is behind by nothing: it waits for its turn like others.
    scheduler.wants(1, 1, MS(110));
    scheduler.rests(1, 1, true, MS(120));
    assert_eq!(scheduler.usage(1, MS(200)).time, scheduler.usage(1, MS(120)).time);
}

#[test]
fn no_more_than_the_whole_is_promised() {
    let mut scheduler = Scheduler::default();
    scheduler.join(1, member(1, share(600)), None, MS(0)).unwrap();
    assert_eq!(scheduler.join(2, member(2, share(500)), None, MS(0)), Err(NoShare { asked: 500, free: 400 }));
    scheduler.join(3, member(2, share(400)), None, MS(0)).unwrap();
    // A session that moves within the GPU has two places for a moment.
    assert_eq!(scheduler.join(4, member(1, share(600)), Some(1), MS(1)), Ok(()));
    assert_eq!(scheduler.free_share(), 0);
    scheduler.leave(1, MS(1));
    assert_eq!(scheduler.join(5, member(1, share(1)), None, MS(1)), Err(NoShare { asked: 1, free: 0 }));
    scheduler.leave(4, MS(1));
    assert_eq!(scheduler.free_share(), 600);
}

#[test]
fn turns_begin_where_somebody_has_terms_and_company_and_end_a_while_behind_that() {
    let mut scheduler = Scheduler::default();
    scheduler.join(1, member(1, share(250)), None, MS(0)).unwrap();
    assert!(scheduler.take_orders().is_empty());
    scheduler.join(2, member(2, Terms::default()), None, MS(1)).unwrap();
    assert_eq!(scheduler.take_orders(), [(1, 1, Order::Stop), (2, 1, Order::Stop)]);
    scheduler.leave(2, MS(2));
    assert!(scheduler.take_orders().is_empty());
    assert_eq!(scheduler.deadline(), Some(MS(2) + LASTS));
    scheduler.tick(MS(1) + LASTS);
    assert!(scheduler.is_scheduled() && scheduler.take_orders().is_empty());
    scheduler.tick(MS(2) + LASTS);
    assert_eq!(scheduler.take_orders(), [(1, 2, Order::Free)]);
    // What was counted stays, and no more is.
    let scheduled = MS(1) + LASTS;
    assert_eq!(scheduler.totals(LASTS * 2), Totals { scheduled, had: scheduled, turns: 0 });
}

/// Beside one that has nothing to do there is no event for long, and no deadline.
#[test]
fn a_session_that_computes_alone_is_seen_to_have_had_the_gpu_up_to_now() {
    let mut simulation = Simulation::new();
    simulation.add(1, member(1, weight(1)), Load::kernels(MS(1)));
    simulation.add(2, member(2, weight(1)), Load::nothing());
    simulation.run(TEN_SECONDS);
    let (one, other) = (simulation.usage(1), simulation.usage(2));
    assert!(one.of >= MS(9_990) && other.of == one.of, "{one:?} {other:?}");
    assert!(one.time >= MS(9_900) && other.time <= MS(50), "{one:?} {other:?}");
}

/// A session that moves within its GPU owes there what it owed.
#[test]
fn a_session_sheds_no_debt_by_a_move_within_its_gpu() {
    let latency = Terms { class: Class::Latency, share: 100, weight: 0 };
    let mut simulation = Simulation::new();
    simulation.add(0, member(2, Terms::default()), Load::kernels(MS(1)));
    simulation.add(1, member(1, latency), Load::kernels(MS(1)));
    for number in 1..100 {
        simulation.run(MS(100));
        simulation.move_to(number + 1, number, member(1, latency));
    }
    assert!(simulation.thousandths(0) >= 880, "{}", simulation.thousandths(0));
}

/// A report that answers an earlier order says nothing about the present one.
#[test]
fn a_late_report_changes_nothing() {
    let mut scheduler = Scheduler::default();
    scheduler.join(1, member(1, share(250)), None, MS(0)).unwrap();
    scheduler.join(2, member(2, Terms::default()), None, MS(0)).unwrap();
    scheduler.rests(1, 1, true, MS(1));
    scheduler.rests(2, 1, true, MS(1));
    let given = scheduler.take_orders();
    let &(holder, number, Order::Go { .. }) = given.last().unwrap() else { panic!("{given:?}") };
    scheduler.rests(holder, number - 1, false, MS(2));
    scheduler.tick(MS(2));
    assert!(scheduler.take_orders().is_empty(), "it still has its turn");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Join(u64, u8, u32, u32, bool),
    Leave(u64),
    Wants(u64),
    Rests(u64, bool),
    Holds(u64),
    Lies(u64, u64, bool),
    Passes(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let number = 0_u64..12;
    prop_oneof![
        2 => (number.clone(), 0_u8..4, 0_u32..500, 0_u32..5, any::<bool>())
            .prop_map(|(number, user, share, weight, latency)| Event::Join(number, user, share / 100 * 50, weight, latency)),
        1 => number.clone().prop_map(Event::Leave),
        6 => number.clone().prop_map(Event::Wants),
        6 => (number.clone(), any::<bool>()).prop_map(|(number, wants)| Event::Rests(number, wants)),
        2 => number.clone().prop_map(Event::Holds),
        1 => (number, 0_u64..40, any::<bool>()).prop_map(|(number, order, wants)| Event::Lies(number, order, wants)),
        4 => (0_u64..700).prop_map(Event::Passes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Whatever workers say in whatever order: one unit has its turn and one may go beside it, promises stay within the whole,
    /// orders go to those who are there, time is not charged twice, and somebody who wants and whom nobody keeps waiting has a
    /// turn.
    #[test]
    fn no_row_of_events_breaks_what_holds(events in prop::collection::vec(event(), 1..120)) {
        let (mut scheduler, mut now) = (Scheduler::<u8>::default(), Duration::ZERO);
        let mut last: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        for event in events {
            match event {
                Event::Join(number, user, share, weight, latency) => {
                    if last.contains_key(&number) { continue; }
                    let class = if latency { Class::Latency } else { Class::Batch };
                    if scheduler.join(number, member(user, Terms { share, weight, class }), None, now).is_ok() {
                        last.insert(number, 0);
                    }
                }
                Event::Leave(number) => {
                    scheduler.leave(number, now);
                    last.remove(&number);
                }
                Event::Wants(number) => scheduler.wants(number, last.get(&number).copied().unwrap_or(0), now),
                Event::Rests(number, wants) => scheduler.rests(number, last.get(&number).copied().unwrap_or(0), wants, now),
                Event::Holds(number) => scheduler.holds(number, last.get(&number).copied().unwrap_or(0), now),
                Event::Lies(number, order, wants) => scheduler.rests(number, order, wants, now),
                Event::Passes(millis) => {
                    now += MS(millis);
                    scheduler.tick(now);
                }
            }
            for (number, order, _) in scheduler.take_orders() {
                let before = last.get(&number).copied();
                prop_assert!(before.is_some_and(|before| before < order), "{number} is there, and its orders count up");
                last.insert(number, order);
            }
            prop_assert!(scheduler.promised() <= 1000);
            prop_assert!(scheduler.units_with_a_turn() <= 2);
            prop_assert!(!scheduler.keeps_somebody_waiting_for_nobody(now), "{scheduler:?}");
            prop_assert!(scheduler.deadline().is_none_or(|at| at > now), "nobody ticks again and again: {scheduler:?}");
            let charged: Duration = last.keys().map(|number| scheduler.usage(*number, now).time).sum();
            let totals = scheduler.totals(now);
            prop_assert!(charged <= totals.had && totals.had <= totals.scheduled && totals.scheduled <= now, "{totals:?}");
        }
    }
}

/// Sessions of one user that work one after another have together what one of its sessions has.
#[test]
fn a_user_has_no_more_of_the_gpu_for_sessions_that_work_in_rotation() {
    for class in [Class::Batch, Class::Latency] {
        for (sessions, work, pause) in [(8, 20, 150), (8, 70, 500), (15, 20, 300), (15, 70, 1000)] {
            let mut simulation = Simulation::new();
            let terms = Terms { weight: 1, class, ..Terms::default() };
            for number in 1..=sessions {
                simulation.add(number, member(1, terms), Load { kernel: MS(1), work: MS(work), pause: MS(pause) });
            }
            simulation.add(100, member(2, weight(1)), Load::kernels(MS(1)));
            simulation.run(TEN_SECONDS);
            let other = simulation.thousandths(100);
            assert!(other >= 480, "{class:?}, {sessions} sessions with {work} ms and a pause of {pause} ms: {other}");
        }
    }
}

/// Leaving and coming back sheds no debt.
#[test]
fn a_user_has_no_more_of_the_gpu_for_sessions_that_leave_and_come_back() {
    let unshared = |class| Terms { weight: 1, class, ..Terms::default() };
    let shared = |class| Terms { share: 100, class, ..Terms::default() };
    let all = [Class::Batch, Class::Latency].map(|class| [(unshared(class), 480), (shared(class), 880)]);
    for (terms, due) in all.into_iter().flatten() {
        for (stay, at_once) in [(MS(30), 1), (MS(60), 1), (MS(60), 4)] {
            let mut simulation = Simulation::new();
            simulation.add(0, member(2, Terms::default()), Load::kernels(MS(1)));
            let at_once = if terms.share == 0 { at_once } else { 1 };
            (1..=at_once).for_each(|number| simulation.add(number, member(1, terms), Load::kernels(MS(1))));
            for number in 1..300 {
                simulation.run(stay);
                simulation.remove(number);
                simulation.add(number + at_once, member(1, terms), Load::kernels(MS(1)));
            }
            let other = simulation.thousandths(0);
            assert!(other >= due, "{terms:?}, {at_once} that stay for {stay:?}: {other}");
        }
    }
}

/// What others owe is not forgiven by a pause of a program's.
#[test]
fn a_program_with_pauses_has_its_share_beside_kernels_that_cannot_be_stopped() {
    let micros = Duration::from_micros;
    for (kernel, least) in [(MS(440), 400), (MS(44), 400)] {
        let mut simulation = Simulation::new();
        let load = Load { kernel: micros(4400), work: micros(4400), pause: MS(2) };
        simulation.add(1, member(1, share(500)), load);
        simulation.add(2, member(2, Terms::default()), Load::kernels(kernel));
        simulation.run(TEN_SECONDS);
        let got = simulation.thousandths(1);
        assert!(got >= least, "beside kernels of {kernel:?}: {got}");
        assert!(simulation.longest_wait(1) <= OVERRUN + SLICE * 2, "{:?}", simulation.longest_wait(1));
    }
}

/// A loan is paid back, however often the lender rests.
#[test]
fn a_latency_class_takes_no_promised_share() {
    let micros = Duration::from_micros;
    let latency = |share| Terms { class: Class::Latency, share, weight: 0 };
    let steady = Load { kernel: MS(1), work: MS(16), pause: micros(100) };
    let pausing = Load { kernel: micros(4400), work: micros(4400), pause: MS(2) };
    for (mine, load, sessions, due, least) in
        // With half of the GPU, 4.4 ms of work and 2 ms of rest are 407 thousandths.
        [
            (750, steady, 4, 10, 870),
            (500, pausing, 1, 10, 500),
            (750, steady, 1, 0, 720),
            (500, pausing, 1, 0, 400),
        ]
    {
        let mut simulation = Simulation::new();
        simulation.add(0, member(2, share(mine)), load);
        for number in 1..=sessions {
            simulation.add(number, member(1, latency(due)), Load::kernels(MS(1)));
        }
        simulation.run(TEN_SECONDS);
        let got = simulation.thousandths(0);
        assert!(got >= least, "{mine} beside {sessions} of {due}: {got}");
    }
}

/// While one of them cannot be stopped, a user's others wait: together they have the driver's slice of one.
#[test]
fn a_user_has_one_slice_for_all_kernels_that_cannot_be_stopped() {
    let mut simulation = Simulation::new();
    simulation.add(0, member(2, share(750)), Load { kernel: MS(4), work: MS(4), pause: Duration::from_micros(50) });
    for number in 1..=5 {
        simulation.add(number, member(1, share(50)), Load::kernels(Duration::from_secs(5)));
    }
    simulation.run(TEN_SECONDS * 2);
    assert!(simulation.thousandths(0) >= 450, "{}", simulation.thousandths(0));
}

/// The same of sessions without terms, which take turns together. What was had is seen.
#[test]
fn a_users_sessions_without_terms_take_no_promised_share_by_long_kernels() {
    for (sessions, kernel) in [(1, 500), (4, 500), (10, 500), (16, 500), (16, 2000), (4, 20)] {
        let mut simulation = Simulation::new();
        simulation.add(0, member(2, share(500)), Load::kernels(MS(1)));
        for number in 1..=sessions {
            simulation.add(number, member(1, Terms::default()), Load::kernels(MS(kernel)));
        }
        simulation.run(TEN_SECONDS * 4);
        let had = simulation.thousandths(0);
        let Usage { time, of } = simulation.usage(0);
        let seen = u64::try_from(time.as_millis() * 1000 / of.as_millis()).unwrap();
        println!("{sessions} x {kernel}: {had}, seen {seen}");
        assert!(had >= 450, "{sessions} sessions with kernels of {kernel} ms: {had}");
        assert!(seen.abs_diff(had) <= 20, "{sessions} sessions with kernels of {kernel} ms: {had}, shown as {seen}");
    }
}

/// They divide what their user has, also where none of them ever rests and nobody's turn ends theirs.
#[test]
fn a_users_sessions_without_terms_divide_its_turns() {
    for (sessions, kernel) in [(4, 100), (8, 100), (4, 5_000), (2, 300_000)] {
        let mut simulation = Simulation::new();
        simulation.add(0, member(2, weight(1)), Load { kernel: BESIDE / 40, work: BESIDE / 40, pause: MS(15) });
        for number in 1..=sessions {
            simulation.add(number, member(1, Terms::default()), Load::kernels(Duration::from_micros(kernel)));
        }
        simulation.run(TEN_SECONDS);
        let had: Vec<u64> = (1..=sessions).map(|number| simulation.thousandths(number)).collect();
        assert!(had.iter().all(|had| *had >= 800 / sessions), "kernels of {kernel} us: {had:?}");
    }
}

/// A kernel may wait for what the user's other session is to do.
#[test]
fn a_users_session_begins_beside_one_that_never_stops() {
    for terms in [Terms::default(), weight(1), share(300)] {
        let mut simulation = Simulation::new();
        simulation.add(0, member(2, weight(1)), Load { kernel: MS(1), work: MS(1), pause: MS(15) });
        simulation.add(1, member(1, terms), Load::kernels(Duration::from_secs(3600)));
        simulation.run(MS(100));
        simulation.add(2, member(1, terms), Load::kernels(MS(1)));
        simulation.run(Duration::from_secs(4));
        assert!(simulation.thousandths(2) > 0, "{terms:?}");
    }
}

/// Nor does a latency class that leaves and comes back.
#[test]
fn a_latency_class_that_comes_back_does_not_go_first_at_once() {
    for gap in [0, 20, 100] {
        let mut simulation = Simulation::new();
        simulation.add(0, member(2, share(900)), Load::kernels(MS(1)));
        let latency = Terms { class: Class::Latency, ..Terms::default() };
        for number in 1..200 {
            simulation.add(number, member(1, latency), Load::kernels(MS(60)));
            simulation.run(MS(70));
            simulation.remove(number);
            simulation.run(MS(gap));
        }
        println!("gap {gap}: {}", simulation.thousandths(0));
        assert!(simulation.thousandths(0) >= 850, "{gap}: {}", simulation.thousandths(0));
    }
}

/// A session that is new has nothing that it did not use.
#[test]
fn sessions_that_come_and_go_have_no_more_than_one_that_stays() {
    let mut simulation = Simulation::new();
    simulation.add(0, member(2, share(900)), Load::kernels(MS(1)));
    let mut number = 0;
    for _ in 0..8 {
        number += 1;
        simulation.add(number, member(1, share(1)), Load { kernel: MS(20), work: MS(20), pause: MS(100) });
    }
    for oldest in 1..300 {
        simulation.run(MS(30));
        simulation.remove(oldest);
        number += 1;
        simulation.add(number, member(1, share(1)), Load { kernel: MS(20), work: MS(20), pause: MS(100) });
    }
    assert!(simulation.thousandths(0) >= 950, "{}", simulation.thousandths(0));
}
