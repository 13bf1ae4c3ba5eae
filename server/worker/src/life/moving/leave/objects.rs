//! The objects of a session that leaves, as the worker that it goes to gets them.
//! In: the session at a border between two commands. Out: its blocks, an image of what has changed since the last, the
//! contents of libraries that the target lacks, the places of variables.
//! While the program runs it may take its time; while it stands, code that was just loaded is a reason to go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floe_device::{Content, Device};
use floe_wire::{Image, LoadLibrary, Message as _};

use super::lending::Lending;
use super::off::Off;
use crate::issue::issuer::Issuer;
use crate::issue::objects::departed::{Unsearched, demand_within_reach, names_in};
use crate::life::moving::words::{LentBlock, Variable};

/// Pause before another look at what passes by itself.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What the target has been told of objects.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) clock: u64,
    /// By library.
    names: BTreeMap<u64, Arc<BTreeSet<String>>>,
    /// Numbers of code that has left nothing.
    pub(super) searched: Arc<BTreeSet<u64>>,
    pub(super) variables: Arc<Vec<Variable>>,
}

/// The session at a border.
pub(super) struct Present {
    pub(super) blocks: Vec<LentBlock>,
    pub(super) image: Image,
    /// Objects whose descriptors are offered.
    pub(super) files: Vec<u64>,
    /// Contents of libraries that the image names.
    pub(super) code: Vec<([u8; 32], Content)>,
    /// Libraries whose variables the program may use.
    used: Vec<(u64, Vec<Content>)>,
    /// Code that may have left something.
    gone: Vec<Unsearched>,
}

/// Looks at the session, which is at a border. `searched`: numbers of code that is gone and has left nothing.
pub(super) fn look<D: Device>(
    issuer: &mut Issuer<D>,
    lending: &Arc<Mutex<Lending<D>>>,
    since: u64,
    searched: &BTreeSet<u64>,
    standing: bool,
) -> Result<Present, Off> {
    if let Some(refusal) = issuer.refusals().into_iter().next() {
        return Err(if refusal.passes { Off::NotNow(refusal.why) } else { Off::Ended(refusal.why) });
    }
    issuer.departed().forget(searched);
    if let Some(left) = issuer.departed().left() {
        return Err(Off::Ended(left.to_owned()));
    }
    let gone = issuer.departed().unsearched();
    if standing && !gone.is_empty() {
        return Err(Off::NotNow("the program has just unloaded code".into()));
    }
    let image = issuer.image(since);
    if standing && image.entries.iter().any(|entry| entry.kind == LoadLibrary::KIND) {
        return Err(Off::NotNow("the program has just loaded code".into()));
    }
    let named = image.contents().map_err(|error| Off::Ended(error.to_string()))?;
    let content = |(hash, _): ([u8; 32], u64)| Some((hash, issuer.content(&hash)?));
    let code = named.into_iter().filter_map(content).collect();
    let mut files = Vec::new();
    for (object, file) in issuer.descriptors() {
        files.push(object.id);
        let file = file.try_clone_to_owned().map_err(|error| Off::Ended(error.to_string()))?;
        issuer.offer_file(object.id, file);
    }
    let blocks = floe_lock::lock(lending).refresh(issuer).map_err(Off::device("lending the session's memory"))?;
    Ok(Present { blocks, image, files, code, used: issuer.used_code(), gone })
}

impl Told {
    /// The names of variables in the libraries that the program may use. Those of others are forgotten. A library whose kernels
    /// may have made what no move takes along ends it, also one that is gone.
    pub(super) fn names(&mut self, present: &Present) -> Result<BTreeMap<u64, Arc<BTreeSet<String>>>, Off> {
        let is_new = |code: &&Unsearched| !self.searched.contains(&code.number);
        let gone: Vec<&Unsearched> = present.gone.iter().filter(is_new).collect();
        for code in gone {
            code.search().map_err(Off::Ended)?;
            Arc::make_mut(&mut self.searched).insert(code.number);
        }
        let known = std::mem::take(&mut self.names);
        for (id, contents) in &present.used {
            let names = match known.get(id) {
                Some(names) => Arc::clone(names),
                None => Arc::new(within_reach(*id, contents).map_err(Off::Ended)?),
            };
            self.names.insert(*id, names);
        }
        Ok(self.names.clone())
    }
}

fn within_reach(library: u64, contents: &[Content]) -> Result<BTreeSet<String>, String> {
    demand_within_reach(library, contents)?;
    names_in(library, contents)
}

/// The time of another look, if there is one before the deadline.
pub(super) fn again(deadline: Instant) -> bool {
    let there_is_time = Instant::now() + LOOK_AGAIN < deadline;
    if there_is_time {
        std::thread::sleep(LOOK_AGAIN);
    }
    there_is_time
}
