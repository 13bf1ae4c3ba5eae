//! The daemon's side of one move: a state machine that decides what happens next, and who has the session.
//! In: what the two workers say, their ends, the daemon's own doings, the time. Out: what to do, in order, and one result.
//! It waits for nobody and knows no process: a worker that says nothing meets a deadline, one that lies ends the move.
//!
//! Before the commit every end of a move leaves the session at the source; after it, at the target. The commit is one
//! output, carried out in one step of the daemon's, and there is at most one.

use std::time::{Duration, Instant};

use crate::outcome::{Outcome, Record, Why};
use crate::phase::{Phase, Progress};
use crate::said::{Described, Said, Side};

/// How often a source may go on and pause again.
pub const RETRIES: u32 = 3;
/// The time that a whole move may take until its commit.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);
/// How much longer than its patience a source may be parked before the daemon takes it for stuck.
const MARGIN: Duration = Duration::from_secs(1);
/// The time to copy in the pause what changed. A move that copies everything there has [`TIME_LIMIT`].
const FINISH_LIMIT: Duration = Duration::from_secs(30);
/// The time of a worker to end, or to say that it goes on, and after that the time that a killed one may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// How a move is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most time for park and drain.
    pub patience: Duration,
    /// Whether all memory is copied in the pause.
    pub stop_and_copy: bool,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A worker says something.
    Said(Side, Said),
    /// The target was admitted and started.
    TargetStarted,
    /// The target was not admitted, or could not be started.
    TargetNotStarted(String),
    /// A worker has ended.
    Ended(Side),
    /// The client has left: the source, if it has the session, is about to end.
    ClientLeft,
    /// The commit is done.
    Committed,
    /// The commit could not be done, and why: a worker has just ended, or the session has begun to share with others.
    NotCommitted(String),
    /// Who asked for the move wants it no longer.
    Cancelled,
    /// The daemon ends, and with it all workers.
    DaemonEnds,
    /// The time has come that [`Coordinator::deadline`] named.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Admit a target that may hold what the session holds, and start it. The answer is an input, and comes before any other.
    StartTarget(Described),
    /// Keep the connections of the client that come from now on.
    HoldDoor,
    /// Give them, and those that come, to this worker.
    OpenDoor(Side),
    /// Tell the source that the move is off and the session its own.
    GoOn,
    /// Make the target the session's worker, in one step. The answer is an input, and comes before any other.
    Commit,
    /// Tell the target that it is the session.
    Go,
    /// Tell the source to end without a word to the client.
    Release,
    /// End a worker at once.
    Kill(Side),
    /// The move is in this phase and has come so far.
    Progress(Phase, Progress),
    /// The move is over. It comes once, and last.
    Result(Box<Outcome>),
}

#[derive(Clone, Debug)]
enum State {
    /// The source was told to leave and has not said what it holds.
    Describing,
    /// The daemon is starting the target.
    Starting,
    /// The workers are at it.
    Moving,
    /// The daemon is at the commit.
    Committing,
    /// The session is the target's; the source is to end.
    Releasing,
    /// The session is the source's; the target is to end, and the source to say that it goes on.
    GoingBack(Why),
    Over,
}

/// One move.
#[derive(Clone, Debug)]
pub struct Coordinator {
    terms: Terms,
    state: State,
    phase: Phase,
    /// Since when it is in this phase, and since when the program stands.
    since: Instant,
    parked: Option<Instant>,
    /// When the whole must have been committed.
    limit: Instant,
    /// When to stop waiting for workers' ends.
    farewell: Option<Instant>,
    /// Whether those that did not end in time were killed.
    was_killed: bool,
    source: Worker,
    target: Worker,
    /// What each of them counts.
    counts: [Progress; 2],
    is_door_held: bool,
    is_frozen: bool,
    is_ready: bool,
    record: Record,
}

/// A worker, as the coordinator knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    /// There is none yet.
    None,
    /// It runs, and its end or answer is waited for before the move is over.
    Runs,
    /// The source has said that it goes on.
    WentOn,
    Ended,
}

impl Coordinator {
    /// A move of which the source has just been told, with its end of the move stream.
    #[must_use]
    pub fn new(now: Instant, terms: Terms) -> Self {
        Self {
            terms,
            state: State::Describing,
            phase: Phase::Admit,
            since: now,
            parked: None,
            limit: now + TIME_LIMIT,
            farewell: None,
            was_killed: false,
            source: Worker::Runs,
            target: Worker::None,
            counts: [Progress::default(); 2],
            is_door_held: false,
            is_frozen: false,
            is_ready: false,
            record: Record::default(),
        }
    }

    /// Whether the result was given.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// When to give it a [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Over => None,
            State::Releasing | State::GoingBack(_) => self.farewell,
            State::Describing | State::Starting | State::Moving | State::Committing => {
                Some(self.pause_limit().map_or(self.limit, |limit| limit.min(self.limit)))
            }
        }
    }

    /// Until when the pause may last in this phase.
    fn pause_limit(&self) -> Option<Instant> {
        let parked = self.parked?;
        match self.phase {
            Phase::Park | Phase::Drain => Some(parked + self.terms.patience + MARGIN),
            _ if self.terms.stop_and_copy => None,
            _ => Some(self.since + FINISH_LIMIT),
        }
    }

    /// What follows from an event.
    #[must_use]
    pub fn step(&mut self, now: Instant, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Said(side, said) => self.said(now, side, said, &mut out),
            Input::TargetStarted => self.target_started(&mut out),
            Input::TargetNotStarted(why) => {
                if matches!(self.state, State::Starting) {
                    self.give_up(now, Why::NotAdmitted(why), &mut out);
                }
            }
            Input::Ended(side) => self.ended(now, side, &mut out),
            Input::ClientLeft => self.client_left(now, &mut out),
            Input::Committed => self.committed(now, &mut out),
            Input::NotCommitted(why) => {
                if matches!(self.state, State::Committing) {
                    self.give_up(now, Why::NotCommitted(why), &mut out);
                }
            }
            Input::Cancelled => {
                if self.is_before_commit() {
                    self.give_up(now, Why::Cancelled, &mut out);
                }
            }
            Input::DaemonEnds => self.daemon_ends(now, &mut out),
            Input::Tick => self.tick(now, &mut out),
        }
        out
    }

    /// Whether it can still be given up.
    fn is_before_commit(&self) -> bool {
        matches!(self.state, State::Describing | State::Starting | State::Moving)
    }

    fn said(&mut self, now: Instant, side: Side, said: Said, out: &mut Vec<Output>) {
        match (side, said, &self.state) {
            // What it has come from is over: nothing but its answer is of interest.
            (Side::Source, Said::GaveUp(_), State::GoingBack(_)) => {
                self.source = if self.source == Worker::Runs { Worker::WentOn } else { self.source };
                self.see_end(now, out);
            }
            (_, _, State::Committing | State::Releasing | State::GoingBack(_) | State::Over) => {}
            (Side::Source, Said::GaveUp(why), _) => {
                self.source = Worker::WentOn;
                self.give_up(now, Why::Source(why), out);
            }
            (Side::Source, Said::Described(described), State::Describing) => {
                self.state = State::Starting;
                self.counts[0].of = described.bytes;
                out.push(Output::Progress(self.phase, self.progress()));
                out.push(Output::StartTarget(described));
            }
            (Side::Source, Said::Phase(phase, progress), _) if phase <= Phase::Finish => {
                self.counts[0] = progress;
                self.source_is_at(now, phase, out);
            }
            // It may come behind the target's word about the next pause.
            (Side::Source, Said::WentOn(why), State::Moving) if self.parked.is_some() && !self.is_frozen => {
                self.goes_on(now, why, out);
            }
            (Side::Source, Said::Frozen, State::Moving) if self.parked.is_some() => {
                self.is_frozen = true;
                self.see_commit(now, out);
            }
            (Side::Target, Said::Phase(_, progress), State::Moving) => {
                self.counts[1] = progress;
                out.push(Output::Progress(self.phase, self.progress()));
            }
            // The source's words come by another way, and may lag behind this one.
            (Side::Target, Said::Ready, State::Moving) => {
                self.is_ready = true;
                self.see_commit(now, out);
            }
            (Side::Target, Said::Refused(why), State::Moving) => self.give_up(now, Why::Target(why), out),
            (side, ..) => self.give_up(now, Why::Nonsense(side), out),
        }
    }

    /// What both have counted together: each sees a part.
    fn progress(&self) -> Progress {
        let [source, target] = self.counts;
        Progress {
            bytes: source.bytes.max(target.bytes),
            of: source.of.max(target.of),
            rounds: source.rounds.max(target.rounds),
        }
    }

    /// A word about an earlier phase is about its progress only: back leads [`Said::WentOn`] alone.
    fn source_is_at(&mut self, now: Instant, phase: Phase, out: &mut Vec<Output>) {
        if phase > self.phase && !matches!(self.state, State::Moving) {
            return self.give_up(now, Why::Nonsense(Side::Source), out);
        }
        if phase > self.phase && phase.is_pause() && self.parked.is_none() {
            self.parked = Some(now);
            self.is_door_held = true;
            out.push(Output::HoldDoor);
        }
        self.enter(now, phase.max(self.phase), out);
    }

    fn enter(&mut self, now: Instant, phase: Phase, out: &mut Vec<Output>) {
        if phase != self.phase {
            self.record.add(self.phase, now.saturating_duration_since(self.since));
            (self.phase, self.since) = (phase, now);
        }
        out.push(Output::Progress(self.phase, self.progress()));
    }

    /// The source goes on and is to try again.
    fn goes_on(&mut self, now: Instant, why: String, out: &mut Vec<Output>) {
        self.end_pause(now);
        self.open_door(Side::Source, out);
        if self.record.retries == RETRIES {
            return self.give_up(now, Why::Retries(why), out);
        }
        self.record.retries += 1;
        self.enter(now, Phase::Precopy, out);
    }

    fn end_pause(&mut self, now: Instant) {
        if let Some(parked) = self.parked.take() {
            let pause = now.saturating_duration_since(parked);
            self.record.pause = pause;
            self.record.longest_pause = self.record.longest_pause.max(pause);
        }
    }

    fn open_door(&mut self, side: Side, out: &mut Vec<Output>) {
        if std::mem::take(&mut self.is_door_held) {
            out.push(Output::OpenDoor(side));
        }
    }

    fn see_commit(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.is_frozen && self.phase < Phase::Switch {
            self.enter(now, Phase::Switch, out);
        }
        if self.is_frozen && self.is_ready {
            self.state = State::Committing;
            out.push(Output::Commit);
        }
    }

    fn target_started(&mut self, out: &mut Vec<Output>) {
        match self.state {
            State::Starting => {
                (self.state, self.target) = (State::Moving, Worker::Runs);
            }
            // It was not asked for.
            _ => out.push(Output::Kill(Side::Target)),
        }
    }

    fn committed(&mut self, now: Instant, out: &mut Vec<Output>) {
        if !matches!(self.state, State::Committing) {
            return;
        }
        self.end_pause(now);
        self.state = State::Releasing;
        self.farewell = Some(now + FAREWELL);
        out.push(Output::Go);
        self.open_door(Side::Target, out);
        out.push(Output::Release);
        self.enter(now, Phase::Release, out);
        self.see_end(now, out);
    }

    fn ended(&mut self, now: Instant, side: Side, out: &mut Vec<Output>) {
        let worker = match side {
            Side::Source => &mut self.source,
            Side::Target => &mut self.target,
        };
        *worker = Worker::Ended;
        match (&self.state, side) {
            // The session is over, as it would be without a move.
            (State::Describing | State::Starting | State::Moving, Side::Source) => {
                self.give_up(now, Why::SessionEnded, out);
            }
            (State::Describing | State::Starting | State::Moving, Side::Target) => {
                self.give_up(now, Why::TargetEnded, out);
            }
            // The commit's own answer decides.
            (State::Committing, _) => {}
            (State::Releasing | State::GoingBack(_), _) => self.see_end(now, out),
            (State::Over, _) => {}
        }
    }

    fn client_left(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.is_before_commit() {
            self.give_up(now, Why::SessionEnded, out);
        }
    }

    /// The session stays where it is.
    fn give_up(&mut self, now: Instant, why: Why, out: &mut Vec<Output>) {
        self.end_pause(now);
        // What follows is no phase's time.
        self.record.add(self.phase, now.saturating_duration_since(self.since));
        if self.source == Worker::Runs {
            out.push(Output::GoOn);
        }
        self.open_door(Side::Source, out);
        if self.target == Worker::Runs {
            out.push(Output::Kill(Side::Target));
        }
        self.state = State::GoingBack(why);
        self.farewell = Some(now + FAREWELL);
        self.see_end(now, out);
    }

    fn daemon_ends(&mut self, now: Instant, out: &mut Vec<Output>) {
        match self.state {
            State::Over => return,
            State::Describing | State::Starting | State::Moving | State::Committing => {
                self.give_up(now, Why::DaemonEnds, out);
            }
            State::Releasing | State::GoingBack(_) => {}
        }
        self.end(now, out);
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            State::Over | State::Committing => {}
            State::Describing | State::Starting | State::Moving if now >= self.limit => {
                self.give_up(now, Why::TimeLimit(self.phase), out);
            }
            State::Describing | State::Starting | State::Moving => self.give_up(now, Why::Patience(self.phase), out),
            State::Releasing if !self.was_killed => {
                self.was_killed = true;
                self.farewell = Some(now + FAREWELL);
                out.push(Output::Kill(Side::Source));
            }
            State::Releasing | State::GoingBack(_) => self.end(now, out),
        }
    }

    /// Ends the move if nobody is waited for.
    fn see_end(&mut self, now: Instant, out: &mut Vec<Output>) {
        let is_over = match self.state {
            State::Releasing => self.source == Worker::Ended,
            State::GoingBack(_) => self.source != Worker::Runs && self.target != Worker::Runs,
            _ => false,
        };
        if is_over {
            self.end(now, out);
        }
    }

    fn end(&mut self, now: Instant, out: &mut Vec<Output>) {
        if matches!(self.state, State::Releasing) {
            self.record.add(self.phase, now.saturating_duration_since(self.since));
        }
        self.record.progress = self.progress();
        self.record.phase = Some(self.phase);
        let record = std::mem::take(&mut self.record);
        let outcome = match std::mem::replace(&mut self.state, State::Over) {
            State::Releasing if self.target == Worker::Ended => Outcome::Lost(record),
            State::Releasing => Outcome::Moved(record),
            State::GoingBack(_) if self.source == Worker::Ended => Outcome::Stayed(Why::SessionEnded, record),
            State::GoingBack(why) => Outcome::Stayed(why, record),
            // Only the two above come to an end.
            _ => Outcome::Stayed(Why::DaemonEnds, record),
        };
        out.push(Output::Result(Box::new(outcome)));
    }
}

#[cfg(test)]
mod tests;
