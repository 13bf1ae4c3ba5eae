//! A trace as text: the JSON array of events that Chrome's tracing and Perfetto read. In: what happened, in nanoseconds of
//! this process's clock. Out: lines, as many as the limit lets through; the array is whole once it was closed. It opens no
//! file and knows no clock.
//!
//! Format: "Trace Event Format", Google, 2016.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

/// The process of a device's row: above all that Linux gives.
const DEVICES: u32 = 1_000_000_000;
/// Bytes of a trace. What comes after them is counted and not written.
const MOST_BYTES: u64 = 1 << 30;
/// Signs of a kernel's name: templates make names of many thousands.
const MOST_SIGNS: usize = 512;

/// Who does something: a thread of the program's, or a stream of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// By its id in the system.
    Thread(u32),
    /// A device's ordinal and the number that the server gave its stream.
    Stream(u32, u32),
}

/// Something that took a while.
#[derive(Clone, Debug)]
pub(super) struct Span<'a> {
    pub(super) place: Place,
    pub(super) name: &'a str,
    pub(super) category: &'static str,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// Both ends of an arrow from a call to the work that it had done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrow {
    /// From the call of this number.
    From(u32),
    /// To its work.
    To(u32),
}

/// Nanoseconds, written as the format's microseconds.
#[derive(Clone, Copy, Debug)]
struct Micros(u64);

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[allow(clippy::cast_precision_loss, reason = "a nanosecond is lost after 104 days")]
        to.serialize_f64(self.0 as f64 / 1e3)
    }
}

/// One event of the format.
#[derive(Serialize)]
struct Line<'a, A: Serialize> {
    ph: &'static str,
    name: &'a str,
    cat: &'static str,
    pid: u32,
    tid: u32,
    ts: Micros,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<Micros>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<A>,
}

/// Nothing further.
const NOTHING: Option<()> = None;

impl<'a, A: Serialize> Line<'a, A> {
    fn new(ph: &'static str, name: &'a str, (pid, tid): (u32, u32), ts: u64, args: Option<A>) -> Self {
        Self { ph, name, cat: "floe", pid, tid, ts: Micros(ts), dur: None, id: None, bp: None, args }
    }
}

/// Writes a trace.
#[derive(Debug)]
pub(super) struct Lines<W: Write> {
    to: W,
    process: u32,
    bytes: u64,
    line: Vec<u8>,
    /// Events that were not written for want of room.
    pub(super) left_out: u64,
}

impl<W: Write> Lines<W> {
    /// Begins the trace of this process.
    pub(super) fn begin(mut to: W, process: u32) -> io::Result<Self> {
        to.write_all(b"[")?;
        Ok(Self { to, process, bytes: 1, line: Vec::new(), left_out: 0 })
    }

    fn row(&self, place: Place) -> (u32, u32) {
        match place {
            Place::Thread(thread) => (self.process, thread),
            Place::Stream(device, stream) => (DEVICES.saturating_add(device), stream),
        }
    }

    fn write(&mut self, line: &Line<'_, impl Serialize>) -> io::Result<()> {
        self.line.clear();
        self.line.extend_from_slice(if self.bytes == 1 { b"\n" } else { b",\n" });
        serde_json::to_writer(&mut self.line, line)?;
        let bytes = self.bytes.saturating_add(self.line.len() as u64);
        if bytes > MOST_BYTES {
            self.left_out += 1;
            return Ok(());
        }
        self.bytes = bytes;
        self.to.write_all(&self.line)
    }

    /// A row's name, and that of the process or the device it belongs to.
    pub(super) fn name(&mut self, place: Place, of: &str, own: &str) -> io::Result<()> {
        #[derive(Serialize)]
        struct Name<'a> {
            name: &'a str,
        }
        #[derive(Serialize)]
        struct Order {
            sort_index: u32,
        }
        let row = self.row(place);
        // The program stands above its devices.
        let order = row.0.saturating_sub(DEVICES).saturating_add(u32::from(row.0 >= DEVICES));
        self.write(&Line::new("M", "process_name", row, 0, Some(Name { name: of })))?;
        self.write(&Line::new("M", "process_sort_index", row, 0, Some(Order { sort_index: order })))?;
        self.write(&Line::new("M", "thread_name", row, 0, Some(Name { name: own })))
    }

    /// Something that took a while, with an arrow where it has one.
    pub(super) fn span(
        &mut self,
        span: &Span<'_>,
        arrow: Option<Arrow>,
        args: Option<impl Serialize>,
    ) -> io::Result<()> {
        let row = self.row(span.place);
        let dur = Some(Micros(span.end.saturating_sub(span.begin)));
        self.write(&Line { cat: span.category, dur, ..Line::new("X", cut(span.name), row, span.begin, args) })?;
        let Some(arrow) = arrow else { return Ok(()) };
        // An arrow's end belongs to the span that is open at its time.
        let line = Line::new("s", "work", row, span.begin, NOTHING);
        self.write(&match arrow {
            Arrow::From(call) => Line { id: Some(call), ..line },
            Arrow::To(call) => Line { ph: "f", id: Some(call), bp: Some("e"), ..line },
        })
    }

    /// Values at a moment, each a curve.
    pub(super) fn counts(&mut self, name: &str, at: u64, values: impl Serialize) -> io::Result<()> {
        self.write(&Line::new("C", name, (self.process, 0), at, Some(values)))
    }

    /// Something that happened to all of the program.
    pub(super) fn moment(&mut self, name: &str, at: u64) -> io::Result<()> {
        #[derive(Serialize)]
        struct Whole {
            scope: &'static str,
        }
        self.write(&Line::new("i", name, (self.process, 0), at, Some(Whole { scope: "process" })))
    }

    /// Has what was written be where a reader finds it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Closes the array, for which there is always room.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.to.write_all(b"\n]\n")?;
        self.to.flush()
    }
}

fn cut(name: &str) -> &str {
    name.char_indices().nth(MOST_SIGNS).and_then(|(at, _)| name.get(..at)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(act: impl FnOnce(&mut Lines<Vec<u8>>)) -> Vec<serde_json::Value> {
        let mut lines = Lines::begin(Vec::new(), 7).unwrap();
        act(&mut lines);
        lines.close().unwrap();
        serde_json::from_slice(&lines.to).unwrap()
    }

    fn span(place: Place, name: &str) -> Span<'_> {
        Span { place, name, category: "call", begin: 1_500, end: 4_000 }
    }

    #[test]
    fn an_empty_trace_is_an_array_too() {
        assert!(written(|_| ()).is_empty());
    }

    #[test]
    fn spans_are_in_microseconds_and_arrows_name_the_call() {
        let call = |lines: &mut Lines<Vec<u8>>| {
            lines.span(&span(Place::Thread(9), "cuLaunchKernel"), Some(Arrow::From(3)), NOTHING).unwrap();
            lines.span(&span(Place::Stream(1, 14), "k"), Some(Arrow::To(3)), Some(5)).unwrap();
        };
        let all = written(call);
        let expected = serde_json::json!([
            {"ph": "X", "name": "cuLaunchKernel", "cat": "call", "pid": 7, "tid": 9, "ts": 1.5, "dur": 2.5},
            {"ph": "s", "name": "work", "cat": "floe", "pid": 7, "tid": 9, "ts": 1.5, "id": 3},
            {"ph": "X", "name": "k", "cat": "call", "pid": 1_000_000_001, "tid": 14, "ts": 1.5, "dur": 2.5, "args": 5},
            {"ph": "f", "name": "work", "cat": "floe", "pid": 1_000_000_001, "tid": 14, "ts": 1.5, "id": 3, "bp": "e"},
        ]);
        assert_eq!(serde_json::Value::from(all), expected);
    }

    #[test]
    fn names_of_others_are_escaped_and_cut() {
        let long = "\"\u{1b}]\n".repeat(MOST_SIGNS);
        let all = written(|lines| lines.span(&span(Place::Stream(0, 0), &long), None, NOTHING).unwrap());
        assert_eq!(all[0]["name"].as_str().unwrap().chars().count(), MOST_SIGNS);
    }

    #[test]
    fn a_full_trace_is_closed_and_counts_what_it_left_out() {
        let all = written(|lines| {
            let one = |lines: &mut Lines<_>| lines.span(&span(Place::Thread(1), "n"), None, NOTHING).unwrap();
            one(lines);
            lines.bytes = MOST_BYTES - 200;
            (0..3).for_each(|_| one(lines));
            assert_eq!(lines.left_out, 1);
        });
        assert_eq!(all.len(), 3);
    }
}
