//! Two workers, a door and a daemon that does what the coordinator says, and what must hold of them.

use super::*;

/// Whether it is the daemon's answer, which comes at once.
fn is_answer(input: &Input) -> bool {
    matches!(input, Input::Committed | Input::NotCommitted(_) | Input::TargetStarted | Input::TargetNotStarted(_))
}

/// What a worker really does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// There is none.
    Nothing,
    /// It runs the session.
    Runs,
    /// It does nothing until it is told to: the parked or frozen source, the target that arrives.
    Waits,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Held,
    To(Side),
}

/// Two workers, a door and a daemon that does what it is told.
pub(super) struct World {
    pub(super) coordinator: Coordinator,
    pub(super) now: Instant,
    pub(super) source: Does,
    pub(super) target: Does,
    pub(super) door: Door,
    pub(super) commits: u32,
    /// Whether the daemon has no place for a target.
    pub(super) refuses_target: bool,
    /// Whether the source was told to go on: it does, whatever it has said before it reads that.
    pub(super) is_off: bool,
    /// Whether it has not answered that.
    pub(super) owes_answer: bool,
    pub(super) result: Option<Outcome>,
    /// What follows by itself.
    pub(super) pending: Vec<Input>,
    pub(super) seen: Vec<Output>,
}

impl World {
    pub(super) fn new(terms: Terms) -> Self {
        let now = Instant::now();
        Self {
            coordinator: Coordinator::new(now, terms),
            now,
            source: Does::Runs,
            target: Does::Nothing,
            door: Door::To(Side::Source),
            commits: 0,
            refuses_target: false,
            is_off: false,
            owes_answer: false,
            result: None,
            pending: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// An event happens, and what it leads to at once.
    pub(super) fn happens(&mut self, input: Input) {
        self.becomes_true(&input);
        let output = self.coordinator.step(self.now, input);
        for output in &output {
            assert!(self.result.is_none(), "{output:?} after the result");
            self.carry_out(output);
        }
        self.seen.extend(output);
        if let Some(place) = self.pending.iter().position(is_answer) {
            let answer = self.pending.remove(place);
            self.happens(answer);
        }
    }

    fn becomes_true(&mut self, input: &Input) {
        match input {
            Input::Ended(Side::Source) | Input::ClientLeft if self.commits == 0 => self.source = Does::Ended,
            Input::Ended(Side::Source) => self.source = Does::Ended,
            Input::Ended(Side::Target) => self.target = Does::Ended,
            Input::Said(Side::Source, Said::Phase(Phase::Park, _) | Said::Frozen)
                if self.source == Does::Runs && !self.is_off =>
            {
                self.source = Does::Waits;
            }
            Input::Said(Side::Source, Said::WentOn(_) | Said::GaveUp(_)) if self.commits == 0 => {
                if self.source == Does::Waits {
                    self.source = Does::Runs;
                }
                self.is_off |= matches!(input, Input::Said(_, Said::GaveUp(_)));
            }
            _ => {}
        }
    }

    fn carry_out(&mut self, output: &Output) {
        match output {
            Output::StartTarget(_) => {
                assert_eq!(self.target, Does::Nothing, "one target");
                if self.refuses_target {
                    return self.pending.push(Input::TargetNotStarted("no room".into()));
                }
                self.target = Does::Waits;
                self.pending.push(Input::TargetStarted);
            }
            Output::HoldDoor => {
                assert_eq!(self.door, Door::To(Side::Source));
                self.door = Door::Held;
            }
            Output::OpenDoor(side) => {
                assert_eq!(self.door, Door::Held);
                assert_eq!(*side == Side::Target, self.commits == 1, "the door leads to who has the session");
                self.door = Door::To(*side);
            }
            Output::GoOn => {
                assert_eq!(self.commits, 0, "the source goes on behind the commit");
                if self.source == Does::Waits {
                    self.source = Does::Runs;
                }
                (self.is_off, self.owes_answer) = (true, true);
            }
            Output::Commit => {
                assert_eq!(self.commits, 0, "a second commit");
                let both = self.source == Does::Waits && self.target == Does::Waits;
                self.commits += u32::from(both);
                self.pending.push(if both { Input::Committed } else { Input::NotCommitted("it has ended".into()) });
            }
            Output::Go => {
                assert_eq!(self.commits, 1, "the target is the session without a commit");
                if self.target == Does::Waits {
                    self.target = Does::Runs;
                }
            }
            Output::Release => {
                assert_eq!(self.commits, 1, "the source is released without a commit");
                self.pending.push(Input::Ended(Side::Source));
            }
            Output::Kill(side) => {
                let worker = if *side == Side::Source { &mut self.source } else { &mut self.target };
                assert_eq!(*side == Side::Source, self.commits == 1, "only who has no session is killed: {side:?}");
                *worker = Does::Ended;
                self.pending.push(Input::Ended(*side));
            }
            Output::Progress(..) => {}
            Output::Result(outcome) => self.result = Some(outcome.as_ref().clone()),
        }
        let running = [self.source, self.target].iter().filter(|does| **does == Does::Runs).count();
        assert!(running <= 1, "both run the session");
    }

    /// Everything that follows by itself follows, and time goes by, until the move is over.
    pub(super) fn settle(&mut self) {
        for _ in 0..100 {
            if self.result.is_some() && self.pending.is_empty() {
                break;
            }
            if self.owes_answer && self.source == Does::Runs {
                self.owes_answer = false;
                self.pending.push(Input::Said(Side::Source, Said::GaveUp("told".into())));
            }
            if self.pending.is_empty() {
                self.now = self.coordinator.deadline().expect("it ends some time");
                self.happens(Input::Tick);
            } else {
                let next = self.pending.remove(0);
                self.happens(next);
            }
        }
        self.check();
    }

    fn check(&self) {
        let result = self.result.as_ref().expect("a result");
        assert!(self.coordinator.is_over() && self.coordinator.deadline().is_none());
        assert_eq!(self.seen.iter().filter(|it| matches!(it, Output::Result(_))).count(), 1);
        assert_ne!(self.door, Door::Held, "a door is left held");
        if self.commits == 1 {
            assert!(matches!(result, Outcome::Moved(_) | Outcome::Lost(_)), "{result:?}");
            assert_eq!(self.source, Does::Ended);
            assert_eq!(self.door, Door::To(Side::Target));
            assert!(matches!(self.target, Does::Runs | Does::Ended));
        } else {
            assert!(matches!(result, Outcome::Stayed(..)), "{result:?}");
            assert!(matches!(self.source, Does::Runs | Does::Ended), "the source stands for ever");
            assert!(matches!(self.target, Does::Nothing | Does::Ended), "a target is left over");
            assert_eq!(self.door, Door::To(Side::Source));
        }
    }
}
