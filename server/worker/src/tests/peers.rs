//! Sessions that share: blocks and signal pages by tickets, between clients and a daemon that the test plays.
//! In: messages of clients, answers of the daemon. Out: the verdict.

use std::os::fd::OwnedFd;

use floe_abi::CudaError;

use super::sharer::{KEY, Session, TICKET};
use super::*;
use crate::daemon::peer_notices::*;
use crate::peer::page::PLACES;
use crate::peer::proof::{Claim, Key};

const INVALID_HANDLE: u32 = 400;
const TIMEOUT: u32 = 909;
/// The longest wait of an importer in these tests.
const SOON: Duration = Duration::from_millis(50);

pub(super) fn imported(import: &Import, bytes: u64, gpu: i32) -> PeerNotice {
    let from = Returned { session: import.session, kind: import.kind, object: import.object };
    PeerNotice::Imported { request: import.request, bytes, gpu, from }
}

fn import_block(session: u64, block: u64) -> ImportBlock<'static> {
    ImportBlock { session, ticket: TICKET, key: &KEY, object: BlockId(1), block: BlockId(block) }
}

fn free(session: &mut Session) -> u64 {
    let body = session.client.ok(&MemoryInfo {});
    MemoryInfo::decode_reply(&body).unwrap().free
}

/// The importer has block 1 of the owner as its block 5.
fn shared() -> (Session, Session) {
    let (owner, mut importer) = (Session::owner(), Session::new(2, 2 * BLOCK, PATIENCE));
    let sent = importer.client.send(&import_block(1, 5));
    owner.serve(&importer);
    let Some(Got::Reply { request, status: 0, body, .. }) = importer.client.get() else { panic!("no import") };
    assert_eq!((request, ImportBlock::decode_reply(&body).unwrap().bytes), (sent, BLOCK));
    (owner, importer)
}

#[test]
fn an_imported_block_is_a_block_that_its_owner_pays_for_until_it_comes_back() {
    let (mut owner, mut importer) = shared();
    assert_eq!(free(&mut importer), 2 * BLOCK, "it pays nothing");
    // At the owner's address, which lies in the window of another vGPU.
    let at = DevicePtr(WINDOW_BASE + WINDOW_BYTES);
    importer.client.send(&MapBlock { block: BlockId(5), offset: 0, at, bytes: BLOCK, access: 3 });
    importer.client.send(&CopyToDevice { stream: StreamId(0), to: at, bytes: &[1, 2, 3] });
    importer.client.ok(&SynchronizeContext {});
    assert_eq!(importer.client.device.memory(at.0, 3), [1, 2, 3]);
    owner.client.send(&UnmapRange { at: DevicePtr(BASE), bytes: BLOCK });
    owner.client.send(&ReleaseBlock { block: BlockId(1) });
    assert_eq!(free(&mut owner), 3 * BLOCK, "others hold it");
    importer.client.send(&ReleaseBlock { block: BlockId(5) });
    importer.client.ok(&MemoryInfo {});
    assert!(importer.reported.try_recv().is_err(), "it is mapped");
    importer.client.send(&UnmapRange { at, bytes: BLOCK });
    assert_eq!(importer.returned(), Returned { session: 1, kind: Kind::Block, object: 1 });
    owner.notify(&PeerNotice::Returned(2, vec![(Kind::Block, 1)]), None);
    owner.pays_beside(0);
    assert_eq!(free(&mut owner), 4 * BLOCK);
}

#[test]
fn memory_of_an_owner_that_is_over_is_charged_to_who_holds_it_also_beyond_its_quota() {
    let (owner, mut importer) = shared();
    importer.client.ok(&CreateBlock { block: BlockId(6), bytes: 2 * BLOCK });
    importer.notify(&PeerNotice::Over(1), None);
    importer.pays_beside(BLOCK);
    drop(owner);
    assert_eq!(free(&mut importer), 0);
    importer.client.send(&ReleaseBlock { block: BlockId(6) });
    assert_eq!(free(&mut importer), BLOCK);
    assert_eq!(importer.client.call(&CreateBlock { block: BlockId(7), bytes: 2 * BLOCK }).0, 2, "out of memory");
    importer.client.send(&ReleaseBlock { block: BlockId(5) });
    assert_eq!(free(&mut importer), 2 * BLOCK);
    assert!(importer.reported.try_recv().is_err(), "there is nobody to tell");
}

#[test]
fn a_session_that_holds_more_than_its_quota_imports_nothing() {
    let (owner, mut importer) = shared();
    importer.client.ok(&CreateBlock { block: BlockId(6), bytes: 2 * BLOCK });
    importer.notify(&PeerNotice::Over(1), None);
    importer.pays_beside(BLOCK);
    drop(owner);
    assert_eq!(importer.client.call(&import_block(3, 7)).0, CudaError::OUT_OF_MEMORY.code());
    assert!(importer.reported.try_recv().is_err(), "nobody is asked");
    importer.client.send(&ReleaseBlock { block: BlockId(5) });
    importer.client.send(&import_block(3, 8));
    let asked = importer.import();
    assert_eq!(asked.session, 3);
    importer.notify(&PeerNotice::Refused(asked.request, Refused::Unknown), None);
    assert!(matches!(importer.client.get(), Some(Got::Reply { status: INVALID_HANDLE, .. })));
}

#[test]
fn a_new_block_with_the_number_of_one_that_an_importer_holds_is_not_given_to_it() {
    let (mut owner, importer) = shared();
    owner.client.send(&UnmapRange { at: DevicePtr(BASE), bytes: BLOCK });
    owner.client.send(&ReleaseBlock { block: BlockId(1) });
    owner.client.ok(&CreateBlock { block: BlockId(1), bytes: 2 * BLOCK });
    // The importer pays for a block once, however often it has it: it must not take one for the other.
    let (outcome, descriptor) = owner.ask(2, &proved(2, 3, Kind::Block, 1));
    assert_eq!((outcome, descriptor.is_some()), (Err(Refused::NotSupported), false));
    assert_eq!(owner.ask(3, &proved(3, 3, Kind::Block, 1)).0, Ok(2 * BLOCK), "another has no other");
    owner.notify(&PeerNotice::Returned(2, vec![(Kind::Block, 1)]), None);
    assert_eq!(owner.ask(2, &proved(2, 3, Kind::Block, 1)).0, Ok(2 * BLOCK));
    drop(importer);
}

#[test]
fn an_importer_that_is_over_holds_nothing() {
    let (mut owner, _importer) = shared();
    owner.client.send(&UnmapRange { at: DevicePtr(BASE), bytes: BLOCK });
    owner.client.send(&ReleaseBlock { block: BlockId(1) });
    assert_eq!(free(&mut owner), 3 * BLOCK);
    owner.notify(&PeerNotice::Over(2), None);
    owner.pays_beside(0);
    assert_eq!(free(&mut owner), 4 * BLOCK);
}

/// An import with this key, as its importer's worker reports it.
fn proved(importer: u64, ticket: u64, kind: Kind, object: u64) -> Import {
    let mut import = Import { request: 1, session: 1, ticket, proof: [0; PROOF_BYTES], kind, object };
    import.proof = Key::of(&KEY).unwrap().prove(&Claim::of(importer, &import));
    import
}

#[test]
fn nobody_gets_anything_without_a_ticket_that_admits_it() {
    let mut owner = Session::owner();
    owner.client.ok(&CreateBlock { block: BlockId(2), bytes: BLOCK });
    owner.export(TicketId(10), 1, 2, 1, 0);
    let refused = |owner: &Session, importer, import: &Import| {
        let (outcome, descriptor) = owner.ask(importer, import);
        outcome == Err(Refused::Unknown) && descriptor.is_none()
    };
    let import = proved(2, 3, Kind::Block, 1);
    assert!(refused(&owner, 2, &Import { proof: [0; PROOF_BYTES], ..import.clone() }), "forged");
    assert!(refused(&owner, 3, &import), "another session's");
    assert!(refused(&owner, 2, &Import { request: 2, ..import.clone() }), "another request's");
    assert!(refused(&owner, 2, &proved(2, 4, Kind::Block, 1)), "no such ticket");
    assert!(refused(&owner, 2, &proved(2, 3, Kind::Block, 7)), "no such block");
    assert!(refused(&owner, 2, &proved(2, 10, Kind::Block, 1)), "out of its scope");
    assert!(owner.ask(2, &proved(2, 10, Kind::Block, 2)).0.is_ok());
    assert!(refused(&owner, 2, &proved(2, 10, Kind::Block, 2)), "used up");
    assert!(owner.ask(2, &import).0.is_ok());
    owner.client.send(&Withdraw { ticket: TICKET });
    owner.client.ok(&MemoryInfo {});
    assert!(refused(&owner, 2, &import), "withdrawn");
    owner.export(TicketId(11), 1, 2, 0, 0);
    owner.client.send(&ReleaseBlock { block: BlockId(2) });
    owner.client.ok(&MemoryInfo {});
    assert!(refused(&owner, 2, &proved(2, 11, Kind::Block, 2)), "released");
}

#[test]
fn a_ticket_that_cannot_be_is_refused() {
    let mut owner = Session::owner();
    let (status, earlier, _) =
        owner.client.call(&Export { ticket: TicketId(20), key: &KEY, scope: 1, object: 77, uses: 0, seconds: 0 });
    assert_eq!((status, earlier), (INVALID_HANDLE, 0), "no such block");
    let bad = Export { ticket: TicketId(21), key: &KEY[..31], scope: 0, object: 0, uses: 0, seconds: 0 };
    assert!(owner.client.break_with(&bad).contains("31 bytes"));
    let bad = Export { key: &KEY, scope: 4, ..bad };
    assert!(Session::owner().client.break_with(&bad).contains("scope: 4"));
    let again = Export { ticket: TICKET, scope: 0, ..bad };
    assert!(Session::owner().client.break_with(&again).contains("taken: 3"));
}

#[test]
fn an_import_without_an_answer_fails_by_name_and_what_comes_late_is_let_go() {
    let mut importer = Session::new(2, 0, SOON);
    assert_eq!(importer.client.call(&import_block(1, 5)).0, TIMEOUT);
    let import = importer.import();
    let file = floe_ring::sealed_memory("late", BLOCK).unwrap();
    importer.notify(&imported(&import, BLOCK, 1), Some(&file));
    assert_eq!(importer.returned(), Returned { session: 1, kind: Kind::Block, object: 1 });
    assert_eq!(importer.client.device.physical(), 0);
    // The id is free.
    importer.client.ok(&CreateBlock { block: BlockId(5), bytes: BLOCK });
}

#[test]
fn what_cannot_be_imported_is_refused_by_name_and_let_go() {
    let answers: [(u64, i32, CudaError); 4] = [
        (BLOCK + 1, 1, CudaError::INVALID_HANDLE),
        (0, 1, CudaError::INVALID_HANDLE),
        (u64::MAX - BLOCK + 1, 1, CudaError::INVALID_HANDLE),
        (BLOCK, 9, CudaError::PEER_ACCESS_UNSUPPORTED),
    ];
    let mut importer = Session::new(2, 0, PATIENCE);
    for (bytes, gpu, error) in answers {
        importer.client.send(&import_block(1, 5));
        let file = floe_ring::sealed_memory("bad", BLOCK).unwrap();
        importer.notify(&imported(&importer.import(), bytes, gpu), Some(&file));
        assert!(matches!(importer.client.get(), Some(Got::Reply { status, .. }) if status == error.code()), "{error}");
        assert_eq!(importer.returned().object, 1);
    }
    let refusals = [
        (Refused::Unknown, CudaError::INVALID_HANDLE),
        (Refused::NotPermitted, CudaError::NOT_PERMITTED),
        (Refused::OutOfMemory, CudaError::OUT_OF_MEMORY),
        (Refused::NotSupported, CudaError::NOT_SUPPORTED),
    ];
    for (why, error) in refusals {
        importer.client.send(&import_block(1, 5));
        importer.notify(&PeerNotice::Refused(importer.import().request, why), None);
        assert!(matches!(importer.client.get(), Some(Got::Reply { status, .. }) if status == error.code()), "{error}");
    }
    // Without a daemon there is nobody to ask.
    assert_eq!(Client::new().call(&import_block(1, 5)).0, CudaError::NOT_SUPPORTED.code());
}

/// The kernel gives a process that has its most descriptors the words alone.
#[test]
fn an_import_whose_descriptor_is_lost_is_refused_and_its_owner_told() {
    let mut importer = Session::new(2, 0, PATIENCE);
    importer.client.send(&import_block(1, 5));
    importer.notify(&imported(&importer.import(), BLOCK, 1), None);
    let error = CudaError::OUT_OF_MEMORY.code();
    assert!(matches!(importer.client.get(), Some(Got::Reply { status, .. }) if status == error));
    assert_eq!(importer.returned(), Returned { session: 1, kind: Kind::Block, object: 1 });
}

#[test]
fn a_page_whose_memory_may_shrink_or_is_none_is_not_mapped() {
    let mut importer = Session::new(2, 0, PATIENCE);
    let import_signals =
        ImportSignals { session: 1, ticket: TICKET, key: &KEY, object: SignalsId(1), signals: SignalsId(5) };
    let growing = rustix::fs::memfd_create("grows", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&growing, 4096).unwrap();
    let socket = OwnedFd::from(UnixStream::pair().unwrap().0);
    let short = floe_ring::sealed_memory("short", 4095).unwrap();
    for file in [growing, socket, short] {
        importer.client.send(&import_signals);
        importer.notify(&imported(&importer.import(), 4096, 1), Some(&file));
        assert!(matches!(importer.client.get(), Some(Got::Reply { status: INVALID_HANDLE, .. })));
        assert_eq!(importer.returned().kind, Kind::Signals);
        assert!(!importer.client.device.has_host(PLACES.start));
    }
}

/// Both sessions have a page: the owner as 1, the importer as 5. Each has stream 1.
fn shared_page() -> (Session, Session) {
    let (mut owner, mut importer) = (Session::owner(), Session::new(2, 0, PATIENCE));
    owner.client.ok(&CreateSignals { signals: SignalsId(1) });
    importer.client.send(&ImportSignals {
        session: 1,
        ticket: TICKET,
        key: &KEY,
        object: SignalsId(1),
        signals: SignalsId(5),
    });
    owner.serve(&importer);
    assert!(matches!(importer.client.get(), Some(Got::Reply { status: 0, .. })));
    for session in [&mut owner, &mut importer] {
        session.client.send(&CreateStream { stream: StreamId(1), flags: 1, priority: 0 });
        session.client.ok(&MemoryInfo {});
    }
    (owner, importer)
}

/// The reply to a request, after progress of streams.
fn replied(client: &mut Client, sent: u64) {
    loop {
        match client.get() {
            Some(Got::Progress(..)) => {}
            got => return assert_eq!(got, status(sent, 0)),
        }
    }
}

#[test]
fn a_stream_waits_for_an_event_of_another_session() {
    let (mut owner, mut importer) = shared_page();
    owner.client.device.hold(0);
    owner.client.send(&CreateEvent { event: EventId(1), flags: 0 });
    owner.client.send(&RecordEvent { event: EventId(1), stream: StreamId(1), flags: 0 });
    let raise = RaiseSignal { signals: SignalsId(1), word: 7, value: 3, event: EventId(1), stream: StreamId(0) };
    owner.client.send(&raise);
    owner.client.ok(&MemoryInfo {});
    importer.client.send(&AwaitSignal { stream: StreamId(1), signals: SignalsId(5), word: 7, value: 3 });
    let waits = importer.client.send(&SynchronizeStream { stream: StreamId(1) });
    importer.client.nothing_comes();
    owner.client.device.release(0);
    while owner.words(1, 7, 1) != [3] {}
    importer.client.device.look();
    replied(&mut importer.client, waits);
    // A lower value changes nothing; without an event it is the stream that counts.
    owner.client.send(&RaiseSignal { value: 2, event: EventId(0), stream: StreamId(1), ..raise });
    owner.client.send(&RaiseSignal { value: 9, word: 8, event: EventId(0), stream: StreamId(1), ..raise });
    while owner.words(1, 8, 1) != [9] {}
    assert_eq!(importer.words(5, 6, 3), [0, 3, 9]);
}

#[test]
fn a_word_is_raised_also_when_the_work_has_failed() {
    let (mut owner, mut importer) = shared_page();
    owner.client.device.break_context(700);
    let raise = RaiseSignal { signals: SignalsId(1), word: 0, value: 4, event: EventId(0), stream: StreamId(1) };
    owner.client.send(&raise);
    while importer.words(5, 0, 1) != [4] {}
}

#[test]
fn records_of_a_shared_event_count_at_once_and_complete_in_their_stream() {
    let (mut owner, mut importer) = shared_page();
    owner.client.device.hold(0);
    let record = RecordSignal { signals: SignalsId(1), recorded: 0, stream: StreamId(1) };
    let count = |body: &[u8]| RecordSignal::decode_reply(body).unwrap().count;
    assert_eq!(count(&owner.client.ok(&record)), 1);
    let record = RecordSignal { signals: SignalsId(5), ..record };
    assert_eq!(count(&importer.client.ok(&record)), 2);
    while importer.words(5, 0, 2) != [2, 2] {}
    owner.client.device.release(0);
    assert_eq!(owner.words(1, 0, 2), [2, 2]);
}

#[test]
fn nobody_waits_for_a_session_that_is_over() {
    let (owner, mut importer) = shared_page();
    importer.client.send(&AwaitSignal { stream: StreamId(1), signals: SignalsId(5), word: 7, value: (1 << 61) - 1 });
    let waits = importer.client.send(&SynchronizeStream { stream: StreamId(1) });
    // Dropped pages too: work names them.
    importer.client.send(&DropSignals { signals: SignalsId(5) });
    importer.client.nothing_comes();
    drop(owner);
    importer.notify(&PeerNotice::Over(1), None);
    replied(&mut importer.client, waits);
    assert_eq!(importer.returned().kind, Kind::Signals);
    assert!(!importer.client.device.has_host(PLACES.start));
}

#[test]
fn the_owner_of_a_page_learns_that_an_importer_is_over_and_a_page_that_came_back_stays() {
    let (mut owner, mut importer) = shared_page();
    importer.client.send(&DropSignals { signals: SignalsId(5) });
    assert_eq!(importer.returned(), Returned { session: 1, kind: Kind::Signals, object: 1 });
    owner.notify(&PeerNotice::Returned(2, vec![(Kind::Signals, 1)]), None);
    owner.notify(&PeerNotice::Over(2), None);
    // Both are taken in order, and a question behind them is answered after them.
    let (outcome, _) = owner.ask(3, &proved(3, 3, Kind::Signals, 1));
    assert_eq!(outcome, Ok(4096));
    assert_eq!(owner.words(1, 0, 1), [0]);
    owner.notify(&PeerNotice::Over(3), None);
    owner.sees_the_end_of(1);
}

#[test]
fn a_sharer_that_leaves_words_beyond_all_values_holds_nobody_up_after_its_end() {
    let (owner, mut importer) = shared_page();
    let wait = AwaitSignal { stream: StreamId(1), signals: SignalsId(5), word: 7, value: 3 };
    importer.client.device.host(PLACES.start).lock().unwrap()[7 * 8..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
    importer.client.send(&wait);
    let waits = importer.client.send(&SynchronizeStream { stream: StreamId(1) });
    importer.client.nothing_comes();
    drop(owner);
    importer.notify(&PeerNotice::Over(1), None);
    replied(&mut importer.client, waits);
    importer.sees_the_end_of(5);
}

#[test]
fn words_and_values_out_of_range_violate_the_protocol() {
    let page = SignalsId(1);
    let with = |breaks: &dyn Fn(Client) -> String| {
        let mut client = Client::new();
        client.ok(&CreateSignals { signals: page });
        breaks(client)
    };
    let stream = StreamId(0);
    let raise = RaiseSignal { signals: page, word: 512, value: 1, event: EventId(0), stream };
    assert!(with(&|client| client.break_with(&raise)).contains("from 512"));
    let raise = RaiseSignal { word: 0, value: 1 << 61, ..raise };
    assert!(with(&|client| client.break_with(&raise)).contains("0x2000000000000000"));
    assert!(
        with(&|client| client.break_with(&AwaitSignal { stream, signals: page, word: 1, value: u64::MAX }))
            .contains("no value")
    );
    assert!(
        with(&|client| client.break_with(&RecordSignal { signals: page, recorded: 511, stream })).contains("from 511")
    );
    assert!(
        with(&|client| client.break_with(&ReadSignals { signals: page, first: u32::MAX, count: 2 }))
            .contains("2 words")
    );
    assert!(with(&|client| client.break_with(&CreateSignals { signals: page })).contains("taken: 1"));
    assert!(with(&|client| client.break_with(&DropSignals { signals: SignalsId(2) })).contains("has the id: 2"));
}

#[test]
fn a_reset_lets_everything_go_that_was_imported_or_exported() {
    let (mut owner, mut importer) = shared();
    owner.client.ok(&CreateSignals { signals: SignalsId(1) });
    importer.client.ok(&ResetContext {});
    assert_eq!(importer.returned(), Returned { session: 1, kind: Kind::Block, object: 1 });
    assert_eq!(importer.client.device.physical(), 0);
    owner.client.ok(&ResetContext {});
    assert!(!owner.client.device.has_host(PLACES.start));
    assert_eq!(free(&mut owner), 3 * BLOCK, "the importer has not said so yet");
    for (kind, object) in [(Kind::Block, 1), (Kind::Signals, 1)] {
        assert_eq!(owner.ask(2, &proved(2, 3, kind, object)).0, Err(Refused::Unknown));
    }
    owner.notify(&PeerNotice::Returned(2, vec![(Kind::Block, 1)]), None);
    owner.pays_beside(0);
    assert_eq!(free(&mut owner), 4 * BLOCK);
}

#[test]
fn a_client_asks_what_its_gpu_can_do_with_anothers_memory() {
    let mut client = Client::new();
    let mut ask = |gpu| AskPeer::decode_reply(&client.ok(&AskPeer { gpu })).unwrap();
    assert_eq!(ask(0), AskPeerReply { rank: 0, access: 1, atomics: 1, arrays: 1 });
    assert_eq!(ask(2), AskPeerReply { rank: 3, access: 1, atomics: 0, arrays: 1 });
    assert_eq!(ask(9), AskPeerReply::default());
}
