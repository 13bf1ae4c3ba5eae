//! Names of variables that no program reads: an environment's names come in, unknown ones go out, each with the nearest
//! known name.

use crate::nearest::nearest;
use crate::tables::{CLIENT, CPU_DEVICE, SERVER};

/// Variables of floe's own tests and builds, and the daemon's one for workers.
const OWN: [&str; 12] = [
    "FLOE_BENCH",
    "FLOE_BENCH_ROTATE",
    "FLOE_CACHE",
    "FLOE_COMMIT",
    "FLOE_DIST",
    "FLOE_EXAMPLES",
    "FLOE_FUZZ_SHOW",
    "FLOE_REPOSITORY",
    "FLOE_TEST_DEVICE",
    "FLOE_TEST_LISTEN_AT",
    "FLOE_TEST_STAND_AT",
    "FLOE_WORKER_TASK",
];

/// A variable of floe's that no program reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// The most similar known name.
    pub nearest: Option<String>,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "unknown variable: {}", self.name)?;
        self.nearest.as_ref().map_or(Ok(()), |name| write!(formatter, "\n  did you mean: {name}"))
    }
}

/// The variables among these that begin with `FLOE_` and that no program reads.
pub fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<Unknown> {
    let known = || {
        let rows = [CLIENT, SERVER, CPU_DEVICE].into_iter().flat_map(|table| table.settings);
        rows.filter_map(crate::Setting::variable)
    };
    let unknown = names.filter(|name| name.starts_with("FLOE_"));
    let unknown = unknown.filter(|name| !OWN.contains(&name.as_str()) && !known().any(|known| known == name));
    unknown.map(|name| Unknown { nearest: nearest(&name, known().map(str::to_owned)), name }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_nobody_reads_is_named_with_the_nearest_known_one() {
        let names = ["FLOE_DEVISES", "FLOE_DEVICES", "FLOE_DIST", "PATH", "FLOE_XYZ"].map(str::to_owned);
        let unknown = unknown_variables(names.into_iter());
        assert_eq!(unknown.len(), 2, "{unknown:?}");
        assert_eq!(unknown[0].to_string(), "unknown variable: FLOE_DEVISES\n  did you mean: FLOE_DEVICES");
        assert_eq!(unknown[1].to_string(), "unknown variable: FLOE_XYZ");
    }
}
