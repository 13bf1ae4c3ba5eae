//! The table of functions for floe's `libnccl.so.2`: C's pointers come in, the session's typed calls go out.
//! In: calls of the one library that looks the table up. Out: results of NCCL. It decides nothing, and no panic leaves it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use floe_abi::{DevicePtr, Stream};
use floe_nccl::{Append, Call, Calls, Code, Made, Make, Suspend, UNIQUE_ID_BYTES, VERSION, code, how};
use floe_session::{Client, Collective, NcclFailure, NcclResult, NewComm, Origin};
use floe_surface::MemoryCalls as _;
use floe_wire::{CollectiveCall, CommId, StreamId};

static CALLS: Calls = Calls {
    version: VERSION,
    open,
    device,
    unique_id,
    make,
    group,
    ask,
    end,
    create_reduction,
    destroy_reduction,
    register,
    deregister,
    grow_id,
    suspend,
    memory,
    simulate,
    parameter,
    parameter_keys,
    allocate,
    free,
    last_error,
    refused,
};

/// The table of that version; NULL where this library has another. CUDA has no such name.
#[unsafe(no_mangle)]
extern "C" fn floe_collectives(version: u32) -> *const Calls {
    if version == VERSION { &raw const CALLS } else { std::ptr::null() }
}

/// Does something of the session's and gives its result.
fn done(act: impl FnOnce(&'static Client) -> NcclResult<()>) -> Code {
    // State that a panic leaves half done is behind locks, which later users take as they find them.
    let outcome = catch_unwind(AssertUnwindSafe(|| act(Client::of_process())));
    let failed = match outcome {
        Ok(Ok(())) => return code::SUCCESS,
        Ok(Err(failed)) => failed,
        Err(_) => NcclFailure { code: code::INTERNAL_ERROR, words: "a defect of floe".to_owned() },
    };
    Client::nccl_failed(&failed);
    failed.code
}

/// A list of C's.
///
/// # Safety
/// There are as many, or none.
unsafe fn list<'a, T>(at: *const T, count: usize) -> &'a [T] {
    if at.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: our caller says so.
    unsafe { std::slice::from_raw_parts(at, count) }
}

unsafe extern "C" fn open(version: *mut u32) -> Code {
    done(|client| {
        let found = client.nccl_version()?;
        // SAFETY: the library gives room for it.
        unsafe { version.write(found) };
        Ok(())
    })
}

unsafe extern "C" fn device(device: *mut c_int) -> Code {
    done(|client| {
        let found = client.nccl_device()?;
        // SAFETY: the library gives room for it.
        unsafe { device.write(found) };
        Ok(())
    })
}

unsafe extern "C" fn unique_id(id: *mut u8) -> Code {
    done(|client| {
        let made = client.nccl_unique_id()?;
        // SAFETY: the library gives room for a unique id.
        unsafe { id.cast::<[u8; UNIQUE_ID_BYTES]>().write_unaligned(made) };
        Ok(())
    })
}

unsafe extern "C" fn make(makes: *const Make, count: usize, made: *mut Made) -> Code {
    done(|client| {
        // SAFETY: the library gives so many.
        let makes = unsafe { list(makes, count) };
        // SAFETY: their lists and names live as long as the call.
        let news: Vec<NewComm<'_>> = makes.iter().map(|make| unsafe { new_comm(make) }).collect();
        for (index, comm) in client.nccl_make(&news)?.into_iter().enumerate() {
            let comm = Made { comm: comm.comm, rank: comm.rank, ranks: comm.ranks };
            // SAFETY: the library gives room for as many.
            unsafe { made.add(index).write(comm) };
        }
        Ok(())
    })
}

/// # Safety
/// The lists have as many entries as it says, and the name ends.
unsafe fn new_comm(make: &Make) -> NewComm<'_> {
    let name = if make.name.is_null() {
        ""
    } else {
        // SAFETY: our caller says so.
        unsafe { CStr::from_ptr(make.name) }.to_str().unwrap_or("")
    };
    let origin = match make.how {
        how::SPLIT => Origin::Split { comm: make.parent, color: make.rank, key: make.key },
        how::SHRINK => {
            // SAFETY: our caller says so.
            let excluded = unsafe { list(make.excluded, make.excluded_count) };
            Origin::Shrink { comm: make.parent, excluded, flags: make.key.cast_unsigned() }
        }
        how::GROW => {
            // SAFETY: our caller says so.
            let id = unsafe { list(make.ids, make.id_bytes) };
            let rank = if make.parent == 0 { make.rank } else { 0 };
            Origin::Grow { comm: make.parent, device: make.device, id, ranks: make.ranks, rank }
        }
        _ => {
            // SAFETY: our caller says so.
            let ids = unsafe { list(make.ids, make.id_bytes) };
            Origin::Ids { device: make.device, ids, ranks: make.ranks, rank: make.rank }
        }
    };
    NewComm { origin, config: (make.has_config != 0).then_some(&make.config[..]), name }
}

fn collective(call: &Call) -> Collective {
    let &Call { comm, kind, datatype, operation, rank, count, send, receive, stream } = call;
    let call = CollectiveCall {
        comm: CommId(comm),
        kind,
        datatype,
        operation,
        rank: 0,
        count: count as u64,
        send: DevicePtr(send as u64),
        receive: DevicePtr(receive as u64),
        stream: StreamId(0),
    };
    Collective { call, stream: Stream(stream as u64), rank }
}

unsafe extern "C" fn group(calls: *const Call, count: usize) -> Code {
    done(|client| {
        // SAFETY: the library gives so many.
        let calls: Vec<Collective> = unsafe { list(calls, count) }.iter().map(collective).collect();
        client.nccl_group(&calls)
    })
}

unsafe extern "C" fn ask(comm: u64, error: *mut Code) -> Code {
    done(|client| {
        let found = match client.nccl_ask(comm) {
            Ok(()) => code::SUCCESS,
            Err(failed) => {
                Client::nccl_failed(&failed);
                failed.code
            }
        };
        // SAFETY: the library gives room for it.
        unsafe { error.write(found) };
        Ok(())
    })
}

unsafe extern "C" fn end(comm: u64, how: u32) -> Code {
    done(|client| client.nccl_end(comm, how))
}

unsafe extern "C" fn create_reduction(
    comm: u64,
    datatype: u32,
    scalar: usize,
    bytes: usize,
    operation: *mut u32,
) -> Code {
    done(|client| {
        let at = std::ptr::with_exposed_provenance::<u8>(scalar);
        // SAFETY: the scalar is the program's and has as many bytes; of device memory none is read.
        let value = unsafe { list(at, bytes) };
        let made = client.nccl_create_reduction(comm, datatype, value, DevicePtr(scalar as u64))?;
        // SAFETY: the library gives room for it.
        unsafe { operation.write(made) };
        Ok(())
    })
}

unsafe extern "C" fn destroy_reduction(comm: u64, operation: u32) -> Code {
    done(|client| client.nccl_destroy_reduction(comm, operation))
}

unsafe extern "C" fn register(comm: u64, at: usize, bytes: usize, handle: *mut u64) -> Code {
    done(|client| {
        let made = client.nccl_register(comm, DevicePtr(at as u64), bytes as u64)?;
        // SAFETY: the library gives room for it.
        unsafe { handle.write(made) };
        Ok(())
    })
}

unsafe extern "C" fn deregister(comm: u64, handle: u64) -> Code {
    done(|client| client.nccl_deregister(comm, handle))
}

unsafe extern "C" fn grow_id(comm: u64, id: *mut u8) -> Code {
    done(|client| {
        let made = client.nccl_grow_id(comm)?;
        // SAFETY: the library gives room for a unique id.
        unsafe { id.cast::<[u8; UNIQUE_ID_BYTES]>().write_unaligned(made) };
        Ok(())
    })
}

unsafe extern "C" fn suspend(list_of: *const Suspend, count: usize) -> Code {
    done(|client| {
        // SAFETY: the library gives so many.
        let all = unsafe { list(list_of, count) }.iter().map(|one| (one.comm, one.flags.cast_unsigned()));
        client.nccl_suspend(&all.collect::<Vec<_>>())
    })
}

unsafe extern "C" fn memory(comm: u64, stat: u32, value: *mut u64) -> Code {
    done(|client| {
        let read = client.nccl_memory(comm, stat)?;
        // SAFETY: the library gives room for it.
        unsafe { value.write(read) };
        Ok(())
    })
}

unsafe extern "C" fn simulate(calls: *const Call, count: usize, time: *mut f32) -> Code {
    done(|client| {
        // SAFETY: the library gives so many.
        let calls: Vec<Collective> = unsafe { list(calls, count) }.iter().map(collective).collect();
        let estimated = client.nccl_simulate(&calls)?;
        // SAFETY: the library gives room for it.
        unsafe { time.write(estimated) };
        Ok(())
    })
}

unsafe extern "C" fn parameter(key: *const c_char, form: u32, append: Append, to: *mut c_void) -> Code {
    done(|client| {
        // SAFETY: the library's key ends.
        let key = unsafe { CStr::from_ptr(key) }.to_str();
        let no_text = |_| NcclFailure { code: code::INVALID_ARGUMENT, words: "a key that is no text".to_owned() };
        let read = client.nccl_parameter(key.map_err(no_text)?, form)?;
        // SAFETY: the library takes so many bytes for its list.
        unsafe { append(to, read.as_ptr(), read.len()) };
        Ok(())
    })
}

unsafe extern "C" fn parameter_keys(append: Append, to: *mut c_void) -> Code {
    done(|client| {
        for key in client.nccl_parameter_keys()? {
            // SAFETY: the library takes so many bytes for its list.
            unsafe { append(to, key.as_ptr(), key.len()) };
        }
        Ok(())
    })
}

unsafe extern "C" fn allocate(at: *mut usize, bytes: usize) -> Code {
    done(|client| {
        let made = client.mem_alloc(bytes)?;
        // SAFETY: the library gives room for it.
        unsafe { at.write(usize::try_from(made.0).unwrap_or_default()) };
        Ok(())
    })
}

unsafe extern "C" fn free(at: usize) -> Code {
    done(|client| Ok(client.mem_free(DevicePtr(at as u64))?))
}

unsafe extern "C" fn last_error(words: *mut c_char, room: usize) {
    let text = Client::nccl_words();
    let count = text.len().min(room.saturating_sub(1));
    if words.is_null() || room == 0 {
        return;
    }
    // SAFETY: the library gives so much room, and one byte of it is left for the zero.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), words, count);
        words.add(count).write(0);
    }
}

unsafe extern "C" fn refused(name: *const c_char) {
    if name.is_null() {
        return;
    }
    // SAFETY: it is a name of the library's own.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let words = format!("{name} is not there for NCCL beside the GPU: floe run --nccl own runs it in the program");
    Client::nccl_failed(&NcclFailure { code: code::INVALID_USAGE, words });
}
