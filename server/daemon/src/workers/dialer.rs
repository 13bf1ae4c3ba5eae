//! Connections to other servers, for workers, which have no network.
//! In: addresses that a worker names. Out: a connected socket at the worker, on which nothing was sent, or why there is none.
//! It connects to servers that the operator has named and to nothing else: no session finds out what else listens where.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floe_transport::{Address, LinkError, Trust, connect};
use floe_worker::contract::Dial;
use floe_worker::peer_notices::{MOST_ADDRESS, PeerNotice, Refused};

use super::worker_channel::WorkerChannel;

/// The longest time to connect: less than a worker waits.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that are being made at once, for all sessions and for each.
const MOST: usize = 64;
const MOST_OF_SESSION: usize = 8;

/// Makes connections.
#[derive(Debug, Default)]
pub(crate) struct Dialer {
    named: Vec<Address>,
    /// For NCCL's connections: this server, where there is any, and those that were named.
    of_nccl: Vec<Address>,
    /// Connections that are being made, by session.
    under_way: Mutex<BTreeMap<u64, usize>>,
}

/// A connection that is being made, until this is dropped.
struct Slot {
    dialer: Arc<Dialer>,
    session: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut under_way = floe_lock::lock(&self.dialer.under_way);
        if let Some(count) = under_way.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.session);
            }
        }
    }
}

/// The place that an address leads to, whatever protects the way there.
#[derive(PartialEq, Eq)]
enum Place<'a> {
    Network(String, u16),
    Machine(&'a std::path::Path),
}

fn place(address: &Address) -> Place<'_> {
    match address {
        Address::Tcp { host, port } | Address::Clear { host, port } | Address::Tls { host, port } => {
            Place::Network(host.to_ascii_lowercase(), *port)
        }
        Address::Unix(path, _) => Place::Machine(path),
    }
}

impl Dialer {
    /// For the servers that the operator has named.
    pub(crate) fn new(named: Vec<Address>, of_nccl: Vec<Address>) -> Arc<Self> {
        Arc::new(Self { named, of_nccl, under_way: Mutex::default() })
    }

    /// Whether connections of other workers are let in: of other servers where the operator has named any, of this one
    /// for NCCL as well.
    pub(crate) fn lets_in(&self, is_of_this_machine: bool) -> bool {
        !self.named.is_empty() || self.of_nccl.len() > 1 || is_of_this_machine && !self.of_nccl.is_empty()
    }

    /// The server of this address, if it was named.
    fn named(&self, server: &str) -> Option<&Address> {
        if let Some(place) = server.strip_prefix('*') {
            return self.of_nccl.get(place.parse::<usize>().ok()?);
        }
        let wanted: Address = server.parse().ok().filter(|_| server.len() <= MOST_ADDRESS)?;
        self.named.iter().find(|named| place(named) == place(&wanted))
    }

    fn slot(self: &Arc<Self>, session: u64) -> Option<Slot> {
        let mut under_way = floe_lock::lock(&self.under_way);
        let all: usize = under_way.values().sum();
        let own = under_way.get(&session).copied().unwrap_or_default();
        if all >= MOST || own >= MOST_OF_SESSION {
            return None;
        }
        under_way.insert(session, own + 1);
        Some(Slot { dialer: Arc::clone(self), session })
    }

    /// Connects, on a thread of its own, and gives the worker what came of it.
    ///
    /// # Errors
    /// What the operator should know where nothing is dialled: an address that was not named.
    pub(crate) fn dial(self: &Arc<Self>, session: u64, dial: Dial, channel: &Arc<WorkerChannel>) -> Result<(), String> {
        let request = dial.request;
        // A worker that leaves its notices unread is ended by who finds that out next.
        let refuse = |why| _ = channel.notify(PeerNotice::NotDialed(request, why), None);
        let Some(address) = self.named(&dial.server) else {
            refuse(Refused::NotPermitted);
            // The end of the list, which a worker asks for when none has what it looks for.
            if dial.server.starts_with('*') {
                return Ok(());
            }
            let server = floe_wire::printable_within(MOST_ADDRESS, &dial.server);
            return Err(format!("it asked for a server that no --peer names: {server}"));
        };
        let Some(slot) = self.slot(session) else {
            refuse(Refused::OutOfMemory);
            return Ok(());
        };
        let (address, waiting) = (in_the_clear(address), Arc::downgrade(channel));
        let run = move || {
            let _slot = slot;
            let made = open(&address);
            // A session that has ended needs none.
            let Some(channel) = waiting.upgrade() else { return };
            let (notice, socket) = match made {
                Ok(socket) => (PeerNotice::Dialed(request), Some(socket)),
                Err(_) => (PeerNotice::NotDialed(request, Refused::Unknown), None),
            };
            channel.notify(notice, socket);
        };
        if std::thread::Builder::new().name("dial".into()).spawn(run).is_err() {
            refuse(Refused::OutOfMemory);
        }
        Ok(())
    }
}

/// The address without protection: the workers agree on that.
fn in_the_clear(address: &Address) -> Address {
    match address {
        Address::Tcp { host, port } | Address::Clear { host, port } | Address::Tls { host, port } => {
            Address::Clear { host: host.clone(), port: *port }
        }
        Address::Unix(path, wish) => Address::Unix(path.clone(), *wish),
    }
}

fn open(address: &Address) -> Result<OwnedFd, LinkError> {
    connect(address, PATIENCE, &Trust::default())?.into_parts().map(|parts| parts.socket)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn naming(addresses: &[&str]) -> Arc<Dialer> {
        Dialer::new(addresses.iter().map(|address| address.parse().unwrap()).collect(), Vec::new())
    }

    #[test]
    fn for_nccl_a_worker_names_a_place_in_the_list_and_nothing_else() {
        let all = ["unix:///run/own.sock", "gpu2"].map(|address| address.parse().unwrap());
        let dialer = Dialer::new(Vec::new(), all.to_vec());
        assert!(dialer.named("*0").is_some() && dialer.named("*1").is_some());
        for server in ["*2", "*", "*-1", "*gpu2", "gpu2", "**0"] {
            assert!(dialer.named(server).is_none(), "{server}");
        }
        assert!(dialer.lets_in(false) && dialer.lets_in(true));
        let alone = Dialer::new(Vec::new(), all[..1].to_vec());
        assert!(alone.lets_in(true) && !alone.lets_in(false), "it has named no other server");
        assert!(!naming(&[]).lets_in(true) && naming(&["gpu2"]).lets_in(false));
    }

    #[test]
    fn only_servers_that_were_named_are_connected_to_however_the_client_reaches_them() {
        let dialer = naming(&["gpu2", "tcp://gpu3:99", "unix:///run/b.sock"]);
        for server in ["gpu2", "GPU2:14833", "tls://gpu2", "clear://gpu3:99", "/run/b.sock", "shm:///run/b.sock"] {
            assert!(dialer.named(server).is_some(), "{server}");
        }
        let long = format!("gpu2{}", "x".repeat(MOST_ADDRESS));
        for server in ["gpu4", "gpu2:22", "gpu3", "/run/c.sock", "", "gpu2:x", "169.254.169.254:80", &long] {
            assert!(dialer.named(server).is_none(), "{server}");
        }
        assert!(naming(&[]).named("gpu2").is_none());
    }

    #[test]
    fn a_session_and_all_of_them_make_so_many_connections_at_once() {
        let dialer = naming(&["gpu2"]);
        let own: Vec<Slot> = (0..MOST_OF_SESSION).map(|_| dialer.slot(1).unwrap()).collect();
        assert!(dialer.slot(1).is_none());
        let others: Vec<Slot> = (2..).map_while(|session| dialer.slot(session)).collect();
        assert_eq!(own.len() + others.len(), MOST);
        drop(own);
        assert!(dialer.slot(1).is_some());
        drop(others);
        assert!(floe_lock::lock(&dialer.under_way).is_empty());
    }
}
