//! What a server recorded, as the program's profiler gets it. In: replies of a server, which may say anything. Out: rows.
//! Their number is bounded. The pieces in which one call's copy was made are one row, as they are one copy for the program.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, CString};

use floe_cupti::kind;
use floe_cupti::table::Row;
use floe_wire::{Activity, TakeActivitiesReply};

use super::clock::ServerClock;

/// Rows of a server at once. Later ones are lost.
const MOST: usize = 1 << 21;
/// Bytes of names of a server at once, with what each takes beside them: there may be many short ones.
const MOST_NAME_BYTES: usize = 64 << 20;
/// What a name takes beside its two texts: its places in the list and the table, and both allocations.
const BESIDE_NAME: usize = 128;

/// A row whose name is in the list.
#[derive(Clone, Copy, Debug)]
struct Taken {
    row: PlainRow,
    name: Option<usize>,
}

/// A row without a name: it can be kept between threads.
#[derive(Clone, Copy, Debug)]
struct PlainRow {
    activity: Activity,
    correlation: u32,
    begin: u64,
    end: u64,
    copies: u64,
}

/// Rows of one server.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<Taken>,
    names: Vec<CString>,
    by_name: HashMap<Vec<u8>, usize>,
    name_bytes: usize,
    /// The row of a call's copies of a kind, on a stream.
    copies: HashMap<(u32, u8, u32), usize>,
    pub(super) lost: u64,
}

impl Rows {
    /// Takes a reply in. `call_of` says which call a command was sent for.
    pub(super) fn add(&mut self, reply: &TakeActivitiesReply<'_>, call_of: impl Fn(u64) -> u32) {
        let names: Vec<Option<usize>> = reply.names.iter().map(|name| self.name(name)).collect();
        for activity in &reply.activities {
            if activity.kind > 2 || activity.end < activity.begin || self.rows.len() >= MOST {
                self.lost += 1;
                continue;
            }
            let name = usize::try_from(activity.name).ok().and_then(|index| names.get(index).copied().flatten());
            let correlation = call_of(activity.command);
            if !self.joins(activity, correlation) {
                let (begin, end) = (activity.begin, activity.end);
                let row = PlainRow { activity: *activity, correlation, begin, end, copies: 1 };
                self.rows.push(Taken { row, name: name.filter(|_| activity.kind == 0) });
            }
        }
    }

    /// Whether it is a further piece of a copy, which it then is a part of.
    fn joins(&mut self, activity: &Activity, correlation: u32) -> bool {
        if activity.kind != 1 || correlation == 0 || activity.graph != 0 {
            return false;
        }
        match self.copies.entry((correlation, activity.copy_kind, activity.stream)) {
            Entry::Vacant(place) => {
                place.insert(self.rows.len());
                false
            }
            Entry::Occupied(known) => {
                let Some(whole) = self.rows.get_mut(*known.get()) else { return false };
                whole.row.activity.bytes = whole.row.activity.bytes.saturating_add(activity.bytes);
                whole.row.begin = whole.row.begin.min(activity.begin);
                whole.row.end = whole.row.end.max(activity.end);
                true
            }
        }
    }

    fn name(&mut self, name: &str) -> Option<usize> {
        if let Some(known) = self.by_name.get(name.as_bytes()) {
            return Some(*known);
        }
        self.name_bytes += 2 * name.len() + BESIDE_NAME;
        if self.name_bytes > MOST_NAME_BYTES {
            return None;
        }
        // A name with a zero in it is none that a compiler gives.
        let kept = CString::new(name).ok()?;
        self.names.push(kept);
        let index = self.names.len() - 1;
        self.by_name.insert(name.as_bytes().to_vec(), index);
        Some(index)
    }

    /// Gives all rows of a device, in this process's time.
    pub(super) fn give(&self, device: u32, clock: &ServerClock, give: &mut dyn FnMut(&Row, Option<&CStr>)) {
        for Taken { row, name } in &self.rows {
            let mut given = row.on_device(device, clock);
            let known = name.and_then(|index| self.names.get(index)).map(CString::as_c_str);
            let name = known.or((given.kind == kind::CONCURRENT_KERNEL).then_some(c"(unknown)"));
            given.name = name.map_or(std::ptr::null(), CStr::as_ptr);
            give(&given, name);
        }
    }
}

impl PlainRow {
    fn on_device(&self, device: u32, clock: &ServerClock) -> Row {
        let it = &self.activity;
        let (begin, end) = clock.map_both(self.begin, self.end);
        let kind = match it.kind {
            0 => kind::CONCURRENT_KERNEL,
            1 => kind::MEMCPY,
            _ => kind::MEMSET,
        };
        Row {
            correlation: self.correlation,
            begin,
            end,
            device,
            stream: it.stream,
            grid: [it.grid_x, it.grid_y, it.grid_z],
            block: [it.block_x, it.block_y, it.block_z],
            registers: it.registers,
            static_shared: it.static_shared,
            dynamic_shared: it.dynamic_shared,
            local: it.local,
            copy_kind: it.copy_kind,
            source_kind: it.source_kind,
            target_kind: it.target_kind,
            is_async: it.is_async.into(),
            value: it.value,
            bytes: it.bytes,
            copies: self.copies,
            graph: it.graph,
            node: it.node,
            ..Row::new(kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use floe_cupti::clock::Pair;

    use super::*;

    fn given(rows: &Rows) -> Vec<(u32, u32, u64, u64, u64)> {
        let mut all = Vec::new();
        let clock = ServerClock::new(Pair { from: 0, to: 0 });
        rows.give(3, &clock, &mut |row, _| all.push((row.kind, row.correlation, row.begin, row.end, row.bytes)));
        all
    }

    fn copy(command: u64, begin: u64, bytes: u64) -> Activity {
        Activity { kind: 1, copy_kind: 1, command, begin, end: begin + 10, bytes, ..Activity::default() }
    }

    #[test]
    fn pieces_of_a_calls_copy_are_one_and_copies_of_other_calls_are_not() {
        let mut rows = Rows::default();
        let activities = vec![copy(1, 100, 64), copy(2, 120, 32), copy(3, 200, 8), copy(9, 300, 1), copy(9, 400, 1)];
        let reply = TakeActivitiesReply { activities, ..TakeActivitiesReply::default() };
        rows.add(&reply, |command| if command < 3 { 7 } else { u32::from(command == 3) * 8 });
        let whole = (kind::MEMCPY, 7, 100, 130, 96);
        let others = [(kind::MEMCPY, 8, 200, 210, 8), (kind::MEMCPY, 0, 300, 310, 1), (kind::MEMCPY, 0, 400, 410, 1)];
        assert_eq!(given(&rows), [[whole].as_slice(), &others].concat());
    }

    #[test]
    fn many_short_names_are_bounded_as_long_ones_are() {
        let mut rows = Rows::default();
        let texts: Vec<String> = (0..100_000).map(|name| format!("{name:x}")).collect();
        for batch in 0..10 {
            let texts: Vec<String> = texts.iter().map(|text| format!("{batch}{text}")).collect();
            let names = texts.iter().map(String::as_str).collect();
            rows.add(&TakeActivitiesReply { names, ..TakeActivitiesReply::default() }, |_| 0);
        }
        assert!(rows.names.len() <= MOST_NAME_BYTES / BESIDE_NAME, "{}", rows.names.len());
        assert_eq!(rows.names.len(), rows.by_name.len());
    }

    #[test]
    fn what_a_server_says_is_looked_at_before_it_is_believed() {
        let mut rows = Rows::default();
        let kernel = Activity { begin: 5, end: 6, name: 40, ..Activity::default() };
        let activities =
            vec![kernel, Activity { kind: 3, ..kernel }, Activity { end: 4, ..kernel }, Activity { name: 0, ..kernel }];
        rows.add(&TakeActivitiesReply { activities, names: vec!["a\0b"], ..TakeActivitiesReply::default() }, |_| 0);
        assert_eq!((given(&rows).len(), rows.lost), (2, 2));
        let clock = ServerClock::new(Pair::default());
        rows.give(0, &clock, &mut |row, _| {
            assert!(!row.name.is_null(), "a kernel without a name has one all the same")
        });
    }
}
