//! The server as a conversation needs it: what it shows, whom it admits, and which worker a connection belongs to.
//! In: requests of peers that proved who they are, or need not. Out: replies, admissions, channels to workers, refusals.
//! It starts no worker.

use std::time::Instant;

use floe_transport::{HostKey, Peer, Sealer, Secret, Secrets as _, TokenNumber};
use floe_users::{Event, Name};
use floe_wire::{
    Attach, AttachReply, DevicePtr, EndSession, Gpu, GpuTelemetry, Join, ListGpusReply, ListSessionsReply,
    ReadTelemetry, ReadTelemetryReply,
};

use super::admission;
use super::conversation::{Admitted, Caller, Host, Refusal};
use super::tokens::Holder;
use super::users::whose;
use crate::server::Server;
use crate::status;
use crate::usage::sessions::moving::{Asker, Found};
use crate::usage::sessions::{Admission, View};
use crate::usage::telemetry::{Target, to_wire};
use crate::workers::probe::told;

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`.
const COMPUTE_CAPABILITY: (i32, i32) = (75, 76);

/// The refusal of a session that is not there, or not the caller's: who guesses numbers learns no more than that a guess
/// was wrong.
pub(crate) fn not_yours(session: u64) -> Refusal {
    let detail = format!(
        "no session of yours here: {session}\n  floe ps shows yours; over TCP a server with a token moves and ends them"
    );
    Refusal { status: status::NOT_PERMITTED, detail }
}

impl Server {
    /// What a caller is shown.
    fn view(&self, caller: &Caller<'_>) -> View {
        View { source: caller.source, sees_others: self.users.sees_others(caller.source) }
    }
}

impl Host for Server {
    fn local_user(&self, peer: &Peer) -> Option<Name> {
        match peer {
            Peer::Unix { uid, .. } if !self.trusts(peer) => self.users.of_account(*uid),
            _ => None,
        }
    }

    fn certified(&self, name: &str) -> Result<Name, Refusal> {
        self.users.certified(name)
    }

    fn has_policy(&self) -> bool {
        self.users.has_policy()
    }

    fn refused(&self, caller: &Caller<'_>, why: &str) {
        self.audits(&whose(caller.source, caller.peer, caller.token), &Event::Refused { why });
    }

    fn asks_for_token(&self) -> bool {
        self.token.is_some()
    }

    fn secret(&self, number: Option<TokenNumber>) -> Option<Secret> {
        self.find(number)
    }

    fn holder(&self, number: TokenNumber) -> Option<Holder> {
        self.user_tokens.holder(number)
    }

    fn trusts(&self, peer: &Peer) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(peer, Peer::Unix { uid, .. } if *uid == own || *uid == 0)
    }

    fn trusts_forwarded(&self) -> bool {
        self.trust_forwarded
    }

    fn takes_clear_text(&self) -> bool {
        self.clear_text
    }

    fn key(&self) -> &HostKey {
        &self.host_key
    }

    fn gpus(&self, answer: &mut dyn FnMut(ListGpusReply<'_>)) {
        let mut sessions = self.sessions();
        let row = |&index: &u32| {
            let gpu = self.gpu(index)?;
            Some(Gpu {
                index,
                name: &gpu.name,
                uuid: &gpu.uuid,
                memory: gpu.memory,
                free: sessions.free_on_gpu(index),
                guarantee: sessions.accounting().free_for_guarantee(index),
                kind: &self.probe.kind,
                driver: self.probe.driver,
                compute_major: gpu.attribute(COMPUTE_CAPABILITY.0),
                compute_minor: gpu.attribute(COMPUTE_CAPABILITY.1),
                sessions: sessions.on_gpu(index),
                share: self.turns.free_share(index),
            })
        };
        let gpus = self.offered.iter().filter_map(row).collect();
        answer(ListGpusReply { gpus, nccl: self.nccl.is_some() });
    }

    fn sessions(&self, caller: &Caller<'_>, answer: &mut dyn FnMut(ListSessionsReply<'_>)) {
        let mut sessions = Server::sessions(self);
        answer(ListSessionsReply { sessions: sessions.rows(Instant::now(), self.view(caller)) });
    }

    fn telemetry(
        &self,
        caller: &Caller<'_>,
        request: &ReadTelemetry<'_>,
        answer: &mut dyn FnMut(ReadTelemetryReply<'_>),
    ) {
        let wanted = |index: &&u32| request.gpus.is_empty() || request.gpus.contains(index);
        let samples: Vec<_> = self
            .offered
            .iter()
            .filter(wanted)
            .filter_map(|&index| {
                let gpu = self.gpu(index)?;
                let workers = Server::sessions(self).workers_on_gpu(index);
                let sample = self.telemetry.read(&Target { index, uuid: &gpu.uuid, workers }, request.slow);
                let topology = request.lasting.then(|| self.telemetry.topology(index, &self.probe.gpus, &self.offered));
                Some((index, gpu, sample, topology.unwrap_or_default()))
            })
            .collect();
        let sessions = Server::sessions(self);
        let rows = samples.iter().map(|(index, gpu, sample, topology)| GpuTelemetry {
            index: *index,
            name: &gpu.name,
            uuid: &gpu.uuid,
            pci_bus: &gpu.pci_bus,
            memory: gpu.memory,
            free: sessions.free_on_gpu(*index),
            compute_major: gpu.attribute(COMPUTE_CAPABILITY.0),
            compute_minor: gpu.attribute(COMPUTE_CAPABILITY.1),
            serial: &sample.labels.serial,
            part: &sample.labels.part,
            firmware: &sample.labels.firmware,
            readings: to_wire(&sample.readings),
            sessions: sessions
                .tenants(*index, request.host, caller.source)
                .into_iter()
                .map(|tenant| sample.session_to_wire(&tenant))
                .collect(),
            links: topology.links_to_wire(),
            peers: topology.peers_to_wire(),
        });
        answer(ReadTelemetryReply {
            driver: self.telemetry.driver(),
            memory_limit: self.memory_per_session,
            gpus: rows.collect(),
        });
    }

    fn admit(&self, request: &Attach<'_>, caller: &Caller<'_>, sealer: Sealer) -> Result<Admitted, Refusal> {
        admission::admit(self, admission::check(self, request, caller, sealer)?)
    }

    fn end(&self, request: &EndSession<'_>, caller: &Caller<'_>, has_proved: bool) -> Result<(), Refusal> {
        let asker = Asker { source: caller.source, has_proved, key: request.key };
        let who = caller.source.map_or_else(|| "the operator".to_owned(), |source| source.to_string());
        let mut sessions = Server::sessions(self);
        if matches!(sessions.movable(request.session, &asker), Found::Nothing) {
            return Err(not_yours(request.session));
        }
        sessions.end(request.session, format!("ended by {who}"));
        Ok(())
    }

    fn attached<'a>(&'a self, admission: &'a Admission) -> AttachReply<'a> {
        let index = u32::try_from(admission.gpu).unwrap_or(u32::MAX);
        let device = self.gpu(index).map(|gpu| {
            let quota = admission.conditions.quota;
            let memory = if quota == 0 { gpu.memory } else { quota };
            told(gpu, &self.probe, memory)
        });
        let mut reply = AttachReply {
            session: admission.session,
            window: DevicePtr(admission.window),
            window_bytes: admission.window_bytes,
            memory: admission.conditions.quota,
            key: &admission.key,
            bulk_connections: admission.conditions.bulk_connections,
            grace_ms: admission.conditions.grace_ms,
            device: device.unwrap_or_default(),
            server: &self.identity,
            guaranteed: admission.conditions.is_guaranteed,
            ..AttachReply::default()
        };
        admission.conditions.transport.say_taken(&mut reply);
        reply
    }

    fn peer(&self, session: u64, is_local: bool) -> Result<(), Refusal> {
        if !self.dialer.lets_in(is_local) {
            let detail =
                "this server takes no connections of other servers\n  name them: floe serve --peer ADDRESS".into();
            return Err(Refusal { status: status::NOT_PERMITTED, detail });
        }
        // Who guesses numbers learns no more than that a guess was wrong.
        let detail = format!("no session here takes this connection: {session}");
        let is_there = Server::sessions(self).door(session).is_some();
        is_there.then_some(()).ok_or(Refusal { status: status::NOT_PERMITTED, detail })
    }

    fn join(&self, request: &Join<'_>) -> Result<(), Refusal> {
        let mut sessions = Server::sessions(self);
        if let Some(detail) = sessions.told_end(request.session, request.key) {
            return Err(Refusal { status: status::DEVICE_UNAVAILABLE, detail });
        }
        let admits = sessions.door(request.session).is_some_and(|door| door.admits(request.key));
        admits.then_some(()).ok_or_else(|| Refusal {
            status: status::NOT_PERMITTED,
            detail: format!("this key admits no (further) connection to the session: {}", request.session),
        })
    }
}
