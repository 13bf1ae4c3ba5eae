//! How many driver calls the program made and how many of them waited, by class. Counts come in from the calls and the
//! link, a table or a line of JSON goes out at the end. Counting costs one uncontended atomic addition and never a lock.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a call did.
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

/// Counters of one process.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    made: [AtomicU64; 3],
    waited: [AtomicU64; 3],
    /// Times any call waited, before the first context existed.
    waited_before_context: AtomicU64,
    context_exists: AtomicU64,
    bytes_to_device: AtomicU64,
    bytes_from_device: AtomicU64,
    shared_to_device: AtomicU64,
    shared_from_device: AtomicU64,
    staged_to_device: AtomicU64,
    staged_from_device: AtomicU64,
    bulk_to_device: AtomicU64,
    bulk_from_device: AtomicU64,
    bulk_staged: AtomicU64,
    contents_known: AtomicU64,
    contents_sent: AtomicU64,
    content_bytes_sent: AtomicU64,
    links_made_again: AtomicU64,
    paused_micros: AtomicU64,
    managed_faults: AtomicU64,
    managed_to_device: AtomicU64,
    managed_from_device: AtomicU64,
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
    /// Bytes copied to devices.
    pub bytes_to_device: u64,
    /// Bytes copied from devices.
    pub bytes_from_device: u64,
    /// Of the bytes copied to devices, those the device read from shared memory.
    pub shared_to_device: u64,
    /// Of the bytes copied from devices, those the device wrote to shared memory.
    pub shared_from_device: u64,
    /// Of the bytes copied to devices, those of pageable memory that passed shared memory.
    pub staged_to_device: u64,
    /// Of the bytes copied from devices, those for pageable memory that passed shared memory.
    pub staged_from_device: u64,
    /// Of the bytes copied to devices, those that bulk connections carried.
    pub bulk_to_device: u64,
    /// Of the bytes copied from devices, those that bulk connections carried.
    pub bulk_from_device: u64,
    /// Of the bytes bulk connections carried to devices, those that were copied before a connection had room for them.
    pub bulk_staged: u64,
    /// Contents of modules that the server had.
    pub contents_known: u64,
    /// Contents of modules that were sent.
    pub contents_sent: u64,
    /// Bytes of those sent.
    pub content_bytes_sent: u64,
    /// Links that broke and were made again.
    pub links_made_again: u64,
    /// How long they were not there, in microseconds.
    pub paused_micros: u64,
    /// Touches of managed memory that stood until it was opened.
    pub managed_faults: u64,
    /// Bytes of managed memory that were sent to devices.
    pub managed_to_device: u64,
    /// Bytes of managed memory that were fetched from devices.
    pub managed_from_device: u64,
}

impl Statistics {
    /// All zero.
    pub(crate) const fn new() -> Self {
        Self {
            made: [const { AtomicU64::new(0) }; 3],
            waited: [const { AtomicU64::new(0) }; 3],
            waited_before_context: AtomicU64::new(0),
            context_exists: AtomicU64::new(0),
            bytes_to_device: AtomicU64::new(0),
            bytes_from_device: AtomicU64::new(0),
            shared_to_device: AtomicU64::new(0),
            shared_from_device: AtomicU64::new(0),
            staged_to_device: AtomicU64::new(0),
            staged_from_device: AtomicU64::new(0),
            bulk_to_device: AtomicU64::new(0),
            bulk_from_device: AtomicU64::new(0),
            bulk_staged: AtomicU64::new(0),
            contents_known: AtomicU64::new(0),
            contents_sent: AtomicU64::new(0),
            content_bytes_sent: AtomicU64::new(0),
            links_made_again: AtomicU64::new(0),
            paused_micros: AtomicU64::new(0),
            managed_faults: AtomicU64::new(0),
            managed_to_device: AtomicU64::new(0),
            managed_from_device: AtomicU64::new(0),
        }
    }

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

    /// Bytes went to a device.
    pub(crate) fn went_to_device(&self, bytes: u64) {
        self.bytes_to_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes came from a device.
    pub(crate) fn came_from_device(&self, bytes: u64) {
        self.bytes_from_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A device reads bytes from shared memory.
    pub(crate) fn read_by_device(&self, bytes: u64) {
        self.went_to_device(bytes);
        self.shared_to_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A device writes bytes to shared memory.
    pub(crate) fn written_by_device(&self, bytes: u64) {
        self.came_from_device(bytes);
        self.shared_from_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes for a device passed shared memory.
    pub(crate) fn staged_to_device(&self, bytes: u64) {
        self.went_to_device(bytes);
        self.staged_to_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes from a device passed shared memory.
    pub(crate) fn staged_from_device(&self, bytes: u64) {
        self.came_from_device(bytes);
        self.staged_from_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bulk connections carry bytes to a device.
    pub(crate) fn went_by_bulk(&self, bytes: u64) {
        self.bulk_to_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bulk connections carry bytes from a device.
    pub(crate) fn came_by_bulk(&self, bytes: u64) {
        self.bulk_from_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes for bulk connections were copied before one had room for them.
    pub(crate) fn staged_for_bulk(&self, bytes: u64) {
        self.bulk_staged.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A load found this many contents at the server.
    pub(crate) fn knew_contents(&self, count: usize) {
        self.contents_known.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// A content of this many bytes was sent.
    pub(crate) fn sent_content(&self, bytes: u64) {
        self.contents_sent.fetch_add(1, Ordering::Relaxed);
        self.content_bytes_sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A link that broke is there again after so long.
    pub(crate) fn made_again(&self, pause: Duration) {
        self.links_made_again.fetch_add(1, Ordering::Relaxed);
        self.paused_micros.fetch_add(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A touch of managed memory stood.
    pub(crate) fn managed_fault(&self) {
        self.managed_faults.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes of managed memory go to a device.
    pub(crate) fn managed_to_device(&self, bytes: u64) {
        self.managed_to_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of managed memory come from a device.
    pub(crate) fn managed_from_device(&self, bytes: u64) {
        self.managed_from_device.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The counters now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let read = |counters: &[AtomicU64; 3]| [0, 1, 2].map(|index: usize| counters[index].load(Ordering::Relaxed));
        let waited = read(&self.waited);
        let all: u64 = waited.iter().sum();
        Snapshot {
            made: read(&self.made),
            waited,
            waits_with_context: all.saturating_sub(self.waited_before_context.load(Ordering::Relaxed)),
            bytes_to_device: self.bytes_to_device.load(Ordering::Relaxed),
            bytes_from_device: self.bytes_from_device.load(Ordering::Relaxed),
            shared_to_device: self.shared_to_device.load(Ordering::Relaxed),
            shared_from_device: self.shared_from_device.load(Ordering::Relaxed),
            staged_to_device: self.staged_to_device.load(Ordering::Relaxed),
            staged_from_device: self.staged_from_device.load(Ordering::Relaxed),
            bulk_to_device: self.bulk_to_device.load(Ordering::Relaxed),
            bulk_from_device: self.bulk_from_device.load(Ordering::Relaxed),
            bulk_staged: self.bulk_staged.load(Ordering::Relaxed),
            contents_known: self.contents_known.load(Ordering::Relaxed),
            contents_sent: self.contents_sent.load(Ordering::Relaxed),
            content_bytes_sent: self.content_bytes_sent.load(Ordering::Relaxed),
            links_made_again: self.links_made_again.load(Ordering::Relaxed),
            paused_micros: self.paused_micros.load(Ordering::Relaxed),
            managed_faults: self.managed_faults.load(Ordering::Relaxed),
            managed_to_device: self.managed_to_device.load(Ordering::Relaxed),
            managed_from_device: self.managed_from_device.load(Ordering::Relaxed),
        }
    }
}

impl Snapshot {
    /// A table for people.
    pub fn text(&self) -> String {
        let mut out = String::from("class        made    waited\n");
        for (index, name) in NAMES.iter().enumerate() {
            let _ = writeln!(out, "{name:<6} {:>10} {:>9}", self.made[index], self.waited[index]);
        }
        let _ = writeln!(out, "waits once a context existed: {}", self.waits_with_context);
        let _ = writeln!(out, "bytes to device: {}, from device: {}", self.bytes_to_device, self.bytes_from_device);
        let (to, from) = (self.shared_to_device, self.shared_from_device);
        let _ = writeln!(out, "of them by the device itself: {to}, from device: {from}");
        let (to, from) = (self.staged_to_device, self.staged_from_device);
        let _ = writeln!(out, "of them through shared memory: {to}, from device: {from}");
        let (to, from) = (self.bulk_to_device, self.bulk_from_device);
        let _ =
            writeln!(out, "of them by bulk connections: {to} ({} copied first), from device: {from}", self.bulk_staged);
        let (faults, to, from) = (self.managed_faults, self.managed_to_device, self.managed_from_device);
        let _ =
            writeln!(out, "managed memory, touches that stood: {faults}, bytes to device: {to}, from device: {from}");
        let (known, sent, bytes) = (self.contents_known, self.contents_sent, self.content_bytes_sent);
        let _ = writeln!(out, "modules the server had: {known}, sent to it: {sent} ({bytes} bytes)");
        let (links, micros) = (self.links_made_again, self.paused_micros);
        let _ = writeln!(
            out,
            "links made again: {links}, not there for: {}.{:03} s",
            micros / 1_000_000,
            micros / 1000 % 1000
        );
        out
    }

    /// One line for programs.
    pub fn json(&self) -> String {
        let mut out = String::from("{");
        for (index, name) in NAMES.iter().enumerate() {
            let _ = write!(out, "\"{name}\":{{\"made\":{},\"waited\":{}}},", self.made[index], self.waited[index]);
        }
        let _ = write!(
            out,
            "\"waits_with_context\":{},\"bytes_to_device\":{},\"bytes_from_device\":{},",
            self.waits_with_context, self.bytes_to_device, self.bytes_from_device
        );
        let _ = write!(
            out,
            "\"shared_to_device\":{},\"shared_from_device\":{},",
            self.shared_to_device, self.shared_from_device
        );
        let _ = write!(
            out,
            "\"bulk_to_device\":{},\"bulk_from_device\":{},\"bulk_staged\":{},",
            self.bulk_to_device, self.bulk_from_device, self.bulk_staged
        );
        let _ = write!(
            out,
            "\"staged_to_device\":{},\"staged_from_device\":{},",
            self.staged_to_device, self.staged_from_device
        );
        let _ = write!(
            out,
            "\"modules_known\":{},\"modules_sent\":{},\"module_bytes_sent\":{},",
            self.contents_known, self.contents_sent, self.content_bytes_sent
        );
        let _ = write!(
            out,
            "\"managed_faults\":{},\"managed_to_device\":{},\"managed_from_device\":{},",
            self.managed_faults, self.managed_to_device, self.managed_from_device
        );
        let _ =
            write!(out, "\"links_made_again\":{},\"paused_micros\":{}}}", self.links_made_again, self.paused_micros);
        out
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
             \"bulk_to_device\":7,\"bulk_from_device\":8,\"bulk_staged\":6,\
             \"staged_to_device\":7,\"staged_from_device\":8,\
             \"modules_known\":3,\"modules_sent\":1,\"module_bytes_sent\":9,\
             \"managed_faults\":1,\"managed_to_device\":11,\"managed_from_device\":12,\
             \"links_made_again\":1,\"paused_micros\":3000}"
        );
    }

    #[test]
    fn the_table_has_a_row_per_class() {
        let text = counted().text();
        for name in NAMES {
            assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
        }
    }
}
