//! A device in memory whose streams complete when a test lets them.
//! In: the calls of [`Device`]. Out: effects on a map of blocks.
//! Work of a held stream waits, with everything issued on the stream after it, until the stream is released.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::moving::slabs::Slabs;
use floe_abi::{
    Array, ArrayShape, Context, CudaError, CudaResult, DevicePtr, Event, Function, Graph, GraphExec, GraphNode,
    GraphUpdate, Library, MemHandle, MipmappedArray, Module, ResourceDescriptor, Stream, StreamMemoryOperation,
    SurfaceObject, TensorMap, TensorShape, TextureDescriptor, TextureObject, WordOperation,
};
use floe_device::{
    ArrayPlace, ClusterQuestion, Code, Conditional, Costs, Device, End, HASH_UNIT, HashKey, Image, KernelFacts,
    KernelSetting, LaunchRequest, Limits, LinkInput, LoadFailure, LoadOption, Loading, Mapped, MemoryEnd, NodeBodies,
    NodeEdge, NodeWork, PageSize, Pattern, Pinned, PlainCalls, Rows, RowsEnd, RowsPlace, TextureReferenceRequest,
    TextureRequest, UnitHash,
};

fn handle_of(code: Code) -> u64 {
    match code {
        Code::Library(library) => library.0,
        Code::Module(module) => module.0,
    }
}

/// Bytes that the device has: more than any test takes.
const ALL_MEMORY: u64 = 4 << 30;

/// Physical memory, which several devices may have.
type Memory = Arc<Mutex<Vec<u8>>>;
type Work = Box<dyn FnOnce(&mut State) + Send>;
type KernelText = (String, Vec<u32>);

/// The device.
#[derive(Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    /// Woken when held work may continue.
    changed: Arc<Condvar>,
}

/// Addresses that the device does not take meanwhile, by their number.
struct Kept(Arc<Mutex<State>>, u64);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.lock().unwrap().slabs.iter_mut().for_each(|slabs| slabs.give_back(self.1));
    }
}

#[derive(Default)]
struct State {
    physical: HashMap<u64, Memory>,
    released: Vec<u64>,
    /// Further contexts that have not ended.
    contexts: usize,
    /// No event can be made in a further context.
    no_events_apart: bool,
    /// How often its compiler was asked, where it has one.
    compiler: Option<usize>,
    /// What it makes of texts does not load.
    compiles_wrongly: bool,
    /// How many machine codes were loaded, and texts.
    loads: [usize; 2],
    /// The further contexts that streams are of.
    apart: HashMap<u64, u64>,
    mapped: BTreeMap<u64, (u64, u64, u64)>,
    /// Calls that mapped memory.
    mappings: usize,
    /// The access of each granule that any was given to.
    accesses: BTreeMap<u64, u32>,
    streams: HashMap<u64, Queue>,
    /// Stream handles in the order of their creation.
    created: Vec<u64>,
    /// In which pages pinned memory was asked for.
    pinned: Vec<PageSize>,
    held: Vec<usize>,
    events: HashMap<u64, (u64, bool)>,
    /// When events were recorded.
    times: HashMap<u64, f32>,
    records: u32,
    libraries: HashMap<u64, Vec<KernelText>>,
    /// By library: where its variables lie, behind the streams and events that there were, and their names.
    variables: HashMap<u64, (u64, Vec<String>)>,
    /// Where variables lie instead, where a test wants that.
    slabs: Option<Slabs>,
    functions: HashMap<u64, KernelText>,
    /// Host memory kernels reach, by address.
    host: HashMap<u64, Arc<Mutex<Vec<u8>>>>,
    launches: Vec<(String, [u32; 3], Vec<u8>)>,
    /// The number of launches since the device keeps nothing else of them.
    counted: Option<usize>,
    /// Nodes of graphs, by graph, as words; an instantiated graph has the number of its graph.
    graphs: HashMap<u64, Vec<String>>,
    graph_launches: Vec<Vec<String>>,
    /// Operations on words of graphs, in the order of their nodes.
    graph_words: HashMap<u64, Vec<StreamMemoryOperation>>,
    next: u64,
    /// Arrays in plain order.
    arrays: HashMap<u64, (ArrayShape, Vec<u8>)>,
    /// The levels of mipmapped ones, which are arrays.
    mipmapped: HashMap<u64, Vec<Array>>,
    /// The description that each texture and surface was made from, in words.
    textures: HashMap<u64, String>,
    last_texture: u64,
    references: BTreeMap<String, String>,
    broken: Option<CudaError>,
    elsewhere: bool,
    fail_stream: bool,
    fail_level: bool,
    /// No memory is mapped from this address on.
    full_from: Option<u64>,
    /// Names of the threads that asked for events.
    asked_by: BTreeSet<String>,
    /// The events they asked for.
    asked_about: BTreeSet<u64>,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Step>,
    busy: bool,
}

enum Step {
    Do(Work),
    Record(u64, u64),
    Wait(u64, u64),
    /// Continues when 32 bits are as the operation wants them.
    Word(WordOperation),
    Host(Box<dyn FnOnce() + Send>),
}

/// Pinned memory, and the borrowed part of it: sockets may hold pages of that.
pub(crate) struct FakePinned(Arc<Mutex<Vec<u8>>>, Mutex<Vec<Vec<u8>>>);

impl Pinned for FakePinned {
    fn bytes(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn unpin(&self) {}

    fn pin_again(&self) {}

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.0.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn lend(&self, offset: usize, bytes: usize, write: &mut dyn FnMut(&[u8])) {
        let copy = self.0.lock().unwrap()[offset..offset + bytes].to_vec();
        write(&copy);
        self.1.lock().unwrap().push(copy);
    }

    fn fill(&self, offset: usize, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) {
        let mut copy = vec![0; bytes];
        fill(&mut copy);
        self.write(offset, &copy);
    }
}

/// An end of a copy of rows, as a stream keeps it; memory with its pitch.
enum Spot {
    Device(u64, u64),
    Host(Arc<Mutex<Vec<u8>>>, usize, u64),
    Array(ArrayPlace),
}

impl Spot {
    fn of(end: RowsEnd<'_, FakeMapped>) -> Self {
        match end {
            RowsEnd::Memory(End::Device(at), pitch) => Self::Device(at.0, pitch),
            RowsEnd::Memory(End::Host(memory, offset), pitch) => Self::Host(Arc::clone(&memory.memory), offset, pitch),
            RowsEnd::Array(place) => Self::Array(place),
        }
    }

    fn rows(rows: Rows) -> Self {
        match rows.place {
            RowsPlace::Memory(at, pitch) => Self::Device(at.0, pitch),
            RowsPlace::Array(place) => Self::Array(place),
        }
    }

    /// Calls `act` with the bytes of a row.
    fn row<T>(&self, state: &mut State, index: u64, bytes: u64, act: impl FnOnce(&mut [u8]) -> T) -> T {
        match self {
            Self::Device(at, pitch) => state.at(at + index * pitch, bytes, act).unwrap(),
            Self::Host(memory, offset, pitch) => {
                let start = offset + usize::try_from(index * pitch).unwrap();
                act(&mut memory.lock().unwrap()[start..start + usize::try_from(bytes).unwrap()])
            }
            Self::Array(place) => {
                let (shape, contents) = state.arrays.get_mut(&place.array.0).unwrap();
                let [x, y, z] = place.at.map(|at| usize::try_from(at).unwrap());
                let row = y + usize::try_from(index).unwrap();
                let start = z * shape.slice_bytes() + row * shape.row_bytes() + x;
                act(&mut contents[start..start + usize::try_from(bytes).unwrap()])
            }
        }
    }

    fn read(&self, state: &mut State, index: u64, bytes: u64) -> Vec<u8> {
        self.row(state, index, bytes, |row| row.to_vec())
    }

    fn write(&self, state: &mut State, index: u64, bytes: &[u8]) {
        self.row(state, index, bytes.len() as u64, |row| row.copy_from_slice(bytes));
    }
}

/// Host memory kernels reach.
pub(crate) struct FakeMapped {
    memory: Arc<Mutex<Vec<u8>>>,
    at: u64,
    state: Arc<Mutex<State>>,
    changed: Arc<Condvar>,
}

/// Pages that devices share, by the number of their files.
static PAGES: Mutex<BTreeMap<u64, Weak<Mutex<Vec<u8>>>>> = Mutex::new(BTreeMap::new());

/// Physical memory that was exported, by the number of its file.
static BLOCKS: Mutex<BTreeMap<u64, Weak<Mutex<Vec<u8>>>>> = Mutex::new(BTreeMap::new());

impl Drop for FakeMapped {
    fn drop(&mut self) {
        self.state.lock().unwrap().host.remove(&self.at);
    }
}

impl FakeMapped {
    fn change(&self, offset: usize, change: impl FnOnce(u64) -> u64) -> u64 {
        let mut memory = self.memory.lock().unwrap();
        let word: &mut [u8; 8] = (&mut memory[offset..offset + 8]).try_into().unwrap();
        *word = change(u64::from_le_bytes(*word)).to_le_bytes();
        let word = u64::from_le_bytes(*word);
        drop(memory);
        Fake { state: Arc::clone(&self.state), changed: Arc::clone(&self.changed) }.advance();
        word
    }
}

impl Mapped for FakeMapped {
    fn bytes(&self) -> usize {
        self.memory.lock().unwrap().len()
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.memory.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn is_reached(&self) -> bool {
        true
    }

    fn raise(&self, offset: usize, value: u64) {
        self.change(offset, |word| word.max(value));
    }

    fn add(&self, offset: usize, value: u64) -> u64 {
        self.change(offset, |word| word.wrapping_add(value))
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.memory.lock().unwrap()[offset..offset + bytes.len()]);
    }
}

impl State {
    fn handle(&mut self) -> u64 {
        self.next += 1;
        self.next + 100
    }

    fn check(&self) -> CudaResult<()> {
        self.broken.map_or(Ok(()), Err)
    }

    /// Calls `act` with the bytes at an address, of one block.
    fn at<T>(&self, address: u64, bytes: u64, act: impl FnOnce(&mut [u8]) -> T) -> CudaResult<T> {
        // Of each mapping that the range has a part of: its block, and where the part is there.
        let (mut parts, mut next) = (Vec::new(), address);
        loop {
            let (start, (length, offset, block)) =
                self.mapped.range(..=next).next_back().ok_or(CudaError::INVALID_VALUE)?;
            let end = (address + bytes).min(start + length);
            if next >= start + length && bytes > 0 {
                return Err(CudaError::INVALID_VALUE);
            }
            parts.push((*block, usize::try_from(next - start + offset).unwrap(), usize::try_from(end - next).unwrap()));
            next = end;
            if next >= address + bytes {
                break;
            }
        }
        if let [(block, from, count)] = parts[..] {
            return Ok(act(&mut self.physical[&block].lock().unwrap()[from..from + count]));
        }
        let all = |(block, from, count): &(u64, usize, usize)| {
            self.physical[block].lock().unwrap()[*from..from + count].to_vec()
        };
        let mut whole: Vec<u8> = parts.iter().flat_map(all).collect();
        let done = act(&mut whole);
        let mut rest = &whole[..];
        for (block, from, count) in parts {
            let (part, behind) = rest.split_at(count);
            self.physical[&block].lock().unwrap()[from..from + count].copy_from_slice(part);
            rest = behind;
        }
        Ok(done)
    }

    /// A word of host memory that kernels reach, with its offset there.
    fn host_word(&self, at: u64, bytes: u32) -> Option<(Arc<Mutex<Vec<u8>>>, usize)> {
        self.host.iter().find_map(|(start, memory)| {
            let offset = usize::try_from(at.checked_sub(*start)?).ok()?;
            (offset + bytes as usize <= memory.lock().unwrap().len()).then(|| (Arc::clone(memory), offset))
        })
    }

    fn word_holds(&self, word: &WordOperation) -> bool {
        let WordOperation::Wait { at, bytes, value, test, .. } = *word else { return true };
        let mut read = [0; 8];
        let size = bytes as usize;
        if let Some((memory, offset)) = self.host_word(at.0, bytes) {
            read[..size].copy_from_slice(&memory.lock().unwrap()[offset..][..size]);
        } else {
            let (start, (_, offset, block)) = self.mapped.range(..=at.0).next_back().unwrap();
            let from = usize::try_from(at.0 - start + offset).unwrap();
            read[..size].copy_from_slice(&self.physical[block].lock().unwrap()[from..][..size]);
        }
        test.holds(u64::from_le_bytes(read), value, bytes)
    }

    fn is_held(&self, stream: u64) -> bool {
        self.held.iter().any(|index| self.created.get(*index) == Some(&stream))
    }

    fn event_done(&self, event: u64, record: u64) -> bool {
        self.events.get(&event).is_none_or(|(records, done)| *records != record || *done)
    }
}

/// The start of what the compiler makes: an ELF header without sections.
const MACHINE_CODE: [u8; 64] = {
    let mut header = [0; 64];
    (header[0], header[1], header[2], header[3]) = (0x7f, b'E', b'L', b'F');
    header
};

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What texture references are of, by their names.
    pub(super) fn texture_references(&self) -> BTreeMap<String, String> {
        self.state().references.clone()
    }

    /// How many times memory was mapped.
    pub(super) fn mappings(&self) -> usize {
        self.state().mappings
    }

    /// From now on no event can be made in a further context.
    pub(super) fn make_no_events_apart(&self) {
        self.state().no_events_apart = true;
    }

    /// From now on links make machine code of texts, but of none that has this word in it: `uncompilable`.
    pub(super) fn have_a_compiler(&self) {
        self.state().compiler = Some(0);
    }

    /// From now on none of what its links make loads.
    pub(super) fn compile_wrongly(&self) {
        self.state().compiles_wrongly = true;
    }

    /// How often the compiler was asked, and what was loaded: machine codes, texts.
    pub(super) fn compiled(&self) -> (Option<usize>, [usize; 2]) {
        let state = self.state();
        (state.compiler, state.loads)
    }

    /// Further contexts and streams that have not ended.
    pub(super) fn contexts_and_streams(&self) -> (usize, usize) {
        let state = self.state();
        (state.contexts, state.streams.len())
    }

    pub(super) fn memory(&self, at: u64, bytes: u64) -> Vec<u8> {
        self.state().at(at, bytes, |bytes| bytes.to_vec()).unwrap()
    }

    /// Work of the stream that was created as the `index`th waits from here on.
    /// Variables lie in slabs from now on.
    pub(super) fn in_slabs(&self, act: impl FnOnce(&mut Slabs)) {
        act(self.state().slabs.get_or_insert_with(|| Slabs::below(0x7fff_0000_0000)));
    }

    pub(super) fn hold(&self, index: usize) {
        self.state().held.push(index);
    }

    pub(super) fn release(&self, index: usize) {
        self.state().held.retain(|held| *held != index);
        self.advance();
    }

    pub(super) fn physical(&self) -> usize {
        let state = self.state();
        let mapped: Vec<u64> = state.mapped.values().map(|(_, _, block)| *block).collect();
        state.physical.keys().filter(|block| !state.released.contains(block) || mapped.contains(block)).count()
    }

    /// The access of each granule that any was given to, by address.
    pub(super) fn accesses(&self) -> BTreeMap<u64, u32> {
        self.state().accesses.clone()
    }

    /// Streams, events and libraries that exist.
    pub(super) fn handles(&self) -> usize {
        let state = self.state();
        state.streams.keys().filter(|stream| **stream > 2).count() + state.events.len() + state.libraries.len()
    }

    /// Arrays that exist, and what textures and surfaces read, in words and their order.
    pub(super) fn arrays(&self) -> (usize, Vec<String>) {
        let state = self.state();
        let mut textures: Vec<String> = state.textures.values().cloned().collect();
        textures.sort_unstable();
        (state.arrays.len(), textures)
    }

    /// Whether the device reaches host memory that starts there.
    pub(super) fn has_host(&self, at: u64) -> bool {
        self.state().host.contains_key(&at)
    }

    /// The bytes that the device sees at host memory it reaches.
    pub(super) fn host(&self, at: u64) -> Arc<Mutex<Vec<u8>>> {
        Arc::clone(&self.state().host[&at])
    }

    /// In which pages pinned memory was asked for.
    pub(super) fn pinned(&self) -> Vec<PageSize> {
        self.state().pinned.clone()
    }

    pub(super) fn graph_launches(&self) -> Vec<Vec<String>> {
        self.state().graph_launches.clone()
    }

    pub(super) fn launches(&self) -> Vec<(String, [u32; 3], Vec<u8>)> {
        self.state().launches.clone()
    }

    /// Launches are only counted from here on: one takes no memory. Gives how many were counted before.
    pub(super) fn count_launches(&self) -> usize {
        self.state().counted.replace(0).unwrap_or(0)
    }

    /// The threads that have asked for events since this was asked.
    pub(super) fn asked_by(&self) -> Vec<String> {
        std::mem::take(&mut self.state().asked_by).into_iter().collect()
    }

    /// Waits until so many events were asked for since this was asked, and then for a moment: no more are.
    pub(super) fn expect_asked_about(&self, count: usize) {
        let (asked, end) = (|| self.state().asked_about.len(), Instant::now() + PATIENCE);
        while asked() < count {
            assert!(Instant::now() < end, "of {count}: {}", asked());
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(asked(), count);
        self.forget_asked_about();
    }

    /// The events that were asked for do not count any longer.
    pub(super) fn forget_asked_about(&self) {
        self.state().asked_about.clear();
    }

    /// From here on every use of the device is this error.
    pub(super) fn break_context(&self, code: u32) {
        self.state().broken = CudaError::from_code(code);
    }

    pub(super) fn reserve_elsewhere(&self) {
        self.state().elsewhere = true;
    }

    /// Has the device's memory for tables be at its end for addresses from this one on.
    pub(super) fn fill_from(&self, at: u64) {
        self.state().full_from = Some(at);
    }

    /// Mappings from this address on.
    pub(super) fn mapped_from(&self, at: u64) -> usize {
        self.state().mapped.range(at..).count()
    }

    pub(super) fn fail_next_level(&self) {
        self.state().fail_level = true;
    }

    pub(super) fn fail_next_stream(&self) {
        self.state().fail_stream = true;
    }

    /// A page that several devices of this process have, each by a descriptor of its file.
    fn share_page(&self, file: BorrowedFd<'_>, at: DevicePtr, bytes: usize) -> CudaResult<FakeMapped> {
        let of_file = rustix::fs::fstat(file).unwrap().st_ino;
        let mut pages = PAGES.lock().unwrap();
        let memory = pages.get(&of_file).and_then(Weak::upgrade);
        let memory = memory.unwrap_or_else(|| Arc::new(Mutex::new(vec![0; bytes])));
        pages.insert(of_file, Arc::downgrade(&memory));
        self.state().host.insert(at.0, Arc::clone(&memory));
        Ok(self.mapped(memory, at))
    }

    fn mapped(&self, memory: Arc<Mutex<Vec<u8>>>, at: DevicePtr) -> FakeMapped {
        FakeMapped { memory, at: at.0, state: Arc::clone(&self.state), changed: Arc::clone(&self.changed) }
    }

    /// Looks again at words that streams wait for, which another device may have changed.
    pub(super) fn look(&self) {
        self.advance();
    }

    fn enqueue(&self, stream: Stream, step: Step) {
        self.state().streams.entry(stream.0).or_default().work.push_back(step);
        self.advance();
    }

    fn work(&self, stream: Stream, work: impl FnOnce(&mut State) + Send + 'static) -> CudaResult<()> {
        let state = self.state();
        state.check()?;
        if state.apart.get(&stream.0).copied().unwrap_or(0) != CURRENT.get() {
            // A driver takes a copy, which is in the order of the current context then.
            return Err(CudaError::INVALID_CONTEXT);
        }
        drop(state);
        self.enqueue(stream, Step::Do(Box::new(work)));
        Ok(())
    }

    /// Does everything that nothing holds up.
    fn advance(&self) {
        loop {
            let mut state = self.state();
            let ready = state.streams.iter().find_map(|(stream, queue)| {
                let first = queue.work.front()?;
                let free = !queue.busy && !state.is_held(*stream);
                let go = match first {
                    Step::Wait(event, record) => state.event_done(*event, *record),
                    Step::Word(word) => state.word_holds(word),
                    _ => true,
                };
                (free && go).then_some(*stream)
            });
            let Some(stream) = ready else { break };
            let queue = state.streams.get_mut(&stream).unwrap();
            match queue.work.pop_front().unwrap() {
                Step::Do(work) => work(&mut state),
                Step::Wait(..) | Step::Word(_) => {}
                Step::Record(event, record) => {
                    if let Some(entry) = state.events.get_mut(&event).filter(|entry| entry.0 == record) {
                        entry.1 = true;
                    }
                }
                Step::Host(body) => {
                    queue.busy = true;
                    self.run_host(stream, body);
                }
            }
        }
        self.changed.notify_all();
    }

    fn run_host(&self, stream: u64, body: Box<dyn FnOnce() + Send>) {
        let again = Self { state: Arc::clone(&self.state), changed: Arc::clone(&self.changed) };
        std::thread::spawn(move || {
            body();
            if let Some(queue) = again.state().streams.get_mut(&stream) {
                queue.busy = false;
            }
            again.advance();
        });
    }
}

thread_local! {
    /// The thread's current context; 0: the device's first.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

impl Device for Fake {
    type Pinned = FakePinned;
    type Mapped = FakeMapped;

    fn enter(&self) -> CudaResult<()> {
        CURRENT.set(0);
        Ok(())
    }

    fn make_context(&self) -> CudaResult<Context> {
        let mut state = self.state();
        state.contexts += 1;
        Ok(Context(state.handle()))
    }

    fn enter_context(&self, context: Context) -> CudaResult<()> {
        CURRENT.set(context.0);
        Ok(())
    }

    fn end_context(&self, _context: Context) -> CudaResult<()> {
        self.state().contexts -= 1;
        Ok(())
    }

    fn reset(&self) -> CudaResult<()> {
        self.state().broken = None;
        Ok(())
    }

    fn costs(&self) -> CudaResult<Costs> {
        let defaults = Limits { stack: 1024, printing: 1 << 20, heap: 8 << 20 };
        Ok(Costs { resident_threads: 1024, stream: 0, node: 0, context: 3 << 20, defaults })
    }

    fn set_limit(&self, _limit: i32, value: u64) -> CudaResult<u64> {
        Ok(value)
    }

    fn reserve(&self, _bytes: u64, wish: DevicePtr) -> CudaResult<DevicePtr> {
        Ok(if self.state().elsewhere { DevicePtr(1 << 21) } else { wish })
    }

    fn free_addresses(&self, _at: DevicePtr, _bytes: u64) -> CudaResult<()> {
        Ok(())
    }

    fn own_stream(&self) -> Stream {
        Stream(2)
    }

    fn hash(&self, at: DevicePtr, bytes: u64, key: HashKey) -> CudaResult<Vec<UnitHash>> {
        let state = self.state();
        (0..bytes / HASH_UNIT)
            .map(|unit| state.at(at.0 + unit * HASH_UNIT, HASH_UNIT, |bytes| key.hash(bytes)))
            .collect()
    }

    fn create_memory(&self, bytes: u64) -> CudaResult<MemHandle> {
        let mut state = self.state();
        state.check()?;
        if bytes > ALL_MEMORY {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let handle = state.handle();
        state.physical.insert(handle, Arc::new(Mutex::new(vec![0; usize::try_from(bytes).unwrap()])));
        Ok(MemHandle(handle))
    }

    /// Devices of this process that import it have it together.
    fn export_memory(&self, memory: MemHandle) -> CudaResult<OwnedFd> {
        let state = self.state();
        if state.released.contains(&memory.0) {
            return Err(CudaError::INVALID_VALUE);
        }
        let contents = state.physical.get(&memory.0).ok_or(CudaError::INVALID_VALUE)?;
        let file = floe_ring::sealed_memory("fake", 4096).unwrap();
        BLOCKS.lock().unwrap().insert(rustix::fs::fstat(&file).unwrap().st_ino, Arc::downgrade(contents));
        Ok(file)
    }

    fn import_memory(&self, file: BorrowedFd<'_>) -> CudaResult<MemHandle> {
        let of_file = rustix::fs::fstat(file).unwrap().st_ino;
        let contents = BLOCKS.lock().unwrap().get(&of_file).and_then(Weak::upgrade).ok_or(CudaError::INVALID_VALUE)?;
        let mut state = self.state();
        let handle = state.handle();
        state.physical.insert(handle, contents);
        Ok(MemHandle(handle))
    }

    fn retain_memory(&self, at: DevicePtr) -> CudaResult<MemHandle> {
        let mut state = self.state();
        let block = state.mapped.range(..=at.0).next_back().map(|(_, (_, _, block))| *block);
        let contents = Arc::clone(&state.physical[&block.ok_or(CudaError::INVALID_VALUE)?]);
        let handle = state.handle();
        state.physical.insert(handle, contents);
        Ok(MemHandle(handle))
    }

    /// GPU 9 is out of reach.
    fn peer_attributes(&self, gpu: i32) -> CudaResult<[i32; 4]> {
        Ok(match gpu {
            0 => [0, 1, 1, 1],
            9 => [0; 4],
            _ => [3, 1, 0, 1],
        })
    }

    fn map(&self, at: DevicePtr, bytes: u64, offset: u64, memory: MemHandle) -> CudaResult<()> {
        if self.state().full_from.is_some_and(|full| at.0 >= full) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        self.state().mappings += 1;
        self.state().mapped.insert(at.0, (bytes, offset, memory.0));
        Ok(())
    }

    fn set_access(&self, at: DevicePtr, bytes: u64, access: u32) -> CudaResult<()> {
        self.state().accesses.extend((at.0..at.0 + bytes).step_by(2 << 20).map(|at| (at, access)));
        Ok(())
    }

    fn unmap(&self, at: DevicePtr, _bytes: u64) -> CudaResult<()> {
        self.state().mapped.remove(&at.0).map(|_| ()).ok_or(CudaError::INVALID_VALUE)
    }

    fn pin(&self, bytes: usize, pages: PageSize) -> CudaResult<FakePinned> {
        self.state().pinned.push(pages);
        Ok(FakePinned(Arc::new(Mutex::new(vec![0; bytes])), Mutex::default()))
    }

    fn map_host(&self, at: DevicePtr, bytes: usize) -> CudaResult<FakeMapped> {
        let mut state = self.state();
        if state.host.contains_key(&at.0) {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let memory = Arc::new(Mutex::new(vec![0; bytes]));
        state.host.insert(at.0, Arc::clone(&memory));
        drop(state);
        Ok(self.mapped(memory, at))
    }

    fn upload(&self, to: DevicePtr, from: &FakePinned, offset: usize, bytes: usize, stream: Stream) -> CudaResult<()> {
        let width = bytes as u64;
        self.upload_rows(Rows { place: RowsPlace::Memory(to, 0), width, height: 1 }, from, offset, stream)
    }

    fn download(
        &self,
        to: &FakePinned,
        offset: usize,
        from: DevicePtr,
        bytes: usize,
        stream: Stream,
    ) -> CudaResult<()> {
        let width = bytes as u64;
        self.download_rows(to, offset, Rows { place: RowsPlace::Memory(from, 0), width, height: 1 }, stream)
    }

    fn upload_rows(&self, to: Rows, from: &FakePinned, offset: usize, stream: Stream) -> CudaResult<()> {
        let (pinned, spot) = (Arc::clone(&from.0), Spot::rows(to));
        if let Spot::Device(at, _) = spot {
            self.state().at(at, to.width, |_| ())?;
        }
        self.work(stream, move |state| {
            let width = usize::try_from(to.width).unwrap();
            for index in 0..to.height {
                let start = offset + usize::try_from(index).unwrap() * width;
                let row = pinned.lock().unwrap()[start..start + width].to_vec();
                spot.write(state, index, &row);
            }
        })
    }

    fn download_rows(&self, to: &FakePinned, offset: usize, from: Rows, stream: Stream) -> CudaResult<()> {
        let (pinned, spot) = (Arc::clone(&to.0), Spot::rows(from));
        if let Spot::Device(at, _) = spot {
            self.state().at(at, from.width, |_| ())?;
        }
        self.work(stream, move |state| {
            let width = usize::try_from(from.width).unwrap();
            for index in 0..from.height {
                let start = offset + usize::try_from(index).unwrap() * width;
                let row = spot.read(state, index, from.width);
                pinned.lock().unwrap()[start..start + width].copy_from_slice(&row);
            }
        })
    }

    fn share_host(&self, file: BorrowedFd<'_>, offset: u64, at: DevicePtr, bytes: usize) -> CudaResult<FakeMapped> {
        let mut contents = vec![0; bytes];
        let read = rustix::io::pread(file, &mut contents, offset).unwrap();
        assert!(read + floe_device::PAGE > bytes, "only the last page may lie partly behind the end");
        let memory = self.map_host(at, bytes)?;
        memory.write(0, &contents);
        Ok(memory)
    }

    fn share_words(&self, file: BorrowedFd<'_>, at: DevicePtr, bytes: usize) -> CudaResult<FakeMapped> {
        self.share_page(file, at, bytes)
    }

    fn copy(&self, to: MemoryEnd<'_, Self>, from: MemoryEnd<'_, Self>, bytes: u64, stream: Stream) -> CudaResult<()> {
        // The driver refuses what is not mapped as it is asked, and moves no bytes from anywhere.
        if bytes == 0 {
            return Ok(());
        }
        for end in [&to, &from] {
            if let End::Device(at) = end {
                self.state().at(at.0, bytes, |_| ())?;
            }
        }
        self.copy_rows(RowsEnd::Memory(to, 0), RowsEnd::Memory(from, 0), [bytes, 1], stream)
    }

    fn copy_rows(
        &self,
        to: RowsEnd<'_, FakeMapped>,
        from: RowsEnd<'_, FakeMapped>,
        [width, height]: [u64; 2],
        stream: Stream,
    ) -> CudaResult<()> {
        let (to, from) = (Spot::of(to), Spot::of(from));
        self.work(stream, move |state| {
            for index in 0..height {
                let row = from.read(state, index, width);
                to.write(state, index, &row);
            }
        })
    }

    fn fill(&self, at: DevicePtr, pattern: Pattern, stream: Stream) -> CudaResult<()> {
        self.state().at(at.0, 1, |_| ())?;
        self.work(stream, move |state| {
            let element = pattern.value.to_le_bytes()[..pattern.element as usize].to_vec();
            for index in 0..pattern.height {
                let bytes = pattern.width * u64::from(pattern.element);
                let fill =
                    |row: &mut [u8]| row.chunks_mut(element.len()).for_each(|chunk| chunk.copy_from_slice(&element));
                state.at(at.0 + index * pattern.pitch, bytes, fill).unwrap();
            }
        })
    }

    fn create_array(&self, shape: &ArrayShape) -> CudaResult<Array> {
        let mut state = self.state();
        state.check()?;
        if shape.bytes() as u64 > ALL_MEMORY {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let handle = state.handle();
        state.arrays.insert(handle, (*shape, vec![0; shape.bytes()]));
        Ok(Array(handle))
    }

    fn create_mipmapped_array(&self, shape: &ArrayShape, levels: u32) -> CudaResult<MipmappedArray> {
        let levels: Vec<ArrayShape> = (0..levels).map(|level| shape.level(level).unwrap()).collect();
        let made: CudaResult<Vec<Array>> = levels.iter().map(|level| self.create_array(level)).collect();
        let mut state = self.state();
        let handle = state.handle();
        state.mipmapped.insert(handle, made?);
        Ok(MipmappedArray(handle))
    }

    fn create_texture(&self, request: TextureRequest<'_>) -> CudaResult<TextureObject> {
        if request.description.filter_mode > 1 {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut state = self.state();
        // Never used again, as on the CPU device.
        state.last_texture += 1;
        let handle = state.last_texture;
        let ResourceDescriptor { kind, place, .. } = *request.resource;
        let words = match kind {
            0 => format!("array {}", state.arrays.contains_key(&place)),
            1 => format!("levels {}", state.mipmapped[&place].len()),
            _ => format!("{place:#x}"),
        };
        state.textures.insert(handle, words);
        Ok(TextureObject(handle))
    }

    fn create_surface(&self, array: Array) -> CudaResult<SurfaceObject> {
        let resource = ResourceDescriptor { place: array.0, ..ResourceDescriptor::default() };
        let request = TextureRequest { resource: &resource, description: &TextureDescriptor::default(), view: None };
        self.create_texture(request).map(|texture| SurfaceObject(texture.0))
    }

    fn compiles_for(&self) -> Option<[u32; 3]> {
        self.state().compiler.is_some().then_some([9, 0, 13_000])
    }

    fn load(&self, image: Image, loading: &Loading) -> Result<(Code, String), LoadFailure> {
        let code = image.contents[0].strip_prefix(&MACHINE_CODE);
        self.state().loads[usize::from(code.is_none())] += 1;
        let text = code.unwrap_or(&image.contents[0]);
        let text = String::from_utf8_lossy(text).trim_end_matches('\0').to_owned();
        let (mut kernels, mut variables) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        // `.visible .global .align 8 .b8 name[1000];`
        for declared in text.lines().filter_map(|line| line.strip_prefix(".visible .global .align 8 .b8 ")) {
            let (name, size) = declared.trim_end_matches("];").split_once('[').unwrap();
            variables.push(name.to_owned());
            bytes += size.parse::<u64>().unwrap();
        }
        for line in text.lines().filter(|line| !line.starts_with('.')) {
            // In a comment where it must be PTX as well.
            let words: Vec<&str> = line.trim_start_matches("// ").split(' ').collect();
            if let ["variable", name] = &words[..] {
                variables.push((*name).to_owned());
                continue;
            }
            let ["kernel", name, sizes @ ..] = &words[..] else {
                return Err(LoadFailure { error: CudaError::INVALID_PTX, log: format!("line 1: {line}") });
            };
            kernels.push(((*name).to_owned(), sizes.iter().map(|size| size.parse().unwrap()).collect()));
        }
        if loading.at_once {
            // NVIDIA's driver waits for all work of the context.
            let _ = self.ctx_synchronize();
        }
        let mut state = self.state();
        let handle = state.handle();
        let before = (state.streams.keys().filter(|stream| **stream > 2).count() + state.events.len()) as u64;
        let at = match &mut state.slabs {
            // They are placed at the first question for one.
            Some(slabs) if !loading.at_once => slabs.place_later(handle, bytes),
            Some(slabs) => slabs.place(handle, bytes),
            None => 0x7ffd_d7e0_0000 + 0x1_0000 * before + 0x1000 * state.libraries.len() as u64,
        };
        state.variables.insert(handle, (at, variables));
        state.libraries.insert(handle, kernels);
        let code = if loading.at_once { Code::Module(Module(handle)) } else { Code::Library(Library(handle)) };
        Ok((code, String::new()))
    }

    fn link(
        &self,
        inputs: &[LinkInput],
        _options: &[LoadOption],
        _log_bytes: usize,
    ) -> Result<(Vec<u8>, String), LoadFailure> {
        let mut state = self.state();
        let wrongly = state.compiles_wrongly;
        if let Some(compiled) = &mut state.compiler {
            *compiled += 1;
            let text = inputs[0].content.to_vec();
            if String::from_utf8_lossy(&text).contains("uncompilable") {
                return Err(LoadFailure { error: CudaError::INVALID_PTX, log: String::new() });
            }
            let wrong: &[u8] = if wrongly { b"wrong" } else { b"" };
            return Ok(([&MACHINE_CODE[..], wrong, &text].concat(), String::new()));
        }
        if let Some(bad) = inputs.iter().find(|input| input.content.starts_with(b"bad")) {
            let log = format!("{} is bad", bad.name.to_string_lossy());
            return Err(LoadFailure { error: CudaError::INVALID_PTX, log });
        }
        Ok((inputs.iter().flat_map(|input| input.content.to_vec()).collect(), format!("linked: {}", inputs.len())))
    }

    fn unload(&self, code: Code) -> CudaResult<()> {
        let mut state = self.state();
        state.libraries.remove(&handle_of(code));
        state.slabs.iter_mut().for_each(|slabs| slabs.leave(handle_of(code)));
        Ok(())
    }

    fn kernel_names(&self, code: Code) -> CudaResult<Vec<String>> {
        Ok(self.state().libraries[&handle_of(code)].iter().map(|(name, _)| name.clone()).collect())
    }

    fn find_kernel(&self, code: Code, name: &str) -> CudaResult<Function> {
        let mut state = self.state();
        let found = state.libraries[&handle_of(code)].iter().find(|(its, _)| its == name).cloned();
        let found = found.ok_or(CudaError::NOT_FOUND)?;
        let handle = state.handle();
        state.functions.insert(handle, found);
        Ok(Function(handle))
    }

    fn kernel_facts(&self, function: Function) -> CudaResult<KernelFacts> {
        let state = self.state();
        let (name, sizes) = &state.functions[&function.0];
        // `frame4096` has a frame of so many bytes.
        let frame = name.strip_prefix("frame").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        let mut offset = 0;
        let parameters = sizes.iter().map(|size| {
            offset += size;
            (offset - size, *size)
        });
        Ok(KernelFacts { parameters: Some(parameters.collect()), attributes: vec![(0, 1024), (3, frame)] })
    }

    fn set_kernel(&self, _function: Function, _setting: KernelSetting, _value: i32) -> CudaResult<()> {
        Ok(())
    }

    fn find_global(&self, code: Code, name: &str) -> CudaResult<floe_device::Global> {
        let mut guard = self.state();
        let state = &mut *guard;
        let (at, names) = state.variables.get_mut(&handle_of(code)).ok_or(CudaError::NOT_FOUND)?;
        if let Some(placed) = state.slabs.as_mut().and_then(|slabs| slabs.place_now(handle_of(code))) {
            *at = placed;
        }
        let index = names.iter().position(|its| its == name).ok_or(CudaError::NOT_FOUND)?;
        Ok(floe_device::Global { at: DevicePtr(*at + 256 * index as u64), bytes: 8, is_managed: false })
    }

    fn set_texture_reference(&self, code: Code, name: &str, request: &TextureReferenceRequest<'_>) -> CudaResult<()> {
        self.find_global(code, name)?;
        if request.description.filter_mode > 1 {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut state = self.state();
        let place = |resource: &ResourceDescriptor| match resource.kind {
            0 => format!("array {}", state.arrays.contains_key(&resource.place)),
            _ => format!("{:#x}", resource.place),
        };
        let words = request.resource.map_or_else(|| "nothing".to_owned(), place);
        let TextureReferenceRequest { format, channels, .. } = request;
        state.references.insert(name.to_owned(), format!("{words}, {format} x {channels}"));
        Ok(())
    }

    fn keep(&self, within: Range<DevicePtr>) -> CudaResult<Box<dyn Send>> {
        let mut state = self.state();
        let number = state.slabs.as_mut().ok_or(CudaError::NOT_SUPPORTED)?.keep(within.start.0..within.end.0);
        Ok(Box::new(Kept(Arc::clone(&self.state), number)))
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> CudaResult<()> {
        if let Some(count) = &mut self.state().counted {
            *count += 1;
            return Ok(());
        }
        let name = self.state().functions[&request.function.0].0.clone();
        let (parameters, grid) = (request.parameters.to_vec(), request.grid);
        self.work(request.stream, move |state| state.launches.push((name, grid, parameters)))?;
        for attribute in request.attributes.iter().filter(|it| [7, 12].contains(&it.id)) {
            self.event_record(Event(attribute.value.words[0]), request.stream)?;
        }
        Ok(())
    }

    fn launch_host_function(&self, stream: Stream, body: Box<dyn FnOnce() + Send>) -> CudaResult<()> {
        self.state().check()?;
        self.enqueue(stream, Step::Host(body));
        Ok(())
    }

    fn create_graph(&self) -> CudaResult<Graph> {
        let mut state = self.state();
        state.check()?;
        state.next += 1;
        let id = state.next;
        state.graphs.insert(id, Vec::new());
        Ok(Graph(id))
    }

    fn add_node(&self, graph: Graph, after: &[NodeEdge], work: &NodeWork<'_>) -> CudaResult<GraphNode> {
        let mut state = self.state();
        if let NodeWork::Words(operations) = work {
            state.graph_words.entry(graph.0).or_default().extend_from_slice(operations);
        }
        let words = words(&state, work);
        let nodes = state.graphs.get_mut(&graph.0).unwrap();
        let after: Vec<u64> = after.iter().map(|edge| edge.from.0 - 1).collect();
        nodes.push(format!("{words} after {after:?}"));
        Ok(GraphNode(nodes.len() as u64))
    }

    fn graph_condition(&self, graph: Graph, value: u32, flags: u32) -> CudaResult<u64> {
        let mut state = self.state();
        state.check()?;
        state.next += 1;
        Ok(graph.0 << 32 | u64::from(value) << 8 | state.next << 1 | u64::from(flags))
    }

    fn add_conditional(&self, graph: Graph, after: &[NodeEdge], node: &Conditional) -> CudaResult<NodeBodies> {
        let bodies = (0..node.size).map(|_| self.create_graph()).collect::<CudaResult<Vec<Graph>>>()?;
        let mut state = self.state();
        let after: Vec<u64> = after.iter().map(|edge| edge.from.0 - 1).collect();
        let nodes = state.graphs.get_mut(&graph.0).unwrap();
        nodes.push(format!("branch {} of {} after {after:?}", node.kind, bodies.len()));
        Ok((GraphNode(nodes.len() as u64), bodies))
    }

    fn instantiate(&self, graph: Graph, _flags: u64) -> CudaResult<GraphExec> {
        self.state().check()?;
        Ok(GraphExec(graph.0))
    }

    fn set_node(&self, exec: GraphExec, node: GraphNode, work: &NodeWork<'_>) -> CudaResult<()> {
        let mut state = self.state();
        state.check()?;
        if let NodeWork::Words(operations) = work {
            state.graph_words.insert(exec.0, operations.to_vec());
        }
        let words = words(&state, work);
        state.graphs.get_mut(&exec.0).unwrap()[usize::try_from(node.0).unwrap() - 1] = words;
        Ok(())
    }

    fn cluster_occupancy(&self, what: ClusterQuestion, request: &LaunchRequest<'_>) -> CudaResult<i32> {
        match what {
            ClusterQuestion::MostActive => Ok(i32::try_from(request.block[0]).unwrap()),
            ClusterQuestion::LargestSize => Ok(i32::try_from(request.attributes.len()).unwrap()),
        }
    }

    fn tensor_map(&self, shape: &TensorShape, address: DevicePtr) -> CudaResult<TensorMap> {
        if shape.swizzle > 3 {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut map = TensorMap { words: [shape.dimensions[0]; 16] };
        map.words[0] = address.0;
        Ok(map)
    }

    fn memory_operations(&self, stream: Stream, operations: &[StreamMemoryOperation]) -> CudaResult<()> {
        for operation in operations {
            match operation.word()? {
                WordOperation::Write { at, bytes, value } => self.work(stream, move |state| {
                    let value = value.to_le_bytes();
                    match state.host_word(at.0, bytes) {
                        Some((memory, offset)) => {
                            memory.lock().unwrap()[offset..][..bytes as usize].copy_from_slice(&value[..bytes as usize])
                        }
                        None => {
                            state.at(at.0, bytes.into(), |word| word.copy_from_slice(&value[..bytes as usize])).unwrap()
                        }
                    }
                })?,
                word @ WordOperation::Wait { .. } => self.enqueue(stream, Step::Word(word)),
                WordOperation::Flush | WordOperation::Barrier => {}
            }
        }
        Ok(())
    }
}

impl PlainCalls for Fake {
    fn ctx_synchronize(&self) -> CudaResult<()> {
        let mut state = self.state();
        let works = |state: &State| {
            let of_current = |stream: &u64| state.apart.get(stream).copied().unwrap_or(0) == CURRENT.get();
            let mut current = state.streams.iter().filter(|(stream, _)| of_current(stream));
            current.any(|(_, queue)| queue.busy || !queue.work.is_empty())
        };
        while state.broken.is_none() && works(&state) {
            state = self.changed.wait(state).unwrap();
        }
        state.check()
    }

    fn mem_release(&self, memory: MemHandle) -> CudaResult<()> {
        self.state().released.push(memory.0);
        Ok(())
    }

    fn mem_get_info(&self) -> CudaResult<(usize, usize)> {
        Ok((1 << 34, 1 << 35))
    }

    fn array_destroy(&self, array: Array) -> CudaResult<()> {
        self.state().arrays.remove(&array.0).map(drop).ok_or(CudaError::INVALID_HANDLE)
    }

    fn mipmapped_array_get_level(&self, array: MipmappedArray, number: u32) -> CudaResult<Array> {
        let mut state = self.state();
        if std::mem::take(&mut state.fail_level) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let levels = state.mipmapped.get(&array.0).ok_or(CudaError::INVALID_HANDLE)?;
        levels.get(number as usize).copied().ok_or(CudaError::INVALID_VALUE)
    }

    fn mipmapped_array_destroy(&self, array: MipmappedArray) -> CudaResult<()> {
        let mut state = self.state();
        for level in state.mipmapped.remove(&array.0).ok_or(CudaError::INVALID_HANDLE)? {
            state.arrays.remove(&level.0).unwrap();
        }
        Ok(())
    }

    fn tex_object_destroy(&self, texture: TextureObject) -> CudaResult<()> {
        self.state().textures.remove(&texture.0).map(drop).ok_or(CudaError::INVALID_VALUE)
    }

    fn surf_object_destroy(&self, surface: SurfaceObject) -> CudaResult<()> {
        self.tex_object_destroy(TextureObject(surface.0))
    }

    fn graph_launch(&self, exec: GraphExec, stream: Stream) -> CudaResult<()> {
        let nodes = self.state().graphs[&exec.0].clone();
        self.work(stream, move |state| state.graph_launches.push(nodes))?;
        let operations = self.state().graph_words.get(&exec.0).cloned().unwrap_or_default();
        self.memory_operations(stream, &operations)
    }

    fn graph_upload(&self, _exec: GraphExec, _stream: Stream) -> CudaResult<()> {
        Ok(())
    }

    fn graph_node_set_enabled(&self, exec: GraphExec, node: GraphNode, enabled: u32) -> CudaResult<()> {
        let at = usize::try_from(node.0).unwrap() - 1;
        self.state().graphs.get_mut(&exec.0).unwrap()[at] += if enabled != 0 { " on" } else { " off" };
        Ok(())
    }

    fn graph_exec_update(&self, exec: GraphExec, graph: Graph) -> CudaResult<GraphUpdate> {
        let mut state = self.state();
        let nodes = state.graphs[&graph.0].clone();
        if nodes.len() != state.graphs[&exec.0].len() {
            return Err(CudaError::GRAPH_EXEC_UPDATE_FAILURE);
        }
        state.graphs.insert(exec.0, nodes);
        Ok(GraphUpdate::default())
    }

    fn graph_exec_destroy(&self, _exec: GraphExec) -> CudaResult<()> {
        Ok(())
    }

    fn graph_destroy(&self, graph: Graph) -> CudaResult<()> {
        self.state().graphs.remove(&graph.0).map(drop).ok_or(CudaError::INVALID_VALUE)
    }

    fn occupancy_max_active_blocks_per_multiprocessor(
        &self,
        _function: Function,
        block: i32,
        _shared: usize,
        _flags: u32,
    ) -> CudaResult<i32> {
        Ok(2048 / block.max(1))
    }

    fn occupancy_available_dynamic_s_mem_per_block(
        &self,
        _function: Function,
        _blocks: i32,
        _block: i32,
    ) -> CudaResult<usize> {
        Ok(1024)
    }

    fn stream_create_with_priority(&self, _flags: u32, _priority: i32) -> CudaResult<Stream> {
        let mut state = self.state();
        if std::mem::take(&mut state.fail_stream) {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let handle = state.handle();
        state.created.push(handle);
        state.streams.insert(handle, Queue::default());
        let further = Some(CURRENT.get()).filter(|context| *context != 0);
        state.apart.extend(further.map(|context| (handle, context)));
        Ok(Stream(handle))
    }

    fn stream_destroy(&self, stream: Stream) -> CudaResult<()> {
        let mut state = self.state();
        // Like a driver's: the stream goes when its work is done.
        if state.streams.get(&stream.0).is_some_and(|queue| queue.work.is_empty() && !queue.busy) {
            state.streams.remove(&stream.0);
        }
        Ok(())
    }

    fn stream_wait_event(&self, stream: Stream, event: Event, _flags: u32) -> CudaResult<()> {
        let record = self.state().events[&event.0].0;
        self.enqueue(stream, Step::Wait(event.0, record));
        Ok(())
    }

    fn stream_query(&self, stream: Stream) -> CudaResult<()> {
        let state = self.state();
        state.check()?;
        let idle = state.streams.get(&stream.0).is_none_or(|queue| queue.work.is_empty() && !queue.busy);
        if idle { Ok(()) } else { Err(CudaError::NOT_READY) }
    }

    fn stream_synchronize(&self, stream: Stream) -> CudaResult<()> {
        let mut state = self.state();
        let works =
            |state: &State| state.streams.get(&stream.0).is_some_and(|queue| queue.busy || !queue.work.is_empty());
        while state.broken.is_none() && works(&state) {
            state = self.changed.wait(state).unwrap();
        }
        state.check()
    }

    fn event_create(&self, _flags: u32) -> CudaResult<Event> {
        let mut state = self.state();
        if state.no_events_apart && CURRENT.get() != 0 {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let handle = state.handle();
        state.events.insert(handle, (0, true));
        Ok(Event(handle))
    }

    fn event_record(&self, event: Event, stream: Stream) -> CudaResult<()> {
        let mut state = self.state();
        state.check()?;
        let entry = state.events.get_mut(&event.0).unwrap();
        *entry = (entry.0 + 1, false);
        let record = entry.0;
        state.records += 1;
        let [low, high] =
            [state.records & 0xffff, state.records >> 16].map(|half| f32::from(u16::try_from(half).unwrap()));
        let when = high * 65_536.0 + low;
        state.times.insert(event.0, when);
        drop(state);
        self.enqueue(stream, Step::Record(event.0, record));
        Ok(())
    }

    fn event_record_with_flags(&self, event: Event, stream: Stream, _flags: u32) -> CudaResult<()> {
        self.event_record(event, stream)
    }

    fn event_query(&self, event: Event) -> CudaResult<()> {
        let mut state = self.state();
        state.asked_by.insert(std::thread::current().name().unwrap_or_default().to_owned());
        state.asked_about.insert(event.0);
        state.check()?;
        if state.events[&event.0].1 { Ok(()) } else { Err(CudaError::NOT_READY) }
    }

    fn event_synchronize(&self, event: Event) -> CudaResult<()> {
        let mut state = self.state();
        while state.broken.is_none() && !state.events[&event.0].1 {
            state = self.changed.wait(state).unwrap();
        }
        state.check()
    }

    /// A millisecond is a record.
    fn event_elapsed_time(&self, start: Event, end: Event) -> CudaResult<f32> {
        let state = self.state();
        let when = |event: Event| state.times.get(&event.0).copied().ok_or(CudaError::INVALID_HANDLE);
        Ok(when(end)? - when(start)?)
    }

    fn event_destroy(&self, event: Event) -> CudaResult<()> {
        self.state().events.remove(&event.0);
        Ok(())
    }
}

/// A node in words.
fn words(state: &State, work: &NodeWork<'_>) -> String {
    match work {
        NodeWork::Empty => "nothing".to_owned(),
        NodeWork::Kernel(kernel, _) => {
            format!("{} {:?} {:?}", state.functions[&kernel.function.0].0, kernel.grid, kernel.parameters)
        }
        NodeWork::Copy(copy) => format!("copy {} to {:#x}", copy.width, copy.to.0),
        NodeWork::Fill(at, pattern) => format!("fill {:#x} with {}", at.0, pattern.value),
        NodeWork::Words(operations) => format!("{} operations on words", operations.len()),
    }
}
