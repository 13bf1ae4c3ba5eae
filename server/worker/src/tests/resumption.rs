//! Resumable sessions: a client reconnects as the real one does, and nothing is lost or done twice. Other clients do
//! not come back, leave, die or lie.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::process::{Child, Command};

use floe_transport::{ACKNOWLEDGEMENT_CHANNEL, Channels, HistoryDigest, LinkState, MAIN_CHANNEL};
use floe_wire::ContinueReply;

use super::*;
use crate::Process;

/// Nobody waits for so long.
const HOUR: Duration = Duration::from_secs(3600);
const CHUNK: u64 = CHUNK_BYTES as u64;

/// Two ends of a connection that is cut when so many bytes have gone from the first to the second.
fn cut_after(bytes: usize) -> (UnixStream, UnixStream) {
    let (ours, near) = UnixStream::pair().unwrap();
    let (far, theirs) = UnixStream::pair().unwrap();
    let pass = |mut from: UnixStream, mut to: UnixStream, mut left: usize| {
        move || {
            let mut buffer = [0; 4096];
            while left > 0 {
                let most = left.min(buffer.len());
                match from.read(&mut buffer[..most]) {
                    Ok(count @ 1..) if to.write_all(&buffer[..count]).is_ok() => left -= count,
                    _ => break,
                }
            }
            // Bytes written before can still be read there.
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        }
    };
    let back = pass(far.try_clone().unwrap(), near.try_clone().unwrap(), usize::MAX);
    std::thread::spawn(pass(near, far, bytes));
    std::thread::spawn(back);
    (ours, theirs)
}

impl Client {
    /// A session that outlives its connections, the first of which are these two ends.
    fn resumable(ends: (UnixStream, UnixStream), grace: Duration, client: Option<&Child>) -> (Self, Channels) {
        let client = client.map(|client| Process::of(client.id().cast_signed()).unwrap());
        let resumption = Resumption { grace, bulk_connections: 2, client, broken: Arc::default() };
        let mut client = Self::over(ends, Arc::new(Fake::default()), 0, Some(resumption));
        let unused = Link::new(UnixStream::pair().unwrap().0.into());
        let (channels, link) = Channels::take_over(std::mem::replace(&mut client.link, unused), HOUR);
        client.link = link;
        (client, channels)
    }

    fn resumable_for(grace: Duration) -> (Self, Channels) {
        Self::resumable(UnixStream::pair().unwrap(), grace, None)
    }

    /// A connection that has joined, on which the client has said this; what it was answered: status and what has come.
    fn say(&self, message: &impl Message) -> (Link, Option<(u32, HistoryDigest)>) {
        say(&self.giver, UnixStream::pair().unwrap(), message)
    }

    /// The worker's ending, which comes by itself.
    fn ending(mut self) -> Ending {
        join(self.worker.take().unwrap())
    }

    /// How the session ends, and that it does for a protocol violation.
    fn broken_by(self) -> String {
        match self.ending() {
            Ending::ProtocolViolation(words) => words,
            other => panic!("{other:?}"),
        }
    }
}

fn say(giver: &Giver, ends: (UnixStream, UnixStream), message: &impl Message) -> (Link, Option<(u32, HistoryDigest)>) {
    giver.give(Role::Joined, Link::new(ends.1.into())).unwrap();
    let mut link = Link::new(ends.0.into());
    link.send(message).unwrap();
    let answer = match link.receive(Some(Instant::now() + PATIENCE)) {
        Ok(Some(frame)) => {
            let reply = Reply::decode(frame.payload).unwrap();
            let has = (reply.status == 0).then(|| Continue::decode_reply(reply.body).unwrap());
            let mark = has.map(|ContinueReply { received, digest }| HistoryDigest { received, digest });
            Some((reply.status, mark.unwrap_or(HistoryDigest::none())))
        }
        Ok(None) | Err(LinkError::CutOff { .. } | LinkError::System { .. }) => None,
        Err(error) => panic!("{error}"),
    };
    (link, answer)
}

/// The message of a client that resumes a channel.
fn at(epoch: u64, channel: u32, HistoryDigest { received, digest }: HistoryDigest) -> Continue {
    Continue { epoch, channel, received, digest }
}

/// Makes one of the session's connections as the client does, and reads it where it is the one with acknowledgements.
fn make(channels: &Channels, giver: &Giver, ends: (UnixStream, UnixStream), epoch: u64, channel: u32) {
    match say(giver, ends, &at(epoch, channel, channels.freeze(channel))) {
        (_, None) => channels.broke(epoch),
        (link, Some((0, _))) if channel == ACKNOWLEDGEMENT_CHANNEL => {
            let receiver = channels.hear(epoch, link);
            let heard = channels.listen(epoch, receiver);
            assert!(matches!(heard, floe_transport::Heard::Broke), "{heard:?}");
        }
        (link, Some((0, mark))) => channels.resume(channel, epoch, link, mark).unwrap(),
        // It was too late.
        (_, Some((1, _))) => channels.broke(epoch),
        (_, other) => panic!("{other:?}"),
    }
}

/// Reconnects as often as the connections break, each time with the kind that `ends` gives. Returns the number of
/// times.
fn keep(client: &Client, channels: &Channels, ends: fn() -> (UnixStream, UnixStream)) -> JoinHandle<u64> {
    let (giver, channels) = (Arc::clone(&client.giver), channels.clone());
    let all = move |epoch| {
        // The first time the others are made as they are needed.
        let others = if epoch > 1 { channels.all() } else { vec![] };
        for channel in others.into_iter().chain([ACKNOWLEDGEMENT_CHANNEL]) {
            let (channels, giver) = (channels.clone(), Arc::clone(&giver));
            std::thread::spawn(move || make(&channels, &giver, ends(), epoch, channel));
        }
        match channels.await_change(LinkState::Whole, None) {
            LinkState::Broken => channels.begin(epoch + 1),
            LinkState::Whole | LinkState::Parked | LinkState::Over => false,
        }
    };
    std::thread::spawn(move || {
        let mut epoch = 1;
        while all(epoch) {
            epoch += 1;
        }
        epoch
    })
}

fn data(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index / 7 + seed).to_le_bytes()[0]).collect()
}

/// The bytes on the device, as the worker delivers them.
fn read(client: &mut Client, bytes: u64) -> Vec<u8> {
    let sent = client.send(&CopyFromDevice { stream: StreamId(0), from: DevicePtr(BASE), bytes });
    match client.get() {
        Some(Got::Delivery { request, bytes, .. }) if request == sent => {
            assert_eq!(client.get(), status(sent, 0));
            bytes
        }
        other => panic!("no data: {other:?}"),
    }
}

/// Small and large commands, posted and waited for, of which each shows what those before have done, once.
fn work(client: &mut Client) {
    client.memory();
    for round in 0..20 {
        let bytes = data([10, 3000, 200_000][round % 3], round);
        client.send(&CopyToDevice { stream: StreamId(0), to: DevicePtr(BASE), bytes: &bytes });
        let block = BlockId(2 + round as u64);
        // Done twice, or after its release was lost, it would be refused.
        client.ok(&CreateBlock { block, bytes: BLOCK });
        client.send(&ReleaseBlock { block });
        assert!(read(client, bytes.len() as u64) == bytes);
    }
    assert_eq!(client.used.load(std::sync::atomic::Ordering::Relaxed), BLOCK);
}

#[test]
fn a_session_continues_wherever_its_connection_is_cut() {
    for bytes in [1, 15, 16, 17, 40, 100, 3050, 70_000, 199_000, 1_000_000] {
        let (mut client, channels) = Client::resumable(cut_after(bytes), HOUR, None);
        let keeper = keep(&client, &channels, || UnixStream::pair().unwrap());
        work(&mut client);
        channels.say_goodbye(PATIENCE);
        channels.end();
        assert_eq!((client.ending(), join(keeper)), (Ending::ClientLeft, 2), "cut after {bytes}");
    }
}

#[test]
fn a_session_continues_however_often_its_connections_are_cut() {
    let (mut client, channels) = Client::resumable(cut_after(9000), HOUR, None);
    let keeper = keep(&client, &channels, || cut_after(9000));
    work(&mut client);
    // Its goodbye may be cut, too.
    channels.end();
    assert!(join(keeper) > 100);
}

#[test]
fn bulk_connections_resume_behind_the_received_bytes() {
    let (mut client, channels) = Client::resumable_for(HOUR);
    client.memory();
    let keeper = keep(&client, &channels, || UnixStream::pair().unwrap());
    let mut links = [1, 2].map(|channel| {
        make(&channels, &client.giver, UnixStream::pair().unwrap(), 1, channel);
        channels.link(channel)
    });
    let all = data(4 * CHUNK_BYTES, 3);
    for epoch in 1..20 {
        let to = DevicePtr(BASE);
        let sent = client.send(&CopyBulkToDevice { stream: StreamId(0), to, bytes: 4 * CHUNK });
        for (part, bytes) in all.chunks(CHUNK_BYTES).enumerate() {
            links[part % 2].send(&Chunk { transfer: sent, offset: part as u64 * CHUNK, bytes }).unwrap();
            if part == 1 {
                channels.broke(epoch);
            }
        }
        let sent = client.send(&CopyFromDevice { stream: StreamId(0), from: to, bytes: 4 * CHUNK });
        assert_eq!(client.get(), Some(Got::Follows { request: sent, offset: 0, bytes: 4 * CHUNK }));
        assert_eq!(client.get(), status(sent, 0));
        let (mut came, until) = (vec![vec![]; 4], Instant::now() + PATIENCE);
        while came.iter().any(Vec::is_empty) {
            assert!(Instant::now() < until, "chunks do not come in epoch {epoch}");
            for link in &mut links {
                if let Ok(Some(frame)) = link.receive(Some(Instant::now() + Duration::from_millis(5))) {
                    let chunk = Chunk::decode(frame.payload).unwrap();
                    came[usize::try_from(chunk.offset / CHUNK).unwrap()] = chunk.bytes.to_vec();
                }
            }
        }
        assert!(came.concat() == all);
        // The next round's cut is of connections that are there.
        assert_eq!(channels.await_change(LinkState::Broken, Some(PATIENCE)), LinkState::Whole);
    }
    channels.say_goodbye(PATIENCE);
    channels.end();
    assert_eq!((client.ending(), join(keeper)), (Ending::ClientLeft, 20));
}

#[test]
fn a_connection_of_an_old_epoch_is_refused_and_nobody_else_notices() {
    let (mut client, channels) = Client::resumable_for(HOUR);
    client.memory();
    channels.broke(1);
    assert!(channels.begin(3));
    make(&channels, &client.giver, UnixStream::pair().unwrap(), 3, MAIN_CHANNEL);
    for (epoch, channel) in [(2, MAIN_CHANNEL), (1, ACKNOWLEDGEMENT_CHANNEL), (0, 1)] {
        let (mut link, answer) = client.say(&at(epoch, channel, HistoryDigest::none()));
        assert_eq!(answer, Some((1, HistoryDigest::none())));
        assert!(link.receive(Some(Instant::now() + PATIENCE)).unwrap().is_none(), "it is closed");
    }
    client.ok(&MemoryInfo {});
    let (heard, giver) = (channels.clone(), Arc::clone(&client.giver));
    std::thread::spawn(move || make(&heard, &giver, UnixStream::pair().unwrap(), 3, ACKNOWLEDGEMENT_CHANNEL));
    channels.say_goodbye(PATIENCE);
    channels.end();
    assert_eq!(client.ending(), Ending::ClientLeft);
}

#[test]
fn a_connection_that_says_nothing_is_closed_and_nobody_else_notices() {
    let (mut client, _channels) = Client::resumable_for(HOUR);
    for _ in 0..100 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        client.giver.give(Role::Joined, Link::new(theirs.into())).unwrap();
        drop(ours);
    }
    client.memory();
    assert_eq!(read(&mut client, 10), [0; 10]);
}

#[test]
fn counts_that_cannot_be_end_the_session() {
    let (client, _channels) = Client::resumable_for(HOUR);
    let mark = HistoryDigest { received: 1 << 40, ..HistoryDigest::none() };
    assert_eq!(client.say(&at(2, MAIN_CHANNEL, mark)).1, None);
    let words = client.broken_by();
    assert!(words.contains("channel 0: 1099511627776 bytes cannot have arrived"), "{words}");

    let (client, _channels) = Client::resumable_for(HOUR);
    let (mut link, answer) = client.say(&at(1, ACKNOWLEDGEMENT_CHANNEL, HistoryDigest::none()));
    assert_eq!(answer, Some((0, HistoryDigest::none())));
    link.send(&Acknowledge { channel: 1, received: 5, digest: 0 }).unwrap();
    let words = client.broken_by();
    assert!(words.contains("channel 1: 5 bytes cannot have arrived"), "{words}");
}

#[test]
fn a_restored_client_resumes_only_where_both_histories_agree() {
    let fill =
        |value| Fill { stream: StreamId(0), at: DevicePtr(BASE), pitch: 0, element: 4, value, width: 1, height: 1 };
    for (before, after, is_same) in [(1, 1, true), (1, 2, false)] {
        let (mut client, _channels) = Client::resumable_for(HOUR);
        client.memory();
        // As it was then, with connections of its own that lead nowhere.
        let (ours, _nowhere) = UnixStream::pair().unwrap();
        let (image, mut own) = Channels::take_over(Link::new(ours.into()), HOUR);
        own.send(&CreateBlock { block: BlockId(1), bytes: BLOCK }).unwrap();
        own.send(&MapBlock { block: BlockId(1), offset: 0, at: DevicePtr(BASE), bytes: BLOCK, access: 3 }).unwrap();
        client.send(&fill(before));
        client.ok(&MemoryInfo {});
        // It does its own, as many bytes and more.
        own.send(&fill(after)).unwrap();
        own.send(&MemoryInfo {}).unwrap();
        own.send(&MemoryInfo {}).unwrap();
        image.broke(1);
        assert!(image.begin(2));
        let (_link, answer) = client.say(&at(2, MAIN_CHANNEL, image.freeze(MAIN_CHANNEL)));
        let Some((0, has)) = answer else { panic!("{answer:?}") };
        match image.check(MAIN_CHANNEL, has) {
            Ok(()) => assert!(is_same),
            Err(LinkError::History { channel: MAIN_CHANNEL, received }) => {
                assert!(!is_same && received == has.received)
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_client_that_claims_unsent_bytes_ends_the_session() {
    let (mut client, channels) = Client::resumable_for(HOUR);
    client.ok(&MemoryInfo {});
    channels.broke(1);
    assert!(channels.begin(2));
    let HistoryDigest { received, digest } = channels.freeze(MAIN_CHANNEL);
    assert!(received > 0);
    assert_eq!(client.say(&at(2, MAIN_CHANNEL, HistoryDigest { received, digest: digest ^ 1 })).1, None);
    let words = client.broken_by();
    assert!(words.contains("differ from those sent"), "{words}");
}

#[test]
fn places_that_cannot_be_end_the_session() {
    for (message, expected) in [
        (at(1, 3, HistoryDigest::none()), "no connection of the session has the channel: 3"),
        (at(1, MAIN_CHANNEL, HistoryDigest::none()), "channel 0 has a connection of epoch 1"),
    ] {
        let (client, _channels) = Client::resumable_for(HOUR);
        let _link = client.say(&message);
        assert_eq!(client.broken_by(), expected);
    }
}

#[test]
fn a_connection_that_says_something_else_first_ends_the_session() {
    let (client, _channels) = Client::resumable_for(HOUR);
    let _link = client.say(&MemoryInfo {});
    let words = client.broken_by();
    assert!(words.contains("says first: 0x0106, not 0x0009"), "{words}");
}

#[test]
fn a_session_whose_client_does_not_come_back_ends_after_the_grace_period() {
    let (mut client, channels) = Client::resumable_for(Duration::from_millis(200));
    let (_acknowledgements, answer) = client.say(&at(1, ACKNOWLEDGEMENT_CHANNEL, HistoryDigest::none()));
    assert_eq!(answer, Some((0, HistoryDigest::none())));
    client.ok(&MemoryInfo {});
    channels.broke(1);
    assert_eq!(client.ending(), Ending::Link("its client did not make it again within 0.200 s".into()));
}

#[test]
fn a_client_that_has_asked_for_nothing_or_cannot_come_back_is_not_waited_for() {
    for (asks, can_come_back) in [(false, false), (false, true), (true, false)] {
        let (mut client, channels) = Client::resumable_for(HOUR);
        let _acknowledgements = can_come_back.then(|| {
            let (link, answer) = client.say(&at(1, ACKNOWLEDGEMENT_CHANNEL, HistoryDigest::none()));
            assert_eq!(answer, Some((0, HistoryDigest::none())));
            link
        });
        if asks {
            client.ok(&MemoryInfo {});
        }
        channels.broke(1);
        assert_eq!(client.ending(), Ending::ClientLeft, "asks: {asks}, can come back: {can_come_back}");
    }
}

#[test]
fn a_client_that_says_that_it_leaves_is_not_waited_for() {
    let (mut client, channels) = Client::resumable_for(HOUR);
    // Nobody makes connections again: the worker might leave the one on which it is said, before it has read that.
    let (heard, giver) = (channels.clone(), Arc::clone(&client.giver));
    let hearing =
        std::thread::spawn(move || make(&heard, &giver, UnixStream::pair().unwrap(), 1, ACKNOWLEDGEMENT_CHANNEL));
    client.memory();
    channels.say_goodbye(PATIENCE);
    // A process that ends closes its connections in any order.
    channels.broke(1);
    assert_eq!(client.ending(), Ending::ClientLeft);
    channels.end();
    join(hearing);
}

#[test]
fn a_client_of_this_machine_that_is_killed_is_not_waited_for() {
    let mut process = Command::new("sleep").arg("3600").spawn().unwrap();
    let (client, channels) = Client::resumable(UnixStream::pair().unwrap(), HOUR, Some(&process));
    channels.broke(1);
    let worker = client.worker.as_ref().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(!worker.is_finished(), "the process is there");
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(client.ending(), Ending::ClientLeft);
}

#[test]
fn a_client_of_this_machine_that_was_killed_while_its_worker_started_is_not_waited_for() {
    let mut process = Command::new("true").spawn().unwrap();
    process.wait().unwrap();
    let (client, channels) = Client::resumable(UnixStream::pair().unwrap(), HOUR, Some(&process));
    channels.broke(1);
    assert_eq!(client.ending(), Ending::ClientLeft);
}
