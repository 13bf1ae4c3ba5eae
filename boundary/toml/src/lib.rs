//! TOML files that people write: the client's settings and the daemon's, which may stand in one file.
//! In: a file's text. Out: its values, or the line that is wrong, in what, and what was expected there.
//! It opens no file and has no opinion on values.
#![forbid(unsafe_code)]

use std::fmt;

use serde::de::DeserializeOwned;

/// An error in a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// The problem there.
    pub reason: String,
    /// The tokens that the parser expected instead, where it names them.
    pub expected: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)?;
        self.expected.as_ref().map_or(Ok(()), |expected| write!(formatter, "\n  expected: {expected}"))
    }
}

/// The values of a text.
///
/// # Errors
/// [`Mistake`]: the first one.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Mistake> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let words = error.message().split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
        let (reason, expected) = match words.split_once(", expected ") {
            Some((reason, expected)) => (reason, Some(expected.replacen("one of ", "", 1))),
            None => (words.as_str(), None),
        };
        Mistake { line, reason: reason.replacen("unknown field ", "unknown setting: ", 1), expected }
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq, Eq)]
    #[serde(default, deny_unknown_fields)]
    struct File {
        devices: Vec<String>,
        count: u32,
    }

    fn mistake(text: &str) -> Mistake {
        read::<File>(text).expect_err("it is wrong")
    }

    #[test]
    fn values_are_read() {
        let file: File = read("devices = ['a:0']\ncount = 3\n").expect("it is right");
        assert_eq!(file, File { devices: vec!["a:0".into()], count: 3 });
        assert_eq!(read::<File>(""), Ok(File::default()));
    }

    #[test]
    fn a_setting_nobody_knows_is_named_with_its_line_and_those_there_are() {
        let mistake = mistake("count = 3\n\ndevises = []\n");
        assert_eq!((mistake.line, mistake.reason.as_str()), (3, "unknown setting: devises"));
        assert_eq!(mistake.expected.as_deref(), Some("devices or count"));
        assert_eq!(mistake.to_string(), "unknown setting: devises\n  expected: devices or count");
    }

    #[test]
    fn a_value_of_another_kind_and_a_broken_text_have_their_lines() {
        let kind = mistake("\ncount = 'three'\n");
        assert_eq!(kind.line, 2);
        assert!(kind.reason.contains("three") && kind.expected.as_deref() == Some("u32"), "{kind}");
        assert_eq!(mistake("count = 3\n[[[\n").line, 2);
    }
}
