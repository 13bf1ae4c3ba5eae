//! The account: the memory of all GPUs, by session.
//! In: GPUs, sessions with their quotas, reports and requests of workers, measured bytes of processes, ends. Out: free
//! bytes, a session's allowance, and the sessions above theirs. It is pure: it asks nobody and has no clock.

use std::collections::{BTreeMap, VecDeque};

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

/// A GPU.
#[derive(Debug, Default)]
struct Gpu {
    /// Free bytes before the first session.
    free: u64,
    /// Whether the daemon divides its memory among sessions, since no driver does.
    is_shared_out: bool,
    /// Measured sizes of contexts, one per session.
    overheads: VecDeque<u64>,
}

impl Gpu {
    /// The size of a context: the median, which no single session moves far. `None` before the first measurement.
    fn overhead(&self) -> Option<u64> {
        let mut sorted: Vec<_> = self.overheads.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

/// A session's account.
#[derive(Debug, Default)]
struct Account {
    gpu: u32,
    /// Its quota in bytes; 0: all of the GPU.
    quota: u64,
    /// Bytes that its worker reports.
    used: u64,
    /// Bytes that it was granted, if the daemon divides the memory.
    granted: u64,
    /// Measured bytes of its process, including its context.
    has: u64,
    /// The size of its context, when its worker first reported it.
    overhead: Option<u64>,
    /// Whether it may have links to other servers, whose copies have a context of their own.
    has_links: bool,
    /// Looks in a row that found it above its allowance.
    over: u32,
}

impl Account {
    /// Bytes of its contexts, of which each takes these.
    fn contexts(&self, overhead: u64) -> u64 {
        overhead.saturating_mul(1 + u64::from(self.has_links))
    }

    /// Bytes that no other session may have, if a context takes `overhead`.
    fn held(&self, overhead: u64) -> u64 {
        self.used.max(self.granted).saturating_add(self.contexts(overhead)).max(self.has)
    }
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
pub(crate) struct Accounting {
    gpus: BTreeMap<u32, Gpu>,
    accounts: BTreeMap<u64, Account>,
}

impl Accounting {
    /// Adds an offered GPU with `free` bytes.
    pub(crate) fn offer(&mut self, gpu: u32, free: u64, is_shared_out: bool) {
        self.gpus.insert(gpu, Gpu { free, is_shared_out, overheads: VecDeque::new() });
    }

    /// Adds a session; `quota` 0: all of the GPU.
    pub(crate) fn begin(&mut self, session: u64, gpu: u32, quota: u64) {
        self.accounts.insert(session, Account { gpu, quota, ..Account::default() });
    }

    /// Removes a session, whose memory is free again.
    pub(crate) fn end(&mut self, session: u64) {
        self.accounts.remove(&session);
    }

    /// A worker reports its bytes. Returns the bytes that the daemon believes: no more than its quota and its GPU's
    /// memory.
    pub(crate) fn uses(&mut self, session: u64, bytes: u64) -> u64 {
        let Some(account) = self.accounts.get_mut(&session) else { return 0 };
        let capacity = self.gpus.get(&account.gpu).map_or(u64::MAX, |gpu| gpu.free);
        let quota = if account.quota == 0 { u64::MAX } else { account.quota };
        account.used = bytes.min(quota).min(capacity);
        account.used
    }

    /// A session asks for `total` bytes in all. It gets them if they are free and its quota allows it.
    pub(crate) fn want(&mut self, session: u64, total: u64) -> Share {
        let Some(account) = self.accounts.get(&session) else { return Share { total: 0, left: 0 } };
        let (gpu, quota, before) = (account.gpu, account.quota, account.granted);
        let capacity = self.gpus.get(&gpu).map_or(0, |gpu| gpu.free);
        let others = self.of_gpu(gpu).filter(|(id, _)| **id != session);
        let others = others.fold(0_u64, |sum, (_, account)| sum.saturating_add(account.granted));
        let most = capacity.saturating_sub(others);
        let allowed = total <= most && (quota == 0 || total <= quota);
        let granted = if allowed { total } else { before };
        if let Some(account) = self.accounts.get_mut(&session) {
            account.granted = granted;
        }
        Share { total: granted, left: most.saturating_sub(granted) }
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
        if gpu.overheads.len() == FIGURES {
            gpu.overheads.pop_front();
        }
        gpu.overheads.push_back(bytes);
    }

    /// A session gets a connection to another server.
    pub(crate) fn links(&mut self, session: u64) {
        if let Some(account) = self.accounts.get_mut(&session) {
            account.has_links = true;
        }
    }

    /// A look found these bytes of a session's process on the GPU. Returns the excess if the session must end.
    pub(crate) fn seen(&mut self, session: u64, has: u64) -> Option<Excess> {
        let account = self.accounts.get_mut(&session)?;
        account.has = has;
        // An honest session's own figure is right. For a dishonest one the others' median is.
        let overhead = account.overhead.max(self.gpus.get(&account.gpu)?.overhead())?.max(LEAST_OVERHEAD);
        let may = account.quota.saturating_add(account.contexts(overhead)).saturating_add(TOLERANCE);
        if account.quota == 0 || has <= may {
            account.over = 0;
            return None;
        }
        account.over += 1;
        (account.over >= LOOKS).then_some(Excess { has, may })
    }

    /// Whether the daemon divides this GPU's memory.
    pub(crate) fn is_shared_out(&self, gpu: u32) -> bool {
        self.gpus.get(&gpu).is_some_and(|gpu| gpu.is_shared_out)
    }

    /// Bytes of a GPU that neither sessions nor their contexts have.
    pub(crate) fn free(&self, gpu: u32) -> u64 {
        let Some(its) = self.gpus.get(&gpu) else { return 0 };
        let overhead = its.overhead().unwrap_or(0);
        let held = self.of_gpu(gpu).fold(0_u64, |sum, (_, account)| sum.saturating_add(account.held(overhead)));
        its.free.saturating_sub(held)
    }

    /// Bytes that the sessions of a GPU report.
    #[cfg(test)]
    pub(crate) fn used(&self, gpu: u32) -> u64 {
        self.of_gpu(gpu).fold(0, |sum, (_, account)| sum.saturating_add(account.used))
    }

    fn of_gpu(&self, gpu: u32) -> impl Iterator<Item = (&u64, &Account)> {
        self.accounts.iter().filter(move |(_, account)| account.gpu == gpu)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn one_gpu(is_shared_out: bool) -> Accounting {
        let mut accounting = Accounting::default();
        accounting.offer(0, 10 * GIB, is_shared_out);
        accounting
    }

    #[test]
    fn four_sessions_that_want_all_get_what_is_left_and_no_more() {
        let mut accounting = one_gpu(true);
        for session in 1..=4 {
            accounting.begin(session, 0, 0);
        }
        let shares: Vec<_> = (1..=4).map(|session| accounting.want(session, 4 * GIB).total).collect();
        assert_eq!(shares, [4 * GIB, 4 * GIB, 0, 0]);
        assert_eq!(accounting.want(3, 2 * GIB), Share { total: 2 * GIB, left: 0 });
        accounting.end(1);
        assert_eq!(accounting.want(4, 5 * GIB), Share { total: 0, left: 4 * GIB });
        accounting.keep(2, GIB);
        assert_eq!(accounting.want(4, 7 * GIB), Share { total: 7 * GIB, left: 0 });
        assert_eq!(accounting.free(0), 0);
    }

    #[test]
    fn a_context_takes_what_the_one_in_the_middle_was_seen_to_take() {
        let mut accounting = one_gpu(false);
        for session in 1..=4 {
            accounting.begin(session, 0, GIB);
        }
        assert_eq!(accounting.free(0), 10 * GIB);
        for (session, bytes) in [(1, 3 * GIB), (1, GIB), (2, GIB / 2), (3, 1), (2, 2), (4, GIB / 2)] {
            accounting.measured(session, bytes);
        }
        (3..=4).for_each(|session| accounting.end(session));
        accounting.uses(1, GIB);
        assert_eq!(accounting.free(0), 8 * GIB);
        accounting.seen(2, 2 * GIB);
        assert_eq!(accounting.free(0), 6 * GIB + GIB / 2, "it has more than it says");
    }

    #[test]
    fn no_worker_lowers_what_others_are_allowed_for_their_contexts() {
        let mut accounting = one_gpu(false);
        accounting.begin(1, 0, GIB);
        accounting.measured(1, GIB);
        for liar in 2..=20 {
            accounting.begin(liar, 0, GIB);
            (0..9).for_each(|_| accounting.measured(liar, 1));
        }
        let may = 2 * GIB + TOLERANCE;
        assert!((0..3).all(|_| accounting.seen(1, may).is_none()), "its own figure stays");
        accounting.begin(21, 0, GIB);
        let least = GIB + LEAST_OVERHEAD + TOLERANCE;
        assert!((0..3).all(|_| accounting.seen(21, least).is_none()), "it has none yet");
        assert_eq!((0..2).filter_map(|_| accounting.seen(2, least + 1)).count(), 1, "an early figure buys nothing");
    }

    #[test]
    fn a_session_has_no_more_than_its_quota_and_its_gpu_whatever_it_says() {
        let mut accounting = one_gpu(false);
        accounting.begin(1, 0, GIB);
        accounting.begin(2, 0, 0);
        assert_eq!(accounting.uses(1, u64::MAX), GIB);
        assert_eq!(accounting.free(0), 9 * GIB);
        assert_eq!(accounting.uses(2, u64::MAX), 10 * GIB);
    }

    #[test]
    fn a_session_that_has_more_than_its_quota_its_context_and_the_tolerance_ends_at_the_second_look() {
        let mut accounting = one_gpu(false);
        accounting.begin(1, 0, GIB);
        accounting.begin(2, 0, 0);
        let may = GIB + GIB / 2 + TOLERANCE;
        assert_eq!(accounting.seen(1, 9 * GIB), None, "what a context takes is not known");
        accounting.measured(1, GIB / 2);
        assert_eq!(accounting.seen(1, may + 1), None);
        assert_eq!(accounting.seen(1, may), None, "it gave back what it had for a moment");
        assert_eq!(accounting.seen(1, may + 1), None);
        assert_eq!(accounting.seen(1, may + 2), Some(Excess { has: may + 2, may }));
        assert!((0..3).all(|_| accounting.seen(2, 9 * GIB).is_none()), "it has no quota");
    }

    #[test]
    fn a_session_with_links_may_have_a_further_context() {
        let mut accounting = one_gpu(false);
        accounting.begin(1, 0, GIB);
        accounting.measured(1, GIB / 2);
        accounting.links(1);
        let may = 2 * GIB + TOLERANCE;
        assert!((0..3).all(|_| accounting.seen(1, may).is_none()));
        assert_eq!(accounting.seen(1, may + 1), None);
        assert_eq!(accounting.seen(1, may + 1), Some(Excess { has: may + 1, may }));
    }

    #[derive(Debug, Clone)]
    enum Event {
        Begin(u64, u32, u64),
        End(u64),
        Uses(u64, u64),
        Want(u64, u64),
        Keep(u64, u64),
        Measured(u64, u64),
        Seen(u64, u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        let (session, gpu) = (0..6_u64, 0..3_u32);
        let bytes = prop_oneof![0..20 * GIB, Just(u64::MAX), Just(0)];
        prop_oneof![
            (session.clone(), gpu.clone(), bytes.clone()).prop_map(|(id, gpu, quota)| Event::Begin(id, gpu, quota)),
            session.clone().prop_map(Event::End),
            (session.clone(), bytes.clone()).prop_map(|(id, bytes)| Event::Uses(id, bytes)),
            (session.clone(), bytes.clone()).prop_map(|(id, bytes)| Event::Want(id, bytes)),
            (session.clone(), bytes.clone()).prop_map(|(id, bytes)| Event::Keep(id, bytes)),
            (session.clone(), bytes.clone()).prop_map(|(id, bytes)| Event::Measured(id, bytes)),
            (session, bytes).prop_map(|(id, bytes)| Event::Seen(id, bytes)),
        ]
    }

    fn apply(accounting: &mut Accounting, event: &Event) {
        match *event {
            Event::Begin(session, gpu, quota) => accounting.begin(session, gpu, quota),
            Event::End(session) => accounting.end(session),
            Event::Uses(session, bytes) => {
                let believed = accounting.uses(session, bytes);
                assert!(believed <= bytes);
            }
            Event::Want(session, bytes) => {
                let share = accounting.want(session, bytes);
                let account = accounting.accounts.get(&session);
                assert_eq!(share.total, account.map_or(0, |account| account.granted));
                assert!(account.is_none_or(|account| account.quota == 0 || account.granted <= account.quota));
            }
            Event::Keep(session, bytes) => accounting.keep(session, bytes),
            Event::Measured(session, bytes) => accounting.measured(session, bytes),
            Event::Seen(session, bytes) => {
                let excess = accounting.seen(session, bytes);
                assert!(excess.is_none_or(|excess| excess.has > excess.may));
            }
        }
    }

    proptest! {
        #[test]
        fn grants_never_exceed_the_device_and_everything_ends_with_its_session(
            events in prop::collection::vec(event(), 0..80)
        ) {
            let mut accounting = Accounting::default();
            for gpu in 0..2 {
                accounting.offer(gpu, 10 * GIB, true);
            }
            for event in &events {
                apply(&mut accounting, event);
                for gpu in 0..3 {
                    let granted = accounting.of_gpu(gpu).map(|(_, account)| account.granted).sum::<u64>();
                    let capacity = if gpu < 2 { 10 * GIB } else { 0 };
                    prop_assert!(granted <= capacity);
                    prop_assert!(accounting.free(gpu) <= capacity - granted);
                    prop_assert!(accounting.used(gpu) == accounting.of_gpu(gpu).fold(0, |sum: u64, (_, account)| sum.saturating_add(account.used)));
                }
            }
            for session in 0..6 {
                accounting.end(session);
            }
            prop_assert!((0..2).all(|gpu| accounting.free(gpu) == 10 * GIB && accounting.used(gpu) == 0));
        }
    }
}
