//! Ends sessions whose time is over, by their own word or by the policy, and those whose token was revoked.
//! In: the table, the rights that each user has now, the list of tokens. Out: ends, each with its reason in the log. It looks each second.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use floe_transport::TokenNumber;
use floe_users::{Name, Rights};

use crate::error::DaemonError;
use crate::server::Server;

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);

/// Looks until the server ends.
pub(crate) fn start(server: &Arc<Server>) -> Result<(), DaemonError> {
    let server = Arc::downgrade(server);
    let look = std::thread::Builder::new().name("warden".into()).spawn(move || look(&server));
    look.map(drop).map_err(DaemonError::system("cannot start the thread that ends sessions"))
}

fn look(server: &Weak<Server>) {
    loop {
        std::thread::sleep(EVERY);
        let Some(server) = server.upgrade() else { return };
        let sessions = server.sessions().of_users(Instant::now());
        let over = server.sessions().over_their_time(Instant::now());
        for (session, time) in over {
            server.sessions().end(session, format!("its time of {} seconds is over (--time)", time.as_secs_f64()));
        }
        for session in revoked(&server) {
            server.sessions().end(session, "its user's token was revoked".to_owned());
        }
        for (session, why) in due(&sessions, |name| server.users.rights(name)) {
            server.sessions().end(session, why);
        }
        server.groups.iter().for_each(|groups| groups.tidy());
    }
}

/// The sessions whose token is nobody's any more, by the list as it is now.
fn revoked(server: &Server) -> Vec<u64> {
    server.user_tokens.look();
    let sessions = server.sessions().by_token();
    let is_nobodys = |(_, number): &(u64, TokenNumber)| server.user_tokens.holder(*number).is_none();
    sessions.into_iter().filter(is_nobodys).map(|(session, _)| session).collect()
}

/// The sessions that have lived for too long, with the reason. A name that has no place in the policy any more has no time
/// limit: its sessions were admitted.
fn due(sessions: &[(u64, Name, Duration)], rights: impl Fn(Name) -> Option<Rights>) -> Vec<(u64, String)> {
    let is_over = |&(session, name, age): &(u64, Name, Duration)| {
        let time = rights(name)?.time.filter(|time| age >= *time)?;
        Some((session, format!("the policy gives a session of {name} {} seconds", time.as_secs_f64())))
    };
    sessions.iter().filter_map(is_over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_when_its_users_time_is_over_and_no_other_does() {
        let name = |text| Name::new(text).expect("a name");
        let time = |seconds| Rights { time: seconds, ..Rights::OF_NO_POLICY };
        let rights = |of: Name| match of.text() {
            "alice" => Some(time(Some(Duration::from_secs(5)))),
            "bob" => Some(time(None)),
            _ => None,
        };
        let age = Duration::from_millis;
        let sessions = [
            (1, name("alice"), age(4_999)),
            (2, name("alice"), age(5_000)),
            (3, name("bob"), age(u64::MAX / 2)),
            (4, name("gone"), age(u64::MAX / 2)),
        ];
        let ended = due(&sessions, rights);
        assert_eq!(ended, [(2, "the policy gives a session of alice 5 seconds".to_owned())]);
    }
}
