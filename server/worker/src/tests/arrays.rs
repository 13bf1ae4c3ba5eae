//! Arrays, textures and surfaces: boxes go in and out, the quota is kept, and lies end the session.

use super::*;

const STREAM: StreamId = StreamId(0);
const ARRAY: ArrayId = ArrayId(7);

/// Floats in `height` rows and `depth` slices.
fn shape(array: ArrayId, width: u64, height: u64, depth: u64) -> CreateArray {
    CreateArray { array, width, height, depth, format: 0x20, channels: 1, flags: 2, levels: 0 }
}

fn texture(texture: u64, resource: TextureResource) -> CreateTexture {
    let description = TextureDescription { filter: 1, ..TextureDescription::default() };
    CreateTexture { texture: TextureId(texture), resource, description, view: Vec::new() }
}

fn box_of(client: &mut Client, from: BoxEnd, [width, height, depth]: [u64; 3]) -> Vec<u8> {
    client.send(&CopyBoxFromDevice { stream: STREAM, from, width, height, depth });
    let mut got = Vec::new();
    while let Some(Got::Delivery { offset, bytes, .. }) = client.get() {
        assert_eq!(offset, got.len() as u64);
        got.extend(bytes);
    }
    got
}

/// A client with memory and two arrays of 4 × 3 × 2 elements of 4 bytes. The first holds 0, 1, 2 and so on, which is
/// returned.
fn two_arrays() -> (Client, Vec<u8>) {
    let mut client = Client::new();
    client.memory();
    client.ok(&shape(ARRAY, 4, 3, 2));
    client.ok(&shape(ArrayId(8), 4, 3, 2));
    let all: Vec<u8> = (0..4 * 4 * 3 * 2).collect();
    let whole = BoxEnd::in_array(ARRAY, [0; 3]);
    client.send(&CopyBoxToDevice { stream: STREAM, to: whole, width: 16, height: 3, depth: 2, bytes: &all });
    (client, all)
}

#[test]
fn boxes_go_between_the_client_memory_and_arrays() {
    let (mut client, all) = two_arrays();
    // The last two elements of the last two rows of the second slice: into the other array, and to memory with gaps.
    let from = BoxEnd::in_array(ARRAY, [8, 1, 1]);
    let to = BoxEnd::in_array(ArrayId(8), [0, 0, 0]);
    client.send(&CopyBoxOnDevice { stream: STREAM, to, from, width: 8, height: 2, depth: 1 });
    let memory = BoxEnd::memory(DevicePtr(BASE), 100, 0);
    client.send(&CopyBoxOnDevice { stream: STREAM, to: memory, from: to, width: 8, height: 2, depth: 1 });
    let want: Vec<u8> = (72..80).chain(88..96).collect();
    assert_eq!(box_of(&mut client, to, [8, 2, 1]), want);
    assert_eq!(client.device.memory(BASE + 100, 8), want[8..]);
    assert_eq!(box_of(&mut client, BoxEnd::in_array(ARRAY, [0; 3]), [16, 3, 2]), all);
    let function = FunctionId(1);
    client.send(&CopyLate { stream: STREAM, function, to: from, width: 4, height: 2 });
    assert_eq!(client.get(), Some(Got::RunHostFunction(1)));
    client.send(&LateBytes { function, bytes: &[9; 8] });
    assert_eq!(box_of(&mut client, from, [4, 2, 1]), [9; 8]);
}

#[test]
fn boxes_may_cut_elements() {
    let (mut client, _) = two_arrays();
    let (from, to) = (BoxEnd::in_array(ARRAY, [3, 1, 0]), BoxEnd::in_array(ArrayId(8), [9, 0, 1]));
    client.send(&CopyBoxOnDevice { stream: STREAM, to, from, width: 7, height: 2, depth: 1 });
    let want: Vec<u8> = (19..26).chain(35..42).collect();
    assert_eq!(box_of(&mut client, to, [7, 2, 1]), want);
    let memory = BoxEnd::memory(DevicePtr(BASE + 1), 11, 0);
    client.send(&CopyBoxOnDevice { stream: STREAM, to: memory, from: to, width: 5, height: 2, depth: 1 });
    assert_eq!(box_of(&mut client, to, [7, 2, 1]), want);
    assert_eq!(client.device.memory(BASE + 12, 5), want[7..12]);
    let last = BoxEnd::in_array(ARRAY, [15, 2, 1]);
    client.send(&CopyBoxToDevice { stream: STREAM, to: last, width: 1, height: 1, depth: 1, bytes: &[200] });
    assert_eq!(box_of(&mut client, BoxEnd::in_array(ARRAY, [13, 2, 1]), [3, 1, 1]), [93, 94, 200]);
}

#[test]
fn an_array_that_is_larger_than_a_piece_comes_in_several() {
    let mut client = Client::new();
    client.ok(&shape(ARRAY, 1 << 18, 6, 0));
    let to = BoxEnd::in_array(ARRAY, [0, 5, 0]);
    let row: Vec<u8> = (0..1_u32 << 20).map(|index| u8::try_from(index % 253).unwrap()).collect();
    client.send(&CopyBoxToDevice { stream: STREAM, to, width: 1 << 20, height: 1, depth: 1, bytes: &row });
    let got = box_of(&mut client, BoxEnd::in_array(ARRAY, [0; 3]), [1 << 20, 6, 1]);
    assert_eq!((got.len(), &got[5 << 20..]), (6 << 20, &row[..]));
}

#[test]
fn arrays_are_charged_to_the_quota_and_come_back() {
    let mut client = Client::with(4 * BLOCK);
    client.ok(&CreateBlock { block: BlockId(1), bytes: 2 * BLOCK });
    client.ok(&shape(ARRAY, 512, 1024, 0));
    assert_eq!(client.used.load(Ordering::Relaxed), 3 * BLOCK);
    let (status, _, _) = client.call(&shape(ArrayId(8), 512, 1025, 0));
    assert_eq!((status, client.used.load(Ordering::Relaxed)), (2, 3 * BLOCK), "a row more is another page");
    client.ok(&shape(ArrayId(8), 512, 1024, 0));
    assert_eq!(client.call(&CreateBlock { block: BlockId(2), bytes: BLOCK }).0, 2);
    assert_eq!(client.call(&shape(ArrayId(9), 1, 0, 0)).0, 2);
    client.send(&DestroyArray { array: ARRAY });
    client.ok(&CreateBlock { block: BlockId(2), bytes: BLOCK });
    assert_eq!(client.device.arrays().0, 1);
}

#[test]
fn textures_have_the_devices_numbers_and_go_with_the_context() {
    let mut client = Client::new();
    client.ok(&shape(ARRAY, 8, 8, 0));
    let array = TextureResource { array: ARRAY, ..TextureResource::default() };
    let memory = TextureResource { kind: 2, at: DevicePtr(0x1234), ..TextureResource::default() };
    let first = client.ok(&texture(1, array));
    let second = client.ok(&texture(2, memory));
    assert_ne!(
        CreateTexture::decode_reply(&first).unwrap().object,
        CreateTexture::decode_reply(&second).unwrap().object
    );
    client.ok(&CreateSurface { surface: SurfaceId(1), array: ARRAY });
    let (arrays, textures) = client.device.arrays();
    assert_eq!((arrays, textures), (1, vec!["0x1234".into(), "array true".to_owned(), "array true".to_owned()]));
    let mut refused = texture(3, array);
    refused.description.filter = 2;
    assert_eq!(client.call(&refused).0, 1, "the driver's own word");
    client.send(&DestroyTexture { texture: TextureId(2) });
    client.send(&DestroySurface { surface: SurfaceId(1) });
    client.ok(&MemoryInfo {});
    assert_eq!(client.device.arrays().1.len(), 1);
    client.ok(&ResetContext {});
    assert_eq!((client.device.arrays().0, client.device.arrays().1.len()), (0, 0));
    assert_eq!(client.used.load(Ordering::Relaxed), 0);
}

#[test]
fn a_mipmapped_array_is_reached_by_its_levels_and_charged_once() {
    let mut client = Client::new();
    let used = |client: &Client| client.used.load(Ordering::Relaxed);
    client.ok(&CreateArray { levels: 4, ..shape(ARRAY, 8, 4, 0) });
    let charged = used(&client);
    let level = |level, array| TakeLevel { of: ARRAY, level, array: ArrayId(array) };
    client.send(&level(1, 8));
    client.send(&level(3, 9));
    let (to, bytes) = (BoxEnd::in_array(ArrayId(8), [0; 3]), &[5; 32]);
    client.send(&CopyBoxToDevice { stream: STREAM, to, width: 16, height: 2, depth: 1, bytes });
    assert_eq!(box_of(&mut client, to, [16, 2, 1]), bytes);
    assert_eq!(box_of(&mut client, BoxEnd::in_array(ArrayId(9), [0; 3]), [4, 1, 1]), [0; 4], "one element");
    client.ok(&texture(1, TextureResource { kind: 1, array: ARRAY, ..TextureResource::default() }));
    client.ok(&CreateSurface { surface: SurfaceId(1), array: ArrayId(9) });
    assert_eq!((used(&client), client.device.arrays().0), (charged, 4), "levels cost nothing more");
    assert!(client.device.arrays().1.contains(&"levels 4".to_owned()));
    // The name of a level may end by itself, and the id is free again.
    client.send(&DestroyArray { array: ArrayId(9) });
    client.send(&level(0, 9));
    client.send(&DestroyArray { array: ARRAY });
    client.ok(&shape(ArrayId(8), 1, 1, 0));
    client.ok(&shape(ArrayId(9), 1, 1, 0));
    assert_eq!(client.device.arrays().0, 2);
    client.send(&DestroyArray { array: ArrayId(8) });
    client.send(&DestroyArray { array: ArrayId(9) });
    client.ok(&MemoryInfo {});
    assert_eq!((used(&client), client.device.arrays().0), (0, 0));
}

#[test]
fn a_name_that_was_a_levels_is_another_arrays_when_the_levels_end() {
    let mut client = Client::new();
    client.ok(&CreateArray { levels: 4, ..shape(ARRAY, 8, 4, 0) });
    client.device.fail_next_level();
    client.send(&TakeLevel { of: ARRAY, level: 0, array: ArrayId(8) });
    // The level failed, its name ends, and is given to an array of its own.
    client.send(&DestroyArray { array: ArrayId(8) });
    assert_eq!(client.call(&shape(ArrayId(8), 8, 4, 0)).1, 2);
    client.send(&DestroyArray { array: ARRAY });
    let (from, bytes) = (BoxEnd::in_array(ArrayId(8), [0; 3]), [0; 4]);
    assert_eq!(box_of(&mut client, from, [4, 1, 1]), bytes);
    client.send(&DestroyArray { array: ArrayId(8) });
    client.ok(&MemoryInfo {});
    assert_eq!((client.used.load(Ordering::Relaxed), client.device.arrays().0), (0, 0));
}

#[test]
fn a_level_that_there_is_no_host_memory_for_ends_with_its_mipmapped_array() {
    let plan = |plan: &mut Plan| plan.host_memory = 4 << 20;
    let mut client = Client::planned(UnixStream::pair().unwrap(), Arc::new(Fake::default()), plan);
    client.ok(&CreateArray { levels: 4, ..shape(ARRAY, 8, 4, 0) });
    for event in 1..=4096 {
        client.send(&CreateEvent { event: EventId(event), flags: 2 });
    }
    client.send(&TakeLevel { of: ARRAY, level: 0, array: ArrayId(8) });
    client.send(&DestroyArray { array: ARRAY });
    for event in 1..=1000 {
        client.send(&DestroyEvent { event: EventId(event) });
    }
    assert_eq!(client.call(&MemoryInfo {}).1, 2, "refused, and so was the level");
    // A name that is taken would end the session.
    client.ok(&shape(ArrayId(8), 8, 4, 0));
    assert_eq!(client.device.arrays().0, 1);
}

#[test]
fn levels_that_cannot_be_end_the_session() {
    let with_levels = || {
        let mut client = Client::new();
        client.ok(&CreateArray { levels: 2, ..shape(ARRAY, 8, 4, 0) });
        client.ok(&shape(ArrayId(8), 8, 4, 0));
        client
    };
    let take = |of, level, array| TakeLevel { of: ArrayId(of), level, array: ArrayId(array) };
    for (lie, words) in [
        (take(7, 2, 9), "has 2 levels, not: 2"),
        (take(7, u32::MAX, 9), "has 2 levels"),
        (take(8, 0, 9), "array 8 has no levels"),
        (take(6, 0, 9), "has the id: 6"),
        (take(7, 0, 8), "taken: 8"),
        (take(7, 0, 0), "taken: 0"),
    ] {
        let said = with_levels().break_with(&lie);
        assert!(said.contains(words), "{lie:?}: {said}");
    }
    let from = BoxEnd::in_array(ARRAY, [0; 3]);
    let lie = CopyBoxFromDevice { stream: STREAM, from, width: 4, height: 1, depth: 1 };
    let words = "array 7 is only reached by its levels";
    assert!(with_levels().break_with(&lie).contains(words));
    assert!(with_levels().break_with(&CreateSurface { surface: SurfaceId(1), array: ARRAY }).contains(words));
    let of = |kind, array| TextureResource { kind, array, ..TextureResource::default() };
    assert!(with_levels().break_with(&texture(1, of(0, ARRAY))).contains(words));
    assert!(with_levels().break_with(&texture(1, of(1, ArrayId(8)))).contains("array 8 has no levels"));
    let deep = CreateArray { levels: 5, ..shape(ARRAY, 8, 4, 0) };
    assert!(Client::new().break_with(&deep).contains("no array of this shape has 5 levels"));
}

#[test]
fn boxes_outside_arrays_and_unknown_ids_end_the_session() {
    let end = |x, y, z| BoxEnd::in_array(ARRAY, [x, y, z]);
    let from = |from, width, height, depth| CopyBoxFromDevice { stream: STREAM, from, width, height, depth };
    let lies = [
        from(end(0, 0, 0), 17, 1, 1),
        from(end(16, 0, 0), 4, 1, 1),
        from(end(0, 2, 0), 4, 2, 1),
        from(end(0, 0, 1), 4, 1, 2),
        from(end(14, 0, 0), 3, 1, 1),
        from(end(u64::MAX - 3, 0, 0), 4, 1, 1),
        from(end(0, u64::MAX, 0), 4, 1, 1),
        from(end(0, 0, 0), 4, 1, 1 << 40),
    ];
    for lie in lies {
        let mut client = Client::new();
        client.ok(&shape(ARRAY, 4, 3, 2));
        let words = client.break_with(&lie);
        assert!(words.contains("is not inside the array"), "{lie:?}: {words}");
    }
    let bytes = &[0; 8];
    let mut client = Client::new();
    client.ok(&shape(ARRAY, 4, 3, 2));
    let to = end(12, 0, 0);
    let words = client.break_with(&CopyBoxToDevice { stream: STREAM, to, width: 8, height: 1, depth: 1, bytes });
    assert!(words.contains("is not inside the array"), "{words}");
    let nowhere = |message: &dyn Fn(Client) -> String| {
        let words = message(Client::new());
        assert!(words.contains("has the id: 7"), "{words}");
    };
    nowhere(&|client| client.break_with(&from(end(0, 0, 0), 4, 1, 1)));
    nowhere(&|client| client.break_with(&DestroyArray { array: ARRAY }));
    nowhere(&|client| client.break_with(&CreateSurface { surface: SurfaceId(1), array: ARRAY }));
    nowhere(&|client| client.break_with(&texture(1, TextureResource { array: ARRAY, ..TextureResource::default() })));
    nowhere(&|client| client.break_with(&DestroyTexture { texture: TextureId(7) }));
    nowhere(&|client| client.break_with(&DestroySurface { surface: SurfaceId(7) }));
}

#[test]
fn shapes_and_kinds_that_cannot_be_end_the_session() {
    for lie in [
        shape(ARRAY, 0, 1, 0),
        shape(ARRAY, u64::MAX, u64::MAX, u64::MAX),
        shape(ARRAY, 1 << 40, 1 << 40, 0),
        CreateArray { format: 7, ..shape(ARRAY, 1, 1, 0) },
        CreateArray { flags: 0x40, ..shape(ARRAY, 1, 1, 0) },
    ] {
        let words = Client::new().break_with(&lie);
        assert!(words.contains("no array is so"), "{lie:?}: {words}");
    }
    let mut client = Client::new();
    client.ok(&shape(ARRAY, 1, 1, 0));
    assert!(client.break_with(&shape(ARRAY, 1, 1, 0)).contains("taken"));
    let words = Client::new().break_with(&texture(1, TextureResource { kind: 4, ..TextureResource::default() }));
    assert!(words.contains("nothing of this kind"), "{words}");
    let mut views = texture(1, TextureResource { kind: 2, ..TextureResource::default() });
    views.view = vec![TextureView::default(); 2];
    assert!(Client::new().break_with(&views).contains("one view at most"));
}
