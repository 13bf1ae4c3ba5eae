//! The program's driver calls and their waits, by class, and further counts. Counts come in from the calls and the
//! link, a table or a line of JSON goes out at the end.
//! Counting costs one uncontended atomic addition and never a lock.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Answered from what the process knows.
    Local,
    /// Sent something and did not need its answer.
    Post,
    /// Sent something and needed the answer.
    Call,
}

/// Names of the classes in reports, in the order of [`Class`].
const NAMES: [&str; 3] = ["local", "post", "call"];

/// Hands the table of counters to another macro. A row is a counter's name, the function that adds to it, its words in
/// the table for people, and its description. The name is also its field and its key in JSON. Words that begin with a
/// letter begin a line; `{}` is the count, `{s}` a count of microseconds in seconds.
#[macro_export]
macro_rules! counters {
    ($to:ident) => {
        $to! {
            bytes_to_device, went_to_device, "bytes to device: {}", "Bytes copied to devices.";
            bytes_from_device, came_from_device, ", from device: {}", "Bytes copied from devices.";
            shared_to_device, shared_to_device, "  of these, read from shared memory by the device: {}",
                "Of the bytes copied to devices, those that the device read from shared memory.";
            shared_from_device, shared_from_device, ", written to it: {}",
                "Of the bytes copied from devices, those that the device wrote to shared memory.";
            staged_to_device, slots_to_device, "  of these, through staging slots, to device: {}",
                "Of the bytes copied to devices, those of pageable memory that passed staging slots.";
            staged_from_device, slots_from_device, ", from device: {}",
                "Of the bytes copied from devices, those for pageable memory that passed staging slots.";
            bulk_to_device, went_by_bulk, "  of these, over bulk connections, to device: {}",
                "Of the bytes copied to devices, those that bulk connections carried.";
            bulk_staged, staged_for_bulk, " ({} copied ahead)",
                "Of the bytes that bulk connections carried to devices, those copied before a connection was free.";
            bulk_from_device, came_by_bulk, ", from device: {}",
                "Of the bytes copied from devices, those that bulk connections carried.";
            managed_page_faults, managed_faults, "managed memory page faults: {}",
                "Page faults of managed memory: touches of closed pages.";
            managed_to_device, managed_to_device, ", bytes to device: {}",
                "Bytes of managed memory that were sent to devices.";
            managed_from_device, managed_from_device, ", from device: {}",
                "Bytes of managed memory that were fetched from devices.";
            modules_known, knew_modules, "modules that the server had: {}",
                "Contents of modules that the server had.";
            modules_sent, sent_modules, ", sent to it: {}", "Contents of modules that were sent.";
            module_bytes_sent, sent_module_bytes, " ({} bytes)", "Bytes of those sent.";
            waits_left_out, went_on, "waits left out: {}", "Synchronizations that returned at once (--far).";
            reconnects, reconnected, "reconnects: {}", "Reconnects after a connection broke.";
            down_micros, was_down, " (down for {s} s)", "How long connections were down before them, in microseconds.";
        }
    };
}

macro_rules! statistics {
    ($($name:ident, $add:ident, $words:literal, $what:literal;)*) => {
        /// Counters of one process.
        #[derive(Debug, Default)]
        pub(crate) struct Statistics {
            made: [AtomicU64; 3],
            waited: [AtomicU64; 3],
            /// Times any call waited, before the first context existed.
            waited_before_context: AtomicU64,
            context_exists: AtomicU64,
            $($name: AtomicU64,)*
        }

        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Snapshot {
            /// Calls made, by class: local, post, call.
            pub made: [u64; 3],
            /// Of them, those that waited for the server.
            pub waited: [u64; 3],
            /// Waits after the first context existed.
            pub waits_with_context: u64,
            $(#[doc = $what] pub $name: u64,)*
        }

        impl Statistics {
            /// All zero.
            pub(crate) const fn new() -> Self {
                Self {
                    made: [const { AtomicU64::new(0) }; 3],
                    waited: [const { AtomicU64::new(0) }; 3],
                    waited_before_context: AtomicU64::new(0),
                    context_exists: AtomicU64::new(0),
                    $($name: AtomicU64::new(0),)*
                }
            }

            $(#[doc = $what]
            #[inline]
            pub(crate) fn $add(&self, more: u64) {
                self.$name.fetch_add(more, Ordering::Relaxed);
            })*

            /// The counters now.
            pub(crate) fn snapshot(&self) -> Snapshot {
                let read = |counters: &[AtomicU64; 3]| counters.each_ref().map(|counter| counter.load(Ordering::Relaxed));
                let waited = read(&self.waited);
                let all: u64 = waited.iter().sum();
                Snapshot {
                    made: read(&self.made),
                    waited,
                    waits_with_context: all.saturating_sub(self.waited_before_context.load(Ordering::Relaxed)),
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }
        }

        impl Snapshot {
            /// Name, words and count of each row of the table.
            fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), $words, self.$name),)*].into_iter()
            }
        }
    };
}
counters!(statistics);

impl Statistics {
    /// One call of this class is over; `waited` when it waited for the server at least once.
    pub(crate) fn made(&self, class: Class, waited: bool) {
        self.made[class as usize].fetch_add(1, Ordering::Relaxed);
        if waited {
            self.waited[class as usize].fetch_add(1, Ordering::Relaxed);
            if self.context_exists.load(Ordering::Relaxed) == 0 {
                self.waited_before_context.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A context exists from now on.
    pub(crate) fn context_exists(&self) {
        self.context_exists.store(1, Ordering::Relaxed);
    }

    /// A device reads bytes from shared memory.
    pub(crate) fn read_by_device(&self, bytes: u64) {
        self.went_to_device(bytes);
        self.shared_to_device(bytes);
    }

    /// A device writes bytes to shared memory.
    pub(crate) fn written_by_device(&self, bytes: u64) {
        self.came_from_device(bytes);
        self.shared_from_device(bytes);
    }

    /// Bytes for a device passed staging slots.
    pub(crate) fn staged_to_device(&self, bytes: u64) {
        self.went_to_device(bytes);
        self.slots_to_device(bytes);
    }

    /// Bytes from a device passed staging slots.
    pub(crate) fn staged_from_device(&self, bytes: u64) {
        self.came_from_device(bytes);
        self.slots_from_device(bytes);
    }

    /// A load found this many contents at the server.
    pub(crate) fn knew_contents(&self, count: usize) {
        self.knew_modules(count as u64);
    }

    /// A content of this many bytes was sent.
    pub(crate) fn sent_content(&self, bytes: u64) {
        self.sent_modules(1);
        self.sent_module_bytes(bytes);
    }

    /// A link that broke was made again after so long.
    pub(crate) fn made_again(&self, pause: Duration) {
        self.reconnected(1);
        self.was_down(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX));
    }

    /// A page fault of managed memory.
    pub(crate) fn managed_fault(&self) {
        self.managed_faults(1);
    }
}

impl Snapshot {
    /// A table for people.
    pub fn text(&self) -> String {
        let mut out = String::from("class        made    waited\n");
        for (index, name) in NAMES.iter().enumerate() {
            let _ = writeln!(out, "{name:<6} {:>10} {:>9}", self.made[index], self.waited[index]);
        }
        let _ = write!(out, "waits once a context existed: {}", self.waits_with_context);
        for (_, words, count) in self.rows() {
            if words.trim_start().starts_with(char::is_alphabetic) {
                out.push('\n');
            }
            let seconds = format!("{}.{:03}", count / 1_000_000, count / 1000 % 1000);
            out.push_str(&words.replace("{}", &count.to_string()).replace("{s}", &seconds));
        }
        out + "\n"
    }

    /// One line for programs.
    pub fn json(&self) -> String {
        let mut out = String::from("{");
        for (index, name) in NAMES.iter().enumerate() {
            let _ = write!(out, "\"{name}\":{{\"made\":{},\"waited\":{}}},", self.made[index], self.waited[index]);
        }
        let _ = write!(out, "\"waits_with_context\":{}", self.waits_with_context);
        for (name, _, count) in self.rows() {
            let _ = write!(out, ",\"{name}\":{count}");
        }
        out + "}"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> Snapshot {
        let statistics = Statistics::new();
        statistics.made(Class::Local, false);
        statistics.made(Class::Call, true);
        statistics.context_exists();
        statistics.made(Class::Post, false);
        statistics.made(Class::Post, true);
        statistics.made(Class::Call, true);
        statistics.went_to_device(10);
        statistics.came_from_device(4);
        statistics.read_by_device(5);
        statistics.written_by_device(6);
        statistics.staged_to_device(7);
        statistics.staged_from_device(8);
        statistics.went_by_bulk(7);
        statistics.came_by_bulk(8);
        statistics.staged_for_bulk(6);
        statistics.managed_fault();
        statistics.managed_to_device(11);
        statistics.managed_from_device(12);
        statistics.knew_contents(3);
        statistics.sent_content(9);
        statistics.went_on(4);
        statistics.made_again(Duration::from_millis(3));
        statistics.snapshot()
    }

    #[test]
    fn classes_are_counted_apart_and_waits_from_the_context_on() {
        let snapshot = counted();
        assert_eq!(snapshot.made, [1, 2, 2]);
        assert_eq!(snapshot.waited, [0, 1, 2]);
        assert_eq!(snapshot.waits_with_context, 2);
    }

    #[test]
    fn json_is_one_line_with_every_counter() {
        assert_eq!(
            counted().json(),
            "{\"local\":{\"made\":1,\"waited\":0},\"post\":{\"made\":2,\"waited\":1},\"call\":{\"made\":2,\"waited\":2},\
             \"waits_with_context\":2,\"bytes_to_device\":22,\"bytes_from_device\":18,\
             \"shared_to_device\":5,\"shared_from_device\":6,\
             \"staged_to_device\":7,\"staged_from_device\":8,\
             \"bulk_to_device\":7,\"bulk_staged\":6,\"bulk_from_device\":8,\
             \"managed_page_faults\":1,\"managed_to_device\":11,\"managed_from_device\":12,\
             \"modules_known\":3,\"modules_sent\":1,\"module_bytes_sent\":9,\
             \"waits_left_out\":4,\"reconnects\":1,\"down_micros\":3000}"
        );
    }

    #[test]
    fn the_table_for_people_has_a_line_per_subject() {
        let text = counted().text();
        let expected = "\
class        made    waited
local           1         0
post            2         1
call            2         2
waits once a context existed: 2
bytes to device: 22, from device: 18
  of these, read from shared memory by the device: 5, written to it: 6
  of these, through staging slots, to device: 7, from device: 8
  of these, over bulk connections, to device: 7 (6 copied ahead), from device: 8
managed memory page faults: 1, bytes to device: 11, from device: 12
modules that the server had: 3, sent to it: 1 (9 bytes)
waits left out: 4
reconnects: 1 (down for 0.003 s)
";
        assert_eq!(text, expected);
    }
}
