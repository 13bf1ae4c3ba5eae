//! The files of a fresh Debian 12 with systemd. In: Debian's archive, by `mmdebstrap`. Out: a folder in the cache, which is
//! copied and never changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::apt;
use crate::dist::run;
use crate::toolchain::{self, last_lines};

/// The release.
const RELEASE: &str = "bookworm";
/// What is in it beside the smallest system: what starts it, and what builds and installs RPM packages.
const PACKAGES: &str = "systemd,systemd-sysv,systemd-container,dbus,rpm";

/// Runs a command in a root with two folders of this machine.
const INSIDE: &str = r#"
root=$1
for folder in "$2" "$3"; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
done
shift 3
exec chroot "$root" "$@"
"#;

/// Gives the folder; makes it first where the cache lacks it (about 60 MB to download, 280 MB of files).
pub(super) fn debian() -> Result<PathBuf> {
    let (cache, made_of) = (toolchain::cache_folder()?, format!("{RELEASE} {PACKAGES}\n"));
    let (folder, stamp) = (cache.join("debian-12"), cache.join("debian-12.stamp"));
    if folder.is_dir() && fs::read_to_string(&stamp).is_ok_and(|found| found == made_of) {
        return Ok(folder);
    }
    eprintln!("making a Debian 12 in {}", folder.display());
    let partial = cache.join(format!("debian-12.partial-{}", std::process::id()));
    make(&mmdebstrap(&cache)?, &partial).inspect_err(|_| {
        let _ = fs::remove_dir_all(&partial);
    })?;
    remove(&folder)?;
    fs::rename(&partial, &folder).with_context(|| format!("cannot move into place: {}", folder.display()))?;
    fs::write(&stamp, made_of).with_context(|| format!("cannot write: {}", stamp.display()))?;
    Ok(folder)
}

/// A copy of it, in place of what was there before.
pub(super) fn copy(debian: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    let parent = to.parent().context("a copy lies in a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make: {}", parent.display()))?;
    run(Command::new("cp").args(["--archive", "--reflink=auto"]).args([debian, to]))
}

/// A command in a copy, which sees these folders where they are on this machine: it runs without systemd.
pub(super) fn command(root: &Path, folders: [&Path; 2], program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation=private", "sh", "-euc", INSIDE, "sh"]);
    command.arg(root).args(folders).arg(program);
    command
}

/// Removes a folder if it is there.
pub(super) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove: {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn make(mmdebstrap: &Path, folder: &Path) -> Result<()> {
    let mut make = Command::new("sh");
    make.args(["-euc", "umask 022; exec perl \"$@\"", "sh"]);
    // A folder that a power cut spoils is made anew: no file waits for the disk.
    make.arg(mmdebstrap).args(["--quiet", "--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io"]);
    make.args(["--aptopt=Acquire::Languages \"none\"", &format!("--include={PACKAGES}"), RELEASE]).arg(folder);
    let output = make.output().context("sh does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mmdebstrap made no Debian 12\n{}", last_lines(&said, 6));
    Ok(())
}

/// The program: on the path, else fetched into the cache. It is a script.
fn mmdebstrap(cache: &Path) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let unpacked = cache.join("mmdebstrap");
    let fetched = unpacked.join("usr/bin/mmdebstrap");
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("mmdebstrap"));
    if let Some(found) = std::iter::once(fetched.clone()).chain(on_path).find(|program| program.is_file()) {
        return Ok(found);
    }
    apt::fetch("mmdebstrap", &unpacked)?;
    ensure!(fetched.is_file(), "the package has no program mmdebstrap");
    Ok(fetched)
}
