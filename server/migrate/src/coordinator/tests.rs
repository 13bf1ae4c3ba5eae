//! Moves, stepped with a clock of their own: every state with every event, every failure of either side, and interleavings.
//!
//! The world below does what the coordinator says, and knows what must hold: the session has exactly one worker that runs
//! it, wherever the move ends.

use super::*;

mod interleavings;
mod world;

use world::{Does, Door, World};

const PATIENCE: Duration = Duration::from_secs(2);

fn terms() -> Terms {
    Terms { patience: PATIENCE, stop_and_copy: false }
}

fn at(phase: Phase) -> Input {
    Input::Said(Side::Source, Said::Phase(phase, Progress::default()))
}

fn source(said: Said) -> Input {
    Input::Said(Side::Source, said)
}

fn target(said: Said) -> Input {
    Input::Said(Side::Target, said)
}

/// What happens in a move that succeeds, event by event. The daemon's answers follow by themselves.
fn script() -> Vec<Input> {
    vec![
        source(Said::Described(Described { bytes: 1 << 30, objects: 7 })),
        at(Phase::Replay),
        target(Said::Phase(Phase::Replay, Progress::default())),
        at(Phase::Lend),
        at(Phase::Precopy),
        at(Phase::Park),
        at(Phase::Drain),
        at(Phase::Finish),
        source(Said::Frozen),
        target(Said::Ready),
        Input::Ended(Side::Source),
    ]
}

/// Every event there is, and some words in places where nobody says them.
fn every_input() -> Vec<Input> {
    let words = [
        Said::Described(Described::default()),
        Said::WentOn("a stream stands at a host function".into()),
        Said::Frozen,
        Said::GaveUp("a device heap is in use".into()),
        Said::Ready,
        Said::Refused("the variable x lies elsewhere".into()),
    ];
    let phases = Phase::ALL.into_iter().map(|phase| Said::Phase(phase, Progress { bytes: 1, of: 2, rounds: 1 }));
    let said = words.into_iter().chain(phases);
    let of_both = said.flat_map(|said| [source(said.clone()), target(said)]);
    let others = [
        Input::Ended(Side::Source),
        Input::Ended(Side::Target),
        Input::ClientLeft,
        Input::Cancelled,
        Input::DaemonEnds,
        Input::Tick,
    ];
    of_both.chain(others).collect()
}

/// A world in which so many events of a move that succeeds have happened.
fn after(events: usize, terms: Terms) -> World {
    let mut world = World::new(terms);
    for input in script().into_iter().take(events) {
        world.pending.retain(|it| *it != input);
        world.happens(input);
    }
    world
}

fn stayed(world: &World) -> &Why {
    match world.result.as_ref() {
        Some(Outcome::Stayed(why, _)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_move_goes_through_its_phases_and_ends_with_the_sources_end() {
    let mut world = after(script().len(), terms());
    world.settle();
    let Some(Outcome::Moved(record)) = &world.result else { panic!("{:?}", world.result) };
    assert_eq!((record.retries, record.phase), (0, Some(Phase::Release)));
    let mut phases: Vec<_> =
        world.seen.iter().filter_map(|it| if let Output::Progress(at, _) = it { Some(*at) } else { None }).collect();
    phases.dedup();
    assert_eq!(phases, Phase::ALL);
    let deeds: Vec<_> =
        world.seen.iter().filter(|it| !matches!(it, Output::Progress(..) | Output::Result(_))).cloned().collect();
    let described = Described { bytes: 1 << 30, objects: 7 };
    let expected = [
        Output::StartTarget(described),
        Output::HoldDoor,
        Output::Commit,
        Output::Go,
        Output::OpenDoor(Side::Target),
        Output::Release,
    ];
    assert_eq!(deeds, expected);
}

#[test]
fn every_event_in_every_state_leaves_one_session_and_one_result() {
    for terms in [terms(), Terms { stop_and_copy: true, ..terms() }] {
        for events in 0..=script().len() {
            for input in every_input() {
                for late in [false, true] {
                    let mut world = after(events, terms);
                    if world.result.is_some() {
                        continue;
                    }
                    if late && let Some(deadline) = world.coordinator.deadline() {
                        world.now = deadline;
                    }
                    world.happens(input.clone());
                    world.settle();
                }
            }
        }
    }
}

#[test]
fn every_pair_of_failures_leaves_one_session_and_one_result() {
    let failures = [
        Input::Ended(Side::Source),
        Input::Ended(Side::Target),
        Input::ClientLeft,
        Input::Cancelled,
        Input::DaemonEnds,
        source(Said::GaveUp("no".into())),
        target(Said::Refused("no".into())),
    ];
    for events in 0..=script().len() {
        for first in &failures {
            for second in &failures {
                let mut world = after(events, terms());
                for input in [first, second] {
                    if world.result.is_none() {
                        world.happens(input.clone());
                    }
                }
                world.settle();
            }
        }
    }
}

#[test]
fn before_the_commit_every_failure_leaves_the_session_at_the_source() {
    for events in 1..=9 {
        for (failure, why) in [
            (Input::Ended(Side::Target), Why::TargetEnded),
            (Input::Cancelled, Why::Cancelled),
            (target(Said::Refused("x lies elsewhere".into())), Why::Target("x lies elsewhere".into())),
            (source(Said::GaveUp("no".into())), Why::Source("no".into())),
        ] {
            let mut world = after(events, terms());
            world.happens(failure);
            world.settle();
            assert_eq!((stayed(&world), world.source, world.target), (&why, Does::Runs, Does::Ended), "{events}");
        }
    }
}

#[test]
fn a_source_that_ends_before_the_commit_takes_the_session_along() {
    for events in 0..=9 {
        let mut world = after(events, terms());
        world.happens(Input::Ended(Side::Source));
        world.settle();
        assert_eq!((stayed(&world), world.source), (&Why::SessionEnded, Does::Ended), "{events}");
    }
}

#[test]
fn behind_the_commit_nobody_has_it_back() {
    for failure in
        [Input::Cancelled, Input::ClientLeft, source(Said::GaveUp("no".into())), target(Said::Refused("no".into()))]
    {
        let mut world = after(10, terms());
        assert_eq!(world.commits, 1);
        world.happens(failure);
        world.settle();
        assert!(matches!(world.result, Some(Outcome::Moved(_))));
    }
    let mut world = after(10, terms());
    world.happens(Input::Ended(Side::Target));
    world.settle();
    assert!(matches!(world.result, Some(Outcome::Lost(_))), "as any worker's death");
}

#[test]
fn a_worker_that_ended_just_before_the_commit_stops_it() {
    for (side, why) in [(Side::Target, Why::NotCommitted("it has ended".into())), (Side::Source, Why::SessionEnded)] {
        let mut world = after(9, terms());
        // The daemon has not heard of it.
        *(if side == Side::Source { &mut world.source } else { &mut world.target }) = Does::Ended;
        world.happens(target(Said::Ready));
        assert_eq!(world.commits, 0);
        world.happens(Input::Ended(side));
        world.settle();
        assert_eq!(stayed(&world), &why);
    }
}

#[test]
fn a_source_may_go_on_three_times_and_the_door_opens_each_time() {
    let mut world = after(5, terms());
    for retry in 1..=RETRIES + 1 {
        world.happens(at(Phase::Park));
        assert_eq!(world.door, Door::Held);
        world.happens(source(Said::WentOn("a host function".into())));
        assert_eq!((world.door, world.source), (Door::To(Side::Source), Does::Runs));
        assert_eq!(matches!(world.coordinator.state, State::Moving), retry <= RETRIES);
    }
    world.settle();
    assert_eq!(stayed(&world), &Why::Retries("a host function".into()));
    let Some(outcome) = &world.result else { panic!("none") };
    assert_eq!(outcome.record().retries, RETRIES);
}

#[test]
fn a_move_succeeds_after_a_retry() {
    let mut world = after(7, terms());
    world.happens(source(Said::WentOn("a module was loaded".into())));
    for input in script().into_iter().skip(5) {
        world.pending.retain(|it| *it != input);
        world.happens(input);
    }
    world.settle();
    assert!(matches!(&world.result, Some(Outcome::Moved(record)) if record.retries == 1));
}

#[test]
fn a_retry_that_is_heard_of_behind_the_targets_last_word_ends_no_move() {
    let mut world = after(7, terms());
    world.pending.retain(|it| *it != target(Said::Ready));
    world.happens(target(Said::Ready));
    world.happens(source(Said::WentOn("a module was unloaded".into())));
    for input in script().into_iter().skip(5).filter(|input| *input != target(Said::Ready)) {
        world.pending.retain(|it| *it != input);
        world.happens(input);
    }
    world.settle();
    assert!(matches!(&world.result, Some(Outcome::Moved(record)) if record.retries == 1));
}

#[test]
fn a_source_that_stays_parked_is_told_to_go_on_soon_after_its_patience() {
    for (events, limit) in [(6, PATIENCE + MARGIN), (7, PATIENCE + MARGIN), (8, FINISH_LIMIT), (9, FINISH_LIMIT)] {
        let mut world = after(events, terms());
        assert_eq!(world.coordinator.deadline(), Some(world.now + limit), "{events}");
        world.now += limit - Duration::from_millis(1);
        world.happens(Input::Tick);
        assert_eq!((world.result.as_ref(), world.door), (None, Door::Held));
        world.now += Duration::from_millis(1);
        world.happens(Input::Tick);
        assert_eq!((world.source, world.door), (Does::Runs, Door::To(Side::Source)));
        world.settle();
        assert!(matches!(stayed(&world), Why::Patience(_)));
    }
}

#[test]
fn a_move_that_copies_everything_in_the_pause_has_the_time_of_a_whole_move() {
    let mut world = after(8, Terms { stop_and_copy: true, ..terms() });
    assert_eq!(world.coordinator.deadline(), Some(world.now + TIME_LIMIT));
    world.settle();
    assert_eq!(stayed(&world), &Why::TimeLimit(Phase::Finish));
}

#[test]
fn a_released_source_that_does_not_end_is_killed() {
    let mut world = after(10, terms());
    world.pending.clear();
    world.now += FAREWELL;
    world.happens(Input::Tick);
    assert!(world.seen.contains(&Output::Kill(Side::Source)));
    world.settle();
    assert!(matches!(world.result, Some(Outcome::Moved(_))));
}

#[test]
fn a_result_comes_also_where_no_worker_ever_ends_or_answers() {
    for events in 0..=10 {
        let mut world = after(events, terms());
        if world.commits == 0 {
            world.happens(Input::Cancelled);
        }
        for _ in 0..4 {
            world.pending.clear();
            let Some(deadline) = world.coordinator.deadline() else { break };
            world.now = deadline;
            world.happens(Input::Tick);
        }
        assert!(world.result.is_some() && world.door != Door::Held, "{events}");
    }
}

#[test]
fn a_target_without_a_place_leaves_the_session_where_it_is() {
    let mut world = World::new(terms());
    world.refuses_target = true;
    world.happens(source(Said::Described(Described { bytes: 1 << 40, objects: 7 })));
    world.settle();
    assert_eq!((stayed(&world), world.source), (&Why::NotAdmitted("no room".into()), Does::Runs));
}

#[test]
fn a_target_that_nobody_asked_for_is_killed() {
    let mut world = World::new(terms());
    world.happens(Input::Cancelled);
    assert_eq!(world.coordinator.step(world.now, Input::TargetStarted), [Output::Kill(Side::Target)]);
}

#[test]
fn what_is_copied_is_what_both_have_seen() {
    let mut world = after(5, terms());
    world.happens(source(Said::Phase(Phase::Precopy, Progress { bytes: 3, of: 10, rounds: 1 })));
    world.happens(target(Said::Phase(Phase::Precopy, Progress { bytes: 7, of: 9, rounds: 0 })));
    let last = world.seen.last();
    assert_eq!(last, Some(&Output::Progress(Phase::Precopy, Progress { bytes: 7, of: 10, rounds: 1 })));
}

#[test]
fn the_record_adds_the_phases_up() {
    let mut world = World::new(terms());
    for (seconds, input) in (1..).zip(script()) {
        world.pending.retain(|it| *it != input);
        world.happens(input);
        world.now += Duration::from_millis(seconds);
    }
    let Some(Outcome::Moved(record)) = &world.result else { panic!("{:?}", world.result) };
    let milliseconds: Vec<_> = record.phases().map(|(phase, time)| (phase, time.as_millis())).collect();
    use Phase::*;
    let expected = [
        (Admit, 1),
        (Replay, 5),
        (Lend, 4),
        (Precopy, 5),
        (Park, 6),
        (Drain, 7),
        (Finish, 8),
        (Switch, 9),
        (Release, 10),
    ];
    assert_eq!(milliseconds, expected);
    assert_eq!((record.pause.as_millis(), record.total().as_millis()), (30, 55));
}

#[test]
fn the_wait_for_workers_to_end_is_no_phases_time() {
    let mut world = after(4, terms());
    world.now += Duration::from_millis(5);
    world.happens(Input::Cancelled);
    world.now += Duration::from_secs(1);
    world.settle();
    assert_eq!(world.result.as_ref().map(|outcome| outcome.record().total().as_millis()), Some(5));
}
