//! What `floe doctor` finds: its weight, its subject, its words, and what to do. It judges nothing.

use serde::{Serialize, Serializer};

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// The protection holds.
    Good,
    /// Servers should have it.
    Note,
    /// A server without it should serve no strangers.
    Wrong,
}

impl Weight {
    /// The word at the begin of a line, and in JSON in lower case.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Wrong => "WRONG",
        }
    }
}

impl Serialize for Weight {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.word().to_lowercase())
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    #[serde(rename = "severity")]
    pub(super) weight: Weight,
    pub(super) subject: String,
    pub(super) text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    /// A finding. Its words are a line that says what is, and lines that say what to do, as those of every error.
    pub(super) fn new(weight: Weight, subject: &str, words: impl ToString) -> Self {
        let words = words.to_string();
        let (text, advice) = words.split_once('\n').map_or((&*words, None), |(text, advice)| (text, Some(advice)));
        let advice = advice.map(|advice| advice.lines().map(str::trim).collect::<Vec<_>>().join("\n"));
        Self { weight, subject: subject.to_owned(), text: text.to_owned(), advice }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_line_says_what_is_and_the_others_what_to_do() {
        let found = Finding::new(Weight::Wrong, "token file", "others can read t\n         chmod 600 t\n  or move it");
        let wanted = json!({ "severity": "wrong", "subject": "token file", "text": "others can read t",
            "advice": "chmod 600 t\nor move it" });
        assert_eq!(serde_json::to_value(found).expect("JSON"), wanted);
        let good = serde_json::to_value(Finding::new(Weight::Good, "floed", "floed 1")).expect("JSON");
        assert_eq!(good, json!({ "severity": "ok", "subject": "floed", "text": "floed 1" }));
    }
}
