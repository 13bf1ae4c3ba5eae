//! All that a session shares with others, for its threads.
//! In: the issuer's blocks and pages, the daemon's notices. Out: imports for the issuer, grants for the exporter's thread.
//! No driver is called under its lock, and no thread holds that for long.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use floe_abi::{CudaError, MemHandle};
use floe_device::Mapped;
use floe_transport::Secret;

use floe_wire::RaiseNow;

use super::ends::{PATIENCE, PeerReports};
use super::exports::{Exports, Granted};
use super::imports::{Imported, Imports, LetGo, Object, Requests};
use super::page::{Page, Places, VALUES, WORDS};
use super::proof::{Claim, Key};
use super::tickets::{New, Scope};
use crate::daemon::peer_notices::{
    Dial, Import, Kind, MOST_ADDRESS, NodeWish, PROOF_BYTES, PeerNotice, Question, Refused, Returned,
};
use crate::issue::fault::{Fault, violation};
use crate::issue::objects::signals::Signals;
use crate::memory::budget::Budget;

/// How often a worker asks whether another of its job, which has its GPU, has ended, and the pause between: a second in all. One
/// whose program has ended needs less.
const CROWDED_ASKS: u32 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a session shares.
pub(crate) struct Hub<M> {
    session: AtomicU64,
    /// `None`: no daemon passes anything on.
    reports: Option<Box<dyn PeerReports>>,
    state: Mutex<State<M>>,
    /// All pages that are mapped, also dropped ones that work still names.
    pages: Mutex<Vec<Weak<Page<M>>>>,
    pub(crate) places: Places,
    requests: Requests<Imported>,
    /// Connections to other servers that were asked for.
    dials: Requests<OwnedFd>,
    nodes: Requests<Option<String>>,
    /// Bytes that the session pays for beside what it holds itself.
    beside: Arc<AtomicU64>,
    patience: Duration,
}

struct State<M> {
    exports: Exports<M>,
    imports: Imports,
}

/// An object of another session, as the client names it.
pub(crate) struct Wanted {
    pub(crate) session: u64,
    pub(crate) ticket: u64,
    pub(crate) key: Key,
    pub(crate) kind: Kind,
    pub(crate) object: u64,
}

impl<M: Mapped> Hub<M> {
    /// The hub of a session that a daemon passes things on for.
    pub(crate) fn new(
        session: u64,
        reports: Option<Box<dyn PeerReports>>,
        beside: Arc<AtomicU64>,
        patience: Duration,
        budget: &Budget,
    ) -> Self {
        let state = Mutex::new(State { exports: Exports::new(budget), imports: Imports::default() });
        let (pages, places) = (Mutex::default(), Places::default());
        let (requests, dials, nodes) = (Requests::default(), Requests::default(), Requests::default());
        let session = AtomicU64::new(session);
        Self { session, reports, state, pages, places, requests, dials, nodes, beside, patience }
    }

    /// The hub of a session without a daemon: it imports nothing.
    pub(crate) fn alone(beside: Arc<AtomicU64>, budget: &Budget) -> Self {
        Self::new(0, None, beside, PATIENCE, budget)
    }

    /// The session that a worker is of, to others.
    pub(crate) fn session(&self) -> u64 {
        self.session.load(Ordering::Relaxed)
    }

    /// Others know it by this number from here on.
    pub(crate) fn becomes(&self, session: u64) {
        self.session.store(session, Ordering::Relaxed);
    }

    /// A file that a move's target imports.
    pub(crate) fn offer_file(&self, number: u64, file: OwnedFd) {
        self.state().exports.offer_file(number, file);
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        floe_lock::lock(&self.state)
    }

    fn pay(&self, bytes: u64) {
        self.beside.fetch_add(bytes, Ordering::Relaxed);
    }

    fn pay_no_longer(&self, bytes: u64) {
        self.beside.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A new ticket.
    pub(crate) fn add_ticket(&self, id: u64, new: New) -> Result<(), Fault> {
        let mut state = self.state();
        if let Scope::Object(kind, object) = new.scope
            && !state.exports.has(kind, object)
        {
            return Err(CudaError::INVALID_HANDLE.into());
        }
        state.exports.tickets.add(Instant::now(), id, new)
    }

    pub(crate) fn withdraw(&self, id: u64) {
        self.state().exports.tickets.withdraw(id);
    }

    /// A worker that the session moves to may import everything by this ticket, by this number; that is no sharing.
    pub(crate) fn begin_move(&self, ticket: u64, importer: u64, key: Key) -> Result<(), Fault> {
        let new = New { key, scope: Scope::All, uses: 0, seconds: 0 };
        self.add_ticket(ticket, new)?;
        self.state().exports.moving = Some((ticket, importer));
        Ok(())
    }

    /// The move is over: nothing is lent for it, and nobody imports anything for it any more.
    pub(crate) fn end_move(&self) {
        let mut state = self.state();
        let Some((ticket, importer)) = state.exports.moving.take() else { return };
        state.exports.tickets.withdraw(ticket);
        // That worker ends, or is this session from here on.
        let no_longer = state.exports.session_over(importer);
        self.pay_no_longer(no_longer);
        let files = state.exports.end_files();
        drop(state);
        drop(files);
    }

    /// What of the session others may import or have imported, or the session has of others; empty: nothing.
    pub(crate) fn shares(&self) -> Vec<&'static str> {
        let state = self.state();
        let tickets = state.exports.any_ticket(Instant::now());
        let words = [
            (tickets, "tickets by which other sessions may import from it"),
            (state.exports.any_holder(), "memory or words that other sessions have imported from it"),
            (state.imports.any(), "memory that it has imported from other sessions"),
        ];
        words.into_iter().filter(|(is, _)| *is).map(|(_, words)| words).collect()
    }

    /// The session has a new block of its own; of memory that another worker has made, there is a file.
    pub(crate) fn offer_block(&self, id: u64, memory: MemHandle, bytes: u64, file: Option<OwnedFd>) {
        self.state().exports.offer_block(id, memory, bytes, file);
    }

    /// How many blocks have a file.
    pub(crate) fn kept_files(&self) -> usize {
        self.state().exports.kept_files()
    }

    /// A block is about to be released: nobody exports it from here on, and nobody is exporting it.
    pub(crate) fn close_block(&self, id: u64) {
        let handle = self.state().exports.close_block(id);
        if let Some(handle) = handle {
            floe_lock::lock(&handle).take();
        }
    }

    /// A released block that is still mapped can be exported again, by another handle.
    pub(crate) fn reopen_block(&self, id: u64, memory: MemHandle) {
        self.state().exports.reopen_block(id, memory);
    }

    /// It is exported by that handle no longer, and nobody is exporting it.
    pub(crate) fn close_reopened(&self, id: u64, memory: MemHandle) {
        let handle = self.state().exports.handle(id);
        if let Some(handle) = handle {
            floe_lock::lock(&handle).take_if(|its| *its == memory);
        }
    }

    /// The session has given a block up, its own or an imported one. Returns whether its memory was the session's own. Where
    /// others hold that, the session pays for it beside its ledger.
    pub(crate) fn end_block(&self, id: u64) -> bool {
        let mut state = self.state();
        match state.imports.remove(id) {
            Some(LetGo::Tell(returned)) => {
                drop(state);
                self.give_back(returned);
                false
            }
            Some(LetGo::Pays(bytes)) => {
                self.pay_no_longer(bytes);
                false
            }
            None => {
                let (lent, file) = state.exports.end_block(id);
                self.pay(lent);
                drop((state, file));
                true
            }
        }
    }

    /// Says that an import was let go.
    pub(crate) fn give_back(&self, returned: Returned) {
        if let Some(reports) = &self.reports {
            reports.returned(returned);
        }
    }

    /// A page is mapped: the session's own, or one of a session that may be over already.
    pub(crate) fn add_page(&self, id: u64, page: &Arc<Page<M>>, owner: Option<u64>) {
        let mut state = self.state();
        let mut pages = floe_lock::lock(&self.pages);
        pages.retain(|page| page.strong_count() > 0);
        pages.push(Arc::downgrade(page));
        drop(pages);
        match owner {
            None => state.exports.offer_page(id, page),
            Some(owner) => {
                page.shared_with(owner);
                if state.imports.is_over(owner) {
                    page.session_over(owner);
                }
            }
        }
    }

    /// Raises a word of a page of the session's own; one that a reset has dropped has none.
    ///
    /// # Errors
    /// What of the message cannot be.
    pub(crate) fn raise_now(&self, message: &RaiseNow) -> Result<(), String> {
        let RaiseNow { signals, word, value } = *message;
        if word >= WORDS || value >= VALUES {
            return Err(format!("no word of a signal page, or no value of one: {word}, {value:#x}"));
        }
        let page = self.state().exports.page(signals.0);
        if let Some(page) = page {
            page.raise(word, value);
        }
        Ok(())
    }

    /// A page of the session's own is dropped.
    pub(crate) fn end_page(&self, id: u64) {
        self.state().exports.end_page(id);
    }

    /// A block was imported.
    pub(crate) fn add_import(&self, block: u64, object: Object, bytes: u64) {
        let pays = self.state().imports.add(block, object, bytes);
        self.pay(pays);
    }

    /// Unmaps a page, in which the driver may wait for work. No work that names it is left.
    pub(crate) fn let_page_go(&self, signals: Signals<M>) {
        let Signals { page, imported } = signals;
        page.let_go();
        if let Some(returned) = imported {
            self.give_back(returned);
        }
    }

    /// What `ask` gave is in the tables now, or given back.
    pub(crate) fn settle(&self, wanted: &Wanted) {
        self.state().imports.come(wanted.session);
    }

    /// Asks another session for an object and waits for it. The caller settles what it gets.
    pub(crate) fn ask(&self, wanted: &Wanted) -> Result<Imported, Fault> {
        let Some(reports) = &self.reports else { return Err(CudaError::NOT_SUPPORTED.into()) };
        let Wanted { session, ticket, ref key, kind, object } = *wanted;
        let request = self.requests.begin();
        let mut import = Import { request, session, ticket, proof: [0; PROOF_BYTES], kind, object };
        import.proof = key.prove(&Claim::of(self.session(), &import));
        reports.import(import);
        match self.requests.wait(request, self.patience) {
            Some(Ok(imported)) => Ok(imported),
            Some(Err(refused)) => Err(fault_of(refused, session)),
            None => {
                let words = format!("session {session} gave nothing within: {:?}", self.patience);
                Err(Fault::Explained(CudaError::TIMEOUT, words))
            }
        }
    }

    /// Has the daemon make connections to another server, and waits for all of them.
    pub(crate) fn dial(&self, server: &str, count: u32) -> Result<Vec<OwnedFd>, Fault> {
        let Some(reports) = &self.reports else { return Err(CudaError::NOT_SUPPORTED.into()) };
        if server.len() > MOST_ADDRESS {
            return violation(format!(
                "a server's address has at most {MOST_ADDRESS} bytes, this one: {}",
                server.len()
            ));
        }
        let (deadline, mut sockets) = (Instant::now() + self.patience, Vec::new());
        let ask = || {
            let request = self.dials.begin();
            reports.dial(Dial { request, server: server.to_owned() });
            request
        };
        let wait = |request| {
            let answer = self.dials.wait(request, deadline.saturating_duration_since(Instant::now()));
            answer.unwrap_or(Err(Refused::Unknown)).map_err(undialed)
        };
        // Where the first is refused, the others would be.
        sockets.push(wait(ask())?);
        let requests: Vec<u64> = (1..count).map(|_| ask()).collect();
        // All are waited for, so that none comes later and stays.
        let others: Vec<_> = requests.into_iter().map(wait).collect();
        for socket in others {
            sockets.push(socket?);
        }
        Ok(sockets)
    }

    /// The worker's node of NCCL's, by the key of its first communicator and its program's job. Where another worker has its
    /// GPU there, it waits a little for that one to end. `None`: the daemon says nothing, so the worker is a node of its own.
    pub(crate) fn node(&self, key: u64, job: Option<u64>) -> Option<String> {
        let reports = self.reports.as_ref()?;
        let ask = |waits| {
            let request = self.nodes.begin();
            reports.node(NodeWish { request, key, job, waits });
            self.nodes.wait(request, self.patience)?.ok()
        };
        for _ in 0..CROWDED_ASKS {
            if let Some(name) = ask(true)? {
                return Some(name);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        ask(false)?
    }

    /// The peer link that a ticket of this session is for, and the secret of its connections.
    pub(crate) fn link_of(&self, ticket: u64) -> Option<(u64, Secret)> {
        let (link, key) = self.state().exports.tickets.of_link(Instant::now(), ticket)?;
        Some((link, key.secret(self.session(), ticket)))
    }

    /// The secret by which other workers prove a key to this session.
    pub(crate) fn secret_of(&self, key: &Key, ticket: u64) -> Secret {
        key.secret(self.session(), ticket)
    }

    /// Uses a ticket of a peer link up by one connection. False: it is over.
    pub(crate) fn use_link(&self, ticket: u64) -> bool {
        let tickets = &mut self.state().exports.tickets;
        let lasts = tickets.of_link(Instant::now(), ticket).is_some();
        tickets.use_up(ticket);
        lasts
    }

    /// A peer link has ended, and its tickets with it.
    pub(crate) fn end_link(&self, link: u64) {
        self.state().exports.tickets.end_link(link);
    }

    /// Takes a notice; a question is given back.
    pub(crate) fn notice(&self, notice: PeerNotice, descriptor: Option<OwnedFd>) -> Option<Question> {
        match notice {
            PeerNotice::Asked(question) => return Some(question),
            PeerNotice::Imported { request, bytes, gpu, from } => {
                let outcome = descriptor.map(|file| Imported { file, bytes, gpu }).ok_or(Refused::OutOfMemory);
                let comes = outcome.is_ok();
                if comes {
                    self.state().imports.comes(from.session);
                }
                let is_awaited = self.requests.answer(request, outcome).is_ok();
                if comes && !is_awaited {
                    self.state().imports.come(from.session);
                }
                // One that nobody waits for is closed, and one without a descriptor is none; its owner is told.
                if !comes || !is_awaited {
                    self.give_back(from);
                }
            }
            // The wait may be over.
            PeerNotice::Refused(request, why) => drop(self.requests.answer(request, Err(why))),
            PeerNotice::Returned(importer, objects) => {
                let mut state = self.state();
                let returned = objects.iter().map(|(kind, object)| state.exports.returned(importer, *kind, *object));
                self.pay_no_longer(returned.sum());
            }
            // A connection that nobody waits for is closed.
            PeerNotice::Dialed(request) => {
                drop(self.dials.answer(request, descriptor.ok_or(Refused::OutOfMemory)));
            }
            PeerNotice::NotDialed(request, why) => drop(self.dials.answer(request, Err(why))),
            PeerNotice::Node(request, name) => drop(self.nodes.answer(request, Ok(name))),
            PeerNotice::Over(session) => self.session_over(session),
        }
        None
    }

    fn session_over(&self, session: u64) {
        let mut state = self.state();
        let pays = state.imports.session_over(session);
        self.pay(pays);
        let no_longer = state.exports.session_over(session);
        self.pay_no_longer(no_longer);
        drop(state);
        let pages: Vec<Weak<Page<M>>> = floe_lock::lock(&self.pages).clone();
        pages.iter().filter_map(Weak::upgrade).for_each(|page| page.session_over(session));
    }

    /// What a question is answered with. Its importer may have ended since: then the daemon says that it was returned.
    pub(crate) fn grant(&self, question: &Question) -> Result<Granted<M>, Refused> {
        let mut state = self.state();
        state.exports.grant(Instant::now(), self.session(), question)
    }

    /// An importer does not get what it was granted.
    pub(crate) fn take_back(&self, question: &Question) {
        let Question { importer, ref import } = *question;
        let bytes = self.state().exports.returned(importer, import.kind, import.object);
        self.pay_no_longer(bytes);
    }
}

fn undialed(refused: Refused) -> Fault {
    let (error, words) = match refused {
        Refused::NotPermitted => {
            (CudaError::NOT_PERMITTED, "this server's operator has not named the other one (--peer)")
        }
        Refused::OutOfMemory => (CudaError::OUT_OF_MEMORY, "the server makes no more connections to others now"),
        Refused::Unknown | Refused::NotSupported => (CudaError::INVALID_HANDLE, "the other server does not answer"),
    };
    Fault::Explained(error, words.to_owned())
}

fn fault_of(refused: Refused, session: u64) -> Fault {
    let (error, words) = match refused {
        Refused::Unknown => (CudaError::INVALID_HANDLE, "has ended, or knows no such ticket, proof or object"),
        Refused::NotPermitted => {
            (CudaError::NOT_PERMITTED, "is not asked: too many imports have failed, or are shared")
        }
        Refused::OutOfMemory => {
            (CudaError::OUT_OF_MEMORY, "has no room to export more, or this session's worker has none to import it")
        }
        Refused::NotSupported => (CudaError::NOT_SUPPORTED, "has a device that does not export this"),
    };
    Fault::Explained(error, format!("session {session} {words}"))
}

#[cfg(test)]
mod tests;
