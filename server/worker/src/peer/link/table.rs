//! The peer links of a session, by the client's numbers, and the words that its streams wait for.
//! In: links as the client makes and drops them. Out: the same, for the issuer and for connections that come.
//! It waits for no peer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use floe_abi::CudaError;
use floe_device::Device;

use super::waits::Words;
use super::{Failed, PeerLink};
use crate::issue::apart::SharedApart;
use crate::issue::fault::{Fault, violation};
use crate::memory::budget::{Budget, cost};

/// Links of a session at once.
const MOST: usize = 256;
/// Connections at once that have proved nothing yet.
const MOST_UNKNOWN: usize = 16;

/// The links.
pub(crate) struct Links<D: Device> {
    by_id: Mutex<BTreeMap<u64, Arc<PeerLink<D>>>>,
    pub(crate) words: Arc<Words<D::Mapped>>,
    unknown: AtomicUsize,
    pub(crate) apart: Arc<SharedApart<D>>,
    pub(crate) budget: Budget,
}

impl<D: Device> Links<D> {
    pub(crate) fn new(budget: &Budget) -> Self {
        let (by_id, unknown) = (Mutex::default(), AtomicUsize::new(0));
        Self { by_id, words: Words::new(), unknown, apart: Arc::default(), budget: budget.clone() }
    }

    fn by_id(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<PeerLink<D>>>> {
        floe_lock::lock(&self.by_id)
    }

    /// A new link of so many connections.
    pub(crate) fn add(&self, device: &Arc<D>, failed: Failed, id: u64, lanes: u32) -> Result<Arc<PeerLink<D>>, Fault> {
        let mut by_id = self.by_id();
        if id == 0 || by_id.contains_key(&id) {
            return violation(format!("a peer link's id is taken: {id}"));
        }
        if !(1..=super::MOST_LANES).contains(&lanes) {
            return violation(format!("a peer link has no: {lanes} connections"));
        }
        if by_id.len() >= MOST {
            return Err(Fault::Explained(CudaError::OUT_OF_MEMORY, format!("more peer links than: {MOST}")));
        }
        let link = PeerLink::new(device, &self.apart, failed, lanes, self.budget.keep(cost::PEER_LINK)?);
        by_id.insert(id, Arc::clone(&link));
        Ok(link)
    }

    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        !self.by_id().is_empty()
    }

    /// The link of a number.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<PeerLink<D>>> {
        self.by_id().get(&id).cloned()
    }

    /// Takes a link out.
    pub(crate) fn remove(&self, id: u64) -> Option<Arc<PeerLink<D>>> {
        self.by_id().remove(&id)
    }

    /// Ends all links and takes them out, with their numbers.
    pub(crate) fn end_all(&self, why: &str) -> Vec<(u64, Arc<PeerLink<D>>)> {
        let all: Vec<_> = std::mem::take(&mut *self.by_id()).into_iter().collect();
        all.iter().for_each(|(_, link)| link.end(why));
        all
    }

    /// A connection has come that has proved nothing. False: there are enough of them.
    pub(super) fn begin_unknown(&self) -> bool {
        let more = |count| (count < MOST_UNKNOWN).then_some(count + 1);
        self.unknown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// It has proved something, or gone.
    pub(super) fn end_unknown(&self) {
        self.unknown.fetch_sub(1, Ordering::Relaxed);
    }
}
