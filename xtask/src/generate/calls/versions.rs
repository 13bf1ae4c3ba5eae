//! `api/versions.txt` from NVIDIA's public `cudaTypedefs.h`: which exported symbol a name stands for from which driver
//! version on. Headers in, one line per answer out. Run once per CUDA release, by hand; `gen` reads the committed file.

use crate::generate::emit::emit;
use crate::toolchain::repository;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// One answer: from `version` on, `name` is exported as `symbol`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub(crate) struct Answer {
    pub(crate) name: String,
    pub(crate) per_thread: bool,
    pub(crate) version: u32,
    pub(crate) symbol: String,
}

/// Reads `cudaTypedefs.h` and the profiler's beside it, writes `api/versions.txt`.
pub(crate) fn write(header: &Path) -> Result<()> {
    let mut text = std::fs::read_to_string(header).with_context(|| format!("reading {}", header.display()))?;
    let profiler = header.with_file_name("cudaProfilerTypedefs.h");
    if profiler.exists() {
        text += &std::fs::read_to_string(&profiler).with_context(|| format!("reading {}", profiler.display()))?;
    }
    let symbols = std::fs::read_to_string(repository().join("api/symbols.txt")).context("reading api/symbols.txt")?;
    let answers = answers(&text, &symbols.lines().collect());
    if answers.len() < 600 {
        bail!("only {} function types in {}: is it cudaTypedefs.h?", answers.len(), header.display());
    }
    let mut out = String::from(
        "# From NVIDIA's public cudaTypedefs.h, by `cargo xtask gen-versions`: name, driver version from which it holds,\n\
         # exported symbol, and whether it is the answer for the per-thread default stream (flag 2).\n",
    );
    for answer in answers {
        let kind = if answer.per_thread { "per-thread" } else { "legacy" };
        let _ = writeln!(out, "{} {} {} {kind}", answer.name, answer.version, answer.symbol);
    }
    emit("api/versions.txt", &out, false)
}

/// The committed answers.
pub(crate) fn read() -> Result<Vec<Answer>> {
    let text = std::fs::read_to_string(repository().join("api/versions.txt")).context("reading api/versions.txt")?;
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn line(line: &str) -> Result<Answer> {
    let words: Vec<&str> = line.split(' ').collect();
    let [name, version, symbol, kind] = words.as_slice() else { bail!("api/versions.txt: not four words: {line}") };
    Ok(Answer {
        name: (*name).to_owned(),
        version: version.parse().with_context(|| format!("api/versions.txt: {line}"))?,
        symbol: (*symbol).to_owned(),
        per_thread: *kind == "per-thread",
    })
}

/// The rule: the i-th version of a name is exported as the name, `_v2`, `_v3` …. A per-thread form is the symbol of its
/// version with the suffix.
fn answers(header: &str, symbols: &BTreeSet<&str>) -> Vec<Answer> {
    let (mut legacy, mut per_thread) = (BTreeMap::<_, BTreeSet<u32>>::new(), BTreeSet::new());
    for (name, version, suffix) in header.split("*PFN_").skip(1).filter_map(function_type) {
        match suffix {
            Some(suffix) => drop(per_thread.insert((name, version, suffix))),
            None => drop(legacy.entry(name).or_default().insert(version)),
        }
    }
    let mut answers = Vec::new();
    for (name, versions) in &legacy {
        for (index, version) in versions.iter().enumerate() {
            let symbol = if index == 0 { (*name).to_owned() } else { format!("{name}_v{}", index + 1) };
            answers.push(Answer { name: (*name).to_owned(), version: *version, symbol, per_thread: false });
        }
    }
    for (name, version, suffix) in per_thread {
        let plain =
            answers.iter().rfind(|answer| answer.name == name && !answer.per_thread && answer.version <= version);
        let symbol = format!("{}{suffix}", plain.map_or(name, |answer| &answer.symbol));
        answers.push(Answer { name: name.to_owned(), version, symbol, per_thread: true });
    }
    answers.retain(|answer| symbols.contains(answer.symbol.as_str()));
    answers.sort();
    answers
}

/// Name, version and suffix of `cuMemAlloc_v3020)(…` or `cuMemcpy_v7000_ptds)(…`.
fn function_type(text: &str) -> Option<(&str, u32, Option<&'static str>)> {
    let identifier = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()?;
    let (identifier, suffix) = match identifier {
        _ if identifier.ends_with("_ptsz") => (&identifier[..identifier.len() - 5], Some("_ptsz")),
        _ if identifier.ends_with("_ptds") => (&identifier[..identifier.len() - 5], Some("_ptds")),
        _ => (identifier, None),
    };
    let (name, version) = identifier.rsplit_once("_v")?;
    Some((name, version.parse().ok()?, suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_suffixes_and_per_thread_forms_follow_their_version() {
        let header = "typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoD_v3020)(int);\n(CUDAAPI *PFN_cuMemcpyHtoD_v2000)(int);\
                      (CUDAAPI *PFN_cuMemcpyHtoD_v7000_ptds)(int);";
        let symbols = ["cuMemcpyHtoD", "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"].into_iter().collect();
        let answers = answers(header, &symbols);
        let seen: Vec<_> = answers.iter().map(|a| (a.version, a.symbol.as_str(), a.per_thread)).collect();
        assert_eq!(
            seen,
            [(2000, "cuMemcpyHtoD", false), (3020, "cuMemcpyHtoD_v2", false), (7000, "cuMemcpyHtoD_v2_ptds", true)]
        );
    }
}
