//! The server's end of a session that outlives its connections. The client reconnects as often as a test cuts them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use floe_transport::{ACKNOWLEDGEMENT_CHANNEL, Channels, HistoryDigest, Link, LinkState, Listener};
use floe_wire::*;

use super::bulk::{self, Joined};

/// For what a step may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The connections of one session, for a test to cut.
#[derive(Clone, Default)]
pub struct Wires(Arc<State>);

#[derive(Default)]
struct State {
    channels: OnceLock<Channels>,
    /// Every new connection is refused.
    is_away: AtomicBool,
    /// The session does not exist any more.
    is_gone: AtomicBool,
    /// It says that it has what nobody has sent.
    counts_wrong: AtomicBool,
    /// It says that it has other bytes than were sent.
    has_others: AtomicBool,
    /// One connection at a time is given its channel.
    admitting: Mutex<()>,
}

impl Wires {
    /// Takes over the session's own connection.
    pub fn take_over(&self, link: Link, grace: Duration) -> Link {
        let (channels, link) = Channels::take_over(link, grace);
        assert!(self.0.channels.set(channels).is_ok(), "a scripted server has one session");
        link
    }

    pub fn channels(&self) -> &Channels {
        self.0.channels.wait()
    }

    /// Ends the session for good, where there is one.
    pub fn end(&self) {
        if let Some(channels) = self.0.channels.get() {
            channels.end();
        }
    }

    /// Cuts what connections there are.
    pub fn cut(&self) {
        self.channels().broke(self.channels().epoch());
    }

    /// As `cut`, and waits until the client has come again.
    pub fn cut_and_wait(&self) {
        let before = self.channels().epoch();
        self.cut();
        self.wait(|channels| channels.epoch() > before);
    }

    /// Waits for something to become true of the connections.
    pub fn wait(&self, is: impl Fn(&Channels) -> bool) {
        let until = Instant::now() + LIMIT;
        while !is(self.channels()) {
            assert!(Instant::now() < until, "it never came to be");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the client has said that it leaves.
    pub fn wait_for_goodbye(&self) {
        self.wait(|channels| channels.link_state() == LinkState::Over);
    }

    /// Whether whoever comes is sent away from now on.
    pub fn set_away(&self, is_away: bool) {
        self.0.is_away.store(is_away, Ordering::Release);
    }

    /// Knows nothing of the session any more.
    pub fn forget(&self) {
        self.0.is_gone.store(true, Ordering::Release);
    }

    /// Says of the next connections that it has what nobody has sent.
    pub fn count_wrong(&self) {
        self.0.counts_wrong.store(true, Ordering::Release);
    }

    /// Says of the next connections that it has so many bytes, and others.
    pub fn have_others(&self) {
        self.0.has_others.store(true, Ordering::Release);
    }

    /// Greets whoever comes, until the session is over.
    pub fn welcome(&self, listener: &Listener, joined: &Joined) {
        while !self.channels().is_over() {
            let Ok(Some((link, _))) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            if !self.0.is_away.load(Ordering::Acquire) {
                let (own, joined) = (self.clone(), Arc::clone(joined));
                std::thread::spawn(move || own.greet(link, &joined));
            }
        }
    }

    /// `None`: it was cut before it had its channel.
    fn greet(&self, mut link: Link, joined: &Joined) -> Option<()> {
        let (request, _) = next::<Hello>(&mut link)?;
        reply(&mut link, request, 0, &bulk::greeting())?;
        let (request, join) = next::<Join>(&mut link)?;
        let join = Join::decode(&join).expect("a join");
        assert_eq!((join.session, join.key), (7, bulk::KEY.as_slice()));
        let is_gone = self.0.is_gone.load(Ordering::Acquire);
        reply(&mut link, request, if is_gone { 201 } else { 0 }, &())?;
        if is_gone {
            return None;
        }
        let (request, message) = next::<Continue>(&mut link)?;
        let message = Continue::decode(&message).expect("how it goes on");
        self.admit(link, request, &message, joined)
    }

    fn admit(&self, mut link: Link, request: u64, message: &Continue, joined: &Joined) -> Option<()> {
        let channels = self.channels();
        let &Continue { epoch, channel, .. } = message;
        let theirs = HistoryDigest { received: message.received, digest: message.digest };
        let admitting = self.0.admitting.lock().unwrap();
        if epoch < channels.epoch() {
            return reply(&mut link, request, 1, &());
        }
        let _ = channels.begin(epoch);
        let is_new = channel != ACKNOWLEDGEMENT_CHANNEL && !channels.has(channel);
        let has = channels.freeze(channel);
        let wrong = if self.0.counts_wrong.load(Ordering::Acquire) { 1 << 40 } else { 0 };
        let digest = has.digest ^ u64::from(self.0.has_others.load(Ordering::Acquire));
        let replied = reply(&mut link, request, 0, &ContinueReply { received: has.received + wrong, digest });
        if is_new {
            // It is there from now on, whatever becomes of this connection.
            joined.lock().unwrap().push(channels.link(channel));
        }
        drop(admitting);
        replied?;
        if channel == ACKNOWLEDGEMENT_CHANNEL {
            let receiver = channels.hear(epoch, link);
            channels.listen(epoch, receiver);
        } else {
            channels.resume(channel, epoch, link, theirs).expect("clients count right");
        }
        Some(())
    }
}

/// The next frame's sequence and payload.
fn next<M: Message>(link: &mut Link) -> Option<(u64, Vec<u8>)> {
    let frame = link.receive(Some(Instant::now() + LIMIT)).ok()??;
    assert_eq!(frame.kind, M::KIND, "{}", M::NAME);
    Some((frame.sequence, frame.payload.to_vec()))
}

fn reply<'r>(link: &mut Link, request: u64, status: u32, reply: &impl Field<'r>) -> Option<()> {
    let mut body = Vec::new();
    reply.write(&mut body);
    let body = if status == 0 { body.as_slice() } else { &[] };
    link.send(&Reply { request, status, earlier: 0, detail: "by the script", body }).ok().map(drop)
}
