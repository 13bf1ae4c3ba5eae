//! Whether a session may be moved, and where to.
//! In: a peer's request, the table, the GPUs. Out: the session with its target GPU, or a refusal by name.
//! It changes nothing.

use std::sync::Arc;

use floe_device::Snapshot;
use floe_migrate::Action;
use floe_users::{Held, Name, Rights, Wish};

use crate::entrance::conversation::{MoveRequest, Refusal};
use crate::entrance::host::not_yours;
use crate::server::Server;
use crate::status;
use crate::usage::accounting::HOST_MEMORY;
use crate::usage::sessions::moving::{Asker, Found};
use crate::usage::sessions::{Conditions, Movable};

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`.
const COMPUTE_CAPABILITY: [i32; 2] = [75, 76];

/// A session that may be moved, and where to.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) movable: Movable,
    /// [`HOST_MEMORY`]: it is to be suspended.
    pub(crate) gpu: u32,
    pub(crate) granularity: u64,
}

impl Plan {
    /// Where the session is; [`HOST_MEMORY`]: it is suspended.
    pub(crate) fn from(&self) -> u32 {
        if self.movable.is_suspended { HOST_MEMORY } else { self.movable.gpu }
    }

    /// Whether it goes to a new worker on the GPU that it has.
    pub(crate) fn is_same_gpu(&self) -> bool {
        self.from() == self.gpu
    }
}

/// A GPU as a target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    gpu: u32,
    /// Compute capability and granularity: a session finds them where it goes as it knows them.
    kind: ([i32; 2], u64),
    memory: u64,
    free: u64,
}

/// What a session needs of a target.
#[derive(Debug, Clone, Copy)]
struct Needs {
    gpu: u32,
    /// Whether it has that GPU now. Else it is suspended, and had it before.
    is_there: bool,
    /// Bytes that there must be room for: its guarantee, else what it holds.
    takes: u64,
    /// 0: whatever there is.
    quota: u64,
}

pub(crate) fn admit(server: &Server, request: &MoveRequest) -> Result<Plan, Refusal> {
    let asker = Asker { source: request.source, has_proved: request.has_proved, key: &request.key };
    let mut sessions = server.sessions();
    let Found::Its(movable) = sessions.movable(request.session, &asker) else {
        return Err(not_yours(request.session));
    };
    let rights = server.users.rights_of(request.source)?;
    may_move(rights.as_ref(), request)?;
    let conditions = Arc::clone(&movable.conditions);
    let candidate = |&gpu: &u32| {
        let snapshot = server.gpu(gpu)?;
        let free = sessions.accounting().free_for(gpu, conditions.is_guaranteed);
        Some(Candidate { gpu, kind: kind(snapshot), memory: snapshot.memory, free })
    };
    let is_granted = |gpu: &&u32| rights.as_ref().is_none_or(|(_, rights)| rights.grants(**gpu));
    let candidates: Vec<_> = server.offered.iter().filter(is_granted).filter_map(candidate).collect();
    let has_links = sessions.has_links(request.session);
    drop(sessions);
    demand_state(request.action, movable.is_suspended)?;
    let is_there = !movable.is_suspended;
    // What a suspended session takes in host memory is more than it has on a GPU: its worker says what that is.
    let used = if is_there { movable.used } else { 0 };
    let quota = conditions.quota;
    let takes = if conditions.is_guaranteed { used.max(quota) } else { used };
    let needs = Needs { gpu: movable.gpu, is_there, takes, quota };
    let (gpu, granularity) = match request.action {
        Action::Suspend => (HOST_MEMORY, server.gpu(movable.gpu).map_or(1, |gpu| gpu.granularity)),
        Action::Move | Action::Resume => {
            let target = choose(&candidates, needs, request.gpu)?;
            (target.gpu, target.kind.1)
        }
    };
    may_be_promised(server, &movable, gpu, request.source.is_some())?;
    server.moves.demand_still(request.session)?;
    let shares = server.peers.has_partners(request.session, request.session).then_some("memory with other sessions");
    if let Some(what) = shares.or(has_links.then_some("links with sessions of other servers")) {
        let detail = format!("it shares {what}, which cannot follow it yet");
        return Err(Refusal { status: status::NOT_SUPPORTED, detail });
    }
    Ok(Plan { movable, gpu, granularity })
}

/// Denies what the policy does not let a user do.
fn may_move(rights: Option<&(Name, Rights)>, request: &MoveRequest) -> Result<(), Refusal> {
    let Some((name, rights)) = rights else { return Ok(()) };
    let granted = rights.migrate(*name).and_then(|()| request.gpu.map_or(Ok(()), |gpu| rights.use_gpu(*name, gpu)));
    granted.map_err(|denial| Refusal { status: status::NOT_PERMITTED, detail: denial.to_string() })
}

/// Denies a session that a user moves what the policy does not give its owner of the time of the GPU that it comes to.
fn may_be_promised(server: &Server, movable: &Movable, gpu: u32, is_users: bool) -> Result<(), Refusal> {
    let Conditions { source, terms, .. } = &*movable.conditions;
    let Some(name) = source.name().filter(|_| is_users && gpu != HOST_MEMORY && gpu != movable.gpu) else {
        return Ok(());
    };
    // A user without a place in the policy any more keeps what it has.
    let Some(rights) = server.users.rights(name) else { return Ok(()) };
    let held = Held { share: server.sessions().held_by(*source, gpu).share, ..Held::default() };
    let of_time = Rights { share: rights.share, ..Rights::OF_NO_POLICY };
    let wish = Wish { gpu, memory: 0, share: terms.share };
    let admitted = of_time.admit(name, wish, held);
    admitted.map(drop).map_err(|denial| Refusal { status: status::NOT_PERMITTED, detail: denial.to_string() })
}

/// What is done with a session has to fit whether it is suspended.
fn demand_state(action: Action, is_suspended: bool) -> Result<(), Refusal> {
    let detail = match (action, is_suspended) {
        (Action::Move | Action::Suspend, false) | (Action::Resume, true) => return Ok(()),
        (Action::Move, true) => "it is suspended; floe resume gives it a GPU",
        (Action::Suspend, true) => "it is suspended already",
        (Action::Resume, false) => "it is not suspended; floe migrate moves it",
    };
    Err(Refusal { status: status::NOT_READY, detail: detail.to_owned() })
}

fn kind(gpu: &Snapshot) -> ([i32; 2], u64) {
    (COMPUTE_CAPABILITY.map(|number| gpu.attribute(number)), gpu.granularity)
}

/// The GPU that was asked for, or the other one with the most free memory.
fn choose(all: &[Candidate], needs: Needs, wanted: Option<u32>) -> Result<&Candidate, Refusal> {
    let own = all.iter().find(|candidate| candidate.gpu == needs.gpu);
    match wanted {
        Some(wanted) => {
            let offered: Vec<_> = all.iter().map(|candidate| candidate.gpu).collect();
            let there = all.iter().find(|candidate| candidate.gpu == wanted).ok_or_else(|| Refusal {
                status: status::INVALID_DEVICE,
                detail: format!("no such GPU here: {wanted}; offered: {offered:?}"),
            })?;
            fits(there, own, needs).map(|()| there)
        }
        None => {
            let others = all.iter().filter(|candidate| !(needs.is_there && candidate.gpu == needs.gpu));
            let fitting = others.filter(|candidate| fits(candidate, own, needs).is_ok());
            fitting.max_by_key(|candidate| candidate.free).ok_or_else(|| Refusal {
                status: status::NOT_SUPPORTED,
                detail: if needs.is_there {
                    format!(
                        "no other GPU of this server takes the session\n  to give it a new worker on its own GPU, name it: --to {}",
                        needs.gpu
                    )
                } else {
                    "no GPU of this server takes the session now\n  to hear why one does not, name it: --to GPU".to_owned()
                },
            })
        }
    }
}

/// Whether a session can go to this GPU, or why not.
fn fits(there: &Candidate, own: Option<&Candidate>, needs: Needs) -> Result<(), Refusal> {
    let no = |status, detail| Err(Refusal { status, detail });
    if needs.is_there && there.gpu == needs.gpu {
        return Ok(());
    }
    let gpu = there.gpu;
    if let Some(own) = own.filter(|own| own.kind.0 != there.kind.0) {
        let [theirs, ours] = [there.kind.0, own.kind.0].map(|[major, minor]| format!("{major}.{minor}"));
        return no(
            status::NOT_SUPPORTED,
            format!("GPU {gpu} has another architecture: {theirs}; the session has code for {ours}"),
        );
    }
    if own.is_some_and(|own| own.kind.1 != there.kind.1) {
        return no(status::NOT_SUPPORTED, format!("GPU {gpu} hands memory out in other units than the session's"));
    }
    if needs.quota > there.memory || needs.takes > there.free {
        let Candidate { memory, free, .. } = there;
        let Needs { takes, quota, .. } = needs;
        return no(
            status::OUT_OF_MEMORY,
            format!(
                "no room on GPU {gpu}: of {memory} bytes {free} are free; the session takes {takes}, its quota is {quota}"
            ),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Needs = Needs { gpu: 0, is_there: true, takes: 10, quota: 50 };

    fn gpu(gpu: u32, minor: i32, memory: u64, free: u64) -> Candidate {
        Candidate { gpu, kind: ([9, minor], 2), memory, free }
    }

    fn refused(all: &[Candidate], needs: Needs, wanted: Option<u32>) -> (u32, String) {
        choose(all, needs, wanted).map_err(|refusal| (refusal.status, refusal.detail)).expect_err("refused")
    }

    #[test]
    fn the_other_gpu_with_the_most_free_memory_is_taken() {
        let all = [gpu(0, 0, 100, 90), gpu(1, 0, 100, 20), gpu(2, 0, 100, 40), gpu(3, 1, 100, 100), gpu(4, 0, 49, 49)];
        assert_eq!(choose(&all, NEEDS, None), Ok(&all[2]));
        assert_eq!(choose(&all, NEEDS, Some(1)), Ok(&all[1]));
    }

    #[test]
    fn the_same_gpu_is_taken_where_it_is_named_and_needs_no_room() {
        let all = [gpu(0, 0, 100, 0)];
        assert_eq!(choose(&all, NEEDS, Some(0)), Ok(&all[0]));
        let (status, words) = refused(&all, NEEDS, None);
        assert_eq!(status, status::NOT_SUPPORTED);
        assert!(words.contains("--to 0"), "{words}");
    }

    #[test]
    fn a_suspended_session_may_have_its_gpu_back_where_there_is_room() {
        let needs = Needs { is_there: false, ..NEEDS };
        let all = [gpu(0, 0, 100, 90), gpu(1, 0, 100, 20)];
        assert_eq!(choose(&all, needs, None), Ok(&all[0]));
        let full = [gpu(0, 0, 100, 9)];
        assert!(refused(&full, needs, Some(0)).1.contains("no room on GPU 0"));
        assert!(refused(&full, needs, None).1.contains("no GPU of this server"));
    }

    #[test]
    fn what_is_done_has_to_fit_the_sessions_state() {
        let words = |action, is_suspended| demand_state(action, is_suspended).map_err(|refusal| refusal.detail);
        assert!([Action::Move, Action::Suspend].iter().all(|action| words(*action, false).is_ok()));
        assert_eq!(words(Action::Resume, true), Ok(()));
        assert!(words(Action::Move, true).is_err_and(|words| words.contains("floe resume")));
        assert!(words(Action::Suspend, true).is_err() && words(Action::Resume, false).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let all = [gpu(0, 0, 100, 90), gpu(1, 1, 100, 100), gpu(2, 0, 100, 9), gpu(3, 0, 49, 49)];
        for (wanted, status, words) in [
            (7, status::INVALID_DEVICE, "no such GPU here: 7; offered: [0, 1, 2, 3]"),
            (1, status::NOT_SUPPORTED, "another architecture: 9.1; the session has code for 9.0"),
            (2, status::OUT_OF_MEMORY, "no room on GPU 2: of 100 bytes 9 are free; the session takes 10"),
            (3, status::OUT_OF_MEMORY, "its quota is 50"),
        ] {
            let (given, detail) = refused(&all, NEEDS, Some(wanted));
            assert!(given == status && detail.contains(words), "{detail}");
        }
        let other = Candidate { kind: ([9, 0], 4), ..gpu(1, 0, 100, 100) };
        assert!(refused(&[gpu(0, 0, 100, 90), other], NEEDS, Some(1)).1.contains("other units"));
    }
}
