//! NCCL's variables, which travel from a program to the NCCL beside its GPU. Client and worker agree on them here.
//! In: names and sizes. Out: whether they may travel. It reads no environment.

/// The variable by which NCCL knows which ranks are of its own node. In its place a program names its job.
pub const NODE: &str = "NCCL_HOSTID";
/// Bytes of all names and values of a program together, at most. A worker ends a session that sends more.
pub const MOST_SETTINGS: usize = 64 << 10;

/// Whether a variable of this name is one of NCCL's that an environment can have.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    name.starts_with("NCCL_") && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=')
}

/// Whether so many bytes of names and values may travel.
#[must_use]
pub fn settings_fit<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
    all.into_iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= MOST_SETTINGS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_nccls_and_of_visible_letters() {
        assert!(is_variable("NCCL_DEBUG") && is_variable(NODE));
        for name in ["", "NCCL", "FLOE_JOB", "NCCL_A B", "NCCL_A=B", "NCCL_\u{e4}", "nccl_debug"] {
            assert!(!is_variable(name), "{name}");
        }
    }

    #[test]
    fn names_and_values_count_together() {
        let value = "a".repeat(MOST_SETTINGS - NODE.len());
        assert!(settings_fit([(NODE, value.as_str())]));
        assert!(!settings_fit([(NODE, value.as_str()), ("NCCL_", "")]));
    }
}
