//! Output of a measured program: one JSON object per line of its stdout.
//! In: a line. Out: a finding, or nothing when another library wrote the line. It judges nothing.

use serde::Deserialize;

/// One line of a program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Line {
    /// The median time of one unit of work within this process.
    Time {
        /// Which metric.
        name: String,
        /// Seconds per unit.
        seconds: f64,
        /// Bytes per unit, for copies.
        bytes: Option<u64>,
        /// The median of every turn, where it was timed by turns.
        #[serde(default)]
        turns: Vec<f64>,
    },
    /// A count of events in one unit of work.
    Count {
        /// Which metric.
        name: String,
        /// Times per unit.
        per_unit: f64,
    },
    /// Numbers that must be the same on every way, as hexadecimal floats.
    Result {
        /// Their meaning.
        name: String,
        /// The numbers.
        values: Vec<String>,
    },
    /// The program has come this far.
    Mark {
        /// The metric of the time since the program's start.
        name: String,
    },
    /// The program pauses until it gets a reply.
    Pause {
        /// The name of the point.
        name: String,
    },
    /// The program pauses until nothing else runs, and is timed then.
    Turn,
    /// The program pauses until every way has reached this point.
    Meet,
    /// A section is over and all of it was said.
    Done {
        /// The section.
        section: String,
    },
    /// A section failed; the program ends.
    Failed {
        /// The section.
        section: String,
        /// Why.
        reason: String,
    },
    /// The version of something the program uses.
    Version {
        /// Of what.
        name: String,
        /// As it writes it.
        value: String,
    },
}

/// Reads a line; `None` for what else programs print.
pub(crate) fn parse(text: &str) -> Option<Line> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_and_what_it_says_beside_is_let_be() {
        let line = parse(r#"{"kind":"time","name":"launch.caller","seconds":3.5e-06,"low":1,"high":2,"iterations":9}"#);
        assert_eq!(
            line,
            Some(Line::Time { name: "launch.caller".into(), seconds: 3.5e-6, bytes: None, turns: vec![] })
        );
    }

    #[test]
    fn other_output_is_no_finding() {
        for text in ["", "hello", "{}", r#"{"kind":"joke"}"#, "[1]"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
