//! Launch attributes, questions about clusters and tensor maps, against the device in memory.
//! In: messages over a socket pair. Out: the verdict.
//! The driver interprets the numbers; here they only have to arrive.

use floe_abi::CudaError;

use super::*;

/// A client with the kernel `k` as id 2, whose launch has one block.
fn with_kernel() -> (Client, Launch<'static>) {
    let mut client = Client::new();
    client.send(&LibraryPart { library: LibraryId(1), content: 0, bytes: b"kernel k" });
    load(&mut client, LibraryId(1), b"kernel k");
    client.ok(&FindKernel { library: LibraryId(1), name: "k", kernel: KernelId(2) });
    let mut launch = Launch { kernel: KernelId(2), stream: StreamId(5), ..Launch::default() };
    (launch.grid_x, launch.grid_y, launch.grid_z) = (1, 1, 1);
    (launch.block_x, launch.block_y, launch.block_z) = (32, 1, 1);
    (client, launch)
}

fn naming(event: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&event.to_le_bytes());
    value
}

#[test]
fn event_in_a_launch_is_recorded_by_it() {
    let (mut client, mut launch) = with_kernel();
    client.send(&CreateStream { stream: StreamId(5), flags: 1, priority: 0 });
    client.send(&CreateEvent { event: EventId(9), flags: 2 });
    let value = naming(9);
    launch.attributes = vec![LaunchAttribute { id: 7, value: &value }];
    client.device.hold(0);
    client.send(&launch);
    assert_eq!(client.call(&QueryEvent { event: EventId(9) }).0, CudaError::NOT_READY.code());
    client.device.release(0);
    client.ok(&SynchronizeEvent { event: EventId(9) });
    assert_eq!(client.device.launches().len(), 1);
}

#[test]
fn missing_event_violates_the_protocol_also_in_a_launch() {
    let (mut client, mut launch) = with_kernel();
    client.send(&CreateStream { stream: StreamId(5), flags: 1, priority: 0 });
    let value = naming(9);
    launch.attributes = vec![LaunchAttribute { id: 12, value: &value[..12] }];
    let words = client.break_with(&launch);
    assert!(words.ends_with("no event has the id: 9"), "{words}");
}

#[test]
fn question_about_clusters_goes_without_events() {
    let (mut client, _) = with_kernel();
    let (event, cluster) = (naming(77), [2, 0, 0, 0]);
    let attributes = vec![LaunchAttribute { id: 7, value: &event }, LaunchAttribute { id: 4, value: &cluster }];
    let ask = |what| ClusterOccupancy {
        what,
        kernel: KernelId(2),
        block_x: 64,
        attributes: attributes.clone(),
        ..ClusterOccupancy::default()
    };
    assert_eq!(client.ok(&ask(0)), 64_i32.to_le_bytes());
    assert_eq!(client.ok(&ask(1)), 1_i32.to_le_bytes(), "one attribute is left");
    let words = client.break_with(&ask(2));
    assert!(words.ends_with("unknown question about clusters: 2"), "{words}");
}

#[test]
fn tensor_map_is_the_drivers_or_its_refusal() {
    let mut client = Client::new();
    let mut question = EncodeTensorMap {
        address: DevicePtr(0x2000),
        dimensions: vec![7, 8],
        strides: vec![128],
        element_strides: vec![1, 1],
        box_dimensions: vec![4, 4],
        ..EncodeTensorMap::default()
    };
    let body = client.ok(&question);
    let map = EncodeTensorMap::decode_reply(&body).unwrap().map;
    assert_eq!((map.len(), &map[..9]), (128, &[0, 0x20, 0, 0, 0, 0, 0, 0, 7][..]));
    question.swizzle = 99;
    assert_eq!(client.call(&question).0, CudaError::INVALID_VALUE.code());
    question.strides.clear();
    let words = client.break_with(&question);
    assert!(words.ends_with("strides of a tensor map are 1, not: 0"), "{words}");
}

#[test]
fn an_event_whose_record_failed_is_no_longer_over() {
    let (mut client, launch) = with_kernel();
    let (event, stream, missing) = (EventId(8), StreamId(5), StreamId(6));
    client.send(&CreateStream { stream, flags: 1, priority: 0 });
    client.send(&CreateEvent { event, flags: 2 });
    let record = |stream| RecordEvent { event, stream, flags: 0 };
    client.send(&record(stream));
    client.ok(&SynchronizeEvent { event });
    client.device.fail_next_stream();
    client.send(&CreateStream { stream: missing, flags: 1, priority: 0 });
    let failure = client.call(&SynchronizeContext {}).1;
    assert_ne!(failure, 0);
    let naming = naming(8);
    let attributes = vec![LaunchAttribute { id: 7, value: &naming }];
    let fails: [&dyn Fn(&mut Client) -> u64; 2] = [&|client| client.send(&record(missing)), &|client| {
        client.send(&Launch { stream: missing, attributes: attributes.clone(), ..launch.clone() })
    }];
    for fail in fails {
        fail(&mut client);
        for (status, earlier) in [(failure, failure), (failure, 0)] {
            let answer = client.call(&SynchronizeEvent { event });
            assert_eq!((answer.0, answer.1), (status, earlier));
        }
        assert_eq!(client.call(&QueryEvent { event }).0, failure);
        assert_eq!(client.call(&ElapsedTime { start: event, end: event }).0, failure);
        client.send(&WaitEvent { stream, event, flags: 0 });
        assert_eq!(client.call(&SynchronizeContext {}).1, failure);
        client.send(&record(stream));
        client.ok(&SynchronizeEvent { event });
    }
}
