//! Managed memory against a scripted server: what goes ahead of a launch, and that host and device always see what was
//! written last. One test, since all vGPUs of a process have windows of their own and all scripted servers give the first.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use floe_abi::{CudaError, CudaResult, DevicePtr, Function, HostPointer, Stream, attach_flags, stream_flags};
use floe_session::Client;
use floe_surface::*;
use floe_wire::{FunctionId, Request, RunHostFunction};
use scripted::*;

const GLOBAL: u32 = attach_flags::GLOBAL;

fn host(at: DevicePtr, bytes: usize) -> HostRange {
    // SAFETY: managed memory of this test's, touched by its one thread.
    unsafe { HostRange::new(HostPointer(at.0), bytes) }
}

fn read(at: DevicePtr) -> u8 {
    // SAFETY: as above.
    unsafe { (at.0 as *const u8).read_volatile() }
}

fn write(at: DevicePtr, byte: u8) {
    // SAFETY: as above.
    unsafe { (at.0 as *mut u8).write_volatile(byte) };
}

/// Waits that take their time, while this is set.
static IS_SLOW: AtomicBool = AtomicBool::new(false);
/// The number of them that have come, and of those that are answered.
static ASKED: AtomicUsize = AtomicUsize::new(0);
static ANSWERED: AtomicUsize = AtomicUsize::new(0);

/// Whether the GPU has no room for a further context.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// A function of the program on a device whose copies stand behind it.
#[derive(Debug, Default)]
struct Standing {
    /// Whether the function has its turn at once, or with the first wait.
    runs_at_once: bool,
    function: Option<FunctionId>,
    /// Waits that are not answered yet.
    held: Vec<u64>,
}

static STANDING: Mutex<Option<Standing>> = Mutex::new(None);

/// Waits are answered behind the function; of one that runs already the second wait answers both.
fn stand(standing: &mut Standing, request: &Request<'_>, sequence: u64, peer: &mut Peer) -> Flow {
    let run = |function: FunctionId, peer: &mut Peer| {
        let _ = peer.sender.send(&RunHostFunction { function, status: 0 }, |_| ());
    };
    match request {
        Request::HostFunction(message) => {
            standing.function = Some(message.function);
            if standing.runs_at_once {
                run(message.function, peer);
            }
        }
        Request::SynchronizeStream(_) => {
            standing.held.push(sequence);
            match (standing.runs_at_once, standing.held.len()) {
                (false, 1) => run(standing.function.unwrap(), peer),
                (true, 1) => {}
                _ => standing.held.drain(..).for_each(|sequence| peer.reply(sequence, &())),
            }
        }
        Request::HostFunctionDone(_) => standing.held.drain(..).for_each(|sequence| peer.reply(sequence, &())),
        _ => return Flow::Usual,
    }
    Flow::Done
}

/// Handles the requests that the scripted server leaves out.
fn fill(request: &Request<'_>, sequence: u64, peer: &mut Peer) -> Flow {
    if let Some(standing) = STANDING.lock().unwrap().as_mut()
        && let Flow::Done = stand(standing, request, sequence, peer)
    {
        return Flow::Done;
    }
    if let Request::SynchronizeStream(_) = request
        && IS_SLOW.load(Ordering::SeqCst)
    {
        ASKED.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        ANSWERED.fetch_add(1, Ordering::SeqCst);
    }
    if let Request::CreateApartStream(_) = request
        && IS_FULL.load(Ordering::SeqCst)
    {
        peer.reply_with(sequence, CudaError::OUT_OF_MEMORY.code(), 0, "the GPU is full", &[]);
        return Flow::Done;
    }
    if let Request::Fill(fill) = request {
        peer.write(fill.at.0, &vec![fill.value as u8; fill.width as usize]);
    }
    Flow::Usual
}

/// The requests that came since there were `before`. An allocation's posts may come late.
fn since(server: &Server, before: usize) -> Vec<&'static str> {
    server.names().into_iter().skip(before).filter(|name| *name != "MapBlock").collect()
}

fn launched(client: &Client, server: &Server, function: Function) -> Vec<&'static str> {
    let before = server.names().len();
    launch(client, function, [1, 1, 1], [1, 1, 1], Stream::LEGACY, (0, 0, 0, 0)).unwrap();
    server.wait_for("Launch", server.count("Launch").max(1));
    since(server, before)
}

fn only_what_was_touched_goes_ahead_of_a_launch(client: &Client, server: &Server, function: Function) {
    let at = client.mem_alloc_managed(4 << 20, GLOBAL).unwrap();
    assert_eq!((read(at), read(DevicePtr(at.0 + (4 << 20) - 1))), (0, 0));
    write(DevicePtr(at.0 + (3 << 20)), 5);
    let ahead = launched(client, server, function);
    // Three pages had been touched, two of them by reading.
    let sent = ["CreateStream", "Fill", "CopyToDevice", "CopyToDevice", "CopyToDevice", "SynchronizeStream"];
    assert_eq!(ahead[..6], sent);
    client.ctx_synchronize().unwrap();
    assert!(!launched(client, server, function).contains(&"CopyToDevice"), "what was fetched and left alone stays");
    assert_eq!(read(DevicePtr(at.0 + (1 << 20))), 0, "zero on the device too");
    assert_eq!(read(DevicePtr(at.0 + (3 << 20))), 5);
    client.mem_free(at).unwrap();
    assert_eq!(client.mem_free(at), Err(CudaError::INVALID_VALUE));
}

/// No thread's launch overtakes the flush of another's.
fn launches_of_other_threads_stand_behind_what_is_sent(client: &Client, function: Function) {
    let at = client.mem_alloc_managed(4096, GLOBAL).unwrap();
    write(at, 1);
    let context = client.ctx_get_current().unwrap();
    IS_SLOW.store(true, Ordering::SeqCst);
    let launch = || launch(client, function, [1, 1, 1], [1, 1, 1], Stream::LEGACY, (0, 0, 0, 0)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.ctx_set_current(context).unwrap();
            launch();
        });
        let began = Instant::now();
        while ASKED.load(Ordering::SeqCst) == 0 {
            assert!(began.elapsed() < Duration::from_secs(300), "nothing is sent ahead of the launch");
            std::thread::yield_now();
        }
        launch();
        assert_eq!(ANSWERED.load(Ordering::SeqCst), ASKED.load(Ordering::SeqCst), "it is on its way still");
    });
    IS_SLOW.store(false, Ordering::SeqCst);
    client.mem_free(at).unwrap();
}

/// Threads that launch without a pause wait for what one of them has sent, and then no more: none waits for another's wait.
fn launches_wait_once_for_what_is_sent(client: &Client, server: &Server, function: Function) {
    let at = client.mem_alloc_managed(4096, GLOBAL).unwrap();
    let context = client.ctx_get_current().unwrap();
    write(at, 1);
    let (before, asked) = (server.count("SynchronizeStream"), ASKED.load(Ordering::SeqCst));
    IS_SLOW.store(true, Ordering::SeqCst);
    let launch_often = || {
        for _ in 0..10 {
            launch(client, function, [1, 1, 1], [1, 1, 1], Stream::LEGACY, (0, 0, 0, 0)).unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.ctx_set_current(context).unwrap();
            launch_often();
        });
        until("bytes are sent ahead of a launch", || ASKED.load(Ordering::SeqCst) > asked);
        launch_often();
    });
    IS_SLOW.store(false, Ordering::SeqCst);
    assert!(server.count("SynchronizeStream") - before <= 2, "each launch waits");
    client.mem_free(at).unwrap();
}

/// Memory that is attached to a stream may still be used by others' work; a touch waits for that once, then for its stream's.
fn memory_attached_behind_others_work_waits_for_that_once(client: &Client, server: &Server, function: Function) {
    let at = client.mem_alloc_managed(4096, GLOBAL).unwrap();
    let own = client.stream_create(stream_flags::NON_BLOCKING).unwrap();
    let launch_on = |stream| launch(client, function, [1, 1, 1], [1, 1, 1], stream, (0, 0, 0, 0)).unwrap();
    write(at, 1);
    launch_on(Stream::LEGACY);
    client.stream_attach_mem_async(own, at, 0, attach_flags::SINGLE).unwrap();
    let mut waits = Vec::new();
    for _ in 0..2 {
        let before = server.names().len();
        assert_eq!(read(at), 1);
        let asked = since(server, before);
        waits.push(asked.into_iter().find(|name| name.starts_with("Synchronize")));
        write(at, 1);
        launch_on(own);
        // Work of others, which is none of its business.
        launch_on(Stream::LEGACY);
    }
    assert_eq!(waits, [Some("SynchronizeContext"), Some("SynchronizeStream")]);
    client.ctx_synchronize().unwrap();
    client.stream_destroy(own).unwrap();
    client.mem_free(at).unwrap();
}

/// The bytes that a thread read in managed memory on behalf of a host function.
static HELPED: AtomicUsize = AtomicUsize::new(usize::MAX);

unsafe extern "C" fn has_a_thread_touch(at: *mut c_void) {
    let at = DevicePtr(at as u64);
    let read = std::thread::spawn(move || read(at)).join().unwrap();
    HELPED.store(usize::from(read), Ordering::SeqCst);
}

unsafe extern "C" fn adds_one(at: *mut c_void) {
    let at = DevicePtr(at as u64);
    write(at, read(at) + 1);
}

/// Has a function of the program write managed memory; the requests from its launch until its stream goes on.
fn write_in_function(client: &Client, server: &Server, at: DevicePtr) -> Vec<&'static str> {
    let wanted = read(at) + 1;
    let (before, done) = (server.names().len(), server.count("HostFunctionDone"));
    // SAFETY: the function writes managed memory of this test's.
    let writes = unsafe { HostFunction::new(adds_one, at.0 as *mut c_void) };
    client.launch_host_func(Stream::LEGACY, writes).unwrap();
    server.wait_for("HostFunctionDone", done + 1);
    let (asked, copied) = (since(server, before), HostBlock::new(1).unwrap());
    client.memcpy_dtoh(Stream::LEGACY, copied.range(), at).unwrap();
    let mut byte = [0];
    copied.range().read_into(&mut byte).unwrap();
    assert_eq!(byte, [wanted], "its stream goes on behind the bytes");
    asked
}

/// Where functions of the program may touch managed memory, its bytes have a stream that nothing holds up. What went by another before
/// has arrived then.
fn functions_bring_a_stream_apart(client: &Client, server: &Server, function: Function) {
    let at = client.mem_alloc_managed(4096, GLOBAL).unwrap();
    write(at, 9);
    launched(client, server, function);
    assert_eq!(server.count("CreateApartStream"), 0, "no function, no further context");
    let asked = write_in_function(client, server, at);
    let place = |name| asked.iter().position(|it| *it == name).unwrap();
    assert!(place("SynchronizeStream") < place("HostFunction"), "{asked:?}");
    assert!(
        place("HostFunction") < place("CreateApartStream"),
        "it is made when there is something to send: {asked:?}"
    );
    client.ctx_synchronize().unwrap();
    let asked = write_in_function(client, server, at);
    assert!(!asked.contains(&"CreateApartStream") && asked.contains(&"CopyToDevice"), "there is one: {asked:?}");
    client.ctx_synchronize().unwrap();
    client.mem_free(at).unwrap();
}

/// A server without room for a further context is no worse than before.
fn without_a_stream_apart_the_bytes_go_by_another(client: &Client, server: &Server) {
    client.device_primary_ctx_reset(floe_abi::Device(0)).unwrap();
    IS_FULL.store(true, Ordering::SeqCst);
    let at = client.mem_alloc_managed(4096, GLOBAL).unwrap();
    write(at, 9);
    let (before, streams) = (server.count("CreateApartStream"), server.count("CreateStream"));
    for _ in 0..2 {
        let asked = write_in_function(client, server, at);
        assert!(asked.contains(&"CopyToDevice"), "{asked:?}");
        client.ctx_synchronize().unwrap();
    }
    assert_eq!(server.count("CreateApartStream"), before + 1, "it is asked once");
    assert_eq!(server.count("CreateStream"), streams + 1);
    client.mem_free(at).unwrap();
}

/// A thread that touches memory for a host function does not wait for the stream that waits for the function.
fn threads_of_a_function_touch_while_its_stream_stands(client: &Client, server: &Server, function: Function) {
    let at = client.mem_alloc_managed(4096, GLOBAL).unwrap();
    write(at, 9);
    launch(client, function, [1, 1, 1], [1, 1, 1], Stream::LEGACY, (0, 0, 0, 0)).unwrap();
    let (before, done) = (server.names().len(), server.count("HostFunctionDone"));
    // SAFETY: the function touches managed memory of this test's.
    let touches = unsafe { HostFunction::new(has_a_thread_touch, at.0 as *mut c_void) };
    client.launch_host_func(Stream::LEGACY, touches).unwrap();
    server.wait_for("HostFunctionDone", done + 1);
    assert_eq!(HELPED.load(Ordering::SeqCst), 9);
    let asked: Vec<_> = since(server, before).into_iter().take_while(|name| *name != "HostFunctionDone").collect();
    assert!(
        asked.contains(&"CopyFromDevice") && !asked.iter().any(|name| name.starts_with("Synchronize")),
        "{asked:?}"
    );
    client.ctx_synchronize().unwrap();
    client.mem_free(at).unwrap();
}

unsafe extern "C" fn writes_late(at: *mut c_void) {
    std::thread::sleep(std::time::Duration::from_millis(50));
    // SAFETY: managed memory of the test's.
    unsafe { at.cast::<u8>().write_volatile(3) };
}

/// The server's driver waits at a module's load for all work, also for a function whose bytes would come behind the load.
fn a_modules_load_comes_behind_functions_that_may_touch_managed_memory(client: &Client, server: &Server) {
    let at = client.mem_alloc_managed(4096, GLOBAL).unwrap();
    write(at, 9);
    let (before, done) = (server.names().len(), server.count("HostFunctionDone"));
    // SAFETY: the function touches managed memory of this test's.
    let writes = unsafe { HostFunction::new(writes_late, at.0 as *mut c_void) };
    client.launch_host_func(Stream::LEGACY, writes).unwrap();
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let asked = since(server, before);
    let place = |name| asked.iter().position(|it| *it == name).unwrap_or_else(|| panic!("{asked:?}"));
    assert!(place("SynchronizeContext") < place("LoadLibrary"), "{asked:?}");
    server.wait_for("HostFunctionDone", done + 1);
    client.ctx_synchronize().unwrap();
    client.module_unload(module).unwrap();
    let before = server.names().len();
    client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    assert!(!since(server, before).contains(&"SynchronizeContext"), "nothing is waited for without a function");
    client.mem_free(at).unwrap();
}

static IS_RELEASED: AtomicBool = AtomicBool::new(true);
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn awaits_release(_nothing: *mut c_void) {
    IS_RUNNING.store(true, Ordering::SeqCst);
    while !IS_RELEASED.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

/// A launch or fill that waits for its bytes does not keep a function from returning: a GPU may copy them only behind its stream. But where
/// the function was running when they were sent, they may be what it wrote, and its stream goes on behind them.
fn a_function_returns_while_work_waits_for_its_bytes(client: &'static Client, server: &Server, function: Function) {
    let at = client.mem_alloc_managed(4096, GLOBAL).unwrap();
    let context = client.ctx_get_current().unwrap();
    for (runs_at_once, names_bytes) in [(false, false), (true, false), (false, true), (true, true)] {
        write(at, 1);
        IS_RELEASED.store(!runs_at_once, Ordering::SeqCst);
        *STANDING.lock().unwrap() = Some(Standing { runs_at_once, ..Standing::default() });
        // SAFETY: it uses no memory.
        let own = unsafe { HostFunction::new(awaits_release, std::ptr::null_mut()) };
        let (before, done) = (server.names().len(), server.count("HostFunctionDone"));
        IS_RUNNING.store(false, Ordering::SeqCst);
        client.launch_host_func(Stream::LEGACY, own).unwrap();
        while runs_at_once && !IS_RUNNING.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let (launched, outcome) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            client.ctx_set_current(context).unwrap();
            match names_bytes {
                true => client.memset_d8_async(at, 2, 4096, Stream::LEGACY).unwrap(),
                false => launch(client, function, [1, 1, 1], [1, 1, 1], Stream::LEGACY, (0, 0, 0, 0)).unwrap(),
            }
            launched.send(()).unwrap();
        });
        while runs_at_once && STANDING.lock().unwrap().as_ref().is_some_and(|standing| standing.held.is_empty()) {
            std::thread::yield_now();
        }
        IS_RELEASED.store(true, Ordering::SeqCst);
        outcome.recv_timeout(Duration::from_secs(300)).expect("the work and the function wait for each other");
        server.wait_for("HostFunctionDone", done + 1);
        *STANDING.lock().unwrap() = None;
        let names = since(server, before);
        let ahead = names.iter().take_while(|name| **name != "HostFunctionDone");
        let waits = ahead.filter(|name| **name == "SynchronizeStream").count();
        assert_eq!(waits, if runs_at_once { 2 } else { 1 }, "{names:?}");
    }
    client.ctx_synchronize().unwrap();
    client.mem_free(at).unwrap();
}

fn unified(at: DevicePtr, bytes: usize) -> UnifiedRange {
    // SAFETY: as of `host`, or memory of the device's.
    unsafe { UnifiedRange::new(at, bytes) }
}

/// The same row twice, between memory whose sides nobody names.
fn rows(to: DevicePtr, from: DevicePtr) -> CopyBox {
    let end = |at| CopyEnd { place: CopyPlace::Unified(unified(at, 1536)), pitch: 1024, slice: 2048 };
    CopyBox { source: end(from), destination: end(to), width: 512, height: 2, depth: 1 }
}

/// A synchronous copy with a managed end is over when the call returns, whatever the program called its ends. The
/// program may touch the memory at once.
fn a_copy_with_a_managed_end_is_waited_for(client: &Client, server: &Server) {
    let (at, other) = (client.mem_alloc_managed(4096, GLOBAL).unwrap(), client.mem_alloc(4096).unwrap());
    let behind = |copy: &dyn Fn() -> CudaResult<()>| {
        let (before, copies) = (server.names().len(), server.count("CopyOnDevice"));
        copy().unwrap();
        server.wait_for("CopyOnDevice", copies + 1);
        since(server, before).into_iter().skip_while(|name| *name != "CopyOnDevice").nth(1)
    };
    let down = behind(&|| client.memcpy_dtoh(Stream::LEGACY, host(at, 4096), other));
    let up = behind(&|| client.memcpy_htod(Stream::LEGACY, other, host(at, 4096)));
    assert_eq!([down, up], [Some("SynchronizeStream"); 2]);
    let (here, there) = (unified(at, 4096), unified(other, 4096));
    let whole = [(here, there), (there, here)];
    let either = whole.map(|(to, from)| behind(&|| client.memcpy(Stream::LEGACY, to, from)));
    let within =
        [(at, other), (other, at)].map(|(to, from)| behind(&|| client.memcpy_dtod(Stream::LEGACY, to, from, 4096)));
    assert_eq!([either, within], [[Some("SynchronizeStream"); 2]; 2]);
    let queued = whole.map(|(to, from)| behind(&|| client.memcpy_async(to, from, Stream::LEGACY)));
    let queued_within = behind(&|| client.memcpy_dtod_async(other, at, 4096, Stream::LEGACY));
    assert_eq!([queued[0], queued[1], queued_within], [None; 3]);
    client.mem_free(at).unwrap();
    client.mem_free(other).unwrap();
}

/// Behind a synchronous copy, the little managed memory that the program has touched is open to system calls, whether
/// the copy names it or not. System calls do not wait at closed pages but fail.
fn a_copy_that_is_waited_for_leaves_managed_memory_open_to_the_system(client: &Client, function: Function) {
    let (at, other) = (client.mem_alloc_managed(4096, GLOBAL).unwrap(), client.mem_alloc(4096).unwrap());
    let (memory, aside) = (HostBlock::new(4096).unwrap(), HostBlock::new(4096).unwrap());
    let copies: [&dyn Fn() -> CudaResult<()>; 8] = [
        &|| client.memcpy_dtoh(Stream::LEGACY, memory.range(), at),
        &|| client.memcpy_dtoh(Stream::LEGACY, aside.range(), other),
        &|| client.memcpy_htod(Stream::LEGACY, other, host(at, 4096)),
        &|| client.memcpy_htod(Stream::LEGACY, at, memory.range()),
        &|| client.memcpy(Stream::LEGACY, unified(other, 4096), unified(at, 4096)),
        &|| client.memcpy(Stream::LEGACY, unified(at, 4096), unified(other, 4096)),
        &|| client.memcpy_dtod(Stream::LEGACY, other, at, 4096),
        &|| client.memcpy_box(Stream::LEGACY, &rows(other, at)),
    ];
    for (index, copy) in copies.iter().enumerate() {
        write(at, 7);
        launch(client, function, [1, 1, 1], [1, 1, 1], Stream::LEGACY, (0, 0, 0, 0)).unwrap();
        copy().unwrap();
        // SAFETY: as of `host`; nothing is in flight any more.
        let bytes = unsafe { std::slice::from_raw_parts(at.0 as *const u8, 4096) };
        let written = std::io::Write::write(&mut tempfile::tempfile().unwrap(), bytes);
        assert_eq!(written.map_err(|error| error.kind()), Ok(4096), "behind copy {index}");
        assert_eq!(read(at), 7, "behind copy {index}");
    }
    client.mem_free(at).unwrap();
    client.mem_free(other).unwrap();
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Managed allocations and what should be in them.
struct Model<'a> {
    client: &'a Client,
    function: Function,
    random: Random,
    memory: Vec<(DevicePtr, Vec<u8>)>,
}

impl Model<'_> {
    fn allocate(&mut self) {
        let bytes = [100, 4096, 70_000, 300_000, 3 << 20][self.random.below(5)];
        let at = self.client.mem_alloc_managed(bytes, GLOBAL).unwrap();
        self.memory.push((at, vec![0; bytes]));
    }

    /// A part of one of them: which, from where on, how much.
    fn part(&mut self) -> (usize, usize, usize) {
        let index = self.random.below(self.memory.len());
        let bytes = self.memory[index].1.len();
        let from = self.random.below(bytes);
        (index, from, 1 + self.random.below((bytes - from).min(200_000)))
    }

    fn at(&self, index: usize, offset: usize) -> DevicePtr {
        DevicePtr(self.memory[index].0.0 + offset as u64)
    }

    fn step(&mut self) {
        let (client, byte) = (self.client, self.random.below(256) as u8);
        let (index, from, bytes) = self.part();
        let at = self.at(index, from);
        match self.random.below(12) {
            0 | 1 => {
                write(at, byte);
                self.memory[index].1[from] = byte;
            }
            2 => {
                host(at, bytes).write(&vec![byte; bytes]).unwrap();
                self.memory[index].1[from..from + bytes].fill(byte);
            }
            3 | 4 => assert_eq!(read(at), self.memory[index].1[from]),
            5 => assert_eq!(host(at, bytes).to_vec(), self.memory[index].1[from..from + bytes]),
            6 => launch(client, self.function, [1, 1, 1], [1, 1, 1], Stream::LEGACY, (0, 0, 0, 0)).unwrap(),
            7 => {
                client.memset_d8(Stream::LEGACY, at, byte, bytes).unwrap();
                self.memory[index].1[from..from + bytes].fill(byte);
            }
            8 => client.ctx_synchronize().unwrap(),
            9 => self.copy(index, from, bytes),
            10 => {
                let mut copied = vec![0; bytes];
                let target = HostBlock::new(bytes).unwrap();
                client.memcpy_dtoh(Stream::LEGACY, target.range(), at).unwrap();
                target.range().read_into(&mut copied).unwrap();
                assert_eq!(copied, self.memory[index].1[from..from + bytes]);
            }
            _ if self.memory.len() > 3 => {
                let (at, _) = self.memory.swap_remove(index);
                client.mem_free(at).unwrap();
            }
            _ => self.allocate(),
        }
    }

    /// From one to another, named as host memory or as the device's.
    fn copy(&mut self, index: usize, from: usize, bytes: usize) {
        let (other, to, room) = self.part();
        let bytes = bytes.min(room);
        let (source, target) = (self.at(index, from), self.at(other, to));
        let copied = match self.random.below(3) {
            0 => self.client.memcpy_dtod(Stream::LEGACY, target, source, bytes),
            1 => self.client.memcpy_htod(Stream::LEGACY, target, host(source, bytes)),
            _ => self.client.memcpy_dtoh(Stream::LEGACY, host(target, bytes), source),
        };
        if index == other && from < to + bytes && to < from + bytes {
            // No test checks the bytes that overlapping copies leave.
            self.client.memset_d8(Stream::LEGACY, target, 0, bytes).unwrap();
            self.memory[other].1[to..to + bytes].fill(0);
            return;
        }
        copied.unwrap();
        let content = self.memory[index].1[from..from + bytes].to_vec();
        self.memory[other].1[to..to + bytes].copy_from_slice(&content);
    }
}

#[test]
fn host_and_device_see_what_was_written_last_and_only_that_travels() {
    let server = Server::start(Options { script: Some(Box::new(fill)), ..Options::default() });
    let client = client(&server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    let function = client.module_get_function(module, c"add").unwrap();
    only_what_was_touched_goes_ahead_of_a_launch(client, &server, function);
    launches_of_other_threads_stand_behind_what_is_sent(client, function);
    launches_wait_once_for_what_is_sent(client, &server, function);
    memory_attached_behind_others_work_waits_for_that_once(client, &server, function);
    functions_bring_a_stream_apart(client, &server, function);
    threads_of_a_function_touch_while_its_stream_stands(client, &server, function);
    a_modules_load_comes_behind_functions_that_may_touch_managed_memory(client, &server);
    a_function_returns_while_work_waits_for_its_bytes(client, &server, function);
    a_copy_with_a_managed_end_is_waited_for(client, &server);
    a_copy_that_is_waited_for_leaves_managed_memory_open_to_the_system(client, function);
    let mut model = Model { client, function, random: Random(1), memory: Vec::new() };
    model.allocate();
    for _ in 0..3000 {
        model.step();
    }
    without_a_stream_apart_the_bytes_go_by_another(client, &server);
}
