//! The wire's promises: golden bytes never change, every message survives a round trip, and no bytes of a peer make it
//! panic.
//! No sockets, no files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;

use crate::generated::{PUSH_SAMPLES, REQUEST_SAMPLES, push_sample, request_sample};
use crate::sample::Source;
use crate::*;

fn encoded(message: &impl Message) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

#[test]
fn header_has_the_bytes_of_the_page() {
    let header = FrameHeader { length: 0x0102_0304, kind: 0x0506, sequence: 0x0708_090a_0b0c_0d0e };
    let golden = [4, 3, 2, 1, 6, 5, 0, 0, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 9, 8, 7];
    assert_eq!(header.encode(), golden);
    assert_eq!(FrameHeader::decode(&golden, u32::MAX), Ok(header));
}

#[test]
fn header_over_the_limit_is_refused_with_both_numbers() {
    let bytes = FrameHeader { length: 65, kind: 1, sequence: 1 }.encode();
    let error = FrameHeader::decode(&bytes, 64).unwrap_err();
    assert_eq!(error.problem, Problem::Length { length: 65, limit: 64 });
    assert_eq!(error.to_string(), "frame.length at byte 0: a payload of 65 bytes is over the limit: 64");
}

#[test]
fn header_with_flags_is_refused() {
    let mut bytes = FrameHeader { length: 0, kind: 1, sequence: 1 }.encode();
    bytes[7] = 0x80;
    assert_eq!(FrameHeader::decode(&bytes, 64).unwrap_err().problem, Problem::Flags(0x8000));
}

#[test]
fn map_block_has_its_golden_bytes() {
    let message =
        MapBlock { block: BlockId(1), offset: 2, at: DevicePtr(0x2000_0000_0000), bytes: 0x20_0000, access: 3 };
    #[rustfmt::skip]
    let golden = [
        1, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0x20, 0, 0,
        0, 0, 0x20, 0, 0, 0, 0, 0,
        3, 0, 0, 0,
    ];
    assert_eq!(encoded(&message), golden);
    assert_eq!(MapBlock::decode(&golden), Ok(message));
}

#[test]
fn shared_pages_have_their_golden_bytes() {
    let message = MapShared { at: DevicePtr(0x6000_0000_1000), bytes: 0x2000 };
    let golden = [0, 0x10, 0, 0, 0, 0x60, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0];
    assert_eq!(encoded(&message), golden);
    assert_eq!(MapShared::decode(&golden), Ok(message));
    assert_eq!(encoded(&ShareMemory { at: message.at, bytes: message.bytes }), golden);
    assert_eq!(encoded(&UnmapShared { at: message.at }), golden[..8]);
    assert_eq!((ShareMemory::KIND, MapShared::KIND, UnmapShared::KIND), (0x0c01, 0x0c02, 0x0c03));
}

#[test]
fn ends_of_boxes_have_their_golden_bytes() {
    let (at, array) = (DevicePtr(0x2000_0000_0000), ArrayId(7));
    let (stream, memory) = (StreamId(3), BoxEnd::memory(at, 0x100, 0x4000));
    let end = BoxEnd::in_array(array, [4, 5, 6]);
    #[rustfmt::skip]
    let golden = [
        3, 0, 0, 0, 0, 0, 0, 0,
        7, 0, 0, 0, 0, 0, 0, 0,  4, 0, 0, 0, 0, 0, 0, 0,  5, 0, 0, 0, 0, 0, 0, 0,  6, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0x20, 0, 0,  0, 1, 0, 0, 0, 0, 0, 0,  0, 0x40, 0, 0, 0, 0, 0, 0,
        8, 0, 0, 0, 0, 0, 0, 0,  9, 0, 0, 0, 0, 0, 0, 0,  1, 0, 0, 0, 0, 0, 0, 0,
    ];
    let message = CopyBoxOnDevice { stream, to: end, from: memory, width: 8, height: 9, depth: 1 };
    assert_eq!(encoded(&message), golden);
    assert_eq!(CopyBoxOnDevice::decode(&golden), Ok(message));
    let further = (end.further(2, 1), memory.further(2, 1).at.0 - at.0);
    assert_eq!(further, (BoxEnd::in_array(array, [4, 7, 7]), 0x4200));
}

#[test]
fn arrays_and_textures_have_their_golden_bytes() {
    let [width, height, depth] = [2, 3, 0];
    let array = CreateArray { array: ArrayId(1), width, height, depth, format: 0x20, channels: 4, flags: 2, levels: 1 };
    #[rustfmt::skip]
    let golden = [
        1, 0, 0, 0, 0, 0, 0, 0,  2, 0, 0, 0, 0, 0, 0, 0,  3, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        0x20, 0, 0, 0,  4, 0, 0, 0,  2, 0, 0, 0,  1, 0, 0, 0,
    ];
    assert_eq!(encoded(&array), golden);
    assert_eq!(encoded(&CreateSurface { surface: SurfaceId(5), array: ArrayId(1) })[..9], [5, 0, 0, 0, 0, 0, 0, 0, 1]);
    let resource = TextureResource { array: ArrayId(1), ..TextureResource::default() };
    let description = TextureDescription { filter: 1, border_a: 1.0, ..TextureDescription::default() };
    let texture = CreateTexture { texture: TextureId(9), resource, description, view: Vec::new() };
    let bytes = encoded(&texture);
    assert_eq!((bytes.len(), bytes[0], bytes[12], bytes[72]), (8 + 52 + 56 + 4, 9, 1, 1));
    assert_eq!(bytes[112..], [0, 0, 0x80, 0x3f, 0, 0, 0, 0]);
    let level = TakeLevel { of: ArrayId(1), level: 2, array: ArrayId(3) };
    assert_eq!(encoded(&level), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    let kinds = [CreateArray::KIND, DestroyArray::KIND, CreateTexture::KIND, CreateSurface::KIND, TakeLevel::KIND];
    assert_eq!(kinds, [0x0d01, 0x0d02, 0x0d03, 0x0d05, 0x0d07]);
}

#[test]
fn growing_communicators_and_parameters_have_their_golden_bytes() {
    let config = vec![i32::MIN, 4];
    let grow = GrowComm { comm: CommId(1), child: CommId(2), id: &[7; 2], ranks: 3, rank: 0, config, name: "n" };
    #[rustfmt::skip]
    let golden = [
        1, 0, 0, 0, 0, 0, 0, 0,  2, 0, 0, 0, 0, 0, 0, 0,  2, 0, 0, 0,  7, 7,
        3, 0, 0, 0,  0, 0, 0, 0,  2, 0, 0, 0,  0, 0, 0, 0x80,  4, 0, 0, 0,  1, 0, 0, 0,  b'n',
    ];
    assert_eq!(encoded(&grow), golden);
    assert_eq!(GrowComm::decode(&golden), Ok(grow));
    assert_eq!(encoded(&SuspendComm { comm: CommId(9), flags: 1 }), [9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(encoded(&ReadCommMemory { comm: CommId(9), stat: 3 }), [9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(encoded(&ReadParameter { key: "K", form: 5 }), [1, 0, 0, 0, b'K', 5, 0, 0, 0]);
    let reply = SimulateGroupReply { result: 0, words: "", time: 1.0 };
    assert_eq!(SimulateGroup::decode_reply(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f]), Ok(reply));
    let kinds = [NewGrowId::KIND, GrowComm::KIND, SuspendComm::KIND, ReadCommMemory::KIND, SimulateGroup::KIND];
    assert_eq!(kinds, [0x100f, 0x1010, 0x1011, 0x1012, 0x1013]);
    assert_eq!([ReadParameter::KIND, ListParameters::KIND], [0x1014, 0x1015]);
}

#[test]
fn identify_has_its_golden_bytes() {
    let (message, golden) = (Identify { challenge: &[7; 3] }, b"\x03\0\0\0\x07\x07\x07");
    assert_eq!(encoded(&message), golden);
    assert_eq!((Identify::decode(golden), Identify::KIND), (Ok(message), 0x000f));
    let (reply, golden) = (IdentifyReply { server: &[1], proof: &[2, 3] }, b"\x01\0\0\0\x01\x02\0\0\0\x02\x03");
    assert_eq!(Identify::decode_reply(golden), Ok(reply));
}

#[test]
fn hello_has_its_golden_bytes() {
    let message = Hello { magic: MAGIC, oldest: 1, newest: 1, client: "floe" };
    let golden = b"FLOE\x01\0\0\0\x01\0\0\0\x04\0\0\0floe";
    assert_eq!(encoded(&message), golden);
    assert_eq!(Hello::decode(golden), Ok(message));
}

#[test]
fn launch_has_its_golden_bytes() {
    let message = Launch {
        kernel: KernelId(9),
        stream: StreamId(0),
        grid_x: 1,
        grid_y: 2,
        grid_z: 3,
        block_x: 4,
        block_y: 5,
        block_z: 6,
        shared: 7,
        parameters: &[0xaa, 0xbb],
        attributes: vec![LaunchAttribute { id: 2, value: &[1, 0, 0, 0] }],
    };
    #[rustfmt::skip]
    let golden = [
        9, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0,
        2, 0, 0, 0, 0xaa, 0xbb,
        1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0,
    ];
    assert_eq!(encoded(&message), golden);
    assert_eq!(Launch::decode(&golden), Ok(message));
}

#[test]
fn bulk_data_stays_where_it_lies() {
    let bytes = [7; 100];
    let message = CopyToDevice { stream: StreamId(1), to: DevicePtr(2), bytes: &bytes };
    let mut head = Vec::new();
    let tail = message.encode_head(&mut head);
    assert_eq!(tail.as_ptr(), bytes.as_ptr());
    assert_eq!(head.len(), 20);
    assert_eq!(head[16..], [100, 0, 0, 0]);
}

#[test]
fn reply_body_is_decoded_by_the_call_it_answers() {
    let mut body = Vec::new();
    MemoryInfoReply { free: 5, total: 6 }.write(&mut body);
    assert_eq!(MemoryInfo::decode_reply(&body), Ok(MemoryInfoReply { free: 5, total: 6 }));
    assert_eq!(CreateBlock::decode_reply(&[]), Ok(()));
}

#[test]
fn short_payload_names_message_field_and_offset() {
    let error = CreateBlock::decode(&[0; 11]).unwrap_err();
    assert_eq!(error.to_string(), "CreateBlock.bytes at byte 8: needs 8 bytes, has: 3");
}

#[test]
fn long_payload_is_refused() {
    assert_eq!(ReleaseBlock::decode(&[0; 9]).unwrap_err().problem, Problem::Long(1));
}

#[test]
fn list_that_cannot_fit_is_refused_before_it_is_made() {
    let mut payload =
        encoded(&LoadLibrary { library: LibraryId(1), kind: 1, at_once: false, ..LoadLibrary::default() });
    // The options; the contents before them have none.
    payload[17..21].copy_from_slice(&u32::MAX.to_le_bytes());
    let problem = LoadLibrary::decode(&payload).unwrap_err().problem;
    assert_eq!(problem, Problem::Count { count: 0xffff_ffff, left: 4 });
}

#[test]
fn bool_of_two_and_text_of_broken_utf8_are_refused() {
    let mut body = Vec::new();
    HelloReply { version: 1, server: "x", authenticate: true, nonce: &[] }.write(&mut body);
    body[9] = 2;
    assert_eq!(Hello::decode_reply(&body).unwrap_err().problem, Problem::Bool(2));
    body[9] = 1;
    body[8] = 0xff;
    assert_eq!(Hello::decode_reply(&body).unwrap_err().problem, Problem::Text(0));
}

#[test]
fn unknown_kind_is_named() {
    let error = Request::decode(0xfffe, &[]).unwrap_err();
    assert_eq!(error.to_string(), "frame.kind at byte 4: unknown kind: 0xfffe");
    assert!(Request::decode(Reply::KIND, &[]).is_err(), "a client cannot speak for the server");
}

#[test]
fn every_message_survives_a_round_trip() {
    let bytes: Vec<u8> = (0..4096_u32).map(|index| u8::try_from(index * 37 % 251).expect("below 251")).collect();
    for which in 0..REQUEST_SAMPLES {
        round_trip_request(which, &bytes[which..]);
    }
    for which in 0..PUSH_SAMPLES {
        round_trip_push(which, &bytes[which..]);
    }
}

fn round_trip_request(which: usize, bytes: &[u8]) {
    let message = request_sample(which, &mut Source(bytes));
    let mut payload = Vec::new();
    message.encode(&mut payload);
    assert_eq!(Request::decode(message.kind(), &payload), Ok(message));
}

fn round_trip_push(which: usize, bytes: &[u8]) {
    let message = push_sample(which, &mut Source(bytes));
    let mut payload = Vec::new();
    message.encode(&mut payload);
    assert_eq!(Push::decode(message.kind(), &payload), Ok(message));
}

/// Kinds that exist, so that arbitrary payloads reach the decoders.
fn kinds() -> Vec<u16> {
    let requests = (0..REQUEST_SAMPLES).map(|which| request_sample(which, &mut Source(&[])).kind());
    requests.chain((0..PUSH_SAMPLES).map(|which| push_sample(which, &mut Source(&[])).kind())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_request_survives_a_round_trip(which in 0..REQUEST_SAMPLES, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        round_trip_request(which, &bytes);
    }

    #[test]
    fn any_push_survives_a_round_trip(which in 0..PUSH_SAMPLES, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        round_trip_push(which, &bytes);
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(which in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let kinds = kinds();
        let kind = kinds[which.index(kinds.len())];
        let mut again = Vec::new();
        if let Ok(message) = Request::decode(kind, &bytes) {
            message.encode(&mut again);
            // f32 keeps its bits here too: encoding copies them.
            prop_assert_eq!(&again, &bytes);
        } else if let Ok(message) = Push::decode(kind, &bytes) {
            message.encode(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
    }

    #[test]
    fn a_message_cut_short_is_an_error(which in 0..REQUEST_SAMPLES, bytes in prop::collection::vec(any::<u8>(), 100..200), cut in any::<prop::sample::Index>()) {
        let message = request_sample(which, &mut Source(&bytes));
        let mut payload = Vec::new();
        message.encode(&mut payload);
        if !payload.is_empty() {
            payload.truncate(cut.index(payload.len()));
            prop_assert!(Request::decode(message.kind(), &payload).is_err());
        }
    }

    #[test]
    fn any_header_decodes_or_is_refused(bytes in any::<[u8; HEADER_BYTES]>()) {
        if let Ok(header) = FrameHeader::decode(&bytes, PAYLOAD_LIMIT) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }
}
