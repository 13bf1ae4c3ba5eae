//! What the program's profiler wants recorded, and CUPTI, which records it.
//! In: kinds, commands as they begin and end. Out: leave to record, within the session's host memory; activities, when asked.
//! While nothing is wanted a command costs one look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use floe_abi::CudaError;
use floe_device::cupti::{Activity, Cupti, CuptiError, MOST_BYTES, wanted};

use crate::issue::fault::{Fault, violation};
use crate::memory::budget::{Budget, Kept};

/// Bytes of host memory that recording costs: the buffers of records, and as much again for NVIDIA's CUPTI.
const COST: u64 = 2 * MOST_BYTES;

/// The recording of a session.
pub(crate) struct Recording {
    cupti: Option<Result<Arc<Cupti>, String>>,
    on: AtomicBool,
    /// What is left is being taken.
    ends: AtomicBool,
    /// What it costs, from its start until all was taken.
    kept: Mutex<Option<Kept>>,
    budget: Budget,
}

/// A command whose work is recorded, until this is dropped.
pub(crate) struct Recorded(Arc<Cupti>);

impl Drop for Recorded {
    fn drop(&mut self) {
        self.0.end_command();
    }
}

fn failed(error: CuptiError) -> Fault {
    Fault::Explained(CudaError::NOT_SUPPORTED, error.to_string())
}

impl Recording {
    /// Of a server that has this CUPTI, or could not load it, or has none.
    pub(crate) fn new(cupti: Option<Result<Arc<Cupti>, String>>, budget: &Budget) -> Self {
        Self {
            cupti,
            on: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            kept: Mutex::new(None),
            budget: budget.clone(),
        }
    }

    fn found(&self) -> Result<&Arc<Cupti>, String> {
        match &self.cupti {
            Some(Ok(cupti)) => Ok(cupti),
            Some(Err(words)) => Err(format!("this server has no CUPTI that can be used: {words}")),
            None => Err("this server has no CUPTI: floe serve --cupti PATH".to_owned()),
        }
    }

    fn cupti(&self) -> Result<&Cupti, Fault> {
        self.found().map(AsRef::as_ref).map_err(|words| Fault::Explained(CudaError::NOT_SUPPORTED, words))
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        floe_lock::lock(&self.kept)
    }

    /// Records these kinds; CUPTI's version.
    pub(crate) fn start(&self, kinds: u32) -> Result<u32, Fault> {
        if kinds == 0 || kinds & !wanted::ALL != 0 {
            return violation(format!("not kinds of activities: {kinds:#x}"));
        }
        let cupti = self.cupti()?;
        let mut kept = self.kept();
        let new = if kept.is_none() { Some(self.budget.keep(COST)?) } else { None };
        cupti.record(kinds).map_err(failed)?;
        *kept = kept.take().or(new);
        self.ends.store(false, Ordering::Release);
        self.on.store(true, Ordering::Release);
        Ok(cupti.version())
    }

    /// Records nothing more. CUPTI is not touched where nothing was recorded: a session that never pays for it would have it set
    /// up.
    pub(crate) fn stop(&self) -> Result<(), Fault> {
        let cupti = self.cupti()?;
        self.on.store(false, Ordering::Release);
        let kept = self.kept();
        if kept.is_none() { Ok(()) } else { cupti.record(0).map_err(failed) }
    }

    /// Where nothing more is recorded, what is left is taken now.
    pub(crate) fn end(&self) {
        self.ends.store(!self.on.load(Ordering::Acquire), Ordering::Release);
    }

    /// All was taken. Where that was the rest, it costs nothing any more.
    pub(crate) fn taken(&self, cupti: &Cupti) {
        if self.ends.swap(false, Ordering::AcqRel) {
            cupti.forget();
            *self.kept() = None;
        }
    }

    /// CUPTI, of a session that has started it.
    pub(crate) fn started(&self) -> Result<&Cupti, Fault> {
        let cupti = self.cupti()?;
        if self.is_on() {
            return Ok(cupti);
        }
        Err(Fault::Explained(CudaError::INVALID_VALUE, "nothing was recorded".to_owned()))
    }

    /// Whether it records, or has records that were not taken.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire) || self.kept().is_some()
    }

    /// What this thread does is for this command.
    pub(crate) fn begin_command(&self, sequence: u64) -> Option<Recorded> {
        if !self.on.load(Ordering::Relaxed) {
            return None;
        }
        let cupti = self.found().ok()?;
        cupti.begin_command(sequence);
        Some(Recorded(Arc::clone(cupti)))
    }

    /// CUPTI's clock, in nanoseconds; or words that say why there is none.
    pub(crate) fn now(&self) -> Result<u64, String> {
        let cupti = self.found()?;
        if !self.is_on() {
            return Err("nothing is recorded".to_owned());
        }
        cupti.now().map_err(|error| error.to_string())
    }

    /// Activities, as they are taken one after the other.
    pub(crate) fn each(cupti: &Cupti) -> impl Iterator<Item = Activity> {
        std::iter::from_fn(|| cupti.next())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn a_session_without_cupti_records_nothing_and_says_why() {
        let budget = Budget::new(1 << 30);
        let none = Recording::new(None, &budget);
        let Err(Fault::Explained(CudaError::NOT_SUPPORTED, words)) = none.start(wanted::ALL) else {
            panic!("it has none")
        };
        assert!(words.contains("floe serve --cupti PATH"), "{words}");
        let broken = Recording::new(Some(Err("is no CUPTI".to_owned())), &budget);
        assert!(broken.now().unwrap_err().contains("is no CUPTI"));
        assert!(broken.begin_command(1).is_none() && !broken.is_on());
        assert!(matches!(broken.started(), Err(Fault::Explained(CudaError::NOT_SUPPORTED, _))));
        assert_eq!(budget.kept(), 0);
        assert!(matches!(none.start(8), Err(Fault::ProtocolViolation(_))), "a bit that means nothing");
        assert!(matches!(none.start(0), Err(Fault::ProtocolViolation(_))));
    }
}
