use proptest::prelude::*;

use super::*;

const AT: u64 = 0x2000_0000_0000;

fn granule(first: u64, count: u64) -> Range<u64> {
    AT + first * GRANULE..AT + (first + count) * GRANULE
}

/// Touches until nothing stands in the way.
fn touched(residency: &mut ResidencyMap, address: u64, writes: bool) -> Option<Fetch> {
    let fetch = residency.touch(address, writes, true)?;
    residency.opened(&fetch);
    assert_eq!(residency.touch(address, writes, true), None);
    Some(fetch)
}

#[test]
fn a_touch_brings_one_granule_and_those_that_follow_bring_more() {
    let mut residency = ResidencyMap::on_device(granule(0, 8));
    for (at, bytes) in [(0, granule(0, 1)), (1, granule(1, 2)), (3, granule(3, 4)), (7, granule(7, 1))] {
        let fetch = touched(&mut residency, AT + at * GRANULE + 5, false).unwrap();
        assert_eq!(fetch, Fetch { bytes, fetched: true, writable: false });
    }
}

#[test]
fn what_was_read_is_not_fetched_again_and_only_what_was_written_is_sent() {
    let mut residency = ResidencyMap::on_device(granule(0, 4));
    touched(&mut residency, AT, false);
    let fetch = touched(&mut residency, AT + 9, true).unwrap();
    assert_eq!(fetch, Fetch { bytes: granule(0, 1), fetched: false, writable: true });
    touched(&mut residency, AT + 2 * GRANULE, false);
    let flush = residency.flush(&residency.bytes());
    assert_eq!(flush, Flush { closed: vec![granule(0, 1), granule(2, 1)], sent: vec![granule(0, 1)] });
    residency.closed(&flush);
    assert!(!residency.is_open());
    assert_eq!(residency.flush(&residency.bytes()), Flush::default());
}

#[test]
fn a_fresh_holding_goes_as_a_whole_and_its_last_piece_is_short() {
    let bytes = AT..AT + GRANULE + 4096;
    let mut residency = ResidencyMap::fresh(bytes.clone());
    assert_eq!(residency.touch(AT, true, true), None);
    let flush = residency.flush(&(AT..AT + 1));
    assert_eq!(flush, Flush { closed: vec![bytes.clone()], sent: Vec::new() });
    residency.closed(&flush);
    let fetch = touched(&mut residency, AT + GRANULE, true).unwrap();
    assert_eq!(fetch.bytes, AT + GRANULE..bytes.end);
}

#[test]
fn closing_a_part_leaves_the_rest_open() {
    let mut residency = ResidencyMap::on_device(granule(0, 4));
    for at in [0, 3] {
        touched(&mut residency, AT + at * GRANULE, true);
    }
    let flush = residency.flush(&granule(0, 1));
    assert_eq!(flush.sent, [granule(0, 1)]);
    residency.closed(&flush);
    assert!(residency.is_open());
    assert_eq!(residency.look(&granule(0, 4)).iter().map(|it| it.bytes.clone()).collect::<Vec<_>>(), [granule(0, 3)]);
}

/// The actions of a program and its device.
#[derive(Debug, Clone)]
enum Step {
    Read(u64),
    Write(u64, u8),
    /// A kernel writes here, after all is closed.
    Launch(u64, u8),
    /// A copy writes these bytes on the device, after those are closed.
    Copy(u64, u64, u8),
    /// A wait, after which what is closed is opened for reading.
    Look(u64, u64),
}

const COUNT: u64 = 6;
const BYTES: u64 = COUNT * GRANULE - 4096;

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..BYTES;
    prop_oneof![
        at().prop_map(Step::Read),
        (at(), any::<u8>()).prop_map(|(at, byte)| Step::Write(at, byte)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Step::Launch(at, byte)),
        (at(), at(), any::<u8>()).prop_map(|(one, other, byte)| Step::Copy(one.min(other), one.max(other) + 1, byte)),
        (at(), at()).prop_map(|(one, other)| Step::Look(one.min(other), one.max(other) + 1)),
    ]
}

/// Both sides' bytes, one for each page, and what they should be.
struct Model {
    residency: ResidencyMap,
    host: Vec<u8>,
    device: Vec<u8>,
    truth: Vec<u8>,
    access: Vec<u8>,
}

const PAGE: u64 = 4096;

fn pages(bytes: &Range<u64>) -> Range<usize> {
    let page = |at: u64| usize::try_from((at - AT) / PAGE).unwrap();
    page(bytes.start)..page(bytes.end - 1) + 1
}

impl Model {
    fn new() -> Self {
        let zeros = || vec![0; usize::try_from(BYTES / PAGE).unwrap()];
        let (host, device, truth) = (zeros(), zeros(), zeros());
        Self { residency: ResidencyMap::fresh(AT..AT + BYTES), host, device, truth, access: vec![2; zeros().len()] }
    }

    fn open(&mut self, fetch: &Fetch) {
        let pages = pages(&fetch.bytes);
        if fetch.fetched {
            assert!(self.access[pages.clone()].iter().all(|access| *access == 0), "only closed pages are written");
            self.host[pages.clone()].copy_from_slice(&self.device[pages.clone()]);
        }
        self.access[pages].fill(if fetch.writable { 2 } else { 1 });
        self.residency.opened(fetch);
    }

    fn touch(&mut self, at: u64, writes: bool) -> usize {
        if let Some(fetch) = self.residency.touch(AT + at, writes, true) {
            self.open(&fetch);
        }
        let page = usize::try_from(at / PAGE).unwrap();
        assert!(self.access[page] > u8::from(writes), "the touch continues");
        page
    }

    fn close(&mut self, bytes: &Range<u64>) {
        let flush = self.residency.flush(bytes);
        let fresh = self.residency.is_fresh();
        for closed in &flush.closed {
            self.access[pages(closed)].fill(0);
        }
        let sent = if fresh { &flush.closed } else { &flush.sent };
        for sent in sent {
            self.device[pages(sent)].copy_from_slice(&self.host[pages(sent)]);
        }
        self.residency.closed(&flush);
    }

    fn take(&mut self, step: &Step) {
        let page = |at: u64| usize::try_from(at / PAGE).unwrap();
        match step {
            Step::Read(at) => {
                let page = self.touch(*at, false);
                assert_eq!(self.host[page], self.truth[page], "the host sees what was written last");
            }
            Step::Write(at, byte) => {
                let page = self.touch(*at, true);
                (self.host[page], self.truth[page]) = (*byte, *byte);
            }
            Step::Launch(at, byte) => {
                self.close(&(AT..AT + BYTES));
                assert_eq!(self.device, self.truth, "the device sees what was written last");
                assert!(!self.residency.is_open() && self.access.iter().all(|access| *access == 0));
                (self.device[page(*at)], self.truth[page(*at)]) = (*byte, *byte);
            }
            Step::Copy(start, end, byte) => {
                let bytes = AT + start..AT + end;
                self.close(&bytes);
                for page in pages(&bytes) {
                    assert_eq!(self.device[page], self.truth[page]);
                    assert_eq!(self.access[page], 0);
                    (self.device[page], self.truth[page]) = (*byte, *byte);
                }
            }
            Step::Look(start, end) => {
                for fetch in self.residency.look(&(AT + start..AT + end)) {
                    self.open(&fetch);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn nobody_ever_sees_what_is_stale(steps in prop::collection::vec(step(), 1..60)) {
        let mut model = Model::new();
        for step in &steps {
            model.take(step);
        }
        for at in (0..BYTES).step_by(4096) {
            model.take(&Step::Read(at));
        }
    }
}
