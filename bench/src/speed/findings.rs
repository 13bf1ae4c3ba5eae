//! Findings of a measurement's programs, by metric and way, and the sections that failed. Numbers come in one by one,
//! whole tables go out. It compares nothing.

use std::collections::BTreeMap;
use std::path::Path;

use crate::bars::Way;

/// Numbers by way, one per round.
pub(crate) type ByWay<T> = BTreeMap<Way, Vec<T>>;

/// A section that did not come to its end.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Failure {
    /// Which.
    pub(crate) section: String,
    /// By which way.
    pub(crate) way: Way,
    /// In the program's words, else how it ended.
    pub(crate) reason: String,
}

/// Everything the programs said.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Seconds, counts or MiB by metric.
    pub(crate) samples: BTreeMap<String, ByWay<f64>>,
    /// Of what was timed by turns, each round's every turn.
    pub(crate) turns: BTreeMap<String, ByWay<Vec<f64>>>,
    /// Bytes per unit of the metrics that are copies.
    pub(crate) bytes: BTreeMap<String, u64>,
    /// Numbers that must agree.
    pub(crate) results: BTreeMap<String, ByWay<Vec<String>>>,
    /// The failures.
    pub(crate) failures: Vec<Failure>,
    /// Versions the programs named.
    pub(crate) versions: BTreeMap<String, String>,
}

impl Findings {
    pub(super) fn note(&mut self, name: &str, way: Way, value: f64) {
        self.samples.entry(name.to_owned()).or_default().entry(way).or_default().push(value);
    }

    pub(super) fn has_failed(&self, section: &str, way: Way) -> bool {
        self.failures.iter().any(|failure| failure.section == section && failure.way == way)
    }

    /// Notes the module bytes that the client library counted, where it counts them.
    pub(super) fn note_module_bytes(&mut self, counts: &Path, way: Way) {
        let text = std::fs::read_to_string(counts).unwrap_or_default();
        if let Some(bytes) = module_bytes(&text) {
            self.note("start.module_bytes", way, bytes);
        }
    }
}

fn module_bytes(counts: &str) -> Option<f64> {
    let counts: serde_json::Value = serde_json::from_str(counts).ok()?;
    counts.get("module_bytes_sent")?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_bytes_are_read_where_they_are_counted() {
        assert_eq!(module_bytes(r#"{"module_bytes_sent":12}"#), Some(12.0));
        assert_eq!(module_bytes(r#"{"waits_with_context":1}"#), None);
        assert_eq!(module_bytes(""), None);
    }
}
