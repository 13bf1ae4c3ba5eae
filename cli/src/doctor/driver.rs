//! What a driver does not allow on this machine, by name, for `floe doctor`.
//! In: a worker's look at every GPU, and what of NVIDIA's MPS there is. Out: one finding each. It changes nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::finding::{Finding, Weight};
use crate::install::Installation;

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_MODE`; exclusive to a process, and prohibited (`CUcomputemode`).
const COMPUTE_MODE: (u64, i64, i64) = (20, 3, 2);
/// `CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED`.
const EXPORTS: u64 = 103;
/// Where MPS has its pipes unless it is told otherwise (NVIDIA's documentation of MPS).
const MPS: &str = "/tmp/nvidia-mps";

/// What a worker sees of every GPU.
pub(super) fn look(installation: &Installation) -> Result<Value> {
    let mut command = Command::new(installation.executable("floe-worker")?);
    let output = command.args(["--probe", "auto"]).stdin(Stdio::null()).output().context("floe-worker --probe")?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The values of an attribute, GPU by GPU.
pub(super) fn attribute(look: &Value, number: u64) -> Vec<Option<i64>> {
    let of = |gpu: &Value| {
        let pairs = gpu.get("attributes")?.as_array()?;
        let pair = pairs.iter().find(|pair| pair.get(0).and_then(Value::as_u64) == Some(number))?;
        pair.get(1)?.as_i64()
    };
    look.get("gpus").and_then(Value::as_array).map(|gpus| gpus.iter().map(of).collect()).unwrap_or_default()
}

/// What stands in a server's way.
pub(super) fn findings(look: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (number, exclusive, prohibited) = COMPUTE_MODE;
    for (gpu, mode) in attribute(look, number).into_iter().enumerate() {
        let words = match mode {
            Some(mode) if mode == exclusive => {
                "is for one process at a time (EXCLUSIVE_PROCESS), and each session has one"
            }
            Some(mode) if mode == prohibited => "is for no process (PROHIBITED)",
            _ => continue,
        };
        let words = format!("GPU {gpu} {words}\n  nvidia-smi -i {gpu} -c DEFAULT");
        findings.push(Finding::new(Weight::Wrong, "compute mode", words));
    }
    for (gpu, exports) in attribute(look, EXPORTS).into_iter().enumerate() {
        if exports == Some(0) {
            let words = format!(
                "the driver gives other processes no memory of GPU {gpu}, as in some containers and virtual machines: no CUDA \
                 IPC and no peers, copies between vGPUs pass the program, and sessions move by bytes that workers send"
            );
            findings.push(Finding::new(Weight::Note, "memory between processes", words));
        }
    }
    findings.extend(mps(std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map(PathBuf::from), Path::new(MPS).exists()));
    findings
}

/// What of MPS there is: the folder of its pipes, if one is named, and whether the usual one exists.
fn mps(named: Option<PathBuf>, is_usual: bool) -> Option<Finding> {
    let folder = named.or_else(|| is_usual.then(|| MPS.into()))?;
    let words = format!(
        "its pipes are in {}; workers do not use it: floed starts one of its own with --mps\n  \
         stop this one where other programs do not need it: it takes part of each GPU",
        folder.display()
    );
    Some(Finding::new(Weight::Note, "NVIDIA MPS", words))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gpus(attributes: [&[[i64; 2]]; 2]) -> Value {
        json!({ "gpus": attributes.map(|attributes| json!({ "attributes": attributes })) })
    }

    #[test]
    fn what_a_driver_does_not_allow_is_named_with_its_gpu() {
        assert_eq!(findings(&gpus([&[[20, 0], [103, 1]], &[[103, 1]]])).len(), usize::from(Path::new(MPS).exists()));
        let found = findings(&gpus([&[[20, 0], [103, 0]], &[[20, 3]]]));
        assert!(
            found[0].weight == Weight::Wrong && found[0].text.starts_with("GPU 1 is for one process at a time"),
            "{found:?}"
        );
        assert!(found[1].weight == Weight::Note && found[1].text.contains("no memory of GPU 0"), "{found:?}");
        assert!(findings(&gpus([&[[20, 2]], &[]]))[0].text.starts_with("GPU 0 is for no process"));
        assert_eq!(findings(&Value::Null).len(), usize::from(Path::new(MPS).exists()));
    }

    #[test]
    fn mps_is_named_where_it_is() {
        assert_eq!(mps(None, false), None);
        assert!(mps(None, true).is_some_and(|found| found.text.contains(MPS)));
        assert!(mps(Some("/run/mps".into()), false).is_some_and(|found| found.text.contains("/run/mps")));
    }
}
