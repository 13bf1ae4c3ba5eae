//! What a program's earlier starts found in its libraries, by which the next start asks for all of it at once (`--far`).
//! In: libraries, kernels that were found in them, a file in the user's cache. Out: the kernels to ask for as a library comes.
//! The file is a hint. Whatever stands in it, a server has such a kernel or not, and nothing is loaded that the program has not
//! brought.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use floe_image::Image;
use floe_lock::lock;
use floe_settings::{Source, set_folder};

/// The longest file.
const MOST_BYTES: u64 = 1 << 20;
/// Files of a user.
const MOST_FILES: usize = 256;
/// Kernels of one program.
const MOST_KERNELS: usize = 4096;
/// The longest name: mangled names of templates reach thousands of letters.
const LONGEST_NAME: usize = 4096;
/// Samples of a container by which it is known again, and their bytes.
const SAMPLES: usize = 16;
const SAMPLE: usize = 256;

/// What a library looks like: its sizes and samples of its bytes. Two that look alike are asked for each other's kernels.
pub(crate) type Look = [u8; 32];

/// Kernels by the looks of their libraries.
type Kernels = BTreeMap<Look, BTreeSet<String>>;

/// The starts of one program.
#[derive(Debug)]
pub(crate) struct Start {
    file: PathBuf,
    before: Kernels,
    now: Mutex<Kernels>,
}

impl Start {
    /// Of this process's program, where its user has a cache.
    pub(crate) fn of_process(source: &dyn Source) -> Option<Self> {
        let own = set_folder(source, "XDG_CACHE_HOME");
        let cache = own.or_else(|| set_folder(source, "HOME").map(|home| home.join(".cache")))?;
        let program = std::env::current_exe().ok()?;
        // Of an interpreter, the script is what differs.
        let script = std::env::args_os().nth(1).filter(|script| Path::new(script).is_file()).unwrap_or_default();
        Some(Self::at(cache.join("floe/starts").join(name_of(&program, &script))))
    }

    fn at(file: PathBuf) -> Self {
        let before = read(&file).unwrap_or_default();
        Self { file, before, now: Mutex::default() }
    }

    /// The kernels that earlier starts found in libraries of this look.
    pub(crate) fn kernels(&self, look: &Look) -> impl Iterator<Item = &str> {
        self.before.get(look).into_iter().flatten().map(String::as_str)
    }

    /// A kernel was found.
    pub(crate) fn found(&self, look: &Look, name: &str) {
        let is_plain = name.len() <= LONGEST_NAME && !name.contains(char::is_control);
        let mut now = lock(&self.now);
        if is_plain && now.values().map(BTreeSet::len).sum::<usize>() < MOST_KERNELS {
            now.entry(*look).or_default().insert(name.to_owned());
        }
    }

    /// Writes what this start found to what earlier ones did. Where that would be too much, the earlier ones are forgotten.
    pub(crate) fn end(&self) -> io::Result<()> {
        let now = std::mem::take(&mut *lock(&self.now));
        let knows = |(look, names): (&Look, &BTreeSet<String>)| {
            self.before.get(look).is_some_and(|before| names.is_subset(before))
        };
        if now.iter().all(knows) {
            return Ok(());
        }
        let mut all = self.before.clone();
        for (look, names) in &now {
            all.entry(*look).or_default().extend(names.iter().cloned());
        }
        let is_much = |text: &String| text.len() as u64 > MOST_BYTES;
        let fits = all.values().map(BTreeSet::len).sum::<usize>() <= MOST_KERNELS;
        let text = Some(text_of(&all)).filter(|text| fits && !is_much(text)).unwrap_or_else(|| text_of(&now));
        if is_much(&text) { Ok(()) } else { self.write(&text) }
    }

    /// Another process that reads meanwhile has all of the file or all of the one before.
    fn write(&self, text: &str) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        make_room(folder)?;
        let mut fresh = self.file.clone().into_os_string();
        fresh.push(format!(".{}.new", std::process::id()));
        let written = File::options().write(true).create_new(true).open(&fresh).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            std::fs::rename(&fresh, &self.file)
        });
        written.inspect_err(|_| {
            let _ = std::fs::remove_file(&fresh);
        })
    }
}

/// Removes the oldest of the files where there are many.
fn make_room(folder: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // Not by the entry: that asks for a function of glibc that older ones lack.
        files.push((std::fs::metadata(&path)?.modified()?, path));
    }
    files.sort();
    let many = (files.len() + 1).saturating_sub(MOST_FILES);
    files.into_iter().take(many).try_for_each(|(_, file)| std::fs::remove_file(file))
}

/// What an image looks like. It reads a few thousand bytes, however large the image is.
pub(crate) fn look_of(image: &Image<'_>) -> Look {
    let mut hasher = blake3::Hasher::new();
    for container in &image.containers {
        let bytes = container.as_ref();
        hasher.update(&bytes.len().to_le_bytes());
        for sample in 0..SAMPLES {
            let from = bytes.len().saturating_sub(SAMPLE) * sample / (SAMPLES - 1);
            let part = bytes.get(from..).unwrap_or_default();
            hasher.update(&part[..part.len().min(SAMPLE)]);
        }
    }
    *hasher.finalize().as_bytes()
}

/// A file's name: the program's, and a hash of its path and script.
fn name_of(program: &Path, script: &OsStr) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(program.as_os_str().as_bytes()).update(&[0]).update(script.as_bytes());
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let plain: String = name.chars().take(64).map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
    format!("{plain}.{}", &hasher.finalize().to_hex()[..16])
}

/// A line for each kernel: the look in hexadecimal digits, and the name.
fn text_of(kernels: &Kernels) -> String {
    let mut text = String::new();
    for (look, names) in kernels {
        for name in names {
            let _ = writeln!(text, "{} {name}", blake3::Hash::from_bytes(*look).to_hex());
        }
    }
    text
}

fn read(file: &Path) -> Option<Kernels> {
    let mut text = String::new();
    // A pipe in its place keeps nobody waiting.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    let file = File::options().read(true).custom_flags(flags).open(file).ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let bytes = file.take(MOST_BYTES + 1).read_to_string(&mut text).ok()?;
    if bytes as u64 > MOST_BYTES {
        return None;
    }
    let mut kernels = Kernels::new();
    for (count, line) in text.lines().enumerate() {
        let (look, name) = line.split_once(' ')?;
        let look = *blake3::Hash::from_hex(look).ok()?.as_bytes();
        if count >= MOST_KERNELS || name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
            return None;
        }
        kernels.entry(look).or_default().insert(name.to_owned());
    }
    Some(kernels)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use floe_image::ImageKind;

    use super::*;

    fn names(start: &Start, look: u8) -> Vec<&str> {
        start.kernels(&[look; 32]).collect()
    }

    #[test]
    fn the_next_start_knows_what_all_before_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = || Start::at(folder.path().join("floe/starts/program"));
        let first = at();
        assert_eq!(names(&first, 1), Vec::<&str>::new());
        for (look, name) in [(1, "b"), (1, "a c"), (2, "b"), (2, "line\nbreak"), (2, &"n".repeat(LONGEST_NAME + 1))] {
            first.found(&[look; 32], name);
        }
        first.end().unwrap();
        let second = at();
        assert_eq!([1, 2].map(|look| names(&second, look)), [vec!["a c", "b"], vec!["b"]]);
        second.found(&[1; 32], "b");
        let written = || std::fs::metadata(&second.file).unwrap().modified().unwrap();
        let before = written();
        second.end().unwrap();
        assert_eq!(written(), before, "nothing is new");
        second.found(&[3; 32], "d");
        second.end().unwrap();
        assert_eq!([1, 2, 3].map(|look| names(&at(), look).len()), [2, 1, 1]);
        assert_eq!(std::fs::read_dir(second.file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_of_anything_else_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("start");
        let line = format!("{} name\n", "ab".repeat(32));
        let long = format!("{} {}\n", "ab".repeat(32), "n".repeat(LONGEST_NAME + 1));
        for text in ["\0\n", "ab name\n", &long, &line.repeat(MOST_KERNELS + 1), &"\n".repeat(2 << 20)] {
            std::fs::write(&file, text).unwrap();
            assert!(Start::at(file.clone()).before.is_empty());
        }
        std::fs::write(&file, &line).unwrap();
        assert_eq!(Start::at(file).before.len(), 1);
        assert!(Start::at(folder.path().to_path_buf()).before.is_empty());
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success() && Start::at(pipe).before.is_empty());
    }

    #[test]
    fn the_oldest_files_make_room() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MOST_FILES + 5 {
            let start = Start::at(folder.path().join(number.to_string()));
            start.found(&[1; 32], "a");
            start.end().unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), MOST_FILES);
        assert!(folder.path().join((MOST_FILES + 4).to_string()).exists());
    }

    #[test]
    fn too_much_forgets_what_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let at = || Start::at(folder.path().join("start"));
        let fill = |look: u8| {
            let start = at();
            (0..MOST_KERNELS + 9).for_each(|number| start.found(&[look; 32], &number.to_string()));
            start.end().unwrap();
        };
        fill(1);
        fill(2);
        assert_eq!([1, 2].map(|look| names(&at(), look).len()), [0, MOST_KERNELS]);
    }

    #[test]
    fn images_look_different_by_size_and_by_their_samples() {
        let image = |bytes: Vec<u8>| Image { kind: ImageKind::Ptx, containers: vec![Cow::Owned(bytes)] };
        let mut all: Vec<_> = [0, 1, 255, 256, 257, 100_000].map(|size| look_of(&image(vec![7; size]))).into();
        let mut other = vec![7; 100_000];
        *other.last_mut().unwrap() = 8;
        all.push(look_of(&image(other)));
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn a_name_is_a_plain_files() {
        let name = name_of(Path::new("/usr/bin/py../thon 3"), OsStr::new("train.py"));
        assert!(name.starts_with("thon-3.") && name.len() == 7 + 16, "{name}");
        assert_ne!(name, name_of(Path::new("/usr/bin/py../thon 3"), OsStr::new("other.py")));
    }
}
