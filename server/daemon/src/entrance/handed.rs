//! Sockets that systemd holds and hands over at the start, as sd_listen_fds(3) has it: programs can connect before the daemon
//! is ready and while it restarts.
//! In: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES, and the descriptors from 3 on. Out: listeners in the place of those that the
//! settings name. A descriptor that nobody could connect to is refused by number and name.
//! It binds nothing, and removes no socket's file: they are systemd's.

use std::net::TcpListener;

use floe_transport::{Address, Listener};
use listenfd::ListenFd;
use rustix::net::{ipproto, sockopt};

use crate::error::DaemonError;

/// The first descriptor that is handed over.
const FIRST: usize = 3;
/// The variable by which the crate begins elsewhere.
const ELSEWHERE: &str = "LISTEN_FDS_FIRST_FD";
/// The most of them.
const MOST: usize = 64;
/// The name (`FileDescriptorName=`) of the one for figures.
const METRICS: &str = "metrics";
/// What sd_listen_fds_with_names(3) calls those without a name.
const UNNAMED: &str = "unknown";

/// What systemd has handed over.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    listeners: Vec<Listener>,
    metrics: Option<TcpListener>,
}

impl Handed {
    /// Takes what this process was started with. Nothing else of it may have a descriptor yet, or run a second thread.
    ///
    /// # Errors
    /// [`DaemonError::Handed`] for what is no listening socket, and for variables that contradict each other.
    pub(crate) fn take() -> Result<Self, DaemonError> {
        let variable = |name| std::env::var(name).ok();
        // They may be meant for a process that has started this one.
        let own = std::process::id().to_string();
        let Some(count) = variable("LISTEN_FDS").filter(|_| variable("LISTEN_PID") == Some(own)) else {
            return Ok(Self::default());
        };
        let names = names(&count, variable("LISTEN_FDNAMES").as_deref())?;
        // The crate would take others than those from 3 on. sd_listen_fds(3) has no such variable.
        if let Some(first) = std::env::var_os(ELSEWHERE) {
            let what = format!("{ELSEWHERE}={}", first.display());
            return Err(DaemonError::Handed { what, reason: "descriptors are those from 3 on" });
        }
        // It takes the variables away, too: children are not to look.
        let mut descriptors = ListenFd::from_env();
        let mut handed = Self::default();
        for (index, name) in names.iter().enumerate() {
            let taken = handed.add(&mut descriptors, index, name);
            let what = || format!("descriptor {} ({name})", FIRST + index);
            taken.map_err(|reason| DaemonError::Handed { what: what(), reason })?;
        }
        Ok(handed)
    }

    /// Adds one, or says why not.
    fn add(&mut self, descriptors: &mut ListenFd, index: usize, name: &str) -> Result<(), &'static str> {
        if name == METRICS {
            let listener = tcp(descriptors, index)?.ok_or("figures need a TCP socket")?;
            return match self.metrics.replace(listener) {
                Some(_) => Err("figures have a socket already"),
                None => Ok(()),
            };
        }
        let listener = match descriptors.take_unix_listener(index) {
            Ok(Some(listener)) if !sockopt::socket_acceptconn(&listener).unwrap_or(false) => return Err(CONNECTED),
            Ok(Some(listener)) => Listener::of_unix(listener).map_err(|_| "a Unix socket without a path"),
            _ => {
                let listener = tcp(descriptors, index)?.ok_or("neither a Unix stream socket nor a TCP socket")?;
                Listener::of_tcp(listener).map_err(|_| "a TCP socket without an address")
            }
        };
        self.listeners.push(listener?);
        Ok(())
    }

    /// The addresses of the TCP listeners.
    pub(crate) fn tcp(&self) -> Vec<Address> {
        let addresses = self.listeners.iter().map(Listener::address);
        addresses.filter(|address| matches!(address, Address::Tcp { .. })).cloned().collect()
    }

    /// Whether there is a Unix listener.
    pub(crate) fn has_unix(&self) -> bool {
        self.listeners.iter().any(|listener| matches!(listener.address(), Address::Unix(..)))
    }

    /// Whether there is a listener for figures.
    pub(crate) fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// The listeners for clients, and the one for figures.
    pub(crate) fn into_listeners(self) -> (Vec<Listener>, Option<TcpListener>) {
        (self.listeners, self.metrics)
    }
}

const CONNECTED: &str = "it does not listen";

/// The TCP listener of this index. `None`: it is something else, and stays.
fn tcp(descriptors: &mut ListenFd, index: usize) -> Result<Option<TcpListener>, &'static str> {
    let Ok(Some(listener)) = descriptors.take_tcp_listener(index) else { return Ok(None) };
    let protocol = sockopt::socket_protocol(&listener).ok().flatten();
    if !matches!(protocol, Some(ipproto::TCP | ipproto::MPTCP)) {
        return Err("its protocol is not TCP");
    }
    if sockopt::socket_acceptconn(&listener).unwrap_or(false) { Ok(Some(listener)) } else { Err(CONNECTED) }
}

/// The descriptors' names, by the two variables.
fn names(count: &str, names: Option<&str>) -> Result<Vec<String>, DaemonError> {
    let wrong = |reason| DaemonError::Handed { what: format!("LISTEN_FDS={count}"), reason };
    let count = count.parse().ok().filter(|count| *count <= MOST);
    let count = count.ok_or_else(|| wrong("no number of descriptors from 0 to 64"))?;
    let Some(names) = names else { return Ok(vec![UNNAMED.to_owned(); count]) };
    let names: Vec<String> = names.split(':').filter(|_| count > 0).map(str::to_owned).collect();
    if names.len() == count { Ok(names) } else { Err(wrong("LISTEN_FDNAMES has another number of names")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(count: &str, given: Option<&str>) -> Result<Vec<String>, String> {
        names(count, given).map_err(|error| error.to_string())
    }

    #[test]
    fn each_descriptor_has_a_name_or_is_unknown() {
        assert_eq!(told("2", Some("floed.socket:metrics")), Ok(vec!["floed.socket".to_owned(), "metrics".to_owned()]));
        assert_eq!(told("2", None), Ok(vec!["unknown".to_owned(); 2]));
        assert_eq!(told("0", Some("")), Ok(Vec::new()));
    }

    #[test]
    fn numbers_that_contradict_each_other_or_are_none_are_refused() {
        let wrong = |count, given| told(count, given).expect_err("refused");
        for count in ["", "-1", "x", "65", "99999999999999999999"] {
            let said = wrong(count, None);
            assert!(said.contains(&format!("over: LISTEN_FDS={count}: no number of descriptors")), "{said}");
        }
        for (count, names) in [("1", "a:b"), ("2", "a"), ("2", "")] {
            let said = wrong(count, Some(names));
            assert!(said.contains(&format!("over: LISTEN_FDS={count}: LISTEN_FDNAMES has another number")), "{said}");
        }
    }
}
