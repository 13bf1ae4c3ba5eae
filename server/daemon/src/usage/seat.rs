//! The number by which a worker is known, and the move that it takes part in.
//! In: what a worker says of a move, and its end. Out: the same to the move's coordinator, if there is one.
//! At a commit two workers change numbers: whoever follows a worker asks for its number each time, under the table's lock
//! where that matters. It never waits, but for a coordinator that is told of an end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use floe_migrate::{Input, Side};
use floe_worker::contract::MoveReport;

/// The words about a move that wait for its coordinator. It takes each at once; a worker that says more is hostile.
pub(crate) const MOST_WORDS_AHEAD: usize = 1024;

/// A worker's place in the table.
#[derive(Clone, Debug)]
pub(crate) struct Seat(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    number: AtomicU64,
    part: Mutex<Part>,
}

/// A worker's part in a move.
#[derive(Debug)]
enum Part {
    None,
    Takes {
        number: u64,
        side: Side,
        to: SyncSender<Input>,
    },
    /// The worker has ended.
    Ended,
}

/// The worker has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HasEnded;

impl Seat {
    pub(crate) fn new(number: u64) -> Self {
        Self(Arc::new(Inner { number: AtomicU64::new(number), part: Mutex::new(Part::None) }))
    }

    /// The number by which the worker is known now.
    pub(crate) fn number(&self) -> u64 {
        self.0.number.load(Ordering::Acquire)
    }

    /// Changes numbers with another worker. The caller holds the table's lock.
    pub(crate) fn swap(&self, other: &Self) {
        let (own, its) = (self.number(), other.number());
        self.0.number.store(its, Ordering::Release);
        other.0.number.store(own, Ordering::Release);
    }

    /// From here on it takes part in this move.
    pub(crate) fn take_part(&self, number: u64, side: Side, to: SyncSender<Input>) -> Result<(), HasEnded> {
        let mut part = floe_lock::lock(&self.0.part);
        if matches!(*part, Part::Ended) {
            return Err(HasEnded);
        }
        *part = Part::Takes { number, side, to };
        Ok(())
    }

    /// The move of this number is over for it.
    pub(crate) fn leave(&self, move_number: u64) {
        let mut part = floe_lock::lock(&self.0.part);
        if matches!(&*part, Part::Takes { number, .. } if *number == move_number) {
            *part = Part::None;
        }
    }

    /// Passes on what the worker says of a move. Words about one that is over are dropped. Err: it says too much.
    pub(crate) fn says(&self, report: MoveReport) -> Result<(), &'static str> {
        let part = floe_lock::lock(&self.0.part);
        let Part::Takes { number, side, to } = &*part else { return Ok(()) };
        if *number != report.number {
            return Ok(());
        }
        to.try_send(Input::Said(*side, report.said)).map_err(|_| "it says too much of its move")
    }

    /// The worker says that its session ends, since its client has left or for another reason.
    pub(crate) fn ends(&self) {
        if let Part::Takes { side: Side::Source, to, .. } = &*floe_lock::lock(&self.0.part) {
            // The worker's end follows.
            let _ = to.try_send(Input::ClientLeft);
        }
    }

    /// The worker has ended, and nothing of it is left in the table.
    pub(crate) fn ended(&self) {
        let part = std::mem::replace(&mut *floe_lock::lock(&self.0.part), Part::Ended);
        if let Part::Takes { side, to, .. } = part {
            // A coordinator that is gone needs no end.
            let _ = to.send(Input::Ended(side));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use floe_migrate::Said;

    use super::*;

    fn report(number: u64) -> MoveReport {
        MoveReport { number, said: Said::Frozen }
    }

    #[test]
    fn words_about_the_move_that_is_on_reach_it_and_others_do_not() {
        let (to, words) = sync_channel(4);
        let seat = Seat::new(3);
        assert_eq!(seat.says(report(7)), Ok(()), "nobody listens");
        seat.take_part(7, Side::Source, to).expect("it lives");
        for number in [6, 7, 8] {
            seat.says(report(number)).expect("heard");
        }
        assert_eq!(words.try_iter().collect::<Vec<_>>(), [Input::Said(Side::Source, Said::Frozen)]);
        seat.leave(6);
        seat.says(report(7)).expect("heard");
        seat.leave(7);
        seat.says(report(7)).expect("dropped");
        assert_eq!(words.try_iter().count(), 1);
    }

    #[test]
    fn a_worker_that_says_too_much_is_found_out_and_its_end_is_heard_all_the_same() {
        let (to, words) = sync_channel(2);
        let seat = Seat::new(3);
        seat.take_part(7, Side::Target, to.clone()).expect("it lives");
        assert!((0..2).all(|_| seat.says(report(7)).is_ok()));
        assert!(seat.says(report(7)).is_err());
        let ending = seat.clone();
        let thread = std::thread::spawn(move || ending.ended());
        assert_eq!(words.iter().take(3).last(), Some(Input::Ended(Side::Target)));
        thread.join().expect("it ends");
        assert_eq!(seat.take_part(8, Side::Source, to), Err(HasEnded));
    }

    #[test]
    fn two_workers_change_numbers() {
        let (old, new) = (Seat::new(3), Seat::new(9));
        let follower = old.clone();
        old.swap(&new);
        assert_eq!((follower.number(), new.number()), (9, 3));
    }
}
