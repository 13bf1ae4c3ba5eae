//! A program carried out by one process, or by two that take turns: each admits every operation, and carries out those
//! of its own vGPU.
//! In: operations one after the other. Out: the first that fails. The second process does nothing that it is not asked.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::channel::{Channel, Message};
use crate::execute::{Executor, Passed};
use crate::model::{Capabilities, Model};
use crate::operation::Operation;

/// What the first process asks of the second, and its answers.
mod kind {
    /// Carries an operation out.
    pub(super) const DO: u8 = b'd';
    /// Passes what the first needs to open something.
    pub(super) const GIVE: u8 = b'g';
    /// Opens what is passed.
    pub(super) const TAKE: u8 = b't';
    /// Ends everything; the text of the answer is the digest.
    pub(super) const END: u8 = b'e';
    pub(super) const DONE: u8 = b'k';
    pub(super) const FAILED: u8 = b'x';
}

/// The process that carries a program out, with the other one where there are two.
pub(crate) struct Pair {
    executor: Executor,
    model: Model,
    other: Option<Other>,
}

struct Other {
    process: Child,
    channel: Channel,
}

impl Pair {
    /// Starts. `second` is what starts the second process, without its stdin.
    pub(crate) fn start(can: Capabilities, second: Option<Command>) -> Result<Self> {
        let other = second.map(Other::start).transpose()?;
        let executor = Executor::new(can, other.is_some().then_some(0))?;
        Ok(Self { executor, model: Model::new(can), other })
    }

    /// The next operation.
    pub(crate) fn step(&mut self, index: usize, operation: &Operation) -> Result<()> {
        let vgpu = self.model.vgpu_of(operation);
        admit(&mut self.model, operation)?;
        let Some(other) = &self.other else { return self.executor.carry_out(operation, &self.model) };
        let is_own = vgpu == Some(0);
        if !matches!(operation, Operation::Open { .. } | Operation::OpenEvent { .. }) {
            if is_own {
                return self.executor.carry_out(operation, &self.model);
            }
            return other.ask(Message::new(kind::DO, index)).map(drop);
        }
        if is_own {
            let given = other.ask(Message::new(kind::GIVE, index))?;
            let passed = Passed { bytes: given.bytes, descriptor: given.descriptor };
            return self.executor.take(operation, &passed, &self.model);
        }
        let Passed { bytes, descriptor } = self.executor.give(operation)?;
        other.ask(Message { bytes, descriptor, ..Message::new(kind::TAKE, index) }).map(drop)
    }

    /// Ends everything. The digests of what each process has read, and how often.
    pub(crate) fn end(self) -> Result<(String, usize)> {
        let (mut digest, mut reads) = (self.executor.digest(), self.executor.reads);
        if let Some(mut other) = self.other {
            let answer = other.ask(Message::new(kind::END, 0))?;
            digest = format!("{digest} {}", answer.text);
            reads += answer.index;
            anyhow::ensure!(other.process.wait()?.success(), "the second process failed at its end");
        }
        self.executor.end()?;
        Ok((digest, reads))
    }
}

impl Other {
    fn start(mut command: Command) -> Result<Self> {
        let (channel, end) = Channel::pair()?;
        let process = command.stdin(Stdio::from(end)).spawn()?;
        Ok(Self { process, channel })
    }

    fn ask(&self, message: Message) -> Result<Message> {
        self.channel.send(&message)?;
        let answer = self.channel.receive()?.context("the second process is gone")?;
        if answer.kind == kind::FAILED { bail!("in the second process: {}", answer.text) } else { Ok(answer) }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn admit(model: &mut Model, operation: &Operation) -> Result<()> {
    model.admit(operation).map_err(|refusal| anyhow::anyhow!("not admitted: {refusal:?}"))
}

/// The second process, which does what the first asks until that ends it.
pub(crate) fn serve(program: &[Operation], keep: &[usize], can: Capabilities) -> Result<()> {
    let channel = Channel::inherited()?;
    let (mut executor, mut model) = (Some(Executor::new(can, Some(1))?), Model::new(can));
    let (mut keep, mut last) = (keep.iter(), None);
    while let Some(message) = channel.receive()? {
        while last != Some(message.index) && message.kind != kind::END {
            let index = *keep.next().context("no such operation")?;
            admit(&mut model, &program[index])?;
            last = Some(index);
        }
        let is_end = message.kind == kind::END;
        let answer = match answer(&mut executor, &model, program, message) {
            Ok(answer) => answer,
            Err(error) => Message { text: format!("{error:#}"), ..Message::new(kind::FAILED, 0) },
        };
        channel.send(&answer)?;
        if is_end {
            return Ok(());
        }
    }
    bail!("the first process is gone")
}

fn answer(executor: &mut Option<Executor>, model: &Model, program: &[Operation], message: Message) -> Result<Message> {
    if message.kind == kind::END {
        let ended = executor.take().context("it has ended")?;
        let (text, reads) = (ended.digest(), ended.reads);
        ended.end()?;
        return Ok(Message { text, ..Message::new(kind::DONE, reads) });
    }
    let executor = executor.as_mut().context("it has ended")?;
    let (operation, done) = (&program[message.index], Message::new(kind::DONE, message.index));
    match message.kind {
        kind::DO => executor.carry_out(operation, model).map(|()| done),
        kind::GIVE => {
            let Passed { bytes, descriptor } = executor.give(operation)?;
            Ok(Message { bytes, descriptor, ..done })
        }
        kind::TAKE => {
            let descriptor: Option<OwnedFd> = message.descriptor;
            executor.take(operation, &Passed { bytes: message.bytes, descriptor }, model).map(|()| done)
        }
        other => bail!("no such question: {other}"),
    }
}
