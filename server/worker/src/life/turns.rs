//! The thread that keeps a session's turns on a GPU that it shares.
//! In: the daemon's orders, the issuer's words. Out: an issuer that submits or has stopped; reports to the daemon, each with
//! the number of the order that it follows.
//! It waits for nothing without a limit, so that an order is heard while the GPU works.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use floe_device::Device;

use super::shared::Shared;
use crate::complete::events::CompletionEvent;
use crate::daemon::turn_notices::{TurnEnds, TurnEvent, TurnOrder, TurnReport, TurnSaid, Word};
use crate::issue::errands::Errands;
use crate::issue::issuer::Issuer;
use crate::issue::turn::Ahead;

/// Without a command and without work for so long, a session rests while others wait. It begins with the first. If its next command came soon
/// behind, its program thinks for about that long between two commands, and losing its turn for it would cost it more than that
/// costs others; so the time grows, to the last at most.
const QUIET: [Duration; 3] = [Duration::from_micros(200), Duration::from_micros(100), Duration::from_millis(1)];
/// The same while nobody waits.
const QUIET_ALONE: Duration = Duration::from_millis(20);
/// Pause between two looks at what is in flight.
const LOOK: Duration = Duration::from_micros(50);
/// Work behind what stands in a stream until the client or another session says more is not waited for longer.
const HELD: Duration = Duration::from_millis(10);
/// Pause between two looks at such work.
const LOOK_AT_HELD: Duration = Duration::from_millis(1);
/// The longest wait of this thread for a border.
const BORDER: Duration = Duration::from_millis(100);

/// A session that has nothing more to do: what was in flight then, and since when that is done.
struct Quiet<D: Device> {
    in_flight: Vec<Arc<CompletionEvent<D>>>,
    done: Option<Instant>,
}

/// What the session does by its last order.
enum Doing<D: Device> {
    /// It submits as ever.
    Free,
    /// It submits. What was seen of its commands last, and since when.
    Goes { others_wait: bool, seen: ([u64; 2], Instant), quiet: Option<Quiet<D>> },
    /// It was told to stop, and is waited for.
    Stops { since: Instant, has_stopped: bool, wants: bool, holds: bool },
    /// It has stopped.
    Rests { wants: bool },
}

/// The keeper of a session's turns.
pub(crate) struct Turns<D: Device> {
    shared: Arc<Shared<D>>,
    errands: Arc<Errands<Issuer<D>>>,
    events: Receiver<TurnEvent>,
    report: Box<dyn Fn(TurnReport) + Send>,
    order: u64,
    doing: Doing<D>,
    /// How long it waits for the program's next command, and since when it rests because none came.
    quiet: Duration,
    rested: Option<Instant>,
}

impl<D: Device> Turns<D> {
    /// For a session whose issuer says what it does to the same receiver.
    pub(crate) fn new(shared: Arc<Shared<D>>, errands: Arc<Errands<Issuer<D>>>, ends: TurnEnds) -> Self {
        let TurnEnds { events: (sender, events), report } = ends;
        shared.turn.tell(Some(sender));
        Self { shared, errands, events, report, order: 0, doing: Doing::Free, quiet: QUIET[0], rested: None }
    }

    /// Keeps turns until the session is over.
    pub(crate) fn run(&mut self) {
        // The system may lengthen each pause by 50 us, which is as much as one between two looks. Where it does not hear this,
        // they are longer.
        let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
        while !self.errands.is_over() {
            let event = match self.pause() {
                Some(pause) => self.events.recv_timeout(pause),
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(TurnEvent::Ordered(order)) => self.obey(order),
                // What it says of an earlier stop is over.
                Ok(TurnEvent::Stopped(stop) | TurnEvent::Wants(stop)) if stop != self.shared.turn.stop_number() => {}
                Ok(TurnEvent::Stopped(_)) => self.has_stopped(),
                Ok(TurnEvent::Wants(_)) => self.wants(),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// How long to wait for the next event before the next look. `None`: there is nothing to look at.
    fn pause(&self) -> Option<Duration> {
        match self.doing {
            Doing::Stops { has_stopped: true, holds: true, .. } => Some(LOOK_AT_HELD),
            Doing::Goes { quiet: Some(_), .. } | Doing::Stops { has_stopped: true, .. } => Some(LOOK),
            Doing::Goes { others_wait: true, .. } => Some(self.quiet),
            Doing::Goes { others_wait: false, .. } => Some(QUIET_ALONE),
            Doing::Free | Doing::Stops { .. } | Doing::Rests { .. } => None,
        }
    }

    fn obey(&mut self, order: TurnOrder) {
        self.order = order.number;
        match order.word {
            Word::Free => self.go(Doing::Free, Ahead::Any),
            Word::Go { others_wait, brief } => {
                let seen = (self.commands(), Instant::now());
                let ahead = match (others_wait, brief) {
                    (_, true) => Ahead::Least,
                    (true, false) => Ahead::Little,
                    (false, false) => Ahead::Any,
                };
                self.go(Doing::Goes { others_wait, seen, quiet: None }, ahead);
            }
            Word::Stop => match self.doing {
                // It answers this order, too.
                Doing::Rests { wants } => self.say(TurnSaid::Rests { wants }),
                Doing::Stops { holds: true, .. } => self.say(TurnSaid::Holds),
                Doing::Stops { .. } => {}
                Doing::Free | Doing::Goes { .. } => self.stop(),
            },
        }
    }

    fn go(&mut self, doing: Doing<D>, ahead: Ahead) {
        (self.doing, self.rested) = (doing, None);
        self.shared.turn.goes_on(ahead);
        self.shared.queue.interrupt_for_turn(false);
    }

    fn stop(&mut self) {
        self.doing = Doing::Stops { since: Instant::now(), has_stopped: false, wants: false, holds: false };
        self.shared.turn.stops();
        self.shared.queue.interrupt_for_turn(true);
    }

    fn has_stopped(&mut self) {
        if let Doing::Stops { has_stopped, .. } = &mut self.doing {
            *has_stopped = true;
            self.look();
        }
    }

    fn wants(&mut self) {
        if let Some(rested) = self.rested.take() {
            let [_, least, most] = QUIET;
            let was_soon = rested.elapsed() < most;
            self.quiet = if was_soon { self.quiet * 2 } else { self.quiet / 2 }.clamp(least, most);
        }
        match &mut self.doing {
            Doing::Stops { wants, .. } | Doing::Rests { wants } if !*wants => {
                *wants = true;
                self.say(TurnSaid::Wants);
            }
            _ => {}
        }
    }

    fn look(&mut self) {
        match &self.doing {
            Doing::Goes { .. } => self.look_for_quiet(),
            &Doing::Stops { since, has_stopped: true, wants, .. } if self.shared.turn.left() == 0 => {
                self.shared.turn.took_to_drain(since.elapsed());
                self.doing = Doing::Rests { wants };
                self.say(TurnSaid::Rests { wants });
            }
            &Doing::Stops { since, has_stopped: true, wants, holds: false } if self.may_be_held(since) => {
                self.doing = Doing::Stops { since, has_stopped: true, wants, holds: true };
                self.say(TurnSaid::Holds);
            }
            _ => {}
        }
    }

    /// Whether what is in flight since then may wait for somebody.
    fn may_be_held(&self, since: Instant) -> bool {
        since.elapsed() > HELD && self.shared.queue.has_held_streams()
    }

    /// Numbers that change when commands come, and while they are carried out and others wait.
    fn commands(&self) -> [u64; 2] {
        [self.shared.client.command(), self.shared.turn.busy()]
    }

    /// A session without work gives its turn back.
    fn look_for_quiet(&mut self) {
        let commands = self.commands();
        let Doing::Goes { others_wait, seen, quiet } = &mut self.doing else { return };
        let period = if *others_wait { self.quiet } else { QUIET_ALONE };
        // An errand would have the issuer put aside what it is about to do, or leave its wait.
        if seen.0 != commands {
            (*seen, *quiet) = ((commands, Instant::now()), None);
            return;
        }
        let since = seen.1;
        match quiet {
            None if since.elapsed() >= period => {
                let in_flight = |issuer: &mut Issuer<D>| issuer.has_nothing_to_do().then(|| issuer.in_flight());
                let marks = self.errands.call(Instant::now() + BORDER, in_flight).ok().flatten();
                *quiet = marks.map(|in_flight| Quiet { in_flight, done: None });
                if quiet.is_none() {
                    seen.1 = Instant::now();
                }
            }
            None => {}
            Some(Quiet { in_flight, done }) => {
                in_flight.retain(|completion| completion.outcome().is_none());
                let (left, is_over) = (in_flight.len(), done.is_some_and(|done| done.elapsed() >= period));
                if is_over {
                    self.rested = Some(Instant::now());
                    self.stop();
                } else if (left == 0 || self.may_be_held(since))
                    && let Doing::Goes { quiet: Some(Quiet { done: done @ None, .. }), .. } = &mut self.doing
                {
                    *done = Some(Instant::now());
                }
            }
        }
    }

    fn say(&self, said: TurnSaid) {
        (self.report)(TurnReport { order: self.order, said });
    }
}
