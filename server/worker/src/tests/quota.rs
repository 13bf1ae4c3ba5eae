//! A session's quota of device memory and limit of host memory, against the device in memory.
//! In: messages over a socket pair. Out: what is refused, and that nothing was taken for it.

use super::*;
use crate::memory::ledger::{Granted, Grants};
use floe_abi::limit;

const MIB: u64 = 1 << 20;
const OUT_OF_MEMORY: u32 = 2;
const UNSUPPORTED_LIMIT: u32 = 215;
/// Bytes of a further context, as the fake device says.
const CONTEXT: u64 = 3 * MIB;
/// Bytes of stack that a context begins with, and threads the device holds, as the fake device says.
const STACK: u64 = 1024;
const THREADS: u64 = 1024;

fn with_quota(quota: u64) -> Client {
    Client::with(quota)
}

fn with_host_memory(bytes: u64) -> Client {
    Client::planned(UnixStream::pair().unwrap(), Arc::new(Fake::default()), |plan| plan.host_memory = bytes)
}

fn set(client: &mut Client, kind: u32, value: u64) -> u32 {
    client.call(&SetLimit { limit: kind.try_into().unwrap(), value }).0
}

fn free(client: &mut Client) -> u64 {
    let reply = client.ok(&MemoryInfo {});
    MemoryInfo::decode_reply(&reply).unwrap().free
}

fn block(client: &mut Client, id: u64, bytes: u64) -> u32 {
    client.call(&CreateBlock { block: BlockId(id), bytes }).0
}

/// A text that is PTX by its first lines, with declarations and a kernel of the fake device's.
fn ptx(declarations: &str) -> String {
    format!(".version 8.0\n.target sm_90\n{declarations}\n// kernel k 8")
}

/// A daemon that has this much to give, and whether no driver divides the device.
struct Daemon(u64, bool);

impl Grants for Daemon {
    fn ask(&mut self, total: u64) -> Granted {
        Granted { total: total.min(self.0), left: self.0.saturating_sub(total) }
    }

    fn hold(&mut self, _total: u64) {}

    fn is_of_divided_device(&self) -> bool {
        self.1
    }
}

fn with_grants(bytes: u64) -> Client {
    granted(Daemon(bytes, true))
}

fn granted(daemon: Daemon) -> Client {
    let grants = Box::new(daemon);
    Client::planned(UnixStream::pair().unwrap(), Arc::new(Fake::default()), |plan| plan.grants = Some(grants))
}

/// Loads a text as library `id`, with its bytes sent before.
fn load_text(client: &mut Client, id: u64, text: &str) -> u32 {
    client.send(&LibraryPart { library: LibraryId(id), content: 0, bytes: text.as_bytes() });
    let hash = hash_of(text.as_bytes());
    let contents = vec![content(text.as_bytes(), &hash)];
    client.call(&LoadLibrary { library: LibraryId(id), kind: 3, contents, ..LoadLibrary::default() }).0
}

#[test]
fn memory_of_limits_is_lost_to_blocks_until_the_limits_fall() {
    for (kind, begins, each) in
        [(limit::MALLOC_HEAP_SIZE, 8 * MIB, 1), (limit::PRINTF_FIFO_SIZE, MIB, 1), (limit::STACK_SIZE, STACK, THREADS)]
    {
        let mut client = with_quota(16 * MIB);
        assert_eq!(set(&mut client, kind, begins + 8 * MIB / each), 0);
        assert_eq!(free(&mut client), 8 * MIB, "limit {kind}");
        assert_eq!([block(&mut client, 1, 10 * MIB), block(&mut client, 1, 8 * MIB)], [OUT_OF_MEMORY, 0]);
        assert_eq!(set(&mut client, kind, begins + 9 * MIB / each), OUT_OF_MEMORY);
        assert_eq!(free(&mut client), 0);
        assert_eq!(set(&mut client, kind, begins), 0);
        assert_eq!(free(&mut client), 8 * MIB);
        assert_eq!(client.used.load(Ordering::Relaxed), 8 * MIB);
    }
}

#[test]
fn a_stack_whose_memory_no_number_holds_is_refused() {
    let mut client = with_quota(16 * MIB);
    for value in [u64::MAX, u64::MAX / THREADS + 2, 64 << 10] {
        assert_eq!(set(&mut client, limit::STACK_SIZE, value), OUT_OF_MEMORY);
    }
    assert_eq!(free(&mut client), 16 * MIB);
}

#[test]
fn limits_that_are_not_a_sessions_own_are_refused_by_name() {
    let mut client = Client::new();
    for kind in [limit::PERSISTING_L2_CACHE_SIZE, 7, 8, 9, 77] {
        assert_eq!(set(&mut client, kind, 4096), UNSUPPORTED_LIMIT, "limit {kind}");
    }
    assert_eq!(client.call(&SetLimit { limit: -1, value: 1 }).0, UNSUPPORTED_LIMIT);
    assert_eq!(set(&mut client, limit::DEV_RUNTIME_PENDING_LAUNCH_COUNT, 1 << 20), 0);
    let mut bounded = with_quota(16 * MIB);
    assert_eq!(set(&mut bounded, limit::DEV_RUNTIME_PENDING_LAUNCH_COUNT, 1 << 20), UNSUPPORTED_LIMIT);
    assert_eq!(set(&mut bounded, limit::DEV_RUNTIME_PENDING_LAUNCH_COUNT, 100), 0);
}

#[test]
fn variables_of_modules_are_charged_before_they_are_loaded_and_given_back_with_them() {
    let mut client = with_quota(16 * MIB);
    let module = |mib: u64| ptx(&format!(".global .b8 big[{}];", mib * MIB));
    for id in 1..=6 {
        assert_eq!(load_text(&mut client, id, &module(200)), OUT_OF_MEMORY);
    }
    assert_eq!(client.device.handles(), 0, "nothing was loaded");
    assert_eq!(free(&mut client), 16 * MIB);
    assert_eq!(load_text(&mut client, 7, &module(8)), 0);
    assert_eq!(free(&mut client), 6 * MIB, "variables and code in pieces of 2 MiB");
    assert_eq!(block(&mut client, 1, 8 * MIB), OUT_OF_MEMORY);
    assert_eq!(load_text(&mut client, 8, &ptx("// not a kernel")), 218);
    client.send(&UnloadLibrary { library: LibraryId(7) });
    assert_eq!(free(&mut client), 16 * MIB);
    assert_eq!(load_text(&mut client, 9, &ptx(".global .b64 x[4294967296][4294967296];")), OUT_OF_MEMORY);
}

/// Texts whose variables are 200 MiB to NVIDIA's compiler, or to nobody.
const UNTOLD: [&str; 4] = [
    ".global .b8 x[N];",
    ".global .ptr .param .b8 big[209715200];",
    ".pragma \"x\\\"\" ;\n.global .b8 big[209715200];",
    ".global .attribute(.param) .b8 big[209715200];",
];

#[test]
fn a_module_whose_demand_is_unknown_is_refused_where_memory_is_limited() {
    let mut bounded = with_quota(16 * MIB);
    let mut shared = with_grants(16 * MIB);
    for (id, text) in (1..).zip(UNTOLD) {
        assert_eq!(load_text(&mut bounded, id, &ptx(text)), OUT_OF_MEMORY, "{text}");
        assert_eq!(load_text(&mut shared, id, &ptx(text)), OUT_OF_MEMORY, "{text}");
        let find = FindKernel { library: LibraryId(id), name: "k", kernel: KernelId(id) };
        assert_eq!(shared.call(&find).0, OUT_OF_MEMORY, "it is not there");
    }
    assert_eq!([bounded.device.handles(), shared.device.handles()], [0, 0], "none is kept");
    assert_eq!(load_text(&mut shared, 9, &ptx(".global .b8 x[N];\n// damaged")), 218, "the device says what is wrong");
    assert_eq!(load_text(&mut shared, 10, &ptx(".visible.global.b8 x[209715200];")), OUT_OF_MEMORY);
    assert_eq!(load_text(&mut shared, 11, &ptx(".visible.global.b8 x[4];")), 0);
}

#[test]
fn a_best_effort_session_gets_what_the_daemon_grants_and_loads_what_nobody_can_count() {
    let mut client = granted(Daemon(16 * MIB, false));
    assert_eq!([block(&mut client, 1, 18 * MIB), block(&mut client, 1, 10 * MIB)], [OUT_OF_MEMORY, 0]);
    assert_eq!(load_text(&mut client, 1, &ptx(".visible.global.b8 x[8388608];")), OUT_OF_MEMORY);
    assert_eq!(load_text(&mut client, 2, &ptx(".visible.global.b8 x[2097152];")), 0);
    for (id, text) in (3..).zip(UNTOLD) {
        assert_eq!(load_text(&mut client, id, &ptx(text)), 0, "{text}");
    }
    assert_eq!([block(&mut client, 2, 4 * MIB), block(&mut client, 2, 2 * MIB)], [OUT_OF_MEMORY, 0]);
}

#[test]
fn without_a_quota_no_module_is_refused_for_its_variables() {
    let mut client = Client::new();
    for (id, text) in (1..).zip(UNTOLD) {
        assert_eq!(load_text(&mut client, id, &ptx(text)), 0, "{text}");
    }
}

#[test]
fn frames_of_kernels_are_charged_at_their_first_launch_also_from_graphs() {
    let mut client = with_quota(16 * MIB);
    assert_eq!(load_text(&mut client, 1, &ptx("// kernel frame9216 8\n// kernel frame65536 8")), 0);
    let left = free(&mut client);
    for (id, name) in [(1, "k"), (2, "frame9216"), (3, "frame65536")] {
        client.ok(&FindKernel { library: LibraryId(1), name, kernel: KernelId(id) });
    }
    assert_eq!(free(&mut client), left, "to find a kernel takes nothing");
    let launch = |kernel| Launch {
        kernel: KernelId(kernel),
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 1,
        block_y: 1,
        block_z: 1,
        parameters: &[0; 8],
        ..Launch::default()
    };
    client.send(&launch(3));
    assert_eq!(client.call(&SynchronizeContext {}).1, OUT_OF_MEMORY, "the next reply says that the launch failed");
    for _ in 0..3 {
        client.send(&launch(2));
        client.send(&launch(1));
    }
    client.ok(&SynchronizeContext {});
    assert_eq!(client.device.launches().len(), 6);
    assert_eq!(free(&mut client), left - 8 * MIB);
    client.send(&CreateGraph { graph: GraphId(1) });
    let node = AddGraphKernel { graph: GraphId(1), kernel: KernelId(3), parameters: &[0; 8], ..Default::default() };
    client.send(&node);
    assert_eq!(client.call(&InstantiateGraph { graph: GraphId(1), flags: 0 }).0, OUT_OF_MEMORY);
}

#[test]
fn parts_of_libraries_over_the_host_memory_end_the_session_by_name() {
    let mut client = with_host_memory(64 * MIB);
    let part = vec![7; 1 << 20];
    for library in 0..27 {
        client.send(&LibraryPart { library: LibraryId(1 + library), content: 0, bytes: &part });
    }
    client.ok(&MemoryInfo {});
    let words = client.break_with(&LibraryPart { library: LibraryId(90), content: 0, bytes: &part });
    assert!(words.contains("parts of library 90") && words.contains("bytes of host memory"), "{words}");
}

#[test]
fn events_over_the_host_memory_are_refused_and_what_was_there_goes_on() {
    let mut client = with_host_memory(4 * MIB);
    for event in 1..=4096 {
        client.send(&CreateEvent { event: EventId(event), flags: 2 });
    }
    let (status, earlier, _) = client.call(&MemoryInfo {});
    assert_eq!((status, earlier), (0, OUT_OF_MEMORY));
    client.send(&RecordEvent { event: EventId(1), stream: StreamId(0), flags: 0 });
    client.ok(&SynchronizeEvent { event: EventId(1) });
    let made = client.device.handles();
    assert!((1000..3000).contains(&made), "events made: {made}");
    for event in (1..=1000).chain([4096]) {
        client.send(&DestroyEvent { event: EventId(event) });
    }
    client.send(&CreateEvent { event: EventId(5000), flags: 2 });
    client.ok(&SynchronizeEvent { event: EventId(5000) });
}

#[test]
fn nodes_over_the_host_memory_fail_their_graph_and_go_with_it() {
    let mut client = with_host_memory(4 * MIB);
    client.send(&CreateGraph { graph: GraphId(1) });
    for _ in 0..2000 {
        client.send(&AddGraphEmpty { graph: GraphId(1), after: Vec::new() });
    }
    assert_eq!(client.call(&InstantiateGraph { graph: GraphId(1), flags: 0 }).0, OUT_OF_MEMORY);
    client.send(&DestroyGraph { graph: GraphId(1) });
    client.send(&CreateGraph { graph: GraphId(2) });
    client.send(&AddGraphEmpty { graph: GraphId(2), after: Vec::new() });
    client.ok(&InstantiateGraph { graph: GraphId(2), flags: 0 });
}

#[test]
fn parts_of_a_library_that_there_is_no_host_memory_for_go_with_its_load() {
    let mut client = with_host_memory(4 * MIB);
    let mut events = 1..;
    let mut fill = |client: &mut Client| {
        for event in events.by_ref().take(100) {
            client.send(&CreateEvent { event: EventId(event), flags: 2 });
        }
        client.call(&MemoryInfo {}).1
    };
    while fill(&mut client) == 0 {}
    // What a library is charged for itself is not there, but its few bytes are, and each failure.
    for event in 1..=4 {
        client.send(&DestroyEvent { event: EventId(event) });
    }
    for library in 1..=25 {
        client.send(&LibraryPart { library: LibraryId(library), content: 0, bytes: b"kernel k" });
        let hash = hash_of(b"kernel k");
        let load = LoadLibrary { contents: vec![content(b"kernel k", &hash)], ..text(LibraryId(library)) };
        assert_eq!(client.call(&load).0, OUT_OF_MEMORY, "{library}");
    }
}

#[test]
fn a_context_beside_the_first_is_of_the_quota() {
    let mut client = with_quota(CONTEXT + 4 * MIB);
    let before = free(&mut client);
    client.ok(&CreateApartStream { stream: StreamId(1) });
    assert_eq!(free(&mut client), before - CONTEXT);
    client.ok(&ResetContext {});
    assert_eq!(free(&mut client), before);
    let mut client = with_quota(CONTEXT - 1);
    assert_eq!(client.call(&CreateApartStream { stream: StreamId(1) }).0, OUT_OF_MEMORY);
    assert_eq!(client.device.contexts_and_streams().0, 0);
    // Refused, it is as if nobody had asked.
    client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
    client.ok(&SynchronizeStream { stream: StreamId(1) });
}
