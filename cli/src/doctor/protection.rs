//! The protections of a server on this machine against its clients, for `floe doctor`.
//! In: the kernel's settings, and a worker's report from inside its sandbox. Out: one finding each. It changes nothing.

use anyhow::Result;
use floe_daemon::protection::{Protection, of_workers};
use serde_json::Value;

use super::driver::attribute;
use super::finding::{Finding, Weight};
use crate::install::Installation;

/// `CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS`.
const PAGEABLE_MEMORY_ACCESS: u64 = 88;

/// Runs all checks.
pub(super) fn findings(installation: &Installation, look: &Value) -> Vec<Finding> {
    let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let hmm = read("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm");
    let pageable = reaches_ordinary_memory(look);
    vec![
        sandbox(
            installation.executable("floe-worker").and_then(|worker| Ok(of_workers(&worker, &library(installation))?)),
        ),
        addresses(read("/proc/sys/kernel/randomize_va_space").as_deref()),
        user(rustix::process::geteuid().is_root()),
        ordinary_memory(pageable, hmm.as_deref()),
    ]
}

/// A device library for the sandbox, which allows its folder to be read. Any one will do.
fn library(installation: &Installation) -> String {
    installation.cpu_device().map(|path| path.display().to_string()).unwrap_or_default()
}

fn sandbox(found: Result<Protection>) -> Finding {
    let what = "workers' sandbox";
    match found {
        Err(error) => Finding::new(Weight::Wrong, what, format!("{error:#}")),
        Ok(protection) if !protection.missing.is_empty() => {
            let words = format!("{}\n  a newer kernel has it", protection.missing.join("; "));
            Finding::new(Weight::Note, what, words)
        }
        Ok(Protection { landlock, standing, .. }) => {
            let whole = standing.no_new_privs && standing.seccomp && standing.capabilities == 0;
            let words = format!(
                "Landlock {landlock}, seccomp {}, no new privileges {}, capabilities {:#x}",
                if standing.seccomp { "on" } else { "off" },
                if standing.no_new_privs { "on" } else { "off" },
                standing.capabilities
            );
            Finding::new(if whole { Weight::Good } else { Weight::Wrong }, what, words)
        }
    }
}

fn addresses(randomized: Option<&str>) -> Finding {
    let what = "random addresses";
    match randomized {
        Some("2") => Finding::new(Weight::Good, what, "on"),
        found => {
            let found = found.unwrap_or("not known");
            let words = format!("incomplete: {found}\n  switch all of it on: sysctl kernel.randomize_va_space=2");
            Finding::new(Weight::Note, what, words)
        }
    }
}

fn user(is_root: bool) -> Finding {
    let what = "user of a server";
    match is_root {
        false => Finding::new(Weight::Good, what, "not root"),
        true => {
            let words = "a server started by this user is root\n  start floed --user NAME, or make a user `floe`: useradd --system floe";
            Finding::new(Weight::Note, what, words)
        }
    }
}

/// Whether GPU kernels can access the worker's pageable memory: the device's attribute, and the module's parameter.
fn ordinary_memory(pageable: Option<bool>, hmm_disabled: Option<&str>) -> Finding {
    let what = "ordinary memory of workers";
    match (pageable, hmm_disabled) {
        (Some(true), _) => {
            let words = "GPU kernels can access it (HMM or ATS)\n  load nvidia_uvm with uvm_disable_hmm=1";
            Finding::new(Weight::Wrong, what, words)
        }
        (_, Some("Y" | "1")) => Finding::new(Weight::Good, what, "HMM is off (uvm_disable_hmm=1)"),
        (Some(false), _) => Finding::new(Weight::Good, what, "GPU kernels cannot access it"),
        (None, _) => Finding::new(Weight::Note, what, "no device reports whether GPU kernels can access it"),
    }
}

/// Whether any GPU reaches the process's ordinary memory; `None`: nobody knows.
fn reaches_ordinary_memory(look: &Value) -> Option<bool> {
    let all = attribute(look, PAGEABLE_MEMORY_ACCESS);
    all.into_iter().flatten().map(|value| value != 0).reduce(|one, other| one || other)
}

#[cfg(test)]
mod tests {
    use floe_daemon::protection::Standing;
    use serde_json::json;

    use super::*;

    fn weight(found: Finding) -> Weight {
        found.weight
    }

    #[test]
    fn a_device_that_reaches_ordinary_memory_is_wrong_whatever_the_module_was_told() {
        assert_eq!(weight(ordinary_memory(Some(true), Some("N"))), Weight::Wrong);
        assert_eq!(weight(ordinary_memory(Some(true), None)), Weight::Wrong);
        assert_eq!(weight(ordinary_memory(Some(false), Some("N"))), Weight::Good);
        assert_eq!(weight(ordinary_memory(None, Some("Y"))), Weight::Good);
        assert_eq!(weight(ordinary_memory(None, None)), Weight::Note);
    }

    #[test]
    fn the_attribute_is_found_in_what_a_probe_prints() {
        let probe = |value: i32| json!({"gpus": [{"attributes": [[1, 1024], [88, 0]]}, {"attributes": [[88, value]]}]});
        assert_eq!((reaches_ordinary_memory(&probe(0)), reaches_ordinary_memory(&probe(1))), (Some(false), Some(true)));
        assert_eq!(reaches_ordinary_memory(&json!({"gpus": [{"attributes": [[1, 1]]}]})), None);
        assert_eq!(reaches_ordinary_memory(&json!([])), None);
    }

    #[test]
    fn a_sandbox_is_good_when_all_of_it_holds() {
        let standing = Standing { no_new_privs: true, seccomp: true, capabilities: 0, bounding: 0 };
        let found = |standing, missing| sandbox(Ok(Protection { landlock: 6, standing, missing }));
        assert_eq!(weight(found(standing, vec![])), Weight::Good);
        assert_eq!(weight(found(standing, vec!["no Landlock".to_owned()])), Weight::Note);
        assert_eq!(weight(found(Standing { capabilities: 1, ..standing }, vec![])), Weight::Wrong);
        assert_eq!(weight(sandbox(Err(anyhow::anyhow!("no worker")))), Weight::Wrong);
    }

    #[test]
    fn root_and_fixed_addresses_are_noted() {
        assert_eq!((weight(user(true)), weight(user(false))), (Weight::Note, Weight::Good));
        assert_eq!((weight(addresses(Some("2"))), weight(addresses(Some("0")))), (Weight::Good, Weight::Note));
        assert_eq!(weight(addresses(None)), Weight::Note);
    }
}
