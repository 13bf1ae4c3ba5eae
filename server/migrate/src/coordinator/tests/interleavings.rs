//! Moves of honest workers that fail at any time, and of workers that lie.

use proptest::prelude::*;

use super::*;

/// Something that may happen next to workers that do what they should, as long as they live.
#[derive(Clone, Debug)]
enum Next {
    /// The next event of a move that succeeds.
    Goes,
    /// Something that is due: an answer, an end.
    Due(usize),
    Progress(u64),
    WentOn,
    GaveUp,
    Refused,
    Ends(Side),
    ClientLeft,
    Cancelled,
    DaemonEnds,
    Waits(u64),
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        20 => Just(Next::Goes),
        4 => (0..4_usize).prop_map(Next::Due),
        3 => (0..100_u64).prop_map(Next::Progress),
        3 => Just(Next::WentOn),
        1 => Just(Next::GaveUp),
        1 => Just(Next::Refused),
        1 => prop_oneof![Just(Side::Source), Just(Side::Target)].prop_map(Next::Ends),
        1 => Just(Next::ClientLeft),
        1 => Just(Next::Cancelled),
        1 => Just(Next::DaemonEnds),
        3 => (0..6000_u64).prop_map(Next::Waits),
    ]
}

/// What honest workers do next, given how far they are. `None`: nothing.
fn honest(world: &mut World, next: &Next, place: &mut usize) -> Option<Input> {
    let source_lives = matches!(world.source, Does::Runs | Does::Waits) && world.commits == 0;
    let target_lives = world.target == Does::Waits;
    let is_off = !matches!(world.coordinator.state, State::Describing | State::Starting | State::Moving);
    match next {
        Next::Goes => {
            let input = script().get(*place).filter(|_| !is_off)?.clone();
            let may = match &input {
                Input::Said(Side::Source, _) => source_lives,
                Input::Said(Side::Target, _) => target_lives,
                _ => world.pending.contains(&input),
            };
            world.pending.retain(|it| *it != input);
            *place += usize::from(may);
            may.then_some(input)
        }
        Next::Due(index) => (*index < world.pending.len()).then(|| world.pending.remove(*index)),
        Next::Progress(bytes) => {
            let progress = Progress { bytes: *bytes, of: 100, rounds: 1 };
            (target_lives && *place > 1 && !is_off).then(|| target(Said::Phase(Phase::Precopy, progress)))
        }
        Next::WentOn => {
            let may = source_lives && (6..=8).contains(place) && !is_off;
            *place = if may { 5 } else { *place };
            may.then(|| source(Said::WentOn("not now".into())))
        }
        Next::GaveUp => (source_lives && !is_off && *place < 9).then(|| source(Said::GaveUp("no".into()))),
        Next::Refused => (target_lives && !is_off && *place >= 1).then(|| target(Said::Refused("no".into()))),
        Next::Ends(Side::Source) => (world.source != Does::Ended).then_some(Input::Ended(Side::Source)),
        Next::Ends(Side::Target) => {
            matches!(world.target, Does::Waits | Does::Runs).then_some(Input::Ended(Side::Target))
        }
        Next::ClientLeft => source_lives.then_some(Input::ClientLeft),
        Next::Cancelled => Some(Input::Cancelled),
        Next::DaemonEnds => Some(Input::DaemonEnds),
        Next::Waits(milliseconds) => {
            world.now += Duration::from_millis(*milliseconds);
            Some(Input::Tick)
        }
    }
}

/// Any event at all, from workers that lie.
fn anything() -> impl Strategy<Value = Input> {
    prop::sample::select(every_input())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn honest_workers_that_fail_at_any_time_leave_one_session_and_one_result(
        all in prop::collection::vec(next(), 0..60), stop_and_copy in any::<bool>()
    ) {
        let mut world = World::new(Terms { stop_and_copy, ..terms() });
        let mut place = 0;
        for next in &all {
            if world.result.is_some() {
                break;
            }
            if let Some(input) = honest(&mut world, next, &mut place) {
                world.happens(input);
            }
        }
        world.settle();
    }

    #[test]
    fn workers_that_lie_get_no_second_session_no_held_door_and_one_result(
        all in prop::collection::vec(anything(), 0..60)
    ) {
        let mut world = World::new(terms());
        for input in all {
            if world.result.is_some() {
                break;
            }
            // A worker says nothing before it is there, and ends once.
            let has_target = !matches!(world.target, Does::Nothing);
            let is_possible = match &input {
                Input::Said(Side::Target, _) | Input::Ended(Side::Target) => has_target,
                _ => true,
            };
            if is_possible {
                world.happens(input);
            }
        }
        world.settle();
    }
}
