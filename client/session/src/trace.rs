//! The trace of a program (`floe run --trace FILE`): its calls and their waits, the work that they had devices do, and what
//! went over the links, as a file for Perfetto. In: calls and waits as they end, rows of devices, counters. Out: the file.
//! A thread of its own writes it while the program runs, so that what was written stays where a program is killed. A process
//! that is not traced has none of it.

mod lines;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use floe_cupti::table::Row;
use floe_cupti::{copy_kind, kind};
use floe_lock::lock;
use serde::Serialize;

use crate::vgpu::statistics::Snapshot;
use lines::{Arrow, Lines, Place, Span};

/// Events at once that wait to be written; later ones are lost and counted.
const MOST_WAITING: usize = 1 << 20;
/// Time between two looks at the counters, after which what has happened is written.
const TICK: Duration = Duration::from_millis(100);
/// Rows whose name was said. A program that has more has the others without.
const MOST_ROWS: usize = 1 << 16;

/// What a thread of the program's did.
#[derive(Clone, Copy, Debug)]
struct Done {
    thread: u32,
    name: &'static str,
    begin: u64,
    end: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A call of this number and with this answer; whether devices may have something to do by it.
    Call {
        number: u32,
        answer: u32,
        works: bool,
    },
    Wait,
}

/// The trace of this process, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    done: Mutex<Vec<Done>>,
    lost: AtomicU64,
    writer: Mutex<Option<Writer>>,
    /// Whether the program has ended, and the word that it has.
    over: Mutex<bool>,
    ended: Condvar,
}

/// A traced process's file.
#[derive(Debug)]
struct Writer {
    lines: Lines<BufWriter<File>>,
    path: PathBuf,
    program: String,
    /// Names of the devices.
    devices: Vec<String>,
    named: BTreeSet<(u32, u32, bool)>,
    counted: Snapshot,
    counted_at: u64,
    error: Option<io::Error>,
}

thread_local! {
    /// This thread's id in the system.
    static THREAD: u32 = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    /// What the present call has waited for so far: beginning and end; and how many were not kept.
    static WAITS: RefCell<(Vec<(u64, u64)>, u64)> = const { RefCell::new((Vec::new(), 0)) };
}

/// Files of one name and process number.
const MOST_NAMES: u32 = 1000;
/// Waits of a call that are kept: a copy of a GiB waits for each of its parts. Further ones are counted as lost.
const MOST_WAITS: usize = 4096;

/// The present call of this thread has waited from then to then.
pub(crate) fn waited(begin: u64, end: u64) {
    // A thread that ends calls, too, when its locals are gone.
    let _ = WAITS.try_with(|all| {
        let (waits, lost) = &mut *all.borrow_mut();
        if waits.len() < MOST_WAITS {
            waits.push((begin, end));
        } else {
            *lost += 1;
        }
    });
}

/// The waits since the last time.
fn take_waits() -> (Vec<(u64, u64)>, u64) {
    WAITS.try_with(|all| std::mem::take(&mut *all.borrow_mut())).unwrap_or_default()
}

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    pub(crate) name: &'static str,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) number: u32,
    pub(crate) answer: u32,
    pub(crate) works: bool,
}

impl Trace {
    /// Begins to write a file, whose place must be free: another process of the program may have it, which then keeps it.
    ///
    /// # Errors
    /// Where there can be no such file.
    pub(crate) fn begin(&self, path: &Path, program: &str, now: u64) -> io::Result<()> {
        if lock(&self.writer).is_some() {
            // The devices were asked for before, in vain.
            return Ok(());
        }
        let (file, path) = create(path)?;
        let lines = Lines::begin(BufWriter::new(file), std::process::id())?;
        let program = program.to_owned();
        let (devices, named, counted) = (Vec::new(), BTreeSet::new(), Snapshot::default());
        *lock(&self.writer) =
            Some(Writer { lines, path, program, devices, named, counted, counted_at: now, error: None });
        Ok(())
    }

    /// These are the devices.
    pub(crate) fn has_devices(&self, names: Vec<String>) {
        if let Some(writer) = &mut *lock(&self.writer) {
            writer.devices = names;
        }
    }

    /// A call of this thread's is over, with what it has waited for.
    pub(crate) fn call(&self, over: &Over) {
        let thread = THREAD.with(|thread| *thread);
        let &Over { name, begin, end, number, answer, works } = over;
        let call = Done { thread, name, begin, end, what: What::Call { number, answer, works } };
        let (waits, lost) = take_waits();
        self.lost.fetch_add(lost, Ordering::Relaxed);
        let waits = waits.into_iter().map(|(begin, end)| Done { thread, name: "wait", begin, end, what: What::Wait });
        let mut done = lock(&self.done);
        for each in std::iter::once(call).chain(waits) {
            if done.len() < MOST_WAITING {
                done.push(each);
            } else {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A device has done something.
    pub(crate) fn work(&self, row: &Row, name: Option<&CStr>) {
        self.write(|writer| writer.work(row, name));
    }

    /// Writes what threads have done, and the counters.
    pub(crate) fn tick(&self, now: u64, counters: &Snapshot) {
        let done = std::mem::take(&mut *lock(&self.done));
        self.write(|writer| {
            done.iter().try_for_each(|done| writer.done(done))?;
            writer.count(now, counters)?;
            writer.lines.flush()
        });
    }

    /// Waits for the next look. `false`: the program has ended.
    pub(crate) fn rests(&self) -> bool {
        let over = lock(&self.over);
        !*floe_lock::wait_timeout(&self.ended, over, TICK)
    }

    /// The program ends: nobody looks any more.
    pub(crate) fn stop(&self) {
        *lock(&self.over) = true;
        self.ended.notify_all();
    }

    /// Closes the file. Returns what is to be said of it: what it lacks, and why.
    pub(crate) fn close(&self, lost: u64) -> Option<String> {
        let mut writer = lock(&self.writer).take()?;
        let closed = writer.lines.close();
        let place = writer.path.display();
        if let Some(error) = writer.error.or(closed.err()) {
            return Some(format!("the trace is not whole: {place}: {error}"));
        }
        let lost = lost.saturating_add(self.lost.load(Ordering::Relaxed)).saturating_add(writer.lines.left_out);
        (lost > 0).then(|| format!("the trace lacks events: {lost}: {place}\n  trace a shorter run"))
    }

    /// Writes something, unless that has failed before.
    fn write(&self, act: impl FnOnce(&mut Writer) -> io::Result<()>) {
        if let Some(writer) = &mut *lock(&self.writer)
            && writer.error.is_none()
        {
            writer.error = act(writer).err();
        }
    }
}

/// The file of a trace: what is there is left to its process, and the name gets this process's number. Where an earlier one had
/// the same number, as in containers and of programs that become others, the name is counted on.
fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    let process = std::process::id();
    let own = with_numbers(path, &format!(".{process}"));
    let further = (2..=MOST_NAMES).map(|turn| with_numbers(path, &format!(".{process}.{turn}")));
    let mut last = None;
    for place in [path.to_path_buf(), own].into_iter().chain(further) {
        match File::options().write(true).create_new(true).open(&place) {
            Ok(file) => return Ok((file, place)),
            Err(error) => {
                let kind = error.kind();
                last = Some(io::Error::new(kind, format!("{}: {error}", place.display())));
                if kind != io::ErrorKind::AlreadyExists {
                    break;
                }
            }
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

/// `run.json` with `.7` is `run.7.json`.
fn with_numbers(path: &Path, numbers: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(numbers);
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

impl Writer {
    /// Says a row's name, the first time.
    fn introduce(&mut self, place: Place) -> io::Result<()> {
        let (key, of, own) = match place {
            Place::Thread(thread) => {
                // One that has ended has none any more.
                let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
                ((0, thread, false), self.program.clone(), format!("{} {thread}", name.trim_end()))
            }
            Place::Stream(device, stream) => {
                let index = usize::try_from(device).unwrap_or(usize::MAX);
                let name = self.devices.get(index).map(String::as_str).unwrap_or_default();
                ((device, stream, true), format!("GPU {device} {name}"), format!("stream {stream}"))
            }
        };
        if self.named.len() >= MOST_ROWS || !self.named.insert(key) {
            return Ok(());
        }
        self.lines.name(place, of.trim_end(), own.trim_start())
    }

    fn done(&mut self, done: &Done) -> io::Result<()> {
        #[derive(Serialize)]
        struct Call {
            result: u32,
            call: u32,
        }
        let &Done { thread, name, begin, end, what } = done;
        let place = Place::Thread(thread);
        self.introduce(place)?;
        match what {
            What::Call { number, answer, works } => {
                let span = Span { place, name, category: "call", begin, end };
                let arrow = works.then_some(Arrow::From(number));
                self.lines.span(&span, arrow, Some(Call { result: answer, call: number }))
            }
            What::Wait => self.lines.span(&Span { place, name, category: "wait", begin, end }, None, None::<()>),
        }
    }

    fn work(&mut self, row: &Row, name: Option<&CStr>) -> io::Result<()> {
        #[derive(Serialize)]
        struct Kernel {
            grid: [u32; 3],
            block: [u32; 3],
            registers: u32,
            shared: u64,
            graph: u32,
        }
        #[derive(Serialize)]
        struct Bytes {
            bytes: u64,
            #[serde(rename = "GB/s")]
            rate: f64,
            graph: u32,
        }
        let place = Place::Stream(row.device, row.stream);
        self.introduce(place)?;
        let arrow = (row.correlation != 0).then_some(Arrow::To(row.correlation));
        let span = |name, category| Span { place, name, category, begin: row.begin, end: row.end };
        if row.kind == kind::CONCURRENT_KERNEL {
            let shared = u64::from(row.static_shared) + u64::from(row.dynamic_shared);
            let (grid, block, registers, graph) = (row.grid, row.block, row.registers, row.graph);
            let name = demangled(name.unwrap_or(c"(unknown)"));
            return self.lines.span(
                &span(&name, "kernel"),
                arrow,
                Some(Kernel { grid, block, registers, shared, graph }),
            );
        }
        #[allow(clippy::cast_precision_loss, reason = "a rate that somebody looks at")]
        let rate = row.bytes as f64 / row.end.saturating_sub(row.begin).max(1) as f64;
        let (name, category) = match (row.kind, row.copy_kind) {
            (kind::MEMSET, _) => ("fill", "fill"),
            (_, copy_kind::HOST_TO_DEVICE) => ("copy to the device", "copy"),
            (_, copy_kind::DEVICE_TO_HOST) => ("copy to the host", "copy"),
            (_, copy_kind::DEVICE_TO_DEVICE) => ("copy within the device", "copy"),
            _ => ("copy", "copy"),
        };
        self.lines.span(&span(name, category), arrow, Some(Bytes { bytes: row.bytes, rate, graph: row.graph }))
    }

    /// The rates since the last look.
    fn count(&mut self, now: u64, counters: &Snapshot) -> io::Result<()> {
        #[derive(Serialize)]
        struct Rates {
            #[serde(rename = "to device, MB/s")]
            to_device: f64,
            #[serde(rename = "from device, MB/s")]
            from_device: f64,
        }
        #[derive(Serialize)]
        struct Waits {
            #[serde(rename = "1/s")]
            waits: f64,
        }
        let seconds = Duration::from_nanos(now.saturating_sub(self.counted_at)).as_secs_f64();
        let before = std::mem::replace(&mut self.counted, *counters);
        #[allow(clippy::cast_precision_loss, reason = "a rate that somebody looks at")]
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds.max(1e-9);
        let mega = |now, before| (rate(now, before) / 1e6 * 1e3).round() / 1e3;
        let rates = Rates {
            to_device: mega(counters.bytes_to_device, before.bytes_to_device),
            from_device: mega(counters.bytes_from_device, before.bytes_from_device),
        };
        let sum = |snapshot: &Snapshot| snapshot.waited.iter().sum();
        let waits = Waits { waits: rate(sum(counters), sum(&before)).round() };
        // A curve's value holds from its moment on: that of a stretch belongs to its beginning.
        let at = std::mem::replace(&mut self.counted_at, now);
        self.lines.counts("link", at, rates)?;
        self.lines.counts("waits", at, waits)?;
        if counters.reconnects > before.reconnects {
            let down = Duration::from_micros(counters.down_micros.saturating_sub(before.down_micros));
            self.lines.moment(&format!("link made again, down for {} ms", down.as_millis()), now)?;
        }
        Ok(())
    }
}

/// Bytes of a name before and after it was made readable. A name of a few hundred may become one of many millions.
const MOST_OF_NAME: usize = 4096;

/// A text that takes so much and no more.
#[derive(Debug, Default)]
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.0.len() + more.len() > MOST_OF_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

/// A kernel's name as its author wrote it, where it is one of C++: its beginning, where it is long.
fn demangled(name: &CStr) -> String {
    let plain = name.to_string_lossy();
    let mut written = Short::default();
    if plain.len() <= MOST_OF_NAME
        && let Ok(symbol) = cpp_demangle::Symbol::new(plain.as_bytes())
    {
        // What does not fit is left out.
        let _ = symbol
            .structured_demangle(&mut written, &cpp_demangle::DemangleOptions::new().hide_expression_literal_types());
    }
    if written.0.is_empty() { plain.into_owned() } else { written.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> Vec<serde_json::Value> {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn call(number: u32) -> Over {
        Over { name: "cuLaunchKernel", begin: 1_000, end: 3_000, number, answer: 0, works: true }
    }

    #[test]
    fn calls_waits_work_and_counters_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let trace = Trace::default();
        trace.begin(&path, "program", 0).unwrap();
        trace.has_devices(vec!["a GPU".into()]);
        waited(1_500, 2_500);
        trace.call(&call(1));
        trace.call(&call(2));
        let row = Row { begin: 2_000, end: 2_400, correlation: 1, ..Row::new(kind::CONCURRENT_KERNEL) };
        trace.work(&row, Some(c"_Z3addPfi"));
        let counters = Snapshot { bytes_to_device: 1_000_000, reconnects: 1, ..Snapshot::default() };
        trace.tick(1_000_000_000, &counters);
        assert_eq!(trace.close(0), None);
        let all = read(&path);
        let named = |name: &str| all.iter().filter(|event| event["name"] == name).count();
        assert_eq!(
            ["cuLaunchKernel", "wait", "add(float*, int)", "work", "link"].map(named),
            [2, 1, 1, 3, 1],
            "the second call has waited for nothing"
        );
        let link = all.iter().find(|event| event["name"] == "link").unwrap();
        assert_eq!(link["args"]["to device, MB/s"], 1.0);
        assert_eq!(named("link made again, down for 0 ms"), 1);
    }

    #[test]
    fn a_second_process_takes_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let (first, second) = (Trace::default(), Trace::default());
        first.begin(&path, "a", 0).unwrap();
        second.begin(&path, "b", 0).unwrap();
        // A process of this number, before.
        let third = Trace::default();
        third.begin(&path, "c", 0).unwrap();
        assert_eq!((first.close(0), second.close(0), third.close(0)), (None, None, None));
        let own = |ending: &str| folder.path().join(format!("run.{}{ending}", std::process::id()));
        assert_eq!([path, own(".json"), own(".2.json")].map(|path| read(&path).len()), [0, 0, 0]);
        assert_eq!(with_numbers(Path::new("/a/run"), ".7"), Path::new("/a/run.7"));
    }

    #[test]
    fn what_is_lost_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let trace = Trace::default();
        trace.begin(&folder.path().join("run.json"), "a", 0).unwrap();
        (0..=MOST_WAITING).for_each(|_| trace.call(&call(1)));
        let said = trace.close(2).unwrap();
        assert!(said.starts_with("the trace lacks events: 3: "), "{said}");
    }

    #[test]
    fn hostile_names_end() {
        let own = |text: String| std::ffi::CString::new(text).unwrap();
        // Each parameter is twice the one before.
        let doubled =
            format!("_Z1fI1aES_IS_S_E{}v", (0..30).map(|at| format!("S{at}_IS{at}_S{at}_E")).collect::<String>());
        let names = [format!("_Z{}i", "1aIN".repeat(100_000)), format!("_Z{}i", "1aIN".repeat(1_000)), doubled];
        for name in names.map(own) {
            assert!(demangled(&name).len() <= MOST_OF_NAME.max(name.to_bytes().len()));
        }
        assert_eq!([c"_Z", c"\xff"].map(demangled), ["_Z", "\u{fffd}"]);
    }
}
