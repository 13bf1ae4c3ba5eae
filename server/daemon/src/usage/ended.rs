//! Why sessions ended that the daemon ended, for clients that come back to them.
//! In: the end of each, with its key. Out: the reason, to whoever shows the key.
//! It remembers the latest ones. A client that was away, or whose worker was killed, hears the reason from here.

use std::collections::VecDeque;

use subtle::ConstantTimeEq as _;

use super::door::Key;

/// The most ends that are remembered: a client comes back within seconds.
const MOST: usize = 256;

/// What a client is told of its session's end.
pub(crate) fn told(session: u64, why: &str) -> String {
    format!("session {session} was ended: {why}")
}

/// Sessions that the daemon has ended.
#[derive(Debug, Default)]
pub(crate) struct Ended(VecDeque<(u64, Key, String)>);

impl Ended {
    /// This session was ended for this reason.
    pub(crate) fn note(&mut self, session: u64, key: Key, why: String) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((session, key, why));
    }

    /// What a client with this key is told of this session's end.
    pub(crate) fn told(&self, session: u64, key: &[u8]) -> Option<String> {
        let (_, own, why) = self.0.iter().find(|(number, ..)| *number == session)?;
        bool::from(own.as_slice().ct_eq(key)).then(|| told(session, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_for_who_shows_the_key_and_the_latest_are_remembered() {
        let mut ended = Ended::default();
        for session in 0..=MOST as u64 {
            ended.note(session, [7; 16], "ended by alice".into());
        }
        assert_eq!(ended.told(0, &[7; 16]), None, "the oldest is forgotten");
        assert_eq!(ended.told(1, &[7; 16]).as_deref(), Some("session 1 was ended: ended by alice"));
        for key in [&[6; 16][..], &[7; 15], &[]] {
            assert_eq!(ended.told(1, key), None);
        }
    }
}
