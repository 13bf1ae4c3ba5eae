//! The tables of docs/explanation/copies.md, row by row, and what holds of every way.

use std::cell::RefCell;

use floe_surface::{CopyBox, CopyEnd, CopyPlace};
use proptest::prelude::*;

use super::*;

const PAGE: &str = include_str!("../../../../../../docs/explanation/copies.md");
const KIB: usize = 1 << 10;
/// Bytes on both sides of every limit.
const SIZES: [usize; 11] = [
    1,
    32 * KIB - 1,
    32 * KIB,
    64 * KIB - 1,
    64 * KIB,
    128 * KIB - 1,
    128 * KIB,
    512 * KIB - 1,
    512 * KIB,
    32 << 20,
    100 << 20,
];

/// The circumstances, and which of them were asked for.
#[derive(Debug, Clone, Default)]
struct Facts {
    pinned: Option<Pinned>,
    is_shared: bool,
    is_mirrored: bool,
    is_mirror_of_device: bool,
    is_arriving: bool,
    functions_may_write: bool,
    something_writes: bool,
    has_slots: bool,
    has_bulk: bool,
    asked: RefCell<Vec<&'static str>>,
}

impl Facts {
    fn asked<T>(&self, question: &'static str, answer: T) -> T {
        self.asked.borrow_mut().push(question);
        answer
    }
}

impl Circumstances for Facts {
    fn pinned(&self) -> Option<Pinned> {
        self.asked("pinned", self.pinned)
    }

    fn is_shared(&self) -> bool {
        self.asked("shared", self.is_shared)
    }

    fn is_mirrored(&self) -> bool {
        self.asked("mirrored", self.is_mirrored)
    }

    fn is_mirror_of_device(&self) -> bool {
        self.asked("mirror of the device", self.is_mirrored && self.is_mirror_of_device)
    }

    fn is_arriving(&self) -> bool {
        self.asked("arriving", self.is_arriving)
    }

    fn may_change(&self) -> bool {
        self.asked("arriving", self.is_arriving || self.functions_may_write)
    }

    fn nothing_writes(&self) -> bool {
        self.asked("writes", !self.something_writes)
    }

    fn has_slots(&self) -> bool {
        self.asked("slots", self.has_slots)
    }

    fn has_bulk(&self) -> bool {
        self.asked("bulk", self.has_bulk)
    }
}

/// A worker of this machine, which maps what CUDA allocated.
fn machine(pinned: Option<Pinned>) -> Facts {
    Facts { pinned, is_shared: pinned == Some(Pinned::Allocated), has_slots: true, ..Facts::default() }
}

fn tcp(pinned: Option<Pinned>) -> Facts {
    Facts { pinned, has_bulk: true, ..Facts::default() }
}

/// Ends of a box with gaps.
fn rows(bytes: usize) -> Extent {
    let end = |pitch| CopyEnd { place: CopyPlace::Device(floe_abi::DevicePtr(0), 0), pitch, slice: 0 };
    let extent =
        Extent::of(&CopyBox { source: end(bytes), destination: end(bytes + 1), width: bytes, height: 2, depth: 1 });
    assert!(!extent.is_line());
    extent
}

/// A row of the page: its circumstances, and the sizes that it is about.
struct Row<W> {
    page: &'static str,
    ends: Vec<Facts>,
    modes: &'static [Mode],
    sizes: std::ops::Range<usize>,
    way: fn(&Facts, Mode, usize) -> W,
}

const ALLOCATED: Option<Pinned> = Some(Pinned::Allocated);
const REGISTERED: Option<Pinned> = Some(Pinned::Registered);
const BOTH: &[Mode] = &[Mode::Waits, Mode::Queues];
const ANY: std::ops::Range<usize> = 0..usize::MAX;

/// The rows of a section's table in the page.
fn page_rows(section: &str) -> Vec<&'static str> {
    let text = PAGE.split("\n## ").find(|text| text.starts_with(section)).expect("the section is there");
    text.lines().filter(|line| line.starts_with('|')).skip(2).collect()
}

fn agree<W: PartialEq + std::fmt::Debug>(section: &str, rows: &[Row<W>], choose: impl Fn(&Facts, Mode, &Extent) -> W) {
    let pages: Vec<_> = rows.iter().map(|row| row.page).collect();
    assert_eq!(page_rows(section), pages, "the page and this test have the same rows");
    for row in rows {
        for (end, mode) in row.ends.iter().flat_map(|end| row.modes.iter().map(move |mode| (end, *mode))) {
            for bytes in SIZES.into_iter().filter(|bytes| row.sizes.contains(bytes)) {
                let expected = (row.way)(end, mode, bytes);
                assert_eq!(choose(end, mode, &Extent::Line(bytes)), expected, "{}: {mode:?} {bytes} {end:?}", row.page);
            }
        }
    }
}

/// As the commands of bytes that are read at once leave.
fn by_message(bytes: usize) -> ToDevice {
    ToDevice::Sent(if bytes < 32 * KIB { Sending::InFrame } else { Sending::LargeFrames })
}

fn as_pageable_of_machine(_: &Facts, _: Mode, bytes: usize) -> ToDevice {
    if bytes < 64 * KIB { by_message(bytes) } else { ToDevice::Slots(Reading::AT_ONCE) }
}

fn send_mode(end: &Facts) -> SendMode {
    if end.pinned == ALLOCATED { SendMode::Pages } else { SendMode::Copy }
}

fn lines_to_device() -> Vec<Row<ToDevice>> {
    vec![
        Row {
            page: "| pinned, allocated | within a machine | any, asynchronous | device |",
            ends: vec![machine(ALLOCATED)],
            modes: &[Mode::Queues],
            sizes: ANY,
            way: |_, _, _| ToDevice::ByDevice,
        },
        Row {
            page: "| pinned, allocated | within a machine | 64 KiB and more, synchronous | device, then a wait |",
            ends: vec![machine(ALLOCATED)],
            modes: &[Mode::Waits],
            sizes: 64 * KIB..usize::MAX,
            way: |_, _, _| ToDevice::ByDevice,
        },
        Row {
            page: "| pinned, allocated | within a machine | below 64 KiB, synchronous, while no outstanding work may write host memory | as pageable: sending waits for nothing |",
            ends: vec![machine(ALLOCATED), Facts { something_writes: true, ..machine(ALLOCATED) }],
            modes: &[Mode::Waits],
            sizes: 0..64 * KIB,
            way: |end, mode, bytes| {
                if end.something_writes { ToDevice::ByDevice } else { as_pageable_of_machine(end, mode, bytes) }
            },
        },
        Row {
            page: "| pinned, registered | within a machine | 128 KiB and more, asynchronous | borrowed |",
            ends: vec![machine(REGISTERED)],
            modes: &[Mode::Queues],
            sizes: 128 * KIB..usize::MAX,
            way: |_, _, _| ToDevice::Sent(Sending::Borrowed(SendMode::Copy)),
        },
        Row {
            page: "| pinned, registered | within a machine | any other | as pageable |",
            ends: vec![machine(REGISTERED)],
            modes: &[Mode::Queues],
            sizes: 0..128 * KIB,
            way: as_pageable_of_machine,
        },
        Row {
            page: "| pageable | within a machine | 64 KiB and more | slots; bytes that find no slot go in large frames |",
            ends: vec![machine(None)],
            modes: BOTH,
            sizes: 64 * KIB..usize::MAX,
            way: |_, _, _| ToDevice::Slots(Reading::AT_ONCE),
        },
        Row {
            page: "| pageable | within a machine | below 64 KiB | below 32 KiB in the frame, else a large frame |",
            ends: vec![machine(None)],
            modes: BOTH,
            sizes: 0..64 * KIB,
            way: |_, _, bytes| by_message(bytes),
        },
        Row {
            page: "| pinned | TCP, asynchronous | 128 KiB to 512 KiB | borrowed |",
            ends: vec![tcp(ALLOCATED), tcp(REGISTERED)],
            modes: &[Mode::Queues],
            sizes: 128 * KIB..512 * KIB,
            way: |end, _, _| ToDevice::Sent(Sending::Borrowed(send_mode(end))),
        },
        Row {
            page: "| pinned | TCP | 512 KiB and more | bulk; asynchronous: borrowed. Allocated memory leaves as zero-copy sends |",
            ends: vec![tcp(ALLOCATED), tcp(REGISTERED)],
            modes: BOTH,
            sizes: 512 * KIB..usize::MAX,
            way: |end, mode, _| {
                let reading = Reading { is_borrowed: mode == Mode::Queues, send_mode: send_mode(end) };
                ToDevice::Sent(Sending::Bulk(reading))
            },
        },
        Row {
            page: "| pageable | TCP | 512 KiB and more | bulk; from 32 MiB on copied ahead where processors are spare |",
            ends: vec![tcp(None)],
            modes: BOTH,
            sizes: 512 * KIB..usize::MAX,
            way: |_, _, _| ToDevice::Sent(Sending::Bulk(Reading::AT_ONCE)),
        },
        Row {
            page: "| any other | TCP | below 512 KiB | below 32 KiB in the frame, else a large frame |",
            ends: vec![tcp(None), tcp(ALLOCATED), tcp(REGISTERED)],
            modes: &[Mode::Waits],
            sizes: 0..512 * KIB,
            way: |_, _, bytes| by_message(bytes),
        },
    ]
}

fn lines_to_host() -> Vec<Row<ToHost>> {
    vec![
        Row {
            page: "| pinned, allocated | within a machine | any | device; a synchronous copy waits for the stream |",
            ends: vec![machine(ALLOCATED)],
            modes: BOTH,
            sizes: ANY,
            way: |_, _, _| ToHost::ByDevice,
        },
        Row {
            page: "| pinned, not mirrored | any, asynchronous | any | the call returns; bytes arrive by bulk from 512 KiB on, else in deliveries |",
            ends: vec![tcp(ALLOCATED), tcp(REGISTERED), machine(REGISTERED)],
            modes: &[Mode::Queues],
            sizes: ANY,
            way: |_, _, _| ToHost::Delivered,
        },
        Row {
            page: "| any other | within a machine | 64 KiB and more | slots |",
            ends: vec![machine(None)],
            modes: BOTH,
            sizes: 64 * KIB..usize::MAX,
            way: |_, _, _| ToHost::Slots,
        },
        Row {
            page: "| any other | any | any | the caller waits; bytes arrive by bulk from 512 KiB on, else in deliveries |",
            ends: vec![tcp(None), Facts { is_mirrored: true, ..tcp(ALLOCATED) }],
            modes: BOTH,
            sizes: ANY,
            way: |_, _, _| ToHost::Awaited,
        },
    ]
}

#[test]
fn lines_to_the_device_go_as_the_page_says() {
    agree("One line, host to device", &lines_to_device(), |end, mode, extent| {
        let (first, way) = to_device(end, mode, extent);
        assert_eq!(first, First::default());
        way
    });
}

#[test]
fn lines_to_the_host_go_as_the_page_says() {
    agree("One line, device to host", &lines_to_host(), to_host);
}

#[test]
fn a_source_that_may_change_is_read_late_or_behind_its_writers() {
    let behind_function = |pinned| Facts { functions_may_write: true, ..tcp(pinned) };
    let line = Extent::Line(4);
    let deferred = (First::default(), ToDevice::Deferred);
    assert_eq!(to_device(&behind_function(REGISTERED), Mode::Queues, &line), deferred);
    assert_eq!(to_device(&behind_function(None), Mode::Recorded, &rows(4)), deferred);
    let writers = First { stream: false, writers: true };
    assert_eq!(to_device(&behind_function(None), Mode::Queues, &line), (writers, by_message(4)));
    let both = First { stream: true, writers: true };
    assert_eq!(to_device(&behind_function(ALLOCATED), Mode::Waits, &rows(4)), (both, ToDevice::Packed));
    // Kernels may have written it.
    let mirrored = Facts { is_mirrored: true, ..tcp(ALLOCATED) };
    assert_eq!(to_device(&mirrored, Mode::Queues, &line).0, First { stream: true, writers: false });
    // Those of the device itself stand in its mirror, and nothing else may write there meanwhile.
    let own = Facts { is_mirror_of_device: true, ..mirrored.clone() };
    assert_eq!(to_device(&own, Mode::Queues, &line), (First::default(), ToDevice::ByMirror));
    assert_eq!(to_device(&own, Mode::Queues, &rows(4)), (First::default(), ToDevice::ByMirror));
    assert_eq!(to_device(&own, Mode::Waits, &line), to_device(&mirrored, Mode::Waits, &line));
    for changing in [Facts { is_arriving: true, ..own.clone() }, Facts { functions_may_write: true, ..own }] {
        // The stream may stand at a function that waits for this thread.
        assert_eq!(to_device(&changing, Mode::Queues, &line), deferred);
    }
    // The device does not read what is on its way from elsewhere.
    let arriving = Facts { is_arriving: true, ..machine(ALLOCATED) };
    assert_eq!(to_device(&arriving, Mode::Queues, &line), deferred);
    assert_eq!(to_host(&arriving, Mode::Queues, &line), ToHost::Delivered);
}

#[test]
fn boxes_are_the_devices_or_travel_packed() {
    for mode in [Mode::Waits, Mode::Queues, Mode::Recorded] {
        assert_eq!(to_device(&machine(ALLOCATED), mode, &rows(4)), (First::default(), ToDevice::ByDevice));
        assert_eq!(to_device(&machine(None), mode, &rows(1 << 20)), (First::default(), ToDevice::Packed));
    }
    assert_eq!(to_host(&machine(None), Mode::Waits, &rows(1 << 20)), ToHost::Awaited);
}

fn facts() -> impl Strategy<Value = Facts> {
    let pinned = prop::sample::select(vec![None, ALLOCATED, REGISTERED]);
    (pinned, any::<[bool; 8]>()).prop_map(|(pinned, flags)| {
        let [shared, mirrored, of_device, is_arriving, functions_may_write, something_writes, has_slots, has_bulk] =
            flags;
        let is_shared = shared && pinned == ALLOCATED;
        Facts {
            pinned,
            is_shared,
            // Nothing else is.
            is_mirrored: mirrored && pinned.is_some(),
            is_mirror_of_device: of_device,
            is_arriving,
            functions_may_write,
            something_writes,
            has_slots,
            has_bulk,
            ..Facts::default()
        }
    })
}

fn extents() -> impl Strategy<Value = Extent> {
    (prop::sample::select(SIZES.to_vec()), any::<bool>())
        .prop_map(|(bytes, is_line)| if is_line { Extent::Line(bytes) } else { rows(bytes) })
}

fn modes() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::Waits, Mode::Queues, Mode::Recorded])
}

fn is_borrowed(way: ToDevice) -> bool {
    let borrowed = |reading: Reading| reading.is_borrowed;
    match way {
        ToDevice::Slots(reading) | ToDevice::Sent(Sending::Bulk(reading)) => borrowed(reading),
        ToDevice::Sent(Sending::Borrowed(_)) => true,
        _ => false,
    }
}

proptest! {
    #[test]
    fn nothing_is_asked_twice(end in facts(), mode in modes(), extent in extents()) {
        for down in [false, true] {
            let end = end.clone();
            if down { let _ = to_host(&end, mode, &extent); } else { let _ = to_device(&end, mode, &extent); }
            let mut asked = end.asked.into_inner();
            asked.retain(|question| *question != "pinned");
            let all = asked.len();
            asked.sort_unstable();
            asked.dedup();
            // Whether memory is pinned is remembered by the lookup.
            prop_assert_eq!(asked.len(), all);
        }
    }

    #[test]
    fn a_program_that_waits_is_not_read_from_behind_its_back(end in facts(), extent in extents()) {
        let (_, way) = to_device(&end, Mode::Waits, &extent);
        prop_assert!(way != ToDevice::Deferred && !is_borrowed(way));
        prop_assert_ne!(to_host(&end, Mode::Waits, &extent), ToHost::Delivered);
    }

    #[test]
    fn pageable_memory_is_read_and_written_before_the_call_returns(end in facts(), extent in extents()) {
        let end = Facts { pinned: None, is_shared: false, is_mirrored: false, ..end };
        let (_, way) = to_device(&end, Mode::Queues, &extent);
        let by_device = [ToDevice::ByDevice, ToDevice::ByMirror].contains(&way);
        prop_assert!(way != ToDevice::Deferred && !by_device && !is_borrowed(way));
        prop_assert!(matches!(to_host(&end, Mode::Queues, &extent), ToHost::Slots | ToHost::Awaited));
    }

    #[test]
    fn bytes_that_are_read_now_are_what_stream_order_says(end in facts(), mode in modes(), extent in extents()) {
        let (first, way) = to_device(&end, mode, &extent);
        let changes = end.is_arriving || end.functions_may_write;
        prop_assert_eq!(first.writers, changes && !matches!(way, ToDevice::Deferred | ToDevice::ByDevice));
        prop_assert!(![ToDevice::ByDevice, ToDevice::ByMirror].contains(&way) || !end.is_arriving);
    }

    #[test]
    fn little_is_copied_without_asking_whether_it_is_pinned(end in facts(), bytes in 1..128 * KIB) {
        let end = Facts { is_shared: false, ..end };
        let _ = to_device(&end, Mode::Waits, &Extent::Line(bytes));
        prop_assert!(!end.asked.borrow().contains(&"pinned"));
    }
}
