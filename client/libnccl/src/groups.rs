//! Groups: what a thread has asked for between `ncclGroupStart` and `ncclGroupEnd`, and outside of them at once.
//! In: communicators to be made, calls. Out: the session's calls, when the outermost group ends.
//! A group's failure is that of its end, and nothing of a group is done before.

use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::sync::Arc;

use floe_nccl::{CONFIG_NUMBERS, Call, Made, Make, Suspend, code, end, how};

use crate::comms::{Comm, State};
use crate::session::{self, Failure, Outcome};

/// How a communicator comes about, with what that needs.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Ids {
        ids: Vec<u8>,
        ranks: c_int,
        rank: c_int,
    },
    Split {
        parent: Arc<Comm>,
        color: c_int,
        key: c_int,
    },
    Shrink {
        parent: Arc<Comm>,
        excluded: Vec<c_int>,
        flags: c_int,
    },
    /// Without a parent it is a new rank's.
    Grow {
        parent: Option<Arc<Comm>>,
        id: Vec<u8>,
        ranks: c_int,
        rank: c_int,
    },
}

/// What a program sets of a communicator.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) blocks: bool,
    /// `None`: a communicator that is made of another has its numbers.
    pub(crate) numbers: Option<[c_int; CONFIG_NUMBERS]>,
    pub(crate) name: Option<CString>,
}

/// A communicator to be made.
#[derive(Clone, Debug)]
pub(crate) struct New {
    /// `None`: the rank takes no part.
    pub(crate) comm: Option<Arc<Comm>>,
    pub(crate) device: c_int,
    pub(crate) origin: Origin,
    pub(crate) settings: Settings,
}

#[derive(Debug, Default)]
struct Group {
    depth: u32,
    news: Vec<New>,
    suspends: Vec<Suspend>,
    calls: Vec<Call>,
    failed: Option<Failure>,
    /// Communicators are being made on a thread.
    is_in_progress: bool,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Begins a group.
pub(crate) fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// Ends one, and gives what the outermost is to do. Its communicators are made here.
fn finish(function: &str) -> Outcome<Option<Group>> {
    let ended = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Err(Failure::new(code::INVALID_USAGE, &format!("{function} without ncclGroupStart")));
        }
        group.depth -= 1;
        Ok((group.depth == 0).then(|| std::mem::take(group)))
    })?;
    let Some(mut ended) = ended else { return Ok(None) };
    let news = std::mem::take(&mut ended.news);
    if let Some(failure) = ended.failed {
        for comm in news.iter().filter_map(|new| new.comm.as_ref()) {
            comm.is(State::Failed(failure.clone()));
        }
        return Err(failure);
    }
    // What is made on a thread is no reason to leave the rest of the group undone.
    match if news.is_empty() { Ok(()) } else { make(news) } {
        Err(failure) if failure.code == code::IN_PROGRESS => ended.is_in_progress = true,
        made => made?,
    }
    if !ended.suspends.is_empty() {
        session::suspend(&ended.suspends)?;
    }
    Ok(Some(ended))
}

/// The result of a group whose other parts are done.
fn done<T>(is_in_progress: bool, value: T) -> Outcome<T> {
    if is_in_progress { Err(Failure::new(code::IN_PROGRESS, "")) } else { Ok(value) }
}

/// Ends a group; the outermost does all that was asked for.
pub(crate) fn end() -> Outcome<()> {
    let Some(Group { calls, is_in_progress, .. }) = finish("ncclGroupEnd")? else { return Ok(()) };
    if !calls.is_empty() {
        session::group(&calls)?;
    }
    done(is_in_progress, ())
}

/// Ends a group, of which the outermost makes no calls: NCCL's estimate of their microseconds, if there are any.
pub(crate) fn simulate_end() -> Outcome<Option<f32>> {
    let Some(Group { calls, is_in_progress, .. }) = finish("ncclGroupSimulateEnd")? else { return Ok(None) };
    let time = if calls.is_empty() { None } else { Some(session::simulate(&calls)?) };
    done(is_in_progress, time)
}

/// A communicator is suspended, or resumed without flags, now or at the group's end.
pub(crate) fn suspend(comm: u64, flags: c_int) -> Outcome<()> {
    let suspend = Suspend { comm, flags };
    let waits = GROUP.with_borrow_mut(|group| {
        let waits = group.depth > 0;
        if waits {
            group.suspends.push(suspend);
        }
        waits
    });
    if waits { Ok(()) } else { session::suspend(&[suspend]) }
}

/// A failure of a call within a group is also that of the group.
pub(crate) fn note(failure: &Failure) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.failed.get_or_insert_with(|| failure.clone());
        }
    });
}

/// A call, now or at the group's end.
pub(crate) fn call(call: Call) -> Outcome<()> {
    let waits = GROUP.with_borrow_mut(|group| {
        let waits = group.depth > 0;
        if waits {
            group.calls.push(call);
        }
        waits
    });
    if waits { Ok(()) } else { session::group(&[call]) }
}

/// A communicator, now or at the group's end.
pub(crate) fn new(new: New) -> Outcome<()> {
    let left = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(new);
        }
        group.news.push(new);
        None
    });
    left.map_or(Ok(()), |new| make(vec![new]))
}

/// Makes communicators together: where none of them blocks, on a thread.
fn make(news: Vec<New>) -> Outcome<()> {
    if news.iter().any(|new| new.settings.blocks) {
        return make_now(&news);
    }
    let run = move || drop(make_now(&news));
    match std::thread::Builder::new().name("floe-nccl".into()).spawn(run) {
        Ok(_) => Err(Failure::new(code::IN_PROGRESS, "")),
        Err(error) => Err(Failure::new(code::SYSTEM_ERROR, &format!("no thread to make a communicator: {error}"))),
    }
}

fn make_now(news: &[New]) -> Outcome<()> {
    let made = news.iter().map(raw).collect::<Outcome<Vec<Make>>>().and_then(|makes| session::make(&makes));
    let states: Vec<State> = match &made {
        Ok(made) => made.iter().map(|made| State::Made(*made)).collect(),
        Err(failure) => vec![State::Failed(failure.clone()); news.len()],
    };
    for (new, state) in news.iter().zip(states) {
        let Some(comm) = &new.comm else { continue };
        if let (false, State::Made(made)) = (comm.is(state.clone()), state) {
            // It was ended meanwhile, and its other ranks wait for it. Nobody asks for the result.
            let _ = session::end(made.comm, end::ABORT);
        }
    }
    made.map(|_: Vec<Made>| ())
}

/// As the session takes it; the lists are `new`'s.
fn raw(new: &New) -> Outcome<Make> {
    let name = new.settings.name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
    let make = Make {
        how: how::INIT,
        device: new.device,
        parent: 0,
        ids: std::ptr::null(),
        id_bytes: 0,
        ranks: 0,
        rank: 0,
        key: 0,
        excluded: std::ptr::null(),
        excluded_count: 0,
        has_config: u32::from(new.settings.numbers.is_some()),
        config: new.settings.numbers.unwrap_or([c_int::MIN; CONFIG_NUMBERS]),
        name,
    };
    Ok(match &new.origin {
        Origin::Ids { ids, ranks, rank } => {
            Make { ids: ids.as_ptr(), id_bytes: ids.len(), ranks: *ranks, rank: *rank, ..make }
        }
        Origin::Split { parent, color, key } => {
            Make { how: how::SPLIT, parent: parent.made()?.comm, rank: *color, key: *key, ..make }
        }
        Origin::Shrink { parent, excluded, flags } => Make {
            how: how::SHRINK,
            parent: parent.made()?.comm,
            excluded: excluded.as_ptr(),
            excluded_count: excluded.len(),
            key: *flags,
            ..make
        },
        Origin::Grow { parent, id, ranks, rank } => Make {
            how: how::GROW,
            parent: parent.as_ref().map_or(Ok(0), |parent| parent.made().map(|made| made.comm))?,
            ids: id.as_ptr(),
            id_bytes: id.len(),
            ranks: *ranks,
            rank: *rank,
            ..make
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_was_not_begun_does_not_end_and_an_inner_one_does_nothing() {
        assert_eq!(end().map_err(|failure| failure.code), Err(code::INVALID_USAGE));
        start();
        start();
        assert_eq!(end(), Ok(()));
        note(&Failure::new(code::INVALID_ARGUMENT, "wrong"));
        assert_eq!(end().map_err(|failure| failure.words), Err("wrong".to_owned()));
        start();
        assert_eq!(end(), Ok(()), "the failure was the other group's");
    }
}
