//! A session that arrives, step by step.
//! In: steps of the worker that it leaves. Out: an answer to each, or why the session cannot be taken.
//! Every number is looked up in what this session has: nothing else is reached by a step.

use std::collections::BTreeMap;

use floe_device::{Content, Device};
use floe_transport::{ArrivingLink, LinkImage, SetUp};
use floe_wire::{Image, Object};

use super::memory::Memory;
use super::wanted::{Refused, file};
use crate::issue::aside::Kept;
use crate::issue::cache::Hash;
use crate::issue::issuer::moving::image::{Places, Supplies};
use crate::life::moving::words::{Answer, Contents, Description, Last, Step, UNTAKEN, Untaken};
use crate::life::serve::Built;

/// A session that arrives.
pub(super) struct Arrival<D: Device> {
    built: Built<D>,
    description: Description,
    memory: Memory<D>,
    /// Contents of libraries that the cache lacks, by their hashes.
    code: BTreeMap<[u8; 32], Content>,
    places: Places,
    link: Option<ArrivingLink>,
    set_up: Option<SetUp>,
    last_transfer: u64,
}

impl<D: Device> Arrival<D> {
    pub(super) fn new(built: Built<D>, description: Description, same_gpu: bool, link: ArrivingLink) -> Self {
        let memory = Memory::new(&built.shared, description.clone(), same_gpu);
        let (code, places) = (BTreeMap::new(), Places::default());
        Self { built, description, memory, code, places, link: Some(link), set_up: None, last_transfer: 0 }
    }

    /// Does a step.
    pub(super) fn step(&mut self, step: Step, body: &[u8]) -> Result<Answer, Refused> {
        let issuer = &mut self.built.issuer;
        match step {
            Step::Describe(_) => Err("the session was described".into()),
            Step::Blocks(blocks) => self.memory.lend(&blocks, issuer).map(|()| Answer::Done),
            // Descriptors are asked for where they are used.
            Step::Files(_) => Ok(Answer::Done),
            Step::Code(named) => Ok(self.lacks(&named)),
            Step::CodeBytes(hash) => {
                self.code.insert(hash, Content::from(body));
                Ok(Answer::Done)
            }
            Step::Places(variables) => {
                self.places.want(&variables, &*self.built.shared.device);
                Ok(Answer::Done)
            }
            Step::Objects => {
                self.take_objects(body)?;
                self.memory.stage_made(&self.built.issuer).map(|_| Answer::Done)
            }
            Step::Variables(variables) => {
                let checked = variables.iter().try_for_each(|variable| issuer.demand_variable(variable).map(drop));
                checked.map(|()| Answer::Done).map_err(|fault| fault.to_string())
            }
            Step::Copy => self.memory.copy(issuer),
            Step::Hash(key) => self.memory.hash(issuer, key),
            Step::Compare { key, last } => self.memory.compare(issuer, key, body, last),
            Step::Bytes(piece) => self.memory.take(piece, body).map(|()| Answer::Done),
            Step::Contents(contents) => self.take_contents(&contents, body).map(|()| Answer::Done),
            Step::Last(last) => self.take_last(&last, body).map(|()| Answer::Done),
            Step::Frozen(digest) if issuer.digest() == digest => self.memory.demand_taken().map(|()| Answer::Done),
            Step::Frozen(_) => Err("the sessions' tables differ".into()),
        }
    }

    /// Which contents are neither in the cache nor were sent.
    fn lacks(&self, named: &[([u8; 32], u64)]) -> Answer {
        let is_here = |(hash, bytes): &([u8; 32], u64)| {
            self.code.contains_key(hash) || self.built.issuer.has_contents(hash, *bytes)
        };
        let lacking: Vec<usize> = (0..named.len()).filter(|index| !is_here(&named[*index])).collect();
        if lacking.is_empty() { Answer::Done } else { Answer::Lacks(lacking) }
    }

    fn take_objects(&mut self, body: &[u8]) -> Result<(), Refused> {
        let image = Image::decode(body).map_err(|error| error.to_string())?;
        let (code, hub, description) = (&self.code, &self.built.shared.hub, &self.description);
        let mut contents = |hash: &Hash| code.get(hash).cloned();
        let mut descriptors = |object: Object| file(hub, description, object.id).ok();
        let places = &mut self.places;
        let mut supplies = Supplies { contents: &mut contents, descriptors: &mut descriptors, places, past: true };
        self.built.issuer.replay(&image, &mut supplies).map_err(|differences| differences.join("; "))
    }

    fn take_contents(&mut self, contents: &[(Contents, u64)], body: &[u8]) -> Result<(), Refused> {
        let (mut rest, mut all) = (body, Vec::with_capacity(contents.len()));
        for (contents, bytes) in contents {
            all.push((contents, cut(&mut rest, *bytes)?));
        }
        self.built.issuer.take_contents(&all).map_err(|fault| fault.to_string())
    }

    fn take_last(&mut self, last: &Last, body: &[u8]) -> Result<(), Refused> {
        self.built.issuer.recall(last).map_err(|fault| fault.to_string())?;
        let mut rest = body;
        let image = LinkImage::decode(cut(&mut rest, last.link)?).map_err(|error| error.to_string())?;
        let link = self.link.take().ok_or("the last state came before")?;
        let mut untaken = match last.descriptor {
            None => None,
            Some(at) => Some((at, file(&self.built.shared.hub, &self.description, UNTAKEN)?)),
        };
        let of_link = untaken.take_if(|(at, _)| *at == Untaken::Link).map(|(_, file)| file);
        *floe_lock::lock(&self.built.shared.descriptor) = untaken.map(|(_, file)| file);
        self.set_up = Some(link.set_up(&image, of_link).map_err(|error| error.to_string())?);
        self.last_transfer = last.last_transfer;
        let mut commands = Vec::new();
        for &(sequence, kind, bytes) in &last.unissued {
            commands.push(Kept { sequence, kind, payload: cut(&mut rest, bytes)?.to_vec(), range: None });
        }
        if !rest.is_empty() {
            return Err(format!("bytes behind the last state: {}", rest.len()));
        }
        self.built.issuer.begin_with(commands);
        Ok(())
    }

    /// Everything has been said.
    pub(super) fn whole(self) -> Result<(Built<D>, SetUp, u64), Refused> {
        let Self { mut built, memory, set_up, last_transfer, .. } = self;
        let link = set_up.ok_or("the last state is not there")?;
        let leftover = memory.left();
        built.do_beside(move || leftover.let_go());
        Ok((built, link, last_transfer))
    }
}

/// The first bytes.
fn cut<'a>(rest: &mut &'a [u8], bytes: u64) -> Result<&'a [u8], Refused> {
    let parts = usize::try_from(bytes).ok().and_then(|bytes| rest.split_at_checked(bytes));
    let Some((first, behind)) = parts else { return Err(format!("the last state lacks: {bytes} bytes")) };
    *rest = behind;
    Ok(first)
}
