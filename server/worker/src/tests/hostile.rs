//! Messages that no client sends: of every kind, with fields that mean nothing, in any order, also those that others take.
//! In: seeds. Out: nothing, or the seed of a session that panicked, hung or ended for another reason than its client.

use std::io::Write as _;

use super::*;

/// Of device memory: the fake device takes what it gives from the test's process.
const MEMORY: u64 = 64 << 20;
/// Where host memory may lie.
const PLACE: u64 = 0x6000_0000_0000;
const MESSAGES: usize = 40;
const SESSIONS: u64 = 100;

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).unwrap()
    }

    /// A number that is likely to lie at a border.
    fn word(&mut self) -> u64 {
        const WORDS: [u64; 24] = [
            0,
            0,
            0,
            0,
            1,
            1,
            2,
            3,
            4,
            8,
            255,
            BASE,
            BASE + 4,
            BASE + BLOCK - 4,
            BASE + BLOCK,
            BLOCK,
            PLACE,
            PLACE,
            PLACE + 4,
            PLACE + 4096,
            1 << 32,
            1 << 63,
            u64::MAX - 3,
            u64::MAX,
        ];
        WORDS[self.below(WORDS.len())]
    }

    /// Bytes that are a message of this kind.
    fn payload(&mut self, kind: u16) -> Option<Vec<u8>> {
        (0..60).find_map(|_| {
            let mut bytes = Vec::new();
            for _ in 0..40 {
                let word = self.word().to_le_bytes();
                let width = [8, 8, 8, 4, 4, 1][self.below(6)];
                bytes.extend_from_slice(&word[..width]);
            }
            (0..bytes.len()).find(|length| Request::decode(kind, &bytes[..*length]).is_ok()).map(|length| {
                bytes.truncate(length);
                bytes
            })
        })
    }
}

/// The kinds of all messages that a client can send.
fn kinds() -> Vec<u16> {
    let zeros = [0; 600];
    let is_known = |kind: &u16| (0..zeros.len()).any(|length| Request::decode(*kind, &zeros[..length]).is_ok());
    (0..0x2000).filter(is_known).collect()
}

/// A session of random messages, and then a question; whether that is answered.
fn is_served(random: &mut Random, kinds: &[u16]) -> bool {
    // These wait for the client, as they should.
    const WAITS: [u16; 3] = [HostFunction::KIND, CopyLate::KIND, CopyBulkToDevice::KIND];
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut raw = ours.try_clone().unwrap();
    let mut client = Client::over((ours, theirs), Arc::new(Fake::default()), MEMORY, None);
    client.memory();
    let mut sequence = 2;
    let mut say = |kind, payload: &[u8]| {
        sequence += 1;
        let header = FrameHeader { length: u32::try_from(payload.len()).unwrap(), kind, sequence };
        // The worker may have ended the session.
        let _ = raw.write_all(&header.encode()).and_then(|()| raw.write_all(payload));
        sequence
    };
    for _ in 0..MESSAGES {
        let kind = kinds[random.below(kinds.len())];
        // The first one that others take ends the session.
        let is_command = kind > Heartbeat::KIND;
        if !WAITS.contains(&kind) && (is_command || random.below(30) == 0) {
            let _ = random.payload(kind).map(|payload| say(kind, &payload));
        }
    }
    let asked = say(MemoryInfo::KIND, &[]);
    let is_answered = loop {
        match client.link.receive(Some(Instant::now() + PATIENCE)) {
            Ok(Some(frame)) => match Push::decode(frame.kind, frame.payload).unwrap() {
                Push::Reply(Reply { request, .. }) if request == asked => break true,
                _ => {}
            },
            Err(error @ LinkError::TimedOut { .. }) => panic!("{error}"),
            Ok(None) | Err(_) => break false,
        }
    };
    drop(raw);
    match client.leave() {
        Ending::ClientLeft | Ending::ProtocolViolation(_) => is_answered,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_that_mean_nothing_are_answered_or_end_their_session_and_nothing_else() {
    let kinds = kinds();
    assert!(kinds.len() > 80, "{}", kinds.len());
    let served = (0..SESSIONS).filter(|seed| {
        let shown = std::panic::catch_unwind(|| is_served(&mut Random(*seed), &kinds));
        shown.unwrap_or_else(|_| panic!("seed {seed}"))
    });
    assert!(served.count() < usize::try_from(SESSIONS).expect("they are few"));
}

#[test]
fn a_message_that_others_take_is_a_violation_also_the_second_time() {
    let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "" };
    let words = Client::new().break_with(&hello);
    assert!(words.ends_with("only the daemon takes this message"), "{words}");
    let words = Client::new().break_with(&Heartbeat { asks: 1, answers: u64::MAX });
    assert!(words.ends_with("only a connection with a task of its own takes this message"), "{words}");
    let words = Client::new().break_with(&Goodbye {});
    assert!(words.ends_with("only a connection with a task of its own takes this message"), "{words}");
    let words = Client::new().break_with(&LateBytes { function: FunctionId(1), bytes: &[] });
    assert!(words.ends_with("no host function runs with the id: 1"), "{words}");
}
