//! How the issuer keeps a session's turn on a GPU that it shares: it stops at a border, and keeps little in flight.
//! In: the turn. Out: an issuer that stands until its turn comes, and says whether commands wait.
//! Without turns it costs one look at a flag for each command.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_device::Device;

use super::Issuer;
use crate::complete::events::CompletionEvent;
use crate::daemon::turn_notices::TurnEvent;
use crate::issue::turn::{COUNT, STOPPED};

/// Pause between two looks at a mark.
const LOOK: Duration = Duration::from_micros(20);
/// What is submitted may wait for a command behind it. Then the issuer goes on, slowly: a long kernel looks the same.
const PATIENCE: Duration = Duration::from_millis(20);
/// The same where something stands in a stream: a mark may wait for that.
const SHORT_PATIENCE: Duration = Duration::from_millis(1);

impl<D: Device> Issuer<D> {
    /// A command was carried out.
    #[inline]
    pub(super) fn keep_pace(&mut self) {
        if self.shared.turn.is_paced() {
            self.mark_pace();
        }
    }

    /// Every so many commands it waits until what came before the last mark is done.
    #[cold]
    fn mark_pace(&mut self) {
        self.pace.commands += 1;
        self.shared.turn.is_busy();
        if self.pace.commands < self.pace.each {
            return;
        }
        self.pace.commands = 0;
        // A context beyond use says so elsewhere.
        let Ok(marks) = self.record_everything() else { return };
        let before = std::mem::replace(&mut self.pace.marks, marks);
        let holds = self.shared.queue.has_held_streams();
        let patience = if holds { SHORT_PATIENCE } else { PATIENCE };
        let (began, is_done) = (Instant::now(), || before.iter().all(|mark| mark.outcome().is_some()));
        while !is_done() && began.elapsed() < patience && !self.shared.queue.is_interrupted() {
            self.shared.turn.is_busy();
            std::thread::sleep(LOOK);
        }
        if self.shared.queue.is_interrupted() && !is_done() {
            // An errand, or the end of the turn. It waits on behind the next command.
            (self.pace.marks, self.pace.commands) = (before, self.pace.each);
        } else if !holds {
            self.pace.adapt(Instant::now(), &self.shared.turn);
        }
    }

    /// Waits for the session's turn, or for an errand, if it has none. False: the session is over.
    pub(super) fn await_turn(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        loop {
            let state = shared.turn.state();
            if state % COUNT != STOPPED {
                self.pace.begin(&shared.turn);
                return true;
            }
            if shared.queue.has_errands() {
                return true;
            }
            // The system may lengthen each pause by 50 us, and those in a turn are shorter. Where it does not hear this, they
            // are longer.
            let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
            shared.turn.has_stopped_with(self.record_everything().unwrap_or_default());
            shared.turn.say(TurnEvent::Stopped(state / COUNT));
            let mut has_said = false;
            while shared.turn.state() == state && !shared.queue.has_errands() {
                if !has_said && !self.has_nothing_to_do() {
                    has_said = true;
                    shared.turn.say(TurnEvent::Wants(state / COUNT));
                }
                if !shared.queue.rest(&self.aside.issuing, !has_said, || shared.turn.state() == state) {
                    return false;
                }
            }
        }
    }

    /// Whether nothing waits to be carried out. Asked at a border.
    pub(crate) fn has_nothing_to_do(&self) -> bool {
        self.aside.commands.is_empty() && !self.shared.queue.has_waiting(&self.aside.issuing)
    }

    /// What is in flight now; nothing where the context is beyond use.
    pub(crate) fn in_flight(&self) -> Vec<Arc<CompletionEvent<D>>> {
        self.record_everything().unwrap_or_default()
    }
}
