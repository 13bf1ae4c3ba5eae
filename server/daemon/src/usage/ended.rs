//! Why sessions ended that the daemon ended, for clients that come back to them.
//! In: the end of each, with its key. Out: the reason, to whoever shows the key.
//! It remembers the latest ones. A client that was away, or whose worker was killed, hears the reason from here.

use std::collections::VecDeque;

use subtle::ConstantTimeEq as _;

use super::door::Key;
use crate::entrance::limits::Source;

/// The most ends of one peer's sessions that are remembered, and of all: a client comes back within seconds.
const MOST_OF_ONE: usize = 32;
const MOST: usize = 1024;

/// What a client is told of its session's end.
pub(crate) fn told(session: u64, why: &str) -> String {
    format!("session {session} was ended: {why}")
}

/// A session that the daemon has ended.
#[derive(Debug)]
struct End {
    whose: Option<Source>,
    session: u64,
    key: Key,
    why: String,
}

/// Sessions that the daemon has ended, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Ended(VecDeque<End>);

impl Ended {
    /// This session was ended for this reason. Its peer's oldest one is forgotten ahead of others'.
    pub(crate) fn note(&mut self, whose: Option<Source>, session: u64, key: Key, why: String) {
        let is_its = |end: &End| end.whose == whose;
        if self.0.iter().filter(|end| is_its(end)).count() >= MOST_OF_ONE
            && let Some(oldest) = self.0.iter().position(is_its)
        {
            self.0.remove(oldest);
        } else if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(End { whose, session, key, why });
    }

    /// What a client with this key is told of this session's end.
    pub(crate) fn told(&self, session: u64, key: &[u8]) -> Option<String> {
        let end = self.0.iter().find(|end| end.session == session)?;
        bool::from(end.key.as_slice().ct_eq(key)).then(|| told(session, &end.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_for_who_shows_the_key_and_no_peer_has_anothers_forgotten() {
        let mut ended = Ended::default();
        let note = |ended: &mut Ended, whose, session| ended.note(whose, session, [7; 16], "ended by alice".into());
        note(&mut ended, Some(Source::User(1)), 9999);
        for session in 0..=MOST_OF_ONE as u64 {
            note(&mut ended, Some(Source::User(2)), session);
        }
        assert_eq!(ended.told(0, &[7; 16]), None, "its own oldest is forgotten");
        assert_eq!(ended.told(1, &[7; 16]).as_deref(), Some("session 1 was ended: ended by alice"));
        assert!(ended.told(9999, &[7; 16]).is_some());
        for key in [&[6; 16][..], &[7; 15], &[]] {
            assert_eq!(ended.told(1, key), None);
        }
        for session in (100..).take(MOST) {
            note(&mut ended, Some(Source::User(session)), u64::from(session));
        }
        assert_eq!((ended.0.len(), ended.told(9999, &[7; 16])), (MOST, None), "all together are bounded");
    }
}
