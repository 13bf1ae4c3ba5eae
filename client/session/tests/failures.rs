//! Failures: refused connections, earlier errors, contexts beyond use, links that end in the middle, servers that talk
//! nonsense. Nothing hangs, nothing aborts, and the code says who must act.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may fail")]

mod scripted;

use floe_abi::{CudaError, Device, Stream};
use floe_surface::*;
use floe_wire::{Delivery, Ended, Output, Request};
use scripted::*;

#[test]
fn no_settings_means_no_device() {
    let client = floe_session::Client::new(Environment::default());
    assert_eq!(client.init(0), Err(CudaError::NO_DEVICE));
    assert_eq!(client.device_get_count(), Err(CudaError::NOT_INITIALIZED));
}

#[test]
fn invisible_devices_are_not_asked() {
    let server = Server::start(Options::default());
    let client = client_with(&[&server], &[("CUDA_VISIBLE_DEVICES", "")]);
    assert_eq!(client.init(0), Err(CudaError::NO_DEVICE));
    assert!(server.seen().is_empty());
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_not_ready() {
    let variables = [("FLOE_DEVICES".to_owned(), "unix:///nonexistent/floe.sock:0".to_owned())];
    let client = floe_session::Client::new(Environment(variables.into()));
    assert_eq!(client.init(0), Err(CudaError::SYSTEM_NOT_READY));
}

#[test]
fn the_token_opens_the_server_and_a_wrong_one_does_not() {
    let with_token = || Server::start(Options { token: Some("secret".into()), ..Options::default() });
    let right = with_token();
    assert_eq!(client_with(&[&right], &[("FLOE_TOKEN", "secret")]).init(0), Ok(()));
    let wrong = with_token();
    assert_eq!(client_with(&[&wrong], &[("FLOE_TOKEN", "guess")]).init(0), Err(CudaError::SYSTEM_NOT_READY));
    let none = with_token();
    assert_eq!(client_with(&[&none], &[]).init(0), Err(CudaError::SYSTEM_NOT_READY));
}

#[test]
fn a_refused_attach_gives_the_servers_code() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::Attach(_) => {
            peer.reply_with(sequence, CudaError::INVALID_DEVICE.code(), 0, "there is no such GPU", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    });
    assert_eq!(client_with(&[&server], &[]).init(0), Err(CudaError::INVALID_DEVICE));
}

/// Answers every synchronize of the context with this earlier error, the first time.
fn earlier(code: u32) -> Server {
    let mut left = Some(code);
    Server::scripted(move |request, sequence, peer| match request {
        Request::SynchronizeContext(_) => {
            peer.reply_with(sequence, 0, left.take().unwrap_or(0), "", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    })
}

#[test]
fn a_posted_calls_failure_is_reported_once_by_the_next_synchronize() {
    let server = earlier(CudaError::INVALID_VALUE.code());
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 16).unwrap();
    assert_eq!(client.ctx_synchronize(), Err(CudaError::INVALID_VALUE));
    assert_eq!(client.ctx_synchronize(), Ok(()));
}

#[test]
fn a_sticky_error_is_repeated_until_the_context_is_reset() {
    let server = earlier(CudaError::ILLEGAL_ADDRESS.code());
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 16).unwrap();
    assert_eq!(client.ctx_synchronize(), Err(CudaError::ILLEGAL_ADDRESS));
    assert_eq!(client.mem_alloc(16), Err(CudaError::ILLEGAL_ADDRESS));
    assert_eq!(client.memset_d8(Stream::LEGACY, at, 0, 16), Err(CudaError::ILLEGAL_ADDRESS));
    assert_eq!(client.ctx_get_device(), Ok(Device(0)), "what is known is still known");
    client.device_primary_ctx_reset(Device(0)).unwrap();
    let context = client.device_primary_ctx_retain(Device(0)).unwrap();
    client.ctx_set_current(context).unwrap();
    assert!(client.mem_alloc(16).is_ok());
}

#[test]
fn a_failed_copy_nobody_waited_for_is_reported_later() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::CopyFromDevice(_) => {
            peer.reply_with(sequence, CudaError::NOT_PERMITTED.code(), 0, "", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    let pointer = client.mem_alloc_host(16).unwrap();
    client.memcpy_dtoh_async(pinned(pointer, 16), at, Stream::LEGACY).unwrap();
    assert_eq!(client.ctx_synchronize(), Err(CudaError::NOT_PERMITTED));
}

fn hangs_up_at_synchronize() -> Server {
    Server::scripted(|request, _, _| match request {
        Request::SynchronizeContext(_) => Flow::HangUp,
        _ => Flow::Usual,
    })
}

#[test]
fn a_link_that_ends_answers_who_waits_and_everybody_after() {
    let server = hangs_up_at_synchronize();
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    let pointer = client.mem_alloc_host(16).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 16).unwrap();
    assert_eq!(client.ctx_synchronize(), Err(CudaError::DEVICE_UNAVAILABLE));
    assert_eq!(client.mem_alloc(1 << 20), Err(CudaError::DEVICE_UNAVAILABLE));
    assert_eq!(client.memcpy_dtoh_async(pinned(pointer, 16), at, Stream::LEGACY), Err(CudaError::DEVICE_UNAVAILABLE));
    assert_eq!(client.stream_create(0), Err(CudaError::DEVICE_UNAVAILABLE));
    // Giving things up works without a server.
    assert_eq!(client.mem_free_host(pointer), Ok(()));
    client.exiting();
}

#[test]
fn a_link_that_ends_releases_every_thread_that_waits() {
    let server = Server::scripted(|request, _, _| match request {
        Request::SynchronizeStream(_) => Flow::Done,
        Request::SynchronizeContext(_) => Flow::HangUp,
        _ => Flow::Usual,
    });
    let client = client(&server);
    let context = client.ctx_get_current().unwrap();
    let at = client.mem_alloc(16).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 16).unwrap();
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                client.ctx_set_current(context).unwrap();
                client.stream_synchronize(Stream::LEGACY)
            })
        })
        .collect();
    server.wait_for("SynchronizeStream", 4);
    assert_eq!(client.ctx_synchronize(), Err(CudaError::DEVICE_UNAVAILABLE));
    for thread in waiting {
        assert_eq!(join(thread), Err(CudaError::DEVICE_UNAVAILABLE));
    }
}

#[test]
fn a_session_the_server_ended_has_the_servers_code() {
    let server = Server::scripted(|request, _, peer| match request {
        Request::SynchronizeContext(_) => {
            let ended = Ended { status: CudaError::OUT_OF_MEMORY.code(), detail: "on purpose" };
            peer.sender.send(&ended, |_| ()).unwrap();
            Flow::HangUp
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 16).unwrap();
    assert_eq!(client.ctx_synchronize(), Err(CudaError::OUT_OF_MEMORY));
    assert_eq!(client.ctx_synchronize(), Err(CudaError::OUT_OF_MEMORY));
}

#[test]
fn data_nobody_asked_for_ends_the_session_without_touching_memory() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::CopyFromDevice(copy) => {
            let bytes = vec![0xff; copy.bytes as usize + 1];
            peer.sender.post(&Delivery { request: sequence, offset: 0, bytes: &bytes }).unwrap();
            peer.reply(sequence, &());
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    let mut bytes = [0u8; 17];
    let result = client.memcpy_dtoh(Stream::LEGACY, host(&mut bytes[..16]), at);
    assert_eq!(result, Err(CudaError::DEVICE_UNAVAILABLE));
    assert_eq!(bytes, [0; 17]);
}

#[test]
fn a_copy_said_to_be_complete_with_bytes_missing_is_not_believed() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::CopyFromDevice(_) => {
            peer.deliver(sequence, 0, &[1; 8]);
            peer.reply(sequence, &());
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    let mut bytes = [0u8; 16];
    let result = client.memcpy_dtoh(Stream::LEGACY, host(&mut bytes), at);
    assert_eq!(result, Err(CudaError::DEVICE_UNAVAILABLE));
}

#[test]
fn a_reply_that_cannot_be_read_ends_the_session() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::MemoryInfo(_) => {
            peer.reply_with(sequence, 0, 0, "", &[1, 2, 3]);
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    assert_eq!(client.mem_get_info(), Err(CudaError::DEVICE_UNAVAILABLE));
    assert_eq!(client.mem_alloc(16), Err(CudaError::DEVICE_UNAVAILABLE));
}

#[test]
fn output_for_an_unknown_descriptor_goes_to_stdout_and_harms_nothing() {
    let server = Server::scripted(|request, _, peer| {
        if matches!(request, Request::SynchronizeContext(_)) {
            peer.sender.post(&Output { fd: 77, bytes: b"" }).unwrap();
        }
        Flow::Usual
    });
    let client = client(&server);
    let at = client.mem_alloc(16).unwrap();
    client.memset_d8(Stream::LEGACY, at, 0, 16).unwrap();
    assert_eq!(client.ctx_synchronize(), Ok(()));
}

#[test]
fn a_failed_load_gives_code_and_log() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::LoadLibrary(_) => {
            peer.reply_with(sequence, CudaError::INVALID_PTX.code(), 0, "line 3: no such instruction", &[]);
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let mut buffer = [0u8; 64];
    let keys = [floe_abi::jit_option::ERROR_LOG_BUFFER, floe_abi::jit_option::ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [buffer.as_mut_ptr().cast(), 64 as *mut std::ffi::c_void];
    // SAFETY: two elements each, and a buffer of 64 bytes.
    let mut options = unsafe { JitOptions::from_c(2, keys.as_ptr(), values.as_mut_ptr()) }.unwrap();
    assert_eq!(client.module_load_data(&ptx(), &mut options), Err(CudaError::INVALID_PTX));
    assert!(buffer.starts_with(b"line 3: no such instruction\0"));
}

#[test]
fn after_the_end_nothing_waits() {
    let server = Server::start(Options::default());
    let client = client(&server);
    client.exiting();
    client.exiting();
    assert_eq!(client.mem_alloc(16), Err(CudaError::DEINITIALIZED));
}

#[test]
fn a_variable_at_the_end_of_the_address_space_is_refused() {
    let server = Server::scripted(|request, sequence, peer| match request {
        Request::FindGlobal(_) => {
            let at = floe_wire::DevicePtr(u64::MAX - 8);
            peer.reply(sequence, &floe_wire::FindGlobalReply { at, bytes: 64, managed: false });
            Flow::Done
        }
        _ => Flow::Usual,
    });
    let client = client(&server);
    let module = client.module_load_data(&ptx(), &mut JitOptions::none()).unwrap();
    assert_eq!(client.module_get_global(module, c"counter"), Err(CudaError::UNKNOWN));
    assert_eq!(client.mem_free(floe_abi::DevicePtr(u64::MAX)), Err(CudaError::INVALID_VALUE));
}

#[test]
fn a_granularity_that_cannot_be_is_refused() {
    let server = Server::start(Options { granularity: u64::MAX, ..Options::default() });
    assert_eq!(client_with(&[&server], &[]).init(0), Err(CudaError::SYSTEM_NOT_READY));
}
