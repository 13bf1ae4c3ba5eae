//! Names of users. In: texts of files, accounts and tokens. Out: names that are safe in logs, tables and messages.
//! A name is kept once and for ever, so that it can be copied: there are as many as users that the operator admits.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use serde::{Deserialize, Deserializer};

/// The most characters of a name.
const MOST: usize = 64;
/// What tables and the audit log call who holds the server's own token. No user has this name.
const OPERATOR: &str = "operator";

/// A user's name: 1 to 64 ASCII letters, digits, `.`, `_`, `-` or `@`, of which the first is a letter or digit. `operator` is
/// nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(&'static str);

/// A text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a user's name: {0:?}; a name has 1 to 64 letters, digits, . _ - or @, begins with a letter or digit, and is not operator"
)]
pub struct NotAName(String);

/// All names so far.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl Name {
    /// The name of this text.
    ///
    /// # Errors
    /// [`NotAName`].
    pub fn new(text: &str) -> Result<Self, NotAName> {
        let is_in_one = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if text == OPERATOR || !begins || text.len() > MOST || !text.bytes().all(is_in_one) {
            return Err(NotAName(text.chars().take(MOST).collect()));
        }
        let mut names = floe_lock::lock(&NAMES);
        if let Some(known) = names.get(text) {
            return Ok(Self(known));
        }
        let kept: &'static str = Box::leak(text.into());
        names.insert(kept);
        Ok(Self(kept))
    }

    /// Its text.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_draw_hide_or_be_empty() {
        for good in ["alice", "a", "0day", "a.b_c-d@example.org", &"x".repeat(64)] {
            assert_eq!(Name::new(good).map(Name::text), Ok(good));
        }
        for wrong in
            ["", "operator", ".", "-rf", "@a", "a b", "a\n", "ä", "a/b", "\u{1b}[2J", "a\u{202e}", &"x".repeat(65)]
        {
            assert!(Name::new(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_name_is_kept_once() {
        let (first, second) = (Name::new("kept-once"), Name::new(&String::from("kept-once")));
        let (first, second) = (first.expect("a name").text(), second.expect("a name").text());
        assert!(std::ptr::eq(first, second));
    }
}
