//! What a program's starts used of its libraries, by which the next start asks for all of it at once (`--far`).
//! In: libraries, what was found in them and asked about that, a file in the user's cache. Out: what earlier starts used.
//! The file is a hint. Whatever stands in it, a server has such a kernel or not, answers are the server's alone, and the program
//! uses nothing that it has not brought.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use floe_image::Image;
use floe_lock::lock;
use floe_settings::{Source as Variables, set_folder};

use crate::objects::module::record::{Look, Name, Record, Source, Used, plain};
use crate::vgpu::occupancy::{Question, Settings};

/// The longest file.
const MOST_BYTES: u64 = 1 << 20;
/// Files of a user.
const MOST_FILES: usize = 256;
/// Other programs of which a first start asks what they used.
const OTHERS: usize = 8;

/// Samples of a container by which it is known again, and their bytes.
const SAMPLES: usize = 16;
const SAMPLE: usize = 256;

/// The starts of one program.
#[derive(Debug)]
pub(crate) struct Start {
    file: PathBuf,
    is_first: bool,
    before: Record,
    /// What other programs used last, where this one has not started before: it may bring the same libraries.
    others: Record,
    now: Mutex<Record>,
}

/// A library of a start, which notes what the program uses of it.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    start: Arc<Start>,
    name: Arc<Name>,
}

impl Start {
    /// Of this process's program, where its user has a cache.
    pub(crate) fn of_process(source: &dyn Variables) -> Option<Self> {
        let own = set_folder(source, "XDG_CACHE_HOME");
        let cache = own.or_else(|| set_folder(source, "HOME").map(|home| home.join(".cache")))?;
        let program = std::env::current_exe().ok()?;
        // Of an interpreter, the script is what differs.
        let script = std::env::args_os().nth(1).filter(|script| Path::new(script).is_file()).unwrap_or_default();
        Some(Self::at(cache.join("floe/starts").join(name_of(&program, &script))))
    }

    fn at(file: PathBuf) -> Self {
        let before = read(&file);
        let is_first = before.is_none();
        let others = if is_first { of_others(&file) } else { Record::default() };
        Self { file, is_first, before: before.unwrap_or_default(), others, now: Mutex::default() }
    }

    /// Whether none is known before this one.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// What earlier starts used.
    pub(crate) fn before(&self) -> &Record {
        &self.before
    }

    /// What earlier starts used of libraries of this look.
    pub(crate) fn used(&self, look: &Look) -> Used {
        let mut all = Used::default();
        let known = self.before.libraries.iter().chain(&self.others.libraries);
        known.filter(|(name, _)| name.look == *look).for_each(|(_, used)| all.add(used));
        all
    }

    /// The program uses a library of this look; it can be asked for by its source, if that is named.
    pub(crate) fn origin(self: &Arc<Self>, look: Look, source: Option<Source>) -> Origin {
        Origin { start: Arc::clone(self), name: Arc::new(Name { look, source }) }
    }

    /// Writes what this start used to what earlier ones did, with the sizes of the blocks of memory that it made at its beginning.
    pub(crate) fn end(&self, blocks: Vec<u64>) -> io::Result<()> {
        let now = Record { blocks, ..std::mem::take(&mut *lock(&self.now)) };
        let all = now.behind(&self.before);
        // A process that has used nothing says nothing of the next one.
        if now.libraries.is_empty() || all == self.before { Ok(()) } else { write(&self.file, &all) }
    }
}

impl Origin {
    /// A kernel was found.
    pub(crate) fn found(&self, kernel: &str) {
        if let Some(kernel) = plain(kernel) {
            self.note(|used| {
                used.kernels.entry(kernel.to_owned()).or_default();
            });
        }
    }

    /// A variable was found.
    pub(crate) fn found_variable(&self, variable: &str) {
        if let Some(variable) = plain(variable) {
            self.note(|used| {
                used.variables.insert(variable.to_owned());
            });
        }
    }

    /// A question about a kernel that was found has been answered.
    pub(crate) fn asked(&self, kernel: &str, settings: Settings, question: Question) {
        self.note(|used| {
            if let Some(questions) = used.kernels.get_mut(kernel) {
                questions.insert((settings, question));
            }
        });
    }

    fn note(&self, change: impl FnOnce(&mut Used)) {
        let mut now = lock(&self.start.now);
        if now.has_room() {
            change(now.libraries.entry(Name::clone(&self.name)).or_default());
        }
    }
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

/// The record in a file, if it holds one.
fn read(file: &Path) -> Option<Record> {
    let mut text = String::new();
    // A pipe in its place keeps nobody waiting.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    let file = File::options().read(true).custom_flags(flags).open(file).ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let bytes = file.take(MOST_BYTES + 1).read_to_string(&mut text).ok()?;
    if bytes as u64 > MOST_BYTES { None } else { Record::of_text(&text) }
}

/// What the programs used that have started last, but for this file's.
fn of_others(file: &Path) -> Record {
    let files = file.parent().map(by_age).and_then(Result::ok).unwrap_or_default();
    let others = files.into_iter().rev().filter(|other| other != file).take(OTHERS);
    others.filter_map(|other| read(&other)).fold(Record::default(), |newer, older| newer.behind(&older))
}

/// Writes a record, unless it is too much.
fn write(file: &Path, record: &Record) -> io::Result<()> {
    let text = record.to_text();
    if text.len() as u64 > MOST_BYTES {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    make_room(folder)?;
    let mut fresh = file.to_path_buf().into_os_string();
    fresh.push(format!(".{}.new", std::process::id()));
    let written = File::options().write(true).create_new(true).open(&fresh).and_then(|mut open| {
        open.write_all(text.as_bytes())?;
        std::fs::rename(&fresh, file)
    });
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}

/// Removes the oldest of the files where there are many.
fn make_room(folder: &Path) -> io::Result<()> {
    let files = by_age(folder)?;
    let many = (files.len() + 1).saturating_sub(MOST_FILES);
    files.into_iter().take(many).try_for_each(std::fs::remove_file)
}

/// The records in a folder, the oldest first. Whatever else lies there is not floe's, and the folder is the user's own.
fn by_age(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let own = std::fs::symlink_metadata(folder)?;
    if !own.is_dir() || own.uid() != rustix::process::getuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // Not by the entry: that asks for a function of glibc that older ones lack.
        let record = std::fs::symlink_metadata(&path).ok().filter(|found| found.is_file() && is_records(&path));
        files.extend(record.and_then(|found| Some((found.modified().ok()?, path))));
    }
    files.sort();
    Ok(files.into_iter().map(|(_, file)| file).collect())
}

/// Whether a file has the name of a record, or of one that was not finished.
fn is_records(file: &Path) -> bool {
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = name.strip_suffix(".new").and_then(|name| name.rsplit_once('.')).map_or(name, |(name, _)| name);
    let hash = name.rsplit_once('.').map_or("", |(_, hash)| hash);
    hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeSet;

    use floe_image::ImageKind;

    use super::*;
    use crate::objects::module::record::{LONGEST_NAME, MOST_ENTRIES};

    fn names(start: &Start, look: u8) -> Vec<String> {
        start.used(&[look; 32]).kernels.into_keys().collect()
    }

    fn found(start: &Arc<Start>, look: u8, name: &str) {
        start.origin([look; 32], None).found(name);
    }

    #[test]
    fn the_next_start_knows_what_all_before_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = || Arc::new(Start::at(folder.path().join("floe/starts/program")));
        let first = at();
        assert_eq!(names(&first, 1), Vec::<String>::new());
        for (look, name) in [(1, "b"), (1, "a c"), (2, "b"), (2, "line\nbreak"), (2, &"n".repeat(LONGEST_NAME + 1))] {
            found(&first, look, name);
        }
        first.end(Vec::new()).unwrap();
        let second = at();
        assert_eq!(
            [1, 2].map(|look| names(&second, look)),
            [vec!["a c", "b"], vec!["b"]].map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>())
        );
        found(&second, 1, "b");
        found(&second, 2, "b");
        let written = || std::fs::metadata(&second.file).unwrap().modified().unwrap();
        let before = written();
        second.end(Vec::new()).unwrap();
        assert_eq!(written(), before, "nothing is new");
        for look in 1..=3 {
            found(&second, look, "d");
        }
        second.end(Vec::new()).unwrap();
        assert_eq!([1, 2, 3].map(|look| names(&at(), look).len()), [3, 2, 1]);
        assert_eq!(std::fs::read_dir(second.file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_first_start_knows_what_other_programs_used_and_keeps_it_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        let at = |program: &str| Arc::new(Start::at(folder.path().join(name_of(Path::new(program), OsStr::new("")))));
        for (program, look) in [("one", 1), ("two", 1), ("two", 2)] {
            let start = at(program);
            found(&start, look, program);
            start.end(Vec::new()).unwrap();
        }
        let first = at("three");
        assert_eq!(names(&first, 1), ["one", "two"]);
        assert!(first.before().libraries.is_empty(), "nothing of others is asked for before the program brings it");
        found(&first, 2, "three");
        first.end(Vec::new()).unwrap();
        let second = at("three");
        assert_eq!([1, 2].map(|look| names(&second, look)), [vec![], vec!["three".to_owned()]]);
    }

    #[test]
    fn a_file_of_anything_else_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("start");
        let library = format!("floe start 2\nlibrary {} 0 0 -\n", "ab".repeat(32));
        let long = format!("{library}kernel {}\n", "n".repeat(LONGEST_NAME + 1));
        let old = format!("{} name\n", "ab".repeat(32));
        for text in ["\0\n", &old, &long, &(library.clone() + &"\n".repeat(2 << 20))] {
            std::fs::write(&file, text).unwrap();
            assert!(Start::at(file.clone()).before.libraries.is_empty());
        }
        std::fs::write(&file, &library).unwrap();
        assert_eq!(Start::at(file).before.libraries.len(), 1);
        assert!(Start::at(folder.path().to_path_buf()).before.libraries.is_empty());
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success() && Start::at(pipe).before.libraries.is_empty());
    }

    #[test]
    fn the_oldest_files_make_room_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |number: usize| folder.path().join(format!("program.{number:016x}"));
        let others: Vec<_> = (0..9).map(|number| folder.path().join(format!("{number}.txt"))).collect();
        others.iter().for_each(|file| std::fs::write(file, "").unwrap());
        std::os::unix::fs::symlink("/nowhere", folder.path().join("link.0123456789abcdef")).unwrap();
        std::fs::write(folder.path().join("program.0123456789abcdef.77.new"), "").unwrap();
        for number in 0..MOST_FILES + 5 {
            let start = Arc::new(Start::at(at(number)));
            found(&start, 1, "a");
            start.end(Vec::new()).unwrap();
        }
        assert_eq!(by_age(folder.path()).unwrap().len(), MOST_FILES);
        assert!(at(MOST_FILES + 4).exists() && others.iter().all(|file| file.exists()));
        // A folder that a link leads to is not looked through.
        let link = folder.path().join("starts");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(by_age(&link).is_err());
        let start = Arc::new(Start::at(link.join("program.0123456789abcdef")));
        found(&start, 1, "a");
        assert!(start.end(Vec::new()).is_err());
    }

    #[test]
    fn too_much_forgets_what_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let at = || Arc::new(Start::at(folder.path().join("start")));
        let fill = |look: u8| {
            let start = at();
            (0..MOST_ENTRIES + 9).for_each(|number| found(&start, look, &number.to_string()));
            start.end(Vec::new()).unwrap();
        };
        fill(1);
        fill(2);
        assert_eq!([1, 2].map(|look| names(&at(), look).len()), [0, MOST_ENTRIES]);
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
