//! The HTTP port: its thread, its limits, its three paths.
//! In: a listener, a source of figures, a tally. Out: answers. One thread serves all connections and waits for none of
//! them: a silent or slow peer costs a row until its time is up.
//! Nobody there has proved anything: it answers the same to all, and reads figures at most once a second.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::crowd::Crowd;
use crate::figures::Figures;
use crate::http::{Answer, Request};
use crate::pulse::Pulse;
use crate::render::{CONTENT_TYPE, render};
use crate::tally::Tally;
use crate::visitor::{Next, Visitor};

/// For how long a page is shown again.
const FRESH: Duration = Duration::from_secs(1);
/// The pause after a connection could not be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// The most connections that are accepted in a row.
const AT_ONCE: usize = 16;

/// Where figures come from.
pub trait Source: Send + 'static {
    /// All figures of this moment.
    fn figures(&self) -> Figures;
    /// What has been counted.
    fn tally(&self) -> &Tally;
    /// The main loop's pulse.
    fn pulse(&self) -> &Pulse;
    /// Why no new session would be taken now; `None`: one would be.
    fn refuses(&self) -> Option<String>;
    /// Another holder of the port's socket has shut it down: nobody can connect any more.
    fn is_shut(&self, address: SocketAddr);
}

/// The limits of the port's peers, and of the main loop.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of all peers.
    pub all: usize,
    /// Connections of one peer.
    pub each: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// A connection's time, from its acceptance to its end.
    pub time: Duration,
    /// The main loop's time to answer. It sleeps for 100 ms where the system lacks descriptors.
    pub pulse: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { all: 32, each: 8, head: 4096, time: Duration::from_secs(5), pulse: Duration::from_secs(1) }
    }
}

/// The port.
pub struct Port<S> {
    /// `None`: nobody can connect any more.
    listener: Option<TcpListener>,
    source: Arc<S>,
    limits: Limits,
    address: SocketAddr,
    crowd: Crowd,
    visitors: BTreeMap<u64, Visitor>,
    page: Option<(Instant, String)>,
}

impl<S: Source + Sync> Port<S> {
    /// Serves on a thread of its own, until the process ends or another holder of the socket shuts it down.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(listener: TcpListener, source: Arc<S>, limits: Limits) -> io::Result<SocketAddr> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let crowd = Crowd::new(limits.all, limits.each);
        let visitors = BTreeMap::new();
        let port = Self { listener: Some(listener), source, limits, address, crowd, visitors, page: None };
        std::thread::Builder::new().name("metrics".into()).spawn(move || port.serve())?;
        Ok(address)
    }

    fn serve(mut self) {
        while self.listener.is_some() || !self.visitors.is_empty() {
            let (arrived, ready) = self.wait();
            for number in ready {
                self.attend(number);
            }
            if arrived.intersects(PollFlags::RDHUP | PollFlags::HUP) {
                // It would be ready for ever.
                self.listener = None;
                self.source.is_shut(self.address);
            } else if !arrived.is_empty() {
                self.accept();
            }
            let now = Instant::now();
            self.visitors.retain(|number, visitor| {
                let stays = visitor.until > now;
                if !stays {
                    self.crowd.leave(*number);
                }
                stays
            });
        }
    }

    /// Waits for connections or for what they send. Returns what there is of the listener, and those that are ready.
    fn wait(&self) -> (PollFlags, Vec<u64>) {
        let own = self.listener.iter().map(|listener| PollFd::new(listener, PollFlags::IN | PollFlags::RDHUP));
        let its = self.visitors.values().map(|visitor| PollFd::new(&visitor.socket, visitor.waits_for()));
        let mut watched: Vec<_> = own.chain(its).collect();
        let until = self.visitors.values().map(|visitor| visitor.until).min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // One millisecond more: some systems ignore fractions, and would not wait at all.
        let left = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
        if poll(&mut watched, left.as_ref()).is_err() {
            return (PollFlags::empty(), Vec::new());
        }
        let (own, its) = watched.split_at(usize::from(self.listener.is_some()));
        let ready = self.visitors.keys().zip(its).filter(|(_, watched)| !watched.revents().is_empty());
        let arrived = own.first().map_or(PollFlags::empty(), PollFd::revents);
        (arrived, ready.map(|(number, _)| *number).collect())
    }

    fn accept(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((socket, peer)) => {
                    let Ok(visitor) = Visitor::new(socket, Instant::now() + self.limits.time) else { continue };
                    let (number, leaving) = self.crowd.arrive(peer.ip());
                    leaving.and_then(|leaving| self.visitors.remove(&leaving));
                    self.visitors.insert(number, visitor);
                    // What it asks is mostly there already.
                    self.attend(number);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return std::thread::sleep(AFTER_FAILURE),
            }
        }
    }

    fn attend(&mut self, number: u64) {
        let Some(mut visitor) = self.visitors.remove(&number) else { return };
        match visitor.attend(self.limits.head, &mut |request| self.answer(request)) {
            Next::Stays => _ = self.visitors.insert(number, visitor),
            Next::Over => self.crowd.leave(number),
        }
    }

    fn answer(&mut self, request: &Request) -> Answer {
        match request.path.as_str() {
            "/metrics" => self.figures(),
            "/healthz" => self.is_healthy().unwrap_or_else(|| Answer::line(200, "ok")),
            "/readyz" => self.is_ready().unwrap_or_else(|| Answer::line(200, "ok")),
            _ => Answer::line(404, "there are /metrics, /healthz and /readyz"),
        }
    }

    fn figures(&mut self) -> Answer {
        let fresh = self.page.take().filter(|(at, _)| at.elapsed() < FRESH);
        let page = match fresh {
            Some(page) => Some(page),
            None => render(&self.source.figures(), self.source.tally()).ok().map(|body| (Instant::now(), body)),
        };
        self.page.clone_from(&page);
        match page {
            Some((_, body)) => Answer { status: 200, content_type: CONTENT_TYPE, body },
            None => Answer::line(500, "the figures cannot be written"),
        }
    }

    /// What is wrong with the main loop.
    fn is_healthy(&self) -> Option<Answer> {
        let silence = self.source.pulse().ask(self.limits.pulse).err()?;
        Some(Answer::line(503, &silence.to_string()))
    }

    fn is_ready(&self) -> Option<Answer> {
        let refuses = || self.source.refuses().map(|why| Answer::line(503, &why));
        self.is_healthy().or_else(refuses)
    }
}

#[cfg(test)]
mod tests;
