//! What packages take from `floe` itself: scripts of shells, pages of the manual; and a wheel. In: an installation. Out: what
//! `bash` completes, the pages that there are, what a `floe` does that pip has installed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use floe_tests::{built_examples, installation, made_folder, repository};

fn floe(arguments: &[&str]) -> String {
    let floe = installation().join("bin/floe");
    let output = Command::new(floe).args(arguments).stdin(Stdio::null()).output().expect("floe runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The commands that `floe --help` lists.
fn commands() -> BTreeSet<String> {
    let help = floe(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The words that bash offers behind these.
fn completed(script: &Path, words: &[&str]) -> Vec<String> {
    let function = words[0];
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let shell = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD={}; _{function} {function} {last} {before}; echo \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.join(" "),
        words.len() - 1
    );
    let output = Command::new("bash").args(["--norc", "-c", &shell]).output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_their_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let (of_floe, of_floed) = (folder.path().join("floe"), folder.path().join("floed"));
    std::fs::write(&of_floe, floe(&["completions", "bash"])).expect("written");
    std::fs::write(&of_floed, floe(&["completions", "bash", "--floed"])).expect("written");
    assert_eq!(completed(&of_floe, &["floe", "mig"]), ["migrate"]);
    assert_eq!(completed(&of_floe, &["floe", "migrate", "--sto"]), ["--stop-and-copy"]);
    assert_eq!(completed(&of_floed, &["floed", "--module-cache-"]), ["--module-cache-limit"]);
}

#[test]
fn every_shell_has_a_script_that_knows_every_command() {
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = floe(&["completions", shell]);
        let missing: Vec<_> = commands.iter().filter(|command| !script.contains(command.as_str())).collect();
        assert!(missing.is_empty(), "{shell}: {missing:?}");
    }
}

#[test]
fn every_command_has_a_page_of_the_manual_and_floed_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man");
    floe(&["man", &pages.display().to_string()]);
    let found: BTreeSet<String> = std::fs::read_dir(&pages)
        .expect("it made the folder")
        .map(|entry| entry.expect("read").file_name().into_string().expect("text"))
        .collect();
    // A command's own commands have pages, too.
    let is_below = |page: &String| commands().iter().any(|command| page.starts_with(&format!("floe-{command}-")));
    let found: BTreeSet<String> = found.into_iter().filter(|page| !is_below(page)).collect();
    let wanted = commands().into_iter().filter(|command| command != "help");
    let mut wanted: BTreeSet<String> = wanted.map(|command| format!("floe-{command}.1")).collect();
    wanted.extend(["floe.1".to_owned(), "floed.8".to_owned()]);
    assert_eq!(found, wanted);
    for (page, words) in [("floe-run.1", "\\-\\-memory"), ("floed.8", "FLOE_LISTEN"), ("floe.1", "floe\\-migrate(1)")] {
        let text = std::fs::read_to_string(pages.join(page)).expect("there");
        assert!(text.contains(".TH") && text.contains(words), "{page}: {text}");
    }
}

/// The wheel of an installation without what only a debugger reads, in this folder.
fn wheel(folder: &Path) -> PathBuf {
    let mut python = Command::new("python3");
    python.arg(repository().join("xtask/package/wheel.py")).arg(made_folder("FLOE_BENCH", "bench")).arg(folder);
    let output = python.args(["0.1.0", "2.17"]).arg(repository().join("LICENSE-MIT")).output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

#[test]
fn pip_installs_a_wheel_whose_floe_runs_a_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| {
        let place = folder.path().join(name);
        std::fs::create_dir_all(&place).expect("made");
        place
    };
    let packed = wheel(&place("first"));
    assert!(packed.ends_with("floe-0.1.0-py3-none-manylinux_2_17_x86_64.whl"), "{}", packed.display());
    let bytes = |path: &Path| std::fs::read(path).expect("packed");
    assert!(bytes(&packed) == bytes(&wheel(&place("second"))), "two wheels of one installation differ");
    if !Command::new("python3").args(["-m", "pip", "--version"]).output().is_ok_and(|pip| pip.status.success()) {
        println!("this Python has no pip: the wheel is not installed");
        return;
    }
    let into = place("installed");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]).arg(&into).arg(&packed);
    let installed = pip.output().expect("pip runs");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let program = built_examples().join("shared/vectorAdd");
    for (mut floe, how) in
        [(Command::new(into.join("bin/floe")), "the command"), (Command::new("python3"), "the module")]
    {
        if how == "the module" {
            floe.args(["-m", "floe"]);
        }
        let ran = floe.env("PYTHONPATH", &into).args(["run", "--"]).arg(&program).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success() && said.ends_with("PASSED\n") && ran.stderr.is_empty(), "{how}: {ran:?}");
    }
}
