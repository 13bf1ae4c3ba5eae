//! Resumable sessions, stepped: both ends in one thread, with a network and a clock of the tests' own.
//! Each test runs the state that the threads of a session share, not a copy of it; the shell around it is tested with sockets.
//! In: seeds. Out: nothing, or the seed of a session in which a byte was lost, repeated or kept for ever, or that hung.

mod end;
mod hostile;
mod network;
mod world;

use std::time::Duration;

use super::channels::ACKNOWLEDGEMENT_CHANNEL;
use super::heartbeat::{Step, TICK};
use super::history::{frame, marked};
use super::outbound::Outbound;
use super::session::{Admission, LinkState, Session, Time};
use world::{CLIENT, GRACE, Outcome, SERVER, Weather, World, Wrong};

/// Says which seed it was when a test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed: {}", self.0);
        }
    }
}

/// Runs sessions in this weather, and counts what was cut.
fn run(seeds: std::ops::Range<u64>, weather: Weather, expected: &[Outcome]) -> usize {
    let cuts = seeds.map(|seed| {
        let _seed = Seed(seed);
        let mut world = World::new(seed, weather);
        let outcome = world.run();
        assert!(expected.contains(&outcome), "{outcome:?}");
        world.net.cuts
    });
    cuts.sum()
}

#[test]
fn every_byte_arrives_once_and_in_order_through_thousands_of_cuts() {
    let weather = Weather { frames: 150, cuts: 60, repeats: true, ..Weather::default() };
    let cuts = run(0..200, weather, &[Outcome::Arrived]);
    assert!(cuts > 5000, "{cuts}");
}

#[test]
fn every_byte_arrives_once_and_in_order_while_the_server_moves_at_any_moment() {
    let calm = Weather { frames: 150, moves: 12, ..Weather::default() };
    let rough = Weather { cuts: 40, repeats: true, ..calm };
    let swallowed = Weather { swallows: 3, outages: 2, outage: GRACE / 4, ..rough };
    let mut moved = 0;
    for (seed, weather) in (0..100).flat_map(|seed| [(seed, calm), (seed, rough), (seed, swallowed)]) {
        let _seed = Seed(seed);
        let mut world = World::new(seed, weather);
        assert_eq!(world.run(), Outcome::Arrived);
        moved += world.moved;
    }
    assert!(moved > 1500, "{moved}");
}

#[test]
fn nobody_is_waited_for_while_the_server_stands_still() {
    let mut session = Session::<()>::new(GRACE, 0);
    assert!(session.hear(1, ()).is_ok());
    assert!(session.park().is_some() && session.park().is_none());
    assert_eq!(session.link_state(), LinkState::Parked);
    let later = 100 * GRACE;
    assert!(!session.grace_left(later).is_zero() && !session.is_of(1));
    assert_eq!(session.admit(2, 0, later).0, Admission::Parked, "a refusal would end the client");
    let mut elsewhere = Session::<()>::new(GRACE, 0);
    elsewhere.recall(session.image());
    for session in [&mut session, &mut elsewhere] {
        session.unpark(later);
        assert_eq!((session.link_state(), session.grace_left(later)), (LinkState::Broken, GRACE));
        assert!(session.grace_left(later + GRACE).is_zero());
        assert_eq!(session.admit(2, 0, later).0, Admission::Taken);
    }
}

#[test]
fn a_peer_that_asked_before_a_move_is_answered_behind_it() {
    let [mut ours, mut theirs] = [(); 2].map(|()| Session::<()>::new(GRACE, 0));
    assert!([&mut ours, &mut theirs].into_iter().all(|end| end.hear(1, ()).is_ok()));
    let ask = |session: &mut Session<()>, now: Time| {
        let asks = (1..100).map(|step| session.look(TICK, true, false, now + step * TICK).step);
        asks.into_iter().find_map(|step| if let Step::Ask(question) = step { Some(question) } else { None })
    };
    let first = ask(&mut ours, Time::ZERO).expect("it waits");
    assert!(theirs.hear_heartbeat(ours.heartbeat().0, Time::ZERO));
    let mut moved = Session::<()>::new(GRACE, 0);
    moved.recall(ours.image());
    moved.unpark(Time::ZERO);
    assert_eq!(moved.admit(2, ACKNOWLEDGEMENT_CHANNEL, Time::ZERO).0, Admission::Taken);
    assert!(moved.hear(2, ()).is_ok());
    let second = ask(&mut moved, Time::ZERO).expect("it waits");
    assert!(second > first && theirs.hear_heartbeat(moved.heartbeat().0, Time::ZERO), "the question is new");
    moved.hear_heartbeat(theirs.heartbeat().0, Time::ZERO);
    assert!(!moved.is_open(second));
}

#[test]
fn connections_that_swallow_everything_are_replaced() {
    let weather = Weather { frames: 150, cuts: 5, swallows: 5, ..Weather::default() };
    run(0..100, weather, &[Outcome::Arrived]);
}

#[test]
fn an_outage_shorter_than_the_grace_period_is_a_pause() {
    let weather = Weather { frames: 100, cuts: 5, outages: 3, outage: GRACE / 4, ..Weather::default() };
    run(0..100, weather, &[Outcome::Arrived]);
}

#[test]
fn after_outages_of_any_length_everything_arrives_or_both_sides_end_the_session() {
    let weather = Weather { frames: 100, cuts: 5, swallows: 2, outages: 2, outage: 2 * GRACE, ..Weather::default() };
    run(0..200, weather, &[Outcome::Arrived, Outcome::Over]);
}

#[test]
fn an_outage_longer_than_the_grace_period_ends_the_session_at_both_sides_in_time() {
    for seed in 0..100 {
        let _seed = Seed(seed);
        let mut world = World::new(seed, Weather { frames: 1000, ..Weather::default() });
        (0..1000 + seed).for_each(|_| world.step());
        world.go_away(10 * GRACE);
        let began = world.now;
        assert_eq!(world.run(), Outcome::Over);
        let took = world.now - began;
        assert!((GRACE..GRACE + Duration::from_secs(1)).contains(&took), "{took:?}");
        assert!(world.ends.iter().all(|end| (end.borrowed(), end.copied()) == (0, 0)), "what is kept goes back");
    }
}

#[test]
fn a_peer_that_lies_about_what_it_has_ends_the_session_at_both_sides() {
    for wrong in [Wrong::Count, Wrong::Digest, Wrong::Acknowledges] {
        for side in [CLIENT, SERVER] {
            let weather = Weather { frames: 400, wrong: Some(wrong(side)), ..Weather::default() };
            run(0..30, weather, &[Outcome::Over]);
        }
    }
}

#[test]
fn a_channel_that_is_resumed_twice_in_an_epoch_ends_the_session_at_both_sides() {
    let weather = Weather { frames: 400, cuts: 10, wrong: Some(Wrong::Twice), ..Weather::default() };
    run(0..30, weather, &[Outcome::Over]);
}

#[test]
fn a_goodbye_ends_the_session_at_both_sides_at_once() {
    for (seed, side) in (0..100).flat_map(|seed| [(seed, CLIENT), (seed, SERVER)]) {
        let _seed = Seed(seed);
        let mut world = World::new(seed, Weather { frames: 10_000, ..Weather::default() });
        while !world.is_whole() {
            world.step();
        }
        (0..seed).for_each(|_| world.step());
        let began = world.now;
        world.ends[side].end(&mut world.net, None);
        assert_eq!(world.run(), Outcome::Over);
        let took = world.now - began;
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
}

#[test]
fn a_channel_that_is_named_late_has_all_of_the_grace_period_to_resume() {
    let mut session = Session::<()>::new(GRACE, 0);
    let late = 3 * GRACE;
    assert_eq!(session.admit(1, 1, late).0, Admission::Taken);
    assert_eq!(session.grace_left(late), GRACE);
}

#[test]
fn what_a_peer_says_behind_the_end_is_no_lie() {
    let (bytes, mut outbound) = (frame(&[1; 100], 0), Outbound::<usize>::default());
    outbound.keep(|log| log.append(&bytes));
    assert!(outbound.end().is_empty());
    for mark in [marked(&bytes[..50]), marked(&bytes)] {
        assert_eq!(outbound.check(mark), Ok(()));
        assert!(outbound.acknowledge(mark).is_ok_and(|free| free.is_empty()));
    }
}

#[test]
fn who_has_left_begins_nothing() {
    let mut session = Session::<()>::new(GRACE, 0);
    session.peer_says_goodbye();
    assert_eq!(session.admit(2, 0, Time::ZERO).0, Admission::Late { now: 1 });
    assert!(session.begin(2, Time::ZERO).is_none());
}

#[test]
fn a_question_that_is_answered_late_leaves_no_connection() {
    let [mut ours, mut theirs] = [(); 2].map(|()| Session::<()>::new(GRACE, 0));
    assert!([&mut ours, &mut theirs].into_iter().all(|end| end.hear(1, ()).is_ok()));
    let (mut now, mut asked, mut doubted) = (Time::ZERO, 0, 0);
    while now < GRACE {
        now += TICK;
        match ours.look(TICK, true, false, now).step {
            Step::Nothing => {}
            Step::Ask(question) => asked = question,
            Step::Doubt(question) => {
                assert!(ours.is_open(question));
                assert!(theirs.hear_heartbeat(ours.heartbeat().0, now), "the question is new");
                assert!(theirs.peer_waits(now));
                ours.hear_heartbeat(theirs.heartbeat().0, now);
                assert!(!ours.is_open(question), "nothing is left then");
                doubted += 1;
            }
        }
    }
    assert!(asked > 3 && doubted + 1 >= asked, "{asked} questions, {doubted} late");
    assert_eq!(ours.link_state(), LinkState::Whole);
    assert!(!theirs.peer_waits(now + GRACE));
}

#[test]
fn a_session_with_nothing_to_send_keeps_its_connections() {
    let mut world = World::new(1, Weather { frames: 1, ..Weather::default() });
    while !world.is_whole() {
        world.step();
    }
    assert_eq!([CLIENT, SERVER].map(|side| world.currents(side).len()), [3, 3]);
    assert_eq!(world.ends.each_ref().map(|end| end.session.epoch()), [1, 1]);
    assert_eq!(world.run(), Outcome::Arrived);
    assert_eq!(world.ends.each_ref().map(|end| end.session.epoch()), [1, 1]);
}
