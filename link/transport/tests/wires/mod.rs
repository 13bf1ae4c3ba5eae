//! Two ends of one session in this process, and the wires between them, which are cut after so many bytes.
//! It plays the part of client and server in making connections again.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_transport::{ACKNOWLEDGEMENT_CHANNEL, Channels, HistoryDigest, Link};

use super::limit::Limit;

/// Numbers that look random and are the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).unwrap()
    }
}

/// Makes a connection: a link at either end.
type Make = Arc<dyn Fn() -> (Link, Link) + Send + Sync>;

/// Connections through relays that end them when so many bytes have passed either way; behind the last, ones that stay.
fn cut_after(cuts: Vec<usize>) -> Make {
    let cuts = Mutex::new(cuts.into_iter());
    Arc::new(move || {
        let (ours, theirs) = wire(cuts.lock().unwrap().next());
        (Link::new(ours.into()), Link::new(theirs.into()))
    })
}

fn wire(cut: Option<usize>) -> (UnixStream, UnixStream) {
    let Some(cut) = cut else { return UnixStream::pair().unwrap() };
    let ((ours, near), (far, theirs)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    for (from, to) in
        [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far.try_clone().unwrap(), near.try_clone().unwrap())]
    {
        std::thread::spawn(move || {
            pass(cut, &from, &to);
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
    (ours, theirs)
}

/// Passes so many bytes on.
pub(crate) fn pass(cut: usize, mut from: impl Read, mut to: impl Write) {
    let (mut left, mut buffer) = (cut, vec![0; 64 << 10]);
    while left > 0 {
        let most = left.min(buffer.len());
        match from.read(&mut buffer[..most]) {
            Ok(count) if count > 0 && to.write_all(&buffer[..count]).is_ok() => left -= count,
            _ => break,
        }
    }
}

/// Both ends of a session.
pub(crate) struct Ends {
    ends: [Channels; 2],
    own: Mutex<Option<[Link; 2]>>,
    bulk: u32,
    made: Arc<AtomicUsize>,
}

impl Ends {
    /// With so many bulk connections; it reconnects after cuts.
    pub(crate) fn new(bulk: u32, cuts: Vec<usize>) -> Self {
        Self::of(bulk, cuts, Duration::from_secs(60), true)
    }

    /// As [`Ends::new`], with connections of another kind.
    pub(crate) fn made_by(bulk: u32, make: Make) -> Self {
        Self::with(bulk, make, Duration::from_secs(60), true)
    }

    pub(crate) fn of(bulk: u32, cuts: Vec<usize>, grace: Duration, again: bool) -> Self {
        Self::with(bulk, cut_after(cuts), grace, again)
    }

    fn with(bulk: u32, make: Make, grace: Duration, again: bool) -> Self {
        let (ours, theirs) = make();
        let ((a, ours), (b, theirs)) = (Channels::take_over(ours, grace), Channels::take_over(theirs, grace));
        let made = Arc::new(AtomicUsize::new(1));
        let ends = Self { ends: [a, b], own: Mutex::new(Some([ours, theirs])), bulk, made };
        let (channels, made) = (ends.ends.clone(), Arc::clone(&ends.made));
        for channel in 1..=bulk {
            resume(&channels, channel, 1, &make);
        }
        std::thread::spawn(move || keep(&channels, &make, &made, again));
        ends
    }

    /// The session's own link at either end, once.
    pub(crate) fn own(&self) -> [Link; 2] {
        self.own.lock().unwrap().take().unwrap()
    }

    /// Either end of each bulk link, once.
    pub(crate) fn bulk(&self) -> Vec<[Link; 2]> {
        (1..=self.bulk).map(|channel| [0, 1].map(|side: usize| self.ends[side].link(channel))).collect()
    }

    /// The end that makes connections.
    pub(crate) fn ours(&self) -> &Channels {
        &self.ends[0]
    }

    /// The number of times that the connections have been made.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    /// Ends it when the other end can hear that.
    pub(crate) fn leave(&self) {
        self.ends[0].say_goodbye(Duration::from_secs(300));
        self.end();
    }

    pub(crate) fn end(&self) {
        self.ends[0].end();
    }

    /// Ends the session at both sides, and `more` with it, when a test fails.
    pub(crate) fn limit(&self, more: impl Fn() + Send + Sync + 'static) -> Limit {
        let ends = self.ends.clone();
        Limit::new(move || {
            ends.iter().for_each(Channels::end);
            more();
        })
    }
}

/// Both sides resume a channel with a new wire.
fn resume(ends: &[Channels; 2], channel: u32, epoch: u64, make: &Make) {
    let (ours, theirs) = make();
    let received = [0, 1].map(|side: usize| ends[side].freeze(channel));
    for (side, link) in [(0, ours), (1, theirs)] {
        let end = ends[side].clone();
        std::thread::spawn(move || end.resume(channel, epoch, link, received[1 - side]).unwrap());
    }
}

/// Makes the connection for acknowledgements, and all others again when they break.
fn keep(ends: &[Channels; 2], make: &Make, made: &AtomicUsize, again: bool) {
    let mut epoch = 1;
    loop {
        let (ours, theirs) = make();
        let [ours, theirs] = [(0, ours), (1, theirs)].map(|(side, link): (usize, _)| {
            let end = ends[side].clone();
            std::thread::spawn(move || {
                let receiver = end.hear(epoch, link);
                end.listen(epoch, receiver)
            })
        });
        let (_, _) = (ours.join().unwrap(), theirs.join().unwrap());
        if !again || ends.iter().any(Channels::is_over) {
            return;
        }
        epoch += 1;
        if !ends.iter().all(|end| end.begin(epoch)) {
            return;
        }
        made.fetch_add(1, Ordering::SeqCst);
        for channel in ends[0].all() {
            resume(ends, channel, epoch, make);
        }
        assert_eq!(ends[0].freeze(ACKNOWLEDGEMENT_CHANNEL), HistoryDigest::none());
    }
}
