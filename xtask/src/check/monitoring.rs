//! The figures of a server, judged by Debian's Prometheus: `alerts.yml` by `promtool`, and a daemon that it scrapes.
//! In: the package `prometheus`, installed or fetched. Out: the tools' own words. Not every system has the package: as a step of
//! `cargo xtask test` it says so there, and passes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::apt;
use crate::dist::{cargo, dist, run, target_folder};

/// The tools that are needed.
const TOOLS: [&str; 2] = ["promtool", "prometheus"];

/// Checks alerts, dashboard and page.
pub(crate) fn check(repository: &Path, installs: bool) -> Result<()> {
    let tools = tools(installs)?;
    dist()?;
    judge(repository, &tools)
}

/// The same on the installation that is there, where the package is installed or can be fetched.
pub(crate) fn check_where_possible(repository: &Path) -> Result<()> {
    match tools(true) {
        Ok(tools) => judge(repository, &tools),
        Err(error) => {
            eprintln!("alerts and dashboard are not checked, for want of Debian's Prometheus: {error:#}");
            Ok(())
        }
    }
}

fn judge(repository: &Path, tools: &Path) -> Result<()> {
    let rules = repository.join("server/metrics");
    let mut promtool = Command::new(tools.join(TOOLS[0]));
    run(promtool.current_dir(&rules).args(["check", "rules", "alerts.yml"]))?;
    let mut promtool = Command::new(tools.join(TOOLS[0]));
    run(promtool.current_dir(&rules).args(["test", "rules", "alerts_test.yml"]))?;
    // Of the workspace, as the tests are built: of its package alone, it and all that it needs would be built once more.
    let test = ["test", "--release", "--locked", "--workspace", "--test", "metrics", "--", "--ignored"];
    run(cargo(&test).env("FLOE_DIST", target_folder().join("dist")).env("FLOE_PROMETHEUS", tools))
}

/// The folder of the tools: fetched before, or on the path.
fn tools(installs: bool) -> Result<PathBuf> {
    let has_all = |folder: &PathBuf| TOOLS.iter().all(|tool| folder.join(tool).is_file());
    let fetched = target_folder().join("prometheus");
    let unpacked = fetched.join("usr/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(unpacked.clone()).chain(std::env::split_paths(&path)).find(has_all);
    if let Some(found) = found {
        return Ok(found);
    }
    ensure!(
        installs,
        "Prometheus is not installed\ninstall the package prometheus, or fetch it into target/prometheus (Debian): cargo xtask check monitoring --install"
    );
    // Not installed: it would start a service.
    apt::fetch("prometheus", &fetched)?;
    ensure!(has_all(&unpacked), "the package has not all of: {}", TOOLS.join(", "));
    Ok(unpacked)
}
