//! Sessions made again from their images: what lives is there, what differs is named, what ended left nothing.
//! In: commands carried out in one session. Out: the tables of another, after it replayed the first one's image.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, OwnedFd};

use proptest::prelude::*;

use super::super::alone::Alone;
use super::super::*;
use super::slabs::Slabs;
use crate::issue::fault::Fault;
use crate::issue::issuer::moving::image::{Places, Presence, Supplies};
use crate::issue::issuer::{Answer, Issuer};
use crate::life::moving::words::Variable;
use crate::memory::budget::{Budget, cost};

/// A session, and what it costs.
struct Session {
    alone: Alone,
    budget: Budget,
}

fn object(kind: ObjectKind, id: u64) -> Object {
    Object { kind, id }
}

impl Session {
    fn new() -> Self {
        Self::with(Budget::default())
    }

    fn with(budget: Budget) -> Self {
        Self { alone: Alone::on(Arc::default(), &budget), budget }
    }

    fn issuer(&self) -> &Issuer<Fake> {
        &self.alone.issuer
    }

    /// Carries a command out, which is no violation of the protocol.
    fn does<M: Message>(&mut self, message: &M) -> Result<Vec<u8>, Fault> {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        match self.alone.issuer.dispatch(Request::decode(M::KIND, &payload).unwrap(), M::KIND, &payload) {
            Ok(Answer::Body(body)) => Ok(body),
            Ok(_) => Ok(Vec::new()),
            Err(Fault::ProtocolViolation(words)) => panic!("{}: {words}", M::NAME),
            Err(fault) => Err(fault),
        }
    }

    fn is(&self, kind: ObjectKind, id: u64) -> bool {
        self.issuer().presence(object(kind, id)) == Presence::Live
    }

    fn is_free(&self, kind: ObjectKind, id: u64) -> bool {
        self.issuer().presence(object(kind, id)) == Presence::Gone
    }

    fn load(&mut self, id: u64, text: &str) -> Result<Vec<u8>, Fault> {
        let hash = hash_of(text.as_bytes());
        let library = LibraryId(id);
        self.does(&LibraryPart { library, content: 0, bytes: text.as_bytes() })?;
        let contents = vec![Content { hash: &hash, bytes: text.len() as u64 }];
        self.does(&LoadLibrary { library, kind: 3, contents, ..LoadLibrary::default() })
    }

    fn load_at_once(&mut self, id: u64, text: &str) -> Result<Vec<u8>, Fault> {
        let hash = hash_of(text.as_bytes());
        let library = LibraryId(id);
        self.does(&LibraryPart { library, content: 0, bytes: text.as_bytes() })?;
        let contents = vec![Content { hash: &hash, bytes: text.len() as u64 }];
        self.does(&LoadLibrary { library, kind: 3, contents, at_once: true, ..LoadLibrary::default() })
    }

    fn share(&mut self, file: OwnedFd) {
        *floe_lock::lock(&self.alone.shared.descriptor) = Some(file);
    }

    /// Its image from a clock on, after a way through bytes.
    fn image(&self, since: u64) -> Image {
        let image = self.issuer().image(since);
        assert_eq!(Image::decode(&image.encode()).as_ref(), Ok(&image));
        image
    }

    /// Replays an image of `from`.
    fn replays(&mut self, from: &Self, image: &Image, past: bool) -> Result<(), Vec<String>> {
        self.replays_at(&from.places(), from, image, past)
    }

    /// The same, told that variables lie there.
    fn replays_at(&mut self, at: &[Variable], from: &Self, image: &Image, past: bool) -> Result<(), Vec<String>> {
        let mut places = Places::default();
        places.want(at, &*self.alone.shared.device);
        self.replays_with(&mut places, from, image, past)
    }

    fn replays_with(&mut self, places: &mut Places, from: &Self, image: &Image, past: bool) -> Result<(), Vec<String>> {
        let contents = &mut |hash: &Hash| from.issuer().content(hash);
        let descriptors = &mut |wanted: Object| {
            let all = from.issuer().descriptors();
            let (_, file) = all.into_iter().find(|(object, _)| *object == wanted)?;
            Some(file.try_clone_to_owned().unwrap())
        };
        self.alone.issuer.replay(image, &mut Supplies { contents, descriptors, places, past })
    }

    /// Rooms that are kept from the device.
    fn held(&self) -> usize {
        let mut held = 0;
        self.alone.shared.device.in_slabs(|slabs| held = slabs.kept);
        held
    }

    /// Where the variables x, y and z of libraries are.
    fn places(&self) -> Vec<Variable> {
        let names = Arc::new(BTreeSet::from(["x", "y", "z"].map(str::to_owned)));
        let all = self.issuer().used_code().into_iter().map(|(id, _)| (id, Arc::clone(&names)));
        self.issuer().find_variables(&all.collect())
    }

    /// Asserts that another session has the same objects once it has replayed this one's image, and gives it.
    fn is_made_again(&self) -> Self {
        assert_eq!(self.issuer().refusals(), []);
        let mut other = Self::new();
        other.replays(self, &self.image(0), true).unwrap();
        assert_eq!(other.issuer().tables(), self.issuer().tables());
        assert_eq!(other.issuer().digest(), self.issuer().digest());
        other
    }

    /// The differences of a replay of what lives only.
    fn differs(&self) -> Vec<String> {
        Self::new().replays(self, &self.image(0), false).unwrap_err()
    }

    fn why_not(&self) -> Vec<String> {
        self.issuer().refusals().into_iter().map(|refusal| refusal.why).collect()
    }
}

const TEXT: &str = "kernel a 8\nkernel frame4096 8\nvariable x\nvariable y";

/// A session with a mapped block, and a library with a kernel.
fn furnished() -> Session {
    let mut session = Session::new();
    session.does(&CreateBlock { block: BlockId(1), bytes: 4 * BLOCK }).unwrap();
    let map = MapBlock { block: BlockId(1), offset: BLOCK, at: DevicePtr(BASE), bytes: 2 * BLOCK, access: 0 };
    session.does(&map).unwrap();
    session.load(1, TEXT).unwrap();
    session.does(&FindKernel { library: LibraryId(1), name: "a", kernel: KernelId(1) }).unwrap();
    session
}

fn kernel_node(graph: u64) -> AddGraphKernel<'static> {
    AddGraphKernel { graph: GraphId(graph), kernel: KernelId(1), parameters: &[7; 8], ..AddGraphKernel::default() }
}

#[test]
fn mappings_have_their_offsets_and_the_access_of_each_part() {
    let mut session = furnished();
    session.does(&SetAccess { at: DevicePtr(BASE), bytes: 2 * BLOCK, access: 3 }).unwrap();
    session.does(&SetAccess { at: DevicePtr(BASE), bytes: BLOCK, access: 1 }).unwrap();
    let second = MapBlock { block: BlockId(1), offset: 0, at: DevicePtr(BASE + 2 * BLOCK), bytes: BLOCK, access: 3 };
    session.does(&second).unwrap();
    session.does(&SetAccess { at: DevicePtr(BASE + BLOCK), bytes: 2 * BLOCK, access: 0 }).unwrap();
    let other = session.is_made_again();
    let accesses = |session: &Session| session.alone.shared.device.accesses();
    assert_eq!(accesses(&other), accesses(&session));
    assert_eq!(accesses(&other).into_values().collect::<Vec<_>>(), [1, 0, 0]);
    // The part of a range that was unmapped is forgotten with its mapping.
    session.does(&UnmapRange { at: DevicePtr(BASE + 2 * BLOCK), bytes: BLOCK }).unwrap();
    session.is_made_again();
}

#[test]
fn a_released_block_is_there_until_its_last_mapping_is_gone() {
    let mut session = furnished();
    session.does(&ReleaseBlock { block: BlockId(1) }).unwrap();
    let mut other = session.is_made_again();
    for session in [&mut session, &mut other] {
        session.does(&UnmapRange { at: DevicePtr(BASE), bytes: 2 * BLOCK }).unwrap();
        assert!(session.is_free(ObjectKind::Block, 1));
        assert_eq!(session.alone.shared.device.physical(), 0);
        assert!(session.image(0).entries.iter().all(|entry| entry.kind >> 8 != 1), "nothing of memory is left");
    }
}

#[test]
fn kernels_have_their_settings_and_variables_their_addresses() {
    let mut session = furnished();
    for (number, value) in [(8, 1024), (9, 50), (8, 2048)] {
        session.does(&SetKernelAttribute { kernel: KernelId(1), what: 0, number, value }).unwrap();
    }
    for name in ["x", "y", "x"] {
        session.does(&FindGlobal { library: LibraryId(1), name }).unwrap();
    }
    assert!(session.does(&FindGlobal { library: LibraryId(1), name: "z" }).is_err());
    let count = |kind| session.image(0).entries.iter().filter(|entry| entry.kind == kind).count();
    assert_eq!((count(SetKernelAttribute::KIND), count(FindGlobal::KIND)), (2, 2));
    session.is_made_again();
}

#[test]
fn a_variable_elsewhere_is_named_and_the_history_puts_it_there() {
    let mut session = Session::new();
    session.does(&CreateEvent { event: EventId(1), flags: 0 }).unwrap();
    session.does(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 }).unwrap();
    session.load(1, TEXT).unwrap();
    session.does(&FindGlobal { library: LibraryId(1), name: "y" }).unwrap();
    session.load(2, TEXT).unwrap();
    session.does(&FindGlobal { library: LibraryId(2), name: "x" }).unwrap();
    session.does(&DestroyEvent { event: EventId(1) }).unwrap();
    session.is_made_again();
    session.does(&UnloadLibrary { library: LibraryId(1) }).unwrap();
    session.is_made_again();
    let words = "variable x of library 2 lies at 0x7ffdd7e10000, not at 0x7ffdd7e21000";
    assert_eq!(session.differs(), [words]);
}

/// Libraries whose variables have so many bytes, the first loaded at once, and behind it something that moves later slabs.
fn in_two_slabs(other: impl FnOnce(&mut Slabs)) -> Session {
    let text = |name: &str, bytes: u64| {
        format!(".version 8.0\n.target sm_90\n.visible .global .align 8 .b8 {name}[{bytes}];\n// kernel k 8")
    };
    let mut session = Session::new();
    session.alone.shared.device.in_slabs(|_| {});
    session.load_at_once(1, &text("x", 1 << 20)).unwrap();
    session.load_at_once(2, &text("y", 1000)).unwrap();
    session.alone.shared.device.in_slabs(other);
    // No room is left for these in the first slab; the fourth one has ended, and the fifth lies behind it.
    session.load_at_once(3, &text("z", 1 << 20)).unwrap();
    session.load_at_once(4, &text("z", 4000)).unwrap();
    session.load(5, &text("x", 300)).unwrap();
    session.load(6, &text("x", 2 << 20)).unwrap();
    for (library, name) in [(5, "x"), (1, "x"), (2, "y"), (6, "x")] {
        session.does(&FindGlobal { library: LibraryId(library), name }).unwrap();
    }
    session.does(&UnloadLibrary { library: LibraryId(4) }).unwrap();
    session
}

fn is_made_in_its_slabs(session: &Session) {
    let mut other = Session::new();
    other.alone.shared.device.in_slabs(|_| {});
    other.replays(session, &session.image(0), true).unwrap();
    assert_eq!(other.places(), session.places());
    assert_eq!(other.issuer().digest(), session.issuer().digest());
}

/// Stacks of kernels have taken the addresses above: another worker's slab would lie there.
#[test]
fn a_slab_behind_other_addresses_is_brought_to_its_place() {
    is_made_in_its_slabs(&in_two_slabs(|slabs| slabs.take_addresses(768 << 20)));
}

/// Streams that are gone, or pinned memory, had the slabs between.
#[test]
fn a_slab_behind_other_slabs_is_brought_to_its_place() {
    for slabs_between in [1, 2, 14, 15, 16, 40, 200] {
        is_made_in_its_slabs(&in_two_slabs(|slabs| (0..slabs_between).for_each(|_| slabs.take_slab())));
    }
}

/// The other worker's driver takes addresses and regions of its own before the slabs are made.
#[test]
fn what_the_driver_takes_meanwhile_does_not_lie_where_a_slab_has_to() {
    let takes = |slabs: &mut Slabs, bytes: u64| {
        slabs.take_addresses(bytes);
        (0..16).for_each(|_| slabs.take_slab());
    };
    let session = in_two_slabs(|slabs| takes(slabs, 768 << 20));
    for bytes in [1 << 20, 100 << 20, 700 << 20, 720 << 20, 768 << 20] {
        let mut other = Session::new();
        other.alone.shared.device.in_slabs(|_| {});
        let mut places = Places::default();
        places.want(&session.places(), &*other.alone.shared.device);
        other.alone.shared.device.in_slabs(|slabs| takes(slabs, bytes));
        other.replays_with(&mut places, &session, &session.image(0), true).unwrap();
        drop(places);
        assert_eq!((other.places(), other.held()), (session.places(), 0), "{bytes:#x}");
    }
}

/// The other worker has something else there.
#[test]
fn a_slab_that_cannot_be_brought_to_its_place_is_named() {
    let session = in_two_slabs(|slabs| slabs.take_addresses(768 << 20));
    let mut other = Session::new();
    other.alone.shared.device.in_slabs(|slabs| slabs.take_addresses(1 << 30));
    let words = other.replays(&session, &session.image(0), true).unwrap_err();
    assert!(words.iter().all(|words| words.contains(" lies at ")), "{words:?}");
}

/// Places are another worker's word, and addresses may be any numbers.
#[test]
fn places_where_nothing_can_lie_are_nobodys() {
    let session = in_two_slabs(|_| {});
    let lies = [(u64::MAX, 1), (u64::MAX - 5000, u64::MAX), (1, u64::MAX), (u64::MAX - (1 << 20), 8), (1 << 63, 1)];
    for (at, bytes) in lies {
        let mut all = session.places();
        all.iter_mut().for_each(|variable| (variable.at, variable.bytes) = (at, bytes));
        let mut one = session.places();
        one.push(Variable { at, bytes, ..one[0].clone() });
        for lie in [all, one] {
            let mut other = Session::new();
            other.alone.shared.device.in_slabs(|_| {});
            let _ = other.replays_at(&lie, &session, &session.image(0), true);
        }
    }
}

/// Nobody is charged for what takes the slabs before a place: it must not be much, however far the place, or long.
#[test]
fn what_takes_the_slabs_before_a_place_is_little() {
    let session = in_two_slabs(|_| {});
    let mut lie = session.places();
    lie.iter_mut().for_each(|variable| (variable.at, variable.bytes) = (0x6000_0000_0000, 32 << 20));
    let mut other = Session::new();
    other.alone.shared.device.in_slabs(|_| {});
    let _ = other.replays_at(&lie, &session, &session.image(0), true);
    let mut most = 0;
    other.alone.shared.device.in_slabs(|slabs| most = slabs.most);
    assert!((32 << 20..160 << 20).contains(&most), "{most}");
}

#[test]
fn a_variable_behind_an_event_that_is_gone_is_named() {
    let mut session = Session::new();
    session.does(&CreateEvent { event: EventId(1), flags: 0 }).unwrap();
    session.does(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 }).unwrap();
    session.load(1, TEXT).unwrap();
    session.does(&FindGlobal { library: LibraryId(1), name: "y" }).unwrap();
    session.does(&DestroyEvent { event: EventId(1) }).unwrap();
    let at = 0x7ffd_d7e0_0000_u64 + 256;
    let words = format!("variable y of library 1 lies at {:#x}, not at {:#x}", at + 0x1_0000, at + 0x2_0000);
    assert_eq!(session.differs(), [words]);
}

#[test]
fn the_workers_own_events_lie_where_they_lay() {
    let mut session = Session::new();
    // Two waits under way: two events of the worker's own.
    session.does(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 }).unwrap();
    session.alone.shared.device.hold(0);
    session.does(&SynchronizeStream { stream: StreamId(1) }).unwrap();
    session.does(&SynchronizeStream { stream: StreamId(0) }).unwrap();
    session.load(1, TEXT).unwrap();
    session.does(&FindGlobal { library: LibraryId(1), name: "x" }).unwrap();
    assert_eq!(session.image(0).entries.last().unwrap().own.events, 2);
    session.is_made_again();
}

#[test]
fn streams_and_events_have_their_flags_and_failures_their_errors() {
    let mut session = Session::new();
    session.does(&CreateStream { stream: StreamId(1), flags: 1, priority: -3 }).unwrap();
    session.does(&CreateEvent { event: EventId(1), flags: 2 }).unwrap();
    session.alone.shared.device.fail_next_stream();
    assert!(session.does(&CreateStream { stream: StreamId(2), flags: 0, priority: 0 }).is_err());
    assert!(session.load(3, "no such line").is_err());
    let mut other = session.is_made_again();
    let error = other.does(&SynchronizeStream { stream: StreamId(2) }).unwrap_err();
    assert_eq!(Err(error), session.does(&SynchronizeStream { stream: StreamId(2) }));
    other.does(&DestroyStream { stream: StreamId(2) }).unwrap();
    other.does(&UnloadLibrary { library: LibraryId(3) }).unwrap();
    assert!(other.is_free(ObjectKind::Stream, 2) && other.is_free(ObjectKind::Library, 3));
}

#[test]
fn graphs_do_what_their_nodes_do_now() {
    let mut session = furnished();
    let fill = |value| GraphFill { at: DevicePtr(BASE), element: 4, value, width: 16, height: 1, pitch: 0 };
    for graph in [1, 2] {
        session.does(&CreateGraph { graph: GraphId(graph) }).unwrap();
        session.does(&kernel_node(graph)).unwrap();
        let after = vec![GraphEdge { from: 0, port: 0, kind: 0 }];
        session
            .does(&AddGraphFill { graph: GraphId(graph), after, fill: fill(u32::try_from(graph).unwrap()) })
            .unwrap();
    }
    session.does(&InstantiateGraph { graph: GraphId(1), flags: 0 }).unwrap();
    for value in 10..20 {
        session.does(&SetGraphFill { graph: GraphId(1), node: 1, fill: fill(value) }).unwrap();
    }
    session.does(&EnableGraphNode { graph: GraphId(1), node: 0, enabled: false }).unwrap();
    let launched = |session: &mut Session| {
        session.does(&LaunchGraph { graph: GraphId(1), stream: StreamId(0) }).unwrap();
        session.alone.shared.device.graph_launches().pop()
    };
    let mut other = session.is_made_again();
    assert_eq!(launched(&mut other), launched(&mut session));
    session.does(&UpdateGraph { graph: GraphId(1), new: GraphId(2) }).unwrap();
    let mut other = session.is_made_again();
    assert_eq!(launched(&mut other), launched(&mut session));
    // One made of one that was itself made again.
    assert_eq!(launched(&mut other.is_made_again()), launched(&mut session));
    session.does(&DestroyGraph { graph: GraphId(1) }).unwrap();
    assert!(session.is_made_again().image(0).entries.iter().all(|entry| entry.kind >> 8 != 0x0a));
}

#[test]
fn a_graph_with_a_node_of_memory_that_is_gone_keeps_its_session_where_it_is() {
    let mut session = furnished();
    let fill = |at| GraphFill { at: DevicePtr(at), element: 4, value: 7, width: 16, height: 1, pitch: 0 };
    session.does(&CreateGraph { graph: GraphId(1) }).unwrap();
    session.does(&AddGraphFill { graph: GraphId(1), after: vec![], fill: fill(BASE + 4) }).unwrap();
    session.does(&InstantiateGraph { graph: GraphId(1), flags: 0 }).unwrap();
    assert_eq!(session.why_not(), Vec::<String>::new());
    session.does(&UnmapRange { at: DevicePtr(BASE), bytes: 2 * BLOCK }).unwrap();
    let gone = [format!("graph 1 has a node for memory at {:#x}, which is gone", BASE + 4)];
    assert_eq!(session.why_not(), gone);
    // Its last word is missing.
    let less = MapBlock { block: BlockId(1), offset: 0, at: DevicePtr(BASE), bytes: 64, access: 3 };
    session.does(&less).unwrap();
    assert_eq!(session.why_not(), gone);
    session.does(&UnmapRange { at: DevicePtr(BASE), bytes: 64 }).unwrap();
    assert_eq!(session.why_not(), gone);
    session.does(&DestroyGraph { graph: GraphId(1) }).unwrap();
    assert_eq!(session.why_not(), Vec::<String>::new());
}

#[test]
fn a_graph_that_kernels_launch_keeps_its_session_where_it_is() {
    let mut session = furnished();
    session.does(&CreateGraph { graph: GraphId(1) }).unwrap();
    session.does(&kernel_node(1)).unwrap();
    session.does(&InstantiateGraph { graph: GraphId(1), flags: 4 }).unwrap();
    assert_eq!(session.why_not(), ["the session has graphs that kernels launch, by numbers which they know"]);
    session.does(&DestroyGraph { graph: GraphId(1) }).unwrap();
    assert_eq!(session.why_not(), Vec::<String>::new());
}

#[test]
fn a_graph_that_failed_stays_failed_and_needs_none_of_its_kernels() {
    let mut session = furnished();
    session.does(&CreateGraph { graph: GraphId(1) }).unwrap();
    session.does(&kernel_node(1)).unwrap();
    session.does(&CreateGraph { graph: GraphId(2) }).unwrap();
    session.does(&kernel_node(2)).unwrap();
    session.does(&UnloadLibrary { library: LibraryId(1) }).unwrap();
    assert!(session.why_not().contains(&"graph 1 is made of kernel 1, which is gone".to_owned()));
    session.does(&DestroyGraph { graph: GraphId(1) }).unwrap();
    session.does(&kernel_node(2)).unwrap();
    // With the same charge for its nodes, whose kernel was there and then was not.
    let mut other = session.is_made_again();
    let instantiate = InstantiateGraph { graph: GraphId(2), flags: 0 };
    assert_eq!(other.does(&instantiate), session.does(&instantiate));
}

#[test]
fn a_kernel_that_the_other_session_still_has_changes_no_charge_of_a_failed_graph() {
    let mut session = furnished();
    session.does(&FindKernel { library: LibraryId(1), name: "frame4096", kernel: KernelId(2) }).unwrap();
    let (mut follower, since) = (session.is_made_again(), session.image(0).clock);
    session.does(&UnloadLibrary { library: LibraryId(1) }).unwrap();
    session.does(&CreateGraph { graph: GraphId(1) }).unwrap();
    session.does(&AddGraphKernel { kernel: KernelId(2), ..kernel_node(1) }).unwrap();
    session.load(1, TEXT).unwrap();
    // The graph comes before the library that replaces the one with its kernel.
    follower.replays(&session, &session.image(since), true).unwrap();
    assert_eq!(follower.issuer().tables(), session.issuer().tables());
}

#[test]
fn textures_and_surfaces_have_their_numbers() {
    let mut session = furnished();
    session
        .does(&CreateArray {
            array: ArrayId(1),
            width: 64,
            height: 4,
            format: 0x20,
            channels: 1,
            ..CreateArray::default()
        })
        .unwrap();
    let resource = TextureResource { kind: 0, array: ArrayId(1), ..TextureResource::default() };
    for texture in 1..=6 {
        session.does(&CreateTexture { texture: TextureId(texture), resource, ..CreateTexture::default() }).unwrap();
    }
    session.does(&CreateSurface { surface: SurfaceId(1), array: ArrayId(1) }).unwrap();
    for texture in [1, 2, 4, 5] {
        session.does(&DestroyTexture { texture: TextureId(texture) }).unwrap();
    }
    let other = session.is_made_again();
    assert_eq!(other.alone.shared.device.arrays(), session.alone.shared.device.arrays(), "no other texture is left");
    // Numbers that have gone by never come.
    let mut late = Session::new();
    let array = CreateArray { array: ArrayId(9), width: 1, format: 0x20, channels: 1, ..CreateArray::default() };
    late.does(&array).unwrap();
    let resource = TextureResource { array: ArrayId(9), ..resource };
    for texture in 10..20 {
        late.does(&CreateTexture { texture: TextureId(texture), resource, ..CreateTexture::default() }).unwrap();
    }
    let words = late.replays(&session, &session.image(0), true).unwrap_err();
    assert!(words[0].starts_with("texture 3 has the number") && words[0].ends_with("not 0x3"), "{words:?}");
    assert_eq!(late.alone.shared.device.arrays().1.len(), 3, "what was thrown away is gone");
}

#[test]
fn texture_references_are_of_what_they_were_of_last() {
    let mut session = Session::new();
    session.load(1, "kernel plain\nvariable one\nvariable two").unwrap();
    let array = CreateArray { array: ArrayId(1), width: 8, format: 0x20, channels: 1, ..CreateArray::default() };
    session.does(&array).unwrap();
    let of = |name: &'static str, resource: Option<TextureResource>, channels| SetTextureReference {
        library: LibraryId(1),
        name,
        resource: resource.into_iter().collect(),
        format: 0x20,
        channels,
        ..SetTextureReference::default()
    };
    let memory = TextureResource { kind: 2, at: DevicePtr(0x200), extent: 64, ..TextureResource::default() };
    let of_array = TextureResource { kind: 0, array: ArrayId(1), ..TextureResource::default() };
    session.does(&of("one", None, 1)).unwrap();
    session.does(&of("one", Some(memory), 4)).unwrap();
    session.does(&of("two", Some(memory), 1)).unwrap();
    session.does(&of("two", Some(of_array), 1)).unwrap();
    let wrong = session.does(&of("three", Some(memory), 1));
    assert!(matches!(wrong, Err(Fault::Program(floe_abi::CudaError::NOT_FOUND))), "{wrong:?}");
    let other = session.is_made_again();
    let references = |session: &Session| session.alone.shared.device.texture_references();
    assert_eq!(references(&other), references(&session));
    let expected = [("one", "0x200, 32 x 4"), ("two", "array true, 32 x 1")];
    assert_eq!(references(&session), expected.map(|(name, words)| (name.to_owned(), words.to_owned())).into());
    assert_eq!(session.issuer().image(0).entries.len(), 4, "a library, an array, and what was said last of each");
}

#[test]
fn a_mipmapped_array_is_made_again_with_its_levels() {
    let mut session = Session::new();
    let array =
        CreateArray { array: ArrayId(1), width: 8, format: 0x20, channels: 1, levels: 3, ..CreateArray::default() };
    session.does(&array).unwrap();
    for level in 0..3 {
        session.does(&TakeLevel { of: ArrayId(1), level, array: ArrayId(10 + u64::from(level)) }).unwrap();
    }
    let resource = TextureResource { kind: 1, array: ArrayId(1), ..TextureResource::default() };
    session.does(&CreateTexture { texture: TextureId(1), resource, ..CreateTexture::default() }).unwrap();
    session.does(&CreateSurface { surface: SurfaceId(1), array: ArrayId(12) }).unwrap();
    let mut other = session.is_made_again();
    assert_eq!(other.alone.shared.device.arrays(), session.alone.shared.device.arrays());
    let slices = session.issuer().slices_of_arrays(0, usize::MAX).unwrap();
    assert_eq!(slices.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>().iter().sum::<usize>(), 32 + 16 + 8);
    let first = session.image(0);
    session.does(&DestroyTexture { texture: TextureId(1) }).unwrap();
    session.does(&DestroySurface { surface: SurfaceId(1) }).unwrap();
    session.does(&DestroyArray { array: ArrayId(1) }).unwrap();
    assert_eq!((session.image(0).entries, session.image(0).live), (vec![], vec![]), "its levels are gone with it");
    other.replays(&session, &session.image(first.clock), true).unwrap();
    assert_eq!((other.alone.shared.device.arrays().0, other.budget.kept()), (0, 0));
}

#[test]
fn an_array_that_is_gone_under_a_texture_is_named() {
    let mut session = Session::new();
    let array = CreateArray { array: ArrayId(1), width: 64, format: 0x20, channels: 1, ..CreateArray::default() };
    session.does(&array).unwrap();
    session.does(&CreateSurface { surface: SurfaceId(1), array: ArrayId(1) }).unwrap();
    session.does(&DestroyArray { array: ArrayId(1) }).unwrap();
    let words = ["surface 1 is made of array 1, which is gone"];
    assert_eq!(session.why_not(), words);
    // Nor is it made of another one of the same id.
    session.does(&array).unwrap();
    assert_eq!(session.why_not(), words);
}

#[test]
fn shared_pages_and_mirrors_lie_where_they_lay() {
    let mut session = Session::new();
    let file = |bytes| floe_ring::sealed_memory("shared", bytes).unwrap();
    session.share(file(4 * 4096));
    session.does(&ShareMemory { at: DevicePtr(0x6000_0000_0000), bytes: 4 * 4096 }).unwrap();
    session.does(&MapShared { at: DevicePtr(0x6000_0000_1000), bytes: 8192 }).unwrap();
    let registered = file(8192);
    for at in [0x6100_0000_0000, 0x6100_0000_2000] {
        session.share(registered.as_fd().try_clone_to_owned().unwrap());
        session.does(&ShareFile { at: DevicePtr(at), offset: 0, bytes: 4096 }).unwrap();
    }
    session.does(&MirrorMemory { at: DevicePtr(0x6200_0000_0000), bytes: 4096 }).unwrap();
    let other = session.is_made_again();
    for at in [0x6000_0000_1000, 0x6100_0000_0000, 0x6100_0000_2000, 0x6200_0000_0000] {
        assert!(other.alone.shared.device.has_host(at));
    }
    session.does(&UnmapShared { at: DevicePtr(0x6100_0000_0000) }).unwrap();
    session.does(&UnmirrorMemory { at: DevicePtr(0x6200_0000_0000) }).unwrap();
    session.is_made_again();
    assert_eq!(session.issuer().descriptors().len(), 2);
}

#[test]
fn pages_of_more_files_than_descriptors_are_kept_of_are_named() {
    let mut session = Session::new();
    for index in 0..65 {
        session.share(floe_ring::sealed_memory("shared", 4096).unwrap());
        let at = DevicePtr(0x6100_0000_0000 + index * 4096);
        session.does(&ShareFile { at, offset: 0, bytes: 4096 }).unwrap();
    }
    let words = "pages at 0x610000040000 are of one file more than a session keeps descriptors of";
    assert_eq!(session.why_not(), [words]);
}

#[test]
fn limits_are_set_again_and_a_reset_leaves_only_the_shared_memory() {
    let mut session = furnished();
    for value in [4096, 8192] {
        session.does(&SetLimit { limit: 0, value }).unwrap();
    }
    session.does(&SetCacheConfig { what: 0, value: 1 }).unwrap();
    session.share(floe_ring::sealed_memory("shared", 4096).unwrap());
    session.does(&ShareMemory { at: DevicePtr(0x6000_0000_0000), bytes: 4096 }).unwrap();
    session.is_made_again();
    session.does(&ResetContext {}).unwrap();
    let entries = session.is_made_again().image(0).entries;
    assert_eq!(entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [ShareMemory::KIND]);
    assert_eq!(session.budget.kept(), cost::RECIPE + cost::MESSAGE);
}

#[test]
fn what_other_sessions_may_have_is_refused_by_name() {
    let mut session = furnished();
    session.does(&Export { ticket: TicketId(1), key: &[7; 32], ..Export::default() }).unwrap();
    assert_eq!(session.why_not(), ["the session has tickets by which other sessions may import from it"]);
    session.does(&Withdraw { ticket: TicketId(1) }).unwrap();
    session.does(&CreateSignals { signals: SignalsId(1) }).unwrap();
    assert_eq!(session.why_not(), ["the session has signal pages, which other sessions can have too"]);
    session.does(&DropSignals { signals: SignalsId(1) }).unwrap();
    session.is_made_again();
}

#[test]
fn graphs_in_which_values_decide_keep_a_session_where_it_is_while_they_live() {
    let mut session = furnished();
    let (graph, body) = (GraphId(1), GraphId(2));
    session.does(&CreateGraph { graph }).unwrap();
    let told = session.does(&CreateGraphCondition { graph, value: 0, flags: 0 }).unwrap();
    let handle = CreateGraphCondition::decode_reply(&told).unwrap().handle;
    session.does(&AddGraphConditional { graph, after: Vec::new(), handle, kind: 0, bodies: vec![body] }).unwrap();
    session.does(&kernel_node(2)).unwrap();
    session.does(&InstantiateGraph { graph, flags: 0 }).unwrap();
    assert_eq!(session.why_not(), ["the session has graphs with conditional handles, whose numbers its kernels know"]);
    session.does(&DestroyGraph { graph }).unwrap();
    // Nothing of the body is left.
    assert!(session.is_free(ObjectKind::Graph, 2));
    session.is_made_again();
}

#[test]
fn what_is_on_its_way_passes_by_itself() {
    let mut session = Session::new();
    session.does(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"kernel" }).unwrap();
    assert!(matches!(&session.issuer().refusals()[..], [refusal] if refusal.passes));
}

#[test]
fn contents_that_are_not_at_hand_are_missed_by_the_library_that_needs_them() {
    let session = furnished();
    let places = &mut Places::default();
    let supplies = &mut Supplies { contents: &mut |_| None, descriptors: &mut |_| None, places, past: true };
    let words = Session::new().alone.issuer.replay(&session.image(0), supplies).unwrap_err();
    assert_eq!(words, ["LoadLibrary does not make library 1 here"]);
    // Contents of another hash are no contents.
    let wrong = &mut |_: &Hash| Some(floe_device::Content::from(&b"kernel a 8"[..]));
    let places = &mut Places::default();
    let supplies = &mut Supplies { contents: wrong, descriptors: &mut |_| None, places, past: true };
    assert_eq!(Session::new().alone.issuer.replay(&session.image(0), supplies).unwrap_err(), words);
}

#[test]
fn a_session_without_room_for_recipes_goes_on_and_cannot_be_made_again() {
    let mut session = Session::with(Budget::new(30 << 10));
    session.does(&CreateBlock { block: BlockId(1), bytes: BLOCK }).unwrap();
    let mut ids = BTreeSet::new();
    for event in 1..40 {
        if session.does(&CreateEvent { event: EventId(event), flags: 0 }).is_ok() {
            ids.insert(event);
        }
    }
    assert!(session.why_not().iter().all(|words| words.contains("no room in the session's host memory")));
    for event in 1..40 {
        session.does(&DestroyEvent { event: EventId(event) }).unwrap();
    }
    assert!(!ids.is_empty());
    session.is_made_again();
}

#[test]
fn later_images_bring_what_has_changed_since() {
    let mut session = furnished();
    let stream = |id| CreateStream { stream: StreamId(id), flags: 1, priority: 0 };
    session.does(&stream(1)).unwrap();
    session.does(&stream(2)).unwrap();
    let first = session.image(0);
    let mut other = Session::new();
    other.replays(&session, &first, true).unwrap();
    session.does(&DestroyStream { stream: StreamId(1) }).unwrap();
    session.does(&stream(3)).unwrap();
    // Another block where the first one was.
    session.does(&UnmapRange { at: DevicePtr(BASE), bytes: 2 * BLOCK }).unwrap();
    session.does(&ReleaseBlock { block: BlockId(1) }).unwrap();
    session.does(&CreateBlock { block: BlockId(2), bytes: BLOCK }).unwrap();
    let map = MapBlock { block: BlockId(2), offset: 0, at: DevicePtr(BASE), bytes: BLOCK, access: 3 };
    session.does(&map).unwrap();
    session.alone.shared.device.fail_next_stream();
    session.does(&stream(4)).unwrap_err();
    let second = session.image(first.clock);
    assert_eq!(second.entries.len(), 3);
    other.replays(&session, &second, true).unwrap();
    assert_eq!(other.issuer().tables(), session.issuer().tables());
    session.does(&DestroyStream { stream: StreamId(4) }).unwrap();
    session.does(&UnloadLibrary { library: LibraryId(1) }).unwrap();
    let third = session.image(second.clock);
    assert_eq!(third.entries, []);
    other.replays(&session, &third, true).unwrap();
    assert_eq!(other.issuer().tables(), session.issuer().tables());
}

#[test]
fn a_context_that_has_begun_anew_begins_anew_in_the_other_session_too() {
    let mut session = furnished();
    session.share(floe_ring::sealed_memory("shared", 4096).unwrap());
    session.does(&ShareMemory { at: DevicePtr(0x6000_0000_0000), bytes: 4096 }).unwrap();
    session.does(&SetLimit { limit: 0, value: 4096 }).unwrap();
    let first = session.image(0);
    let mut other = Session::new();
    other.replays(&session, &first, true).unwrap();
    session.does(&ResetContext {}).unwrap();
    session.does(&CreateStream { stream: StreamId(1), flags: 0, priority: 0 }).unwrap();
    let second = session.image(first.clock);
    assert_eq!(second.since, 0);
    other.replays(&session, &second, true).unwrap();
    assert_eq!(other.issuer().tables(), session.issuer().tables());
}

#[test]
fn messages_that_belong_to_no_image_and_objects_that_cannot_be_are_refused() {
    let session = furnished();
    let image = session.image(0);
    let entry = |kind, payload: Vec<u8>| Entry { when: 1, kind, payload, ..Entry::default() };
    let mut reset = Vec::new();
    ResetContext {}.encode(&mut reset);
    let mut signals = Vec::new();
    CreateSignals { signals: SignalsId(1) }.encode(&mut signals);
    let refuses = |change: &dyn Fn(&mut Image)| {
        let mut changed = image.clone();
        change(&mut changed);
        Session::new().replays(&session, &changed, true).unwrap_err().remove(0)
    };
    let add = |kind, payload: &Vec<u8>| refuses(&|image| image.entries.push(entry(kind, payload.clone())));
    assert_eq!(add(ResetContext::KIND, &reset), "no image has the message: ResetContext");
    assert_eq!(add(CreateSignals::KIND, &signals), "no image has the message: CreateSignals");
    assert!(add(77, &vec![]).contains("unknown kind"));
    let failure = |kind, id, error| Failure { object: object(kind, id), error };
    let fails = |it: Failure| refuses(&|image| image.failures.push(it));
    assert_eq!(fails(failure(ObjectKind::Kernel, 1, 2)), "kernel 1 is there and has failed");
    assert_eq!(fails(failure(ObjectKind::Mirror, 1, 2)), "nothing of its kind fails: mirror at 0x1");
    assert!(fails(failure(ObjectKind::Stream, 1, 0)).contains("no error: 0"));
    let twice = refuses(&|image| image.entries.push(image.entries[0].clone()));
    assert_eq!(twice, format!("no message of the image has made mapping at {BASE:#x}"));
}

/// Ids of each kind that random sequences use.
const IDS: u64 = 3;

/// One step of a random sequence: what is done, and to which.
type Step = (u8, u8, u8);

/// Makes an object that is not there, or else ends it.
macro_rules! toggle {
    ($session:expr, $kind:expr, $id:expr, $make:expr, $end:expr) => {
        match $session.issuer().presence(object($kind, $id)) {
            Presence::Gone => drop($session.does(&$make)),
            _ => drop($session.does(&$end)),
        }
    };
}

impl Session {
    /// Does a step if a client that keeps to the protocol can.
    fn step(&mut self, (what, which, more): Step) {
        let (id, other) = (1 + u64::from(which) % IDS, 1 + u64::from(more) % IDS);
        match what % 21 {
            0..=3 => self.memory_step(what % 21, id, other, more),
            4..=7 => self.code_step(what % 21, id, other, more),
            8..=12 => self.graph_step(what % 21, id, other, more),
            13 => {
                if more < 30 {
                    self.alone.shared.device.fail_next_stream();
                }
                let make = CreateStream { stream: StreamId(id), flags: 1, priority: -i32::from(more % 3) };
                toggle!(self, ObjectKind::Stream, id, make, DestroyStream { stream: StreamId(id) });
            }
            14 => {
                let make = CreateEvent { event: EventId(id), flags: u32::from(more % 4) };
                toggle!(self, ObjectKind::Event, id, make, DestroyEvent { event: EventId(id) });
            }
            15..=17 | 20 => self.texture_step(what % 21, id, other, more),
            18 => drop(self.does(&SetLimit { limit: i32::from(which % 2), value: u64::from(more) << 10 })),
            _ if more < 16 => drop(self.does(&ResetContext {})),
            _ => {
                let at = DevicePtr(0x6200_0000_0000 + id * 4096);
                let make = MirrorMemory { at, bytes: 4096 };
                toggle!(self, ObjectKind::Mirror, at.0, make, UnmirrorMemory { at });
            }
        }
    }

    fn memory_step(&mut self, what: u8, id: u64, other: u64, more: u8) {
        let (at, slot) = (DevicePtr(BASE + other * 2 * BLOCK), 2 * BLOCK);
        let (block, access) = (BlockId(id), [0, 1, 3][usize::from(more) % 3]);
        match what {
            0 if self.is_free(ObjectKind::Block, id) => drop(self.does(&CreateBlock { block, bytes: 4 * BLOCK })),
            0 if !self.is_released(id) => drop(self.does(&ReleaseBlock { block })),
            1 if self.is(ObjectKind::Mapping, at.0) => drop(self.does(&UnmapRange { at, bytes: slot })),
            1 if self.is(ObjectKind::Block, id) && !self.is_released(id) => {
                let offset = u64::from(more % 3) * BLOCK;
                drop(self.does(&MapBlock { block, offset, at, bytes: slot, access }));
            }
            2 => {
                let from = DevicePtr(BASE + u64::from(more % 6) * BLOCK + 2 * BLOCK);
                drop(self.does(&SetAccess { at: from, bytes: (1 + id) * BLOCK, access }));
            }
            3 => drop(self.does(&UnmapRange { at: DevicePtr(BASE + 2 * BLOCK), bytes: slot * IDS })),
            _ => {}
        }
    }

    fn is_released(&self, id: u64) -> bool {
        let released = format!("block {id}: Ok(({}, ", 4 * BLOCK);
        self.issuer().tables().iter().any(|line| line.starts_with(&released) && line.contains("true"))
    }

    fn code_step(&mut self, what: u8, id: u64, other: u64, more: u8) {
        let (library, kernel) = (LibraryId(id), 10 * id + other);
        let loaded = self.is(ObjectKind::Library, id);
        match what {
            4 if self.is_free(ObjectKind::Library, id) => drop(self.load(id, if more < 30 { "none" } else { TEXT })),
            4 => drop(self.does(&UnloadLibrary { library })),
            5 if loaded && self.is_free(ObjectKind::Kernel, kernel) => {
                let name = if more < 128 { "a" } else { "frame4096" };
                drop(self.does(&FindKernel { library, name, kernel: KernelId(kernel) }));
            }
            6 if loaded => drop(self.does(&FindGlobal { library, name: ["x", "y", "none"][usize::from(more) % 3] })),
            7 if self.is(ObjectKind::Kernel, kernel) => {
                let set = SetKernelAttribute { kernel: KernelId(kernel), number: 8, value: more.into(), what: 0 };
                drop(self.does(&set));
            }
            _ => {}
        }
    }

    fn graph_step(&mut self, what: u8, id: u64, other: u64, more: u8) {
        let graph = GraphId(id);
        let nodes = self.nodes(id);
        let fill = GraphFill { at: DevicePtr(BASE), element: 4, value: more.into(), width: 4, height: 1, pitch: 0 };
        let kernel = KernelId(11 + u64::from(more) % 4);
        let has_kernel = !self.is_free(ObjectKind::Kernel, kernel.0);
        match (what, nodes) {
            (8, _) => {
                toggle!(self, ObjectKind::Graph, id, CreateGraph { graph }, DestroyGraph { graph });
            }
            (9, Some((_, false))) if has_kernel => drop(self.does(&AddGraphKernel { kernel, ..kernel_node(id) })),
            (10, Some((_, false))) => drop(self.does(&AddGraphFill { graph, after: vec![], fill })),
            (11, Some((_, false))) => drop(self.does(&InstantiateGraph { graph, flags: 0 })),
            (11, Some((count, true))) if count > 0 => {
                let node = u32::from(more) % count;
                drop(self.does(&SetGraphFill { graph, node, fill }));
                drop(self.does(&EnableGraphNode { graph, node, enabled: more.is_multiple_of(2) }));
            }
            (12, Some((_, true))) if self.nodes(other).is_some_and(|(_, is_ready)| !is_ready) => {
                drop(self.does(&UpdateGraph { graph, new: GraphId(other) }));
            }
            _ => {}
        }
    }

    /// Nodes of a graph, and whether it is instantiated.
    fn nodes(&self, id: u64) -> Option<(u32, bool)> {
        let start = format!("graph {id}: Ok((");
        let line = self.issuer().tables().into_iter().find(|line| line.starts_with(&start))?;
        let mut words = line[start.len()..].split(", ");
        Some((words.next()?.parse().ok()?, words.next()? == "true"))
    }

    /// Whether there is a mipmapped array of the id.
    fn has_levels(&self, id: u64) -> bool {
        let start = format!("array {id}: Ok(");
        self.issuer().tables().iter().any(|line| line.starts_with(&start) && line.contains(", (3, ["))
    }

    /// Levels have the ids behind the arrays', and are read as arrays are.
    fn texture_step(&mut self, what: u8, id: u64, other: u64, more: u8) {
        let other = if more < 64 { other + IDS } else { other };
        let (array, has_levels) = (ArrayId(other), self.has_levels(other));
        let has_array = self.is(ObjectKind::Array, other);
        match what {
            15 => {
                let levels = 3 * u32::from(more % 2);
                let make = CreateArray {
                    array: ArrayId(id),
                    width: 8,
                    format: 0x20,
                    channels: 1,
                    levels,
                    ..CreateArray::default()
                };
                toggle!(self, ObjectKind::Array, id, make, DestroyArray { array: ArrayId(id) });
            }
            20 if has_levels || !self.is_free(ObjectKind::Array, id + IDS) => {
                let array = ArrayId(id + IDS);
                let make = TakeLevel { of: ArrayId(other), level: u32::from(more) % 3, array };
                toggle!(self, ObjectKind::Array, array.0, make, DestroyArray { array });
            }
            16 if has_array || !self.is_free(ObjectKind::Texture, id) => {
                let resource = TextureResource { kind: has_levels.into(), array, ..TextureResource::default() };
                let make = CreateTexture { texture: TextureId(id), resource, ..CreateTexture::default() };
                toggle!(self, ObjectKind::Texture, id, make, DestroyTexture { texture: TextureId(id) });
            }
            17 if has_array && !has_levels || !self.is_free(ObjectKind::Surface, id) => {
                let make = CreateSurface { surface: SurfaceId(id), array };
                toggle!(self, ObjectKind::Surface, id, make, DestroySurface { surface: SurfaceId(id) });
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a program made, changed and ended: another session is the same after a replay of all, and after one of a part
    /// and one of the rest, or the refusals or differences say why not. After a reset nothing is left.
    #[test]
    fn any_session_is_made_again_or_said_why_not(
        first in prop::collection::vec(any::<Step>(), 0..80),
        second in prop::collection::vec(any::<Step>(), 0..80),
    ) {
        let mut session = Session::new();
        first.iter().for_each(|step| session.step(*step));
        let mut follower = None;
        if session.issuer().refusals().is_empty() {
            let other = session.is_made_again();
            follower = Some((other, session.image(0).clock));
        }
        second.iter().for_each(|step| session.step(*step));
        if session.issuer().refusals().is_empty() {
            session.is_made_again().is_made_again();
            if let Some((mut follower, since)) = follower {
                match follower.replays(&session, &session.image(since), true) {
                    Ok(()) => prop_assert_eq!(follower.issuer().tables(), session.issuer().tables()),
                    // Only the whole history puts everything where it lay.
                    Err(words) => prop_assert!(words.iter().all(|it| it.contains("lies at") || it.contains("has the number")), "{words:?}"),
                }
            }
        }
        drop(session.does(&ResetContext {}));
        prop_assert_eq!((session.image(0).entries, session.image(0).live), (vec![], vec![]));
        prop_assert_eq!(session.budget.kept(), 0);
    }

    /// A replay of what a liar sends is an error or a session, never a panic.
    #[test]
    fn an_image_with_other_bytes_is_refused_or_replayed(
        steps in prop::collection::vec(any::<Step>(), 20..60),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut session = Session::new();
        steps.iter().for_each(|step| session.step(*step));
        let mut bytes = session.issuer().image(0).encode();
        for (at, value) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        if let Ok(image) = Image::decode(&bytes) {
            let _ = Session::new().replays(&session, &image, true);
        }
    }
}
