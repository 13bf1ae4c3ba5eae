//! Communicators and their work, in the order of the client's commands.
//! In: ids, ranks, addresses and counts of a stranger. Out: calls of NCCL on threads where they wait for other ranks; groups on
//! this one, in stream order.
//! No address reaches NCCL that is not all of the session's memory.

mod newer;
mod using;

use std::path::Path;
use std::sync::Arc;

use floe_abi::{CudaError, nccl};
use floe_device::Device;
use floe_device::nccl::{
    CollectiveCall, CollectiveKind, Comm, CommConfig, Nccl, NcclError, element_bytes, result, sockets,
};
use floe_wire::{
    self as wire, CollectiveGroup, CollectiveRequests, CreateReduction, CreateReductionReply, DeregisterBuffer,
    DeregisterBufferReply, DestroyReduction, DevicePtr, EndComm, EndCommReply, GrowComm, InitComm, InitCommReply,
    ListParameters, NewGrowId, NewUniqueId, NewUniqueIdReply, OpenCollectives, OpenCollectivesReply, ReadCommMemory,
    ReadParameter, RegisterBuffer, RegisterBufferReply, ShrinkComm, ShrinkCommReply, SimulateGroup, SplitComm,
    SplitCommReply, SuspendComm,
};

use crate::issue::fault::{Fault, violation};
use crate::issue::issuer::{Answer, Issuer, body};
use crate::life::shared::Shared;
use crate::peer::collective::keys::first_ticket;
use crate::peer::collective::network::Ways;
use crate::peer::collective::{Collectives, Ready};
use using::Using;

/// The most ranks of a communicator.
const MOST_RANKS: u32 = 1 << 20;
/// The most unique ids of one.
const MOST_IDS: usize = 1024;

/// What floe sets, whatever the program says: a worker has one network, no shared memory with others, no device but its GPU, and
/// waits for peers when a communicator is made rather than in the middle of its work. Workers of a node open each other's memory
/// by the driver's handles, which are bytes, since no descriptor goes from one worker to another.
const OWN_SETTINGS: [(&str, &str); 19] = [
    ("NCCL_SOCKET_IFNAME", "=floe0"),
    ("NCCL_SOCKET_FAMILY", "AF_INET6"),
    ("NCCL_NET", "Socket"),
    ("NCCL_NET_PLUGIN", "none"),
    ("NCCL_TUNER_PLUGIN", "none"),
    ("NCCL_PROFILER_PLUGIN", "none"),
    ("NCCL_ENV_PLUGIN", "none"),
    ("NCCL_GIN_PLUGIN", "none"),
    ("NCCL_RMA_PLUGIN", "none"),
    ("NCCL_COMM_BLOCKING", "1"),
    ("NCCL_IB_DISABLE", "1"),
    ("NCCL_RAS_ENABLE", "0"),
    ("NCCL_MNNVL_ENABLE", "0"),
    ("NCCL_RUNTIME_CONNECT", "0"),
    ("NCCL_CUMEM_ENABLE", "0"),
    ("NCCL_NVLS_ENABLE", "0"),
    ("NCCL_P2P_USE_CUDA_MEMCPY", "0"),
    ("NCCL_PXN_DISABLE", "1"),
    ("NCCL_SHM_DISABLE", "1"),
];

/// Made of a communicator: it is none where the rank takes no part.
type Made = Result<Option<Ready>, NcclError>;

impl<D: Device> CollectiveRequests for Issuer<D> {
    fn open_collectives(&mut self, message: &OpenCollectives<'_>) -> Result<Answer, Fault> {
        let shared = &self.shared;
        let settings = settings(message)?;
        if let Some(job) = message.settings.iter().find(|it| it.name == nccl::NODE) {
            shared.collectives.is_of_job(job.value);
        }
        let load = |library: &Path| {
            let variables = variables(settings, shared.collectives.own_node());
            let nccl = Nccl::open(library, &variables).map_err(|error| error.to_string())?;
            sockets::begin(Box::new(Ways::new(shared)));
            shared.log.line(format_args!("NCCL {} is loaded: {}", nccl.version(), library.display()));
            Ok(nccl)
        };
        let version = shared.collectives.open(load)?.version();
        body(&OpenCollectivesReply { version })
    }

    fn new_unique_id(&mut self, _: NewUniqueId) -> Result<Answer, Fault> {
        let nccl = self.shared.collectives.nccl()?;
        // NCCL has a thread for each that it makes.
        self.shared.collectives.keys.has_room()?;
        match nccl.unique_id() {
            Ok(id) => {
                let id = self.shared.collectives.keys.seal(id)?;
                body(&NewUniqueIdReply { result: result::SUCCESS, words: "", id: &id.0 })
            }
            Err(NcclError { code, words }) => body(&NewUniqueIdReply { result: code, words: &words, id: &[] }),
        }
    }

    fn init_comm(&mut self, message: &InitComm<'_>) -> Result<Answer, Fault> {
        let InitComm { comm, ids, ranks, rank, ref config, name } = *message;
        if ranks == 0 || ranks > MOST_RANKS || rank >= ranks || ids.len() / 128 > MOST_IDS {
            return violation(format!("no communicator of {ranks} ranks has the rank: {rank}"));
        }
        let (first, mut ids) = (first_ticket(ids), self.shared.collectives.keys.open(ids)?);
        let (config, name, shared) = (config.clone(), name.to_owned(), Arc::clone(&self.shared));
        let make = move |nccl: &Nccl| {
            shared.collectives.join_node(nccl, first, |key, job| shared.hub.node(key, job));
            demand_wanted(&shared, comm.0)?;
            let config = CommConfig { numbers: &config, name: &name };
            let made = nccl.init(&mut ids, ranks.cast_signed(), rank.cast_signed(), &config)?;
            Ok(Some(Ready { comm: made, rank, ranks }))
        };
        self.make_comm(comm.0, first, None, make, |made| {
            let (result, words) = outcome(made);
            encoded(&InitCommReply { result, words })
        })
    }

    fn split_comm(&mut self, message: &SplitComm<'_>) -> Result<Answer, Fault> {
        let SplitComm { comm, child, color, key, ref config, name } = *message;
        if (child.0 == 0) != (color == -1) {
            return violation("a split has a child just where it has a color");
        }
        let ((Ready { comm: parent, .. }, using), ticket) =
            (Using::of(&self.shared, comm.0)?, self.shared.collectives.key_of(comm.0)?);
        let (config, name) = (config.clone(), name.to_owned());
        let make = move |nccl: &Nccl| {
            let config = CommConfig { numbers: &config, name: &name };
            ready(nccl, nccl.split(parent, color, key, &config)?)
        };
        self.make_comm(child.0, ticket, Some(using), make, |made| {
            let ((result, words), (rank, ranks)) = (outcome(made), place(made));
            encoded(&SplitCommReply { result, words, rank, ranks })
        })
    }

    fn shrink_comm(&mut self, message: &ShrinkComm<'_>) -> Result<Answer, Fault> {
        let ShrinkComm { comm, child, ref excluded, flags, ref config, name } = *message;
        if child.0 == 0 || flags > 1 {
            return violation(format!("a shrunk communicator has no such flags: {flags}"));
        }
        let ((Ready { comm: parent, .. }, using), ticket) =
            (Using::of(&self.shared, comm.0)?, self.shared.collectives.key_of(comm.0)?);
        let (config, name, mut excluded) = (config.clone(), name.to_owned(), excluded.clone());
        let make = move |nccl: &Nccl| {
            let config = CommConfig { numbers: &config, name: &name };
            ready(nccl, nccl.shrink(parent, &mut excluded, flags.cast_signed(), &config)?)
        };
        self.make_comm(child.0, ticket, Some(using), make, |made| {
            let ((result, words), (rank, ranks)) = (outcome(made), place(made));
            encoded(&ShrinkCommReply { result, words, rank, ranks })
        })
    }

    fn collective_group(&mut self, message: &CollectiveGroup) -> Result<Answer, Fault> {
        let nccl = self.shared.collectives.nccl()?;
        let calls = message.calls.iter().map(|call| self.collective(call)).collect::<Result<Vec<_>, _>>();
        let mut ids: Vec<u64> = message.calls.iter().map(|call| call.comm.0).collect();
        ids.sort_unstable();
        ids.dedup();
        let failed = |error: NcclError| {
            ids.iter().for_each(|id| self.shared.collectives.fail(*id, &error));
            Fault::Explained(CudaError::EXTERNAL_DEVICE, error.to_string())
        };
        let calls = calls.map_err(|fault| match fault {
            // The program finds it at its communicator as well.
            Fault::Explained(error, words) => {
                drop(failed(NcclError { code: result::INVALID_ARGUMENT, words: words.clone() }));
                Fault::Explained(error, words)
            }
            other => other,
        })?;
        self.shared.collectives.use_all(&ids, || nccl.group(&calls)).map_err(failed)?;
        Ok(Answer::Nothing)
    }

    fn end_comm(&mut self, message: EndComm) -> Result<Answer, Fault> {
        let EndComm { comm, how } = message;
        let all = &self.shared.collectives;
        let ready = if how == 1 { all.take(comm.0) } else { all.ready(comm.0).ok() };
        let Some(Ready { comm, .. }) = ready else { return Err(CudaError::INVALID_HANDLE.into()) };
        let end: fn(&Collectives, &Nccl, Comm) -> Result<(), NcclError> = match how {
            0 => |_, nccl, comm| nccl.finalize(comm),
            1 => Collectives::destroy,
            3 => |_, nccl, comm| nccl.revoke(comm),
            other => return violation(format!("a communicator does not end so: {other}")),
        };
        answer_later(&self.shared, self.sequence, None, move |shared, nccl| {
            let ended = end(&shared.collectives, nccl, comm);
            let (result, words) = failure(ended.as_ref().err());
            encoded(&EndCommReply { result, words })
        })
    }

    fn create_reduction(&mut self, message: CreateReduction<'_>) -> Result<Answer, Fault> {
        let CreateReduction { comm, datatype, value, at } = message;
        let bytes = bytes_of(datatype)?;
        let (nccl, ready) = (self.shared.collectives.nccl()?, self.shared.collectives.ready(comm.0)?);
        let made = if value.is_empty() {
            self.demand_memory(at, bytes)?;
            nccl.create_reduction_at(ready.comm, datatype, at)
        } else {
            let mut scalar = [0; 8];
            if value.len() as u64 != bytes {
                return violation(format!("a scalar of {bytes} bytes has: {}", value.len()));
            }
            scalar[..value.len()].copy_from_slice(value);
            nccl.create_reduction(ready.comm, datatype, &mut scalar)
        };
        let (result, words) = failure(made.as_ref().err());
        body(&CreateReductionReply { result, words, operation: *made.as_ref().unwrap_or(&0) })
    }

    fn destroy_reduction(&mut self, message: DestroyReduction) -> Result<Answer, Fault> {
        let (nccl, ready) = (self.shared.collectives.nccl()?, self.shared.collectives.ready(message.comm.0)?);
        nccl.destroy_reduction(ready.comm, message.operation)
            .map_err(|error| Fault::Explained(CudaError::INVALID_VALUE, error.to_string()))?;
        Ok(Answer::Nothing)
    }

    fn register_buffer(&mut self, message: RegisterBuffer) -> Result<Answer, Fault> {
        let RegisterBuffer { comm, at, bytes } = message;
        self.demand_memory(at, bytes)?;
        let all = &self.shared.collectives;
        let (nccl, ready) = (all.nccl()?, all.ready(comm.0)?);
        let length = usize::try_from(bytes).map_err(|_| CudaError::INVALID_VALUE)?;
        match nccl.register(ready.comm, at, length) {
            Ok(handle) => {
                let handle = all.keep_handle(comm.0, handle)?;
                body(&RegisterBufferReply { result: result::SUCCESS, words: "", handle })
            }
            Err(NcclError { code, words }) => body(&RegisterBufferReply { result: code, words: &words, handle: 0 }),
        }
    }

    fn deregister_buffer(&mut self, message: DeregisterBuffer) -> Result<Answer, Fault> {
        let all = &self.shared.collectives;
        let (nccl, ready) = (all.nccl()?, all.ready(message.comm.0)?);
        let handle = all.take_handle(message.comm.0, message.handle)?;
        let done = nccl.deregister(ready.comm, handle);
        let (result, words) = failure(done.as_ref().err());
        body(&DeregisterBufferReply { result, words })
    }

    fn new_grow_id(&mut self, message: NewGrowId) -> Result<Answer, Fault> {
        self.grow_id(message)
    }

    fn grow_comm(&mut self, message: &GrowComm<'_>) -> Result<Answer, Fault> {
        self.grow(message)
    }

    fn suspend_comm(&mut self, message: SuspendComm) -> Result<Answer, Fault> {
        self.suspend(message)
    }

    fn read_comm_memory(&mut self, message: ReadCommMemory) -> Result<Answer, Fault> {
        self.comm_memory(message)
    }

    fn simulate_group(&mut self, message: &SimulateGroup) -> Result<Answer, Fault> {
        self.simulation(message)
    }

    fn read_parameter(&mut self, message: ReadParameter<'_>) -> Result<Answer, Fault> {
        self.parameter(message)
    }

    fn list_parameters(&mut self, _: ListParameters) -> Result<Answer, Fault> {
        self.parameter_keys()
    }
}

impl<D: Device> Issuer<D> {
    /// Makes a communicator on a thread, which answers. Its ranks have the key of that ticket.
    fn make_comm(
        &self,
        id: u64,
        key: u64,
        using: Option<Using<D>>,
        make: impl FnOnce(&Nccl) -> Made + Send + 'static,
        answer: impl FnOnce(&Made) -> Vec<u8> + Send + 'static,
    ) -> Result<Answer, Fault> {
        self.shared.collectives.nccl()?;
        if id != 0 {
            self.shared.collectives.begin(id, key)?;
        }
        let begun = answer_later(&self.shared, self.sequence, using, move |shared, nccl| {
            let made = make(nccl);
            let ready = made.as_ref().ok().copied().flatten();
            // One that was aborted meanwhile is nobody's.
            if !shared.collectives.made(id, ready)
                && let Some(ready) = ready
            {
                drop(nccl.abort(ready.comm));
            }
            answer(&made)
        });
        begun.inspect_err(|_| {
            let _ = self.shared.collectives.made(id, None);
        })
    }

    /// One call of a group, whose every byte is the session's.
    fn collective(&mut self, call: &wire::CollectiveCall) -> Result<CollectiveCall, Fault> {
        let wire::CollectiveCall { comm, kind, datatype, operation, rank, count, send, receive, stream } = *call;
        let Some(kind) = CollectiveKind::of(kind) else {
            return violation(format!("no collective has the number: {kind}"));
        };
        let ready = self.shared.collectives.usable(comm.0)?;
        if rank >= ready.ranks {
            return violation(format!("no rank of a communicator of {}: {rank}", ready.ranks));
        }
        let elements = bytes_of(datatype)?;
        let (reads, writes) = kind.extent(ready.ranks.into(), rank == ready.rank);
        for (at, times) in [(send, reads), (receive, writes)] {
            let bytes = count.checked_mul(elements).and_then(|bytes| bytes.checked_mul(times));
            self.demand_memory(at, bytes.ok_or(CudaError::INVALID_VALUE)?)?;
        }
        let count = usize::try_from(count).map_err(|_| CudaError::INVALID_VALUE)?;
        let (stream, rank) = (self.use_stream(stream)?, rank.cast_signed());
        Ok(CollectiveCall { kind, comm: ready.comm, datatype, operation, rank, count, send, receive, stream })
    }

    /// Whether memory is mapped wherever these bytes are.
    fn demand_memory(&self, at: DevicePtr, bytes: u64) -> Result<(), Fault> {
        let outside = || {
            Fault::Explained(
                CudaError::INVALID_VALUE,
                format!("not the session's memory: {bytes} bytes at {:#x}", at.0),
            )
        };
        let end = at.0.checked_add(bytes).ok_or_else(outside)?;
        let mut next = at.0;
        while next < end {
            let found = self.mappings.range(..=next).next_back();
            let mapped = found.map(|(start, mapping)| start.saturating_add(mapping.bytes));
            next = mapped.filter(|mapped| *mapped > next).ok_or_else(outside)?;
        }
        Ok(())
    }
}

/// Joining a node may take a while, in which a communicator may have been aborted.
fn demand_wanted<D: Device>(shared: &Shared<D>, id: u64) -> Result<(), NcclError> {
    if shared.collectives.is_wanted(id) {
        return Ok(());
    }
    let words = "it was aborted before the other ranks were asked".to_owned();
    Err(NcclError { code: result::INVALID_USAGE, words })
}

/// Does what waits for other ranks on a thread of its own, and answers with what comes of it. What it uses stays until then.
fn answer_later<D: Device>(
    shared: &Arc<Shared<D>>,
    sequence: u64,
    using: Option<Using<D>>,
    act: impl FnOnce(&Shared<D>, &Nccl) -> Vec<u8> + Send + 'static,
) -> Result<Answer, Fault> {
    let nccl = shared.collectives.nccl()?;
    shared.collectives.begin_waiting()?;
    let this = Arc::clone(shared);
    let run = move || {
        let _ = this.device.enter();
        let answer = act(&this, &nccl);
        this.collectives.end_waiting();
        // A client that is gone needs no answer.
        let _ = this.reply(sequence, 0, "", &answer);
        drop(using);
    };
    match std::thread::Builder::new().name("floe-nccl".into()).spawn(run) {
        Ok(_) => Ok(Answer::Later),
        Err(error) => {
            shared.collectives.end_waiting();
            Err(Fault::Explained(CudaError::OPERATING_SYSTEM, format!("no thread for NCCL: {error}")))
        }
    }
}

/// The program's variables for NCCL, without those that floe sets. In place of its node a program names its job.
fn settings(message: &OpenCollectives<'_>) -> Result<Vec<(String, String)>, Fault> {
    let is_good = |it: &wire::CollectiveSetting<'_>| nccl::is_variable(it.name) && !it.value.contains('\0');
    if !nccl::settings_fit(message.settings.iter().map(|it| (it.name, it.value)))
        || !message.settings.iter().all(is_good)
    {
        return violation("a setting that is not NCCL's");
    }
    let program = message.settings.iter().map(|it| (it.name.to_owned(), it.value.to_owned()));
    let is_own = |name: &str| name == nccl::NODE || OWN_SETTINGS.iter().any(|(own, _)| *own == name);
    Ok(program.filter(|(name, _)| !is_own(name)).collect())
}

/// All that NCCL starts with. Between two nodes it uses nothing but the network, also on one GPU.
fn variables(program: Vec<(String, String)>, node: String) -> Vec<(String, String)> {
    let own = OWN_SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    program.into_iter().chain(own).chain([(nccl::NODE.to_owned(), node)]).collect()
}

fn bytes_of(datatype: u32) -> Result<u64, Fault> {
    element_bytes(datatype).map_or_else(|| violation(format!("no type of NCCL has the number: {datatype}")), Ok)
}

fn ready(nccl: &Nccl, comm: Option<Comm>) -> Made {
    let Some(comm) = comm else { return Ok(None) };
    let (rank, ranks) = nccl.rank_of(comm)?;
    Ok(Some(Ready { comm, rank: rank.cast_unsigned(), ranks: ranks.cast_unsigned() }))
}

fn failure(error: Option<&NcclError>) -> (u32, &str) {
    error.map_or((result::SUCCESS, ""), |error| (error.code, error.words.as_str()))
}

fn outcome(made: &Made) -> (u32, &str) {
    failure(made.as_ref().err())
}

fn place(made: &Made) -> (u32, u32) {
    made.as_ref().ok().copied().flatten().map_or((0, 0), |ready| (ready.rank, ready.ranks))
}

fn encoded<'a>(reply: &impl floe_wire::Field<'a>) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply.write(&mut bytes);
    bytes
}
