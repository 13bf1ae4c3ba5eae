//! The account: the memory of all GPUs, by session.
//! In: GPUs, sessions with their quotas, reports and requests of workers, measured bytes of processes, ends. Out: free
//! bytes, a session's allowance, and the sessions above theirs. It is pure: it asks nobody and has no clock.

use std::collections::{BTreeMap, VecDeque};

use floe_worker::contract::Asks;

/// Uncounted memory that a driver may take for a session. An H100's took 140 MiB for kernels' printf buffer and heap,
/// and pieces of 2 MiB (docs/facts/device-memory.md).
pub(crate) const TOLERANCE: u64 = 256 << 20;
/// A session ends after so many looks in a row that find it above its allowance. One look may fall between a free and
/// its effect.
const LOOKS: u32 = 2;
/// More than any context takes. A worker with more than this at the first look says nothing about contexts.
const MOST_OVERHEAD: u64 = 2 << 30;
/// The least allowance for a context, whatever was measured. An H100's took 524 MiB.
const LEAST_OVERHEAD: u64 = 512 << 20;
/// How many contexts' figures are kept per GPU: the latest.
const FIGURES: usize = 15;
/// A best-effort session is granted memory in steps of so many bytes where a driver divides it, so that a program with
/// many small blocks seldom asks. Less than what a worker may keep without saying so.
const STEP: u64 = 32 << 20;
/// One that has more gets an eighth more, up to so many bytes.
const LARGEST_STEP: u64 = 256 << 20;

/// In place of a GPU: the host memory in which suspended sessions wait.
pub(crate) const HOST_MEMORY: u32 = u32::MAX;

/// A GPU.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Gpu {
    /// Free bytes before the first session.
    free: u64,
    /// Whether the daemon divides its memory among sessions, since no driver does.
    is_shared_out: bool,
    /// Whether sessions have contexts there: not on a device that is shared out, nor in host memory.
    has_contexts: bool,
    /// Measured sizes of contexts, one per session.
    overheads: VecDeque<u64>,
    /// The size of a context: the median, which no single session moves far. `None` before the first measurement. It is found
    /// once, for each request for memory asks for it.
    overhead: Option<u64>,
}

impl Gpu {
    fn overhead(&self) -> Option<u64> {
        self.overhead
    }

    /// A context was measured.
    fn measured(&mut self, bytes: u64) {
        if self.overheads.len() == FIGURES {
            self.overheads.pop_front();
        }
        self.overheads.push_back(bytes);
        let mut sorted: Vec<_> = self.overheads.iter().copied().collect();
        sorted.sort_unstable();
        self.overhead = sorted.get(sorted.len() / 2).copied();
    }

    /// Bytes beside its blocks that a session may come to have: contexts and tolerance, as the second look allows them.
    fn beside(&self, account: &Account) -> u64 {
        if !self.has_contexts {
            return 0;
        }
        let overhead = account.overhead.max(self.overhead()).unwrap_or_default().max(LEAST_OVERHEAD);
        account.contexts(overhead).saturating_add(TOLERANCE)
    }
}

/// A session's account.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Account {
    gpu: u32,
    /// Its quota in bytes; 0: all of the GPU.
    quota: u64,
    /// Whether its quota is kept for it. Else it takes what is left.
    is_guaranteed: bool,
    /// Bytes that its worker reports, up to its quota.
    used: u64,
    /// Bytes that it reports beyond that: memory of sessions that have ended, which it holds.
    beyond: u64,
    /// Bytes that it was granted, if it asks.
    granted: u64,
    /// Measured bytes of its process, including its context.
    has: u64,
    /// The size of its context, when its worker first reported it.
    overhead: Option<u64>,
    /// Whether it may have links to other servers, whose copies have a context of their own.
    has_links: bool,
    /// Looks in a row that found it above its allowance.
    over: u32,
    /// Bytes that are kept for it, before it has or was granted them.
    reserved: u64,
    /// The account whose memory it takes over: what both hold is there once.
    twin: Option<u64>,
}

impl Account {
    /// Bytes of its contexts, of which each takes these.
    fn contexts(&self, overhead: u64) -> u64 {
        overhead.saturating_mul(1 + u64::from(self.has_links))
    }

    /// Bytes of its blocks: those it has, those it may take, and those that are kept for it.
    fn blocks(&self) -> u64 {
        self.used.saturating_add(self.beyond).max(self.granted).max(self.reserved)
    }

    /// Bytes that no other session may be promised: its quota if that is a guarantee, else its blocks.
    fn promised(&self) -> u64 {
        self.blocks().max(self.guarantee())
    }

    /// The bytes that are kept for it; 0: it takes what is left.
    fn guarantee(&self) -> u64 {
        if self.is_guaranteed { self.quota } else { 0 }
    }

    /// The most bytes of its blocks; `None`: all of the GPU. Where promises are short, a best-effort session may have what
    /// it was granted.
    fn may(&self, is_short: bool) -> Option<u64> {
        let quota = Some(self.quota).filter(|quota| *quota != 0);
        if is_short && !self.is_guaranteed {
            Some(quota.map_or(self.granted, |quota| quota.min(self.granted)))
        } else {
            quota
        }
    }
}

/// A GPU has too little memory for a session that is to move there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    /// Its free bytes.
    pub(crate) free: u64,
}

/// A session above its allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Excess {
    /// Bytes of its process on the GPU.
    pub(crate) has: u64,
    /// Its allowance in bytes: quota, context and tolerance.
    pub(crate) may: u64,
}

/// A session's grant, and the bytes that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) total: u64,
    pub(crate) left: u64,
}

/// All GPUs and sessions of a daemon.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Accounting {
    gpus: BTreeMap<u32, Gpu>,
    accounts: BTreeMap<u64, Account>,
}

impl Accounting {
    /// Adds an offered GPU with `free` bytes.
    pub(crate) fn offer(&mut self, gpu: u32, free: u64, is_shared_out: bool) {
        let has_contexts = !is_shared_out && gpu != HOST_MEMORY;
        self.gpus.insert(gpu, Gpu { free, is_shared_out, has_contexts, ..Gpu::default() });
    }

    /// Adds a session that takes what is left, if there is room for its context beside what others were promised; `quota` 0:
    /// all of the GPU.
    pub(crate) fn best_effort(&mut self, session: u64, gpu: u32, quota: u64) -> Result<(), NoRoom> {
        if !self.has_room(gpu, 0, false) {
            return Err(NoRoom { free: 0 });
        }
        self.accounts.insert(session, Account { gpu, quota, ..Account::default() });
        Ok(())
    }

    /// Adds a session whose quota is a guarantee, if there is room for it.
    pub(crate) fn guarantee(&mut self, session: u64, gpu: u32, quota: u64) -> Result<(), NoRoom> {
        let free = self.free_for_guarantee(gpu);
        if quota > free {
            return Err(NoRoom { free });
        }
        self.accounts.insert(session, Account { gpu, quota, is_guaranteed: true, ..Account::default() });
        Ok(())
    }

    /// Removes a session, whose memory is free again.
    pub(crate) fn end(&mut self, session: u64) {
        self.accounts.remove(&session);
        for account in self.accounts.values_mut().filter(|account| account.twin == Some(session)) {
            account.twin = None;
        }
    }

    /// Adds the account of a session that moves, for what it holds: on another GPU beside all others, on the same one in
    /// place of its first account.
    pub(crate) fn arrive(
        &mut self,
        (number, session): (u64, u64),
        gpu: u32,
        quota: u64,
        bytes: u64,
    ) -> Result<(), NoRoom> {
        let twin = self.accounts.get(&session).filter(|account| account.gpu == gpu).map(|_| session);
        let is_guaranteed = self.accounts.get(&session).is_some_and(|account| account.is_guaranteed);
        // In host memory there is no quota, and what is kept there is what it holds.
        let takes = if is_guaranteed { bytes.max(quota) } else { bytes };
        if twin.is_none() && (!self.has_room(gpu, takes, is_guaranteed) || (quota != 0 && bytes > quota)) {
            return Err(NoRoom { free: self.free_for(gpu, is_guaranteed) });
        }
        let reserved = if twin.is_none() { bytes } else { 0 };
        // Of a session that asks, what is kept is granted already.
        let granted = if self.asks(gpu, is_guaranteed) == Asks::Never { 0 } else { reserved };
        self.accounts
            .insert(number, Account { gpu, quota, is_guaranteed, reserved, granted, twin, ..Account::default() });
        Ok(())
    }

    /// Two accounts change numbers: the session is the other one's now. What was kept for it, it has.
    pub(crate) fn swap(&mut self, session: u64, other: u64) {
        let (own, its) = (self.accounts.remove(&session), self.accounts.remove(&other));
        if let Some(mut own) = own {
            // The first account lives until its worker has ended; what both hold is the session's.
            own.twin = its.as_ref().filter(|its| its.gpu == own.gpu).map(|_| session);
            self.accounts.insert(other, own);
        }
        if let Some(its) = its {
            // Until its worker reports the next time.
            let used = its.used.max(its.reserved);
            self.accounts.insert(session, Account { used, reserved: 0, twin: None, ..its });
        }
    }

    /// A worker reports its bytes. Returns those of its quota. What is beyond counts as well, as long as nobody misses it
    /// ([`Self::beyond`]): all together is no more than its GPU's memory.
    pub(crate) fn uses(&mut self, session: u64, bytes: u64) -> u64 {
        let Some(account) = self.accounts.get_mut(&session) else { return 0 };
        let capacity = self.gpus.get(&account.gpu).map_or(u64::MAX, |gpu| gpu.free);
        let quota = if account.quota == 0 { u64::MAX } else { account.quota };
        account.used = bytes.min(quota).min(capacity);
        account.beyond = bytes.min(capacity).saturating_sub(account.used);
        account.used
    }

    /// Whether a session has more than its quota.
    pub(crate) fn exceeds(&self, session: u64) -> bool {
        self.accounts.get(&session).is_some_and(|account| account.beyond != 0)
    }

    /// The sessions of a GPU that have more than their quotas, and how much more, where somebody misses so many bytes there that these
    /// would do. Else none.
    pub(crate) fn beyond(&self, gpu: u32, missing: u64) -> Vec<(u64, u64)> {
        let its = self.of_gpu(gpu).filter(|(_, account)| account.beyond != 0);
        let all: Vec<_> = its.map(|(session, account)| (*session, account.beyond)).collect();
        let sum = all.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if missing != 0 && missing <= sum { all } else { Vec::new() }
    }

    /// A session asks for `total` bytes in all. It gets them if they are free and its quota allows it.
    pub(crate) fn want(&mut self, session: u64, total: u64) -> Share {
        let Some(account) = self.accounts.get(&session) else { return Share { total: 0, left: 0 } };
        let (quota, before) = (account.quota, account.granted);
        let its = self.gpus.get(&account.gpu);
        let (capacity, is_shared_out) = its.map_or((0, true), |its| (its.free, its.is_shared_out));
        let most = self.most(session, account);
        let fits = |bytes: &u64| *bytes <= most && (quota == 0 || *bytes <= quota);
        let in_steps = |step: u64| Some(total).filter(|_| !is_shared_out)?.checked_next_multiple_of(step).filter(fits);
        let step = (total / 8).clamp(STEP, LARGEST_STEP).next_multiple_of(STEP);
        let stepped = in_steps(step).or_else(|| in_steps(STEP));
        let granted = stepped.or(Some(total).filter(fits)).unwrap_or(before);
        if let Some(account) = self.accounts.get_mut(&session) {
            // A driver that divides its memory refuses what it does not have.
            account.granted = granted.min(capacity);
        }
        Share { total: granted, left: most.saturating_sub(granted) }
    }

    /// The most bytes that an account of this session may be granted beside all others.
    fn most(&self, session: u64, account: &Account) -> u64 {
        let Some(its) = self.gpus.get(&account.gpu) else { return 0 };
        if !its.is_shared_out && !self.has_guarantees(account.gpu) {
            return u64::MAX;
        }
        let is_twin =
            |id: u64, other: &Account| id == session || Some(id) == account.twin || other.twin == Some(session);
        let others = self.of_gpu(account.gpu).filter(|(id, other)| !is_twin(**id, other));
        let taken = others.fold(its.beside(account), |sum, (_, other)| {
            // What is granted of a guarantee is granted in advance.
            let granted = || other.granted.max(other.guarantee()).saturating_add(other.beyond);
            let blocks = if its.is_shared_out { granted() } else { other.promised() };
            let beyond = self.beyond_twin(other, blocks).saturating_add(its.beside(other));
            sum.saturating_add(beyond.max(if other.twin.is_none() { other.has } else { 0 }))
        });
        its.free.saturating_sub(taken)
    }

    /// A session returns its grant above these bytes.
    pub(crate) fn keep(&mut self, session: u64, bytes: u64) {
        if let Some(account) = self.accounts.get_mut(&session) {
            account.granted = account.granted.min(bytes);
            account.used = account.used.min(bytes);
        }
    }

    /// A session's worker reports its context made, and has these bytes on the GPU. The report counts once: a repeated
    /// or early one changes nothing for other sessions.
    pub(crate) fn measured(&mut self, session: u64, bytes: u64) {
        let Some(account) = self.accounts.get_mut(&session).filter(|account| account.overhead.is_none()) else {
            return;
        };
        let Some(gpu) = self.gpus.get_mut(&account.gpu).filter(|_| bytes > 0 && bytes <= MOST_OVERHEAD) else { return };
        account.overhead = Some(bytes);
        gpu.measured(bytes);
    }

    /// A session gets a connection to another server.
    pub(crate) fn links(&mut self, session: u64) {
        if let Some(account) = self.accounts.get_mut(&session) {
            account.has_links = true;
        }
    }

    /// Whether a session may have links to other servers.
    pub(crate) fn has_links(&self, session: u64) -> bool {
        self.accounts.get(&session).is_some_and(|account| account.has_links)
    }

    /// A look found these bytes of a session's process on the GPU. Returns the excess if the session must end.
    pub(crate) fn seen(&mut self, session: u64, has: u64) -> Option<Excess> {
        self.accounts.get_mut(&session)?.has = has;
        let gpu = self.accounts.get(&session)?.gpu;
        let (overhead, is_short) = (self.gpus.get(&gpu)?.overhead(), self.is_short(gpu));
        let account = self.accounts.get_mut(&session)?;
        // An honest session's own figure is right. For a dishonest one the others' median is.
        let beside = account.contexts(account.overhead.max(overhead)?.max(LEAST_OVERHEAD)).saturating_add(TOLERANCE);
        let Some(may) = account.may(is_short).map(|blocks| blocks.saturating_add(beside)).filter(|may| has > *may)
        else {
            account.over = 0;
            return None;
        };
        account.over += 1;
        (account.over >= LOOKS).then_some(Excess { has, may })
    }

    /// Whether a session on this GPU asks before it takes memory.
    pub(crate) fn asks(&self, gpu: u32, is_guaranteed: bool) -> Asks {
        match self.gpus.get(&gpu) {
            Some(its) if its.is_shared_out => Asks::OfDividedDevice,
            Some(its) if its.has_contexts && !is_guaranteed => Asks::BestEffort,
            _ => Asks::Never,
        }
    }

    /// Bytes of a GPU that neither sessions nor their contexts have.
    pub(crate) fn free(&self, gpu: u32) -> u64 {
        self.left(gpu, Account::blocks, |_, account, overhead| account.contexts(overhead))
    }

    /// Bytes of a GPU that no session has or was promised, nor may come to have beside that.
    fn unpromised(&self, gpu: u32) -> u64 {
        self.left(gpu, Account::promised, |its, account, _| its.beside(account))
    }

    /// Whether a GPU has room for a session with these bytes, and for what it takes beside them. Where nobody was promised
    /// anything, nothing is held back.
    fn has_room(&self, gpu: u32, bytes: u64, is_guaranteed: bool) -> bool {
        if !is_guaranteed && !self.has_guarantees(gpu) {
            return bytes <= self.free(gpu);
        }
        let beside = self.gpus.get(&gpu).map_or(0, |its| its.beside(&Account::default()));
        bytes.checked_add(beside).is_some_and(|all| all <= self.unpromised(gpu))
    }

    /// Bytes of a GPU that are free for a session that comes with or without a guarantee.
    pub(crate) fn free_for(&self, gpu: u32, is_guaranteed: bool) -> u64 {
        if is_guaranteed || self.has_guarantees(gpu) { self.free_for_guarantee(gpu) } else { self.free(gpu) }
    }

    /// Whether a session of this GPU has a guarantee.
    fn has_guarantees(&self, gpu: u32) -> bool {
        self.of_gpu(gpu).any(|(_, account)| account.guarantee() != 0)
    }

    /// Whether sessions have so much of a GPU that what others were promised is not there.
    fn is_short(&self, gpu: u32) -> bool {
        let held = self.held(gpu, Account::promised, |its, account, _| its.beside(account));
        self.has_guarantees(gpu) && self.gpus.get(&gpu).is_some_and(|its| held > its.free)
    }

    /// The largest quota that a session could be guaranteed on a GPU now.
    pub(crate) fn free_for_guarantee(&self, gpu: u32) -> u64 {
        let beside = self.gpus.get(&gpu).map_or(0, |its| its.beside(&Account::default()));
        self.unpromised(gpu).saturating_sub(beside)
    }

    /// The largest quota that a session could be guaranteed on a GPU if it were alone there.
    pub(crate) fn most_for_guarantee(&self, gpu: u32) -> u64 {
        self.gpus.get(&gpu).map_or(0, |its| its.free.saturating_sub(its.beside(&Account::default())))
    }

    /// Bytes of a GPU that are left of what each account counts for, and has beside that if a context takes so many bytes.
    fn left(&self, gpu: u32, bytes: fn(&Account) -> u64, beside: fn(&Gpu, &Account, u64) -> u64) -> u64 {
        self.gpus.get(&gpu).map_or(0, |its| its.free.saturating_sub(self.held(gpu, bytes, beside)))
    }

    /// Bytes of a GPU that each account counts for, and has beside that.
    fn held(&self, gpu: u32, bytes: fn(&Account) -> u64, beside: fn(&Gpu, &Account, u64) -> u64) -> u64 {
        let Some(its) = self.gpus.get(&gpu) else { return 0 };
        let overhead = its.overhead().unwrap_or(0);
        self.of_gpu(gpu).fold(0_u64, |sum, (_, account)| {
            let beside = beside(its, account, overhead);
            let held = match account.twin.and_then(|twin| self.accounts.get(&twin)) {
                Some(twin) => bytes(account).saturating_sub(bytes(twin)).saturating_add(beside),
                None => bytes(account).saturating_add(beside).max(account.has),
            };
            sum.saturating_add(held)
        })
    }

    /// Of these bytes of an account those that its twin does not hold as well.
    fn beyond_twin(&self, account: &Account, bytes: u64) -> u64 {
        let twin = account.twin.and_then(|twin| self.accounts.get(&twin));
        bytes.saturating_sub(twin.map_or(0, Account::promised))
    }

    /// Bytes that the sessions of a GPU report.
    pub(crate) fn used(&self, gpu: u32) -> u64 {
        self.of_gpu(gpu).fold(0, |sum, (_, account)| sum.saturating_add(account.used))
    }

    fn of_gpu(&self, gpu: u32) -> impl Iterator<Item = (&u64, &Account)> {
        self.accounts.iter().filter(move |(_, account)| account.gpu == gpu)
    }
}

#[cfg(test)]
mod tests;
