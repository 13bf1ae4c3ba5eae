//! Generated files, written or compared: a path and a text come in, the file goes out, formatted where it is Rust.
//! It never writes where it is only to compare.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::toolchain::repository;

/// Writes a generated file, or compares it where `check` is set. Rust text is formatted first.
pub(crate) fn emit(path: &str, text: &str, check: bool) -> Result<()> {
    let text =
        if path.ends_with(".rs") { format_rust(text).with_context(|| path.to_owned())? } else { text.to_owned() };
    let file = repository().join(path);
    let present = std::fs::read_to_string(&file).unwrap_or_default();
    if present == text {
        return Ok(());
    }
    if check {
        bail!("{path} is stale\n  run: cargo xtask gen");
    }
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    eprintln!("wrote {path}");
    Ok(())
}

fn format_rust(text: &str) -> Result<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .current_dir(repository())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting rustfmt (rustup component add rustfmt)")?;
    let mut input = child.stdin.take().context("rustfmt's input")?;
    let bytes = text.as_bytes().to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().context("waiting for rustfmt")?;
    writer.join().expect("the writing thread does not panic").context("writing to rustfmt")?;
    if !output.status.success() {
        bail!("rustfmt refused generated code: {}", output.status);
    }
    String::from_utf8(output.stdout).context("rustfmt's output")
}
