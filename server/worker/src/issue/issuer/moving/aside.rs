//! The issuer at a border between two commands: what it has taken over and not begun, and what it does meanwhile.
//! In: the rest of what it was about to issue. Out: errands done, then the same commands in the same order.
//! While it stands it begins nothing new. It carries out only what work that is under way may wait for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_device::{Device, Pinned as _};
use floe_wire::{CopyBulkToDevice, CopyToDevice, Decode as _, Message as _};

use crate::issue::aside::{Aside, Kept};
use crate::issue::issuer::{Issuer, Stop};
use crate::memory::transfer_buffers::UploadRange;
use crate::memory::upload::Upload;
use crate::wire_in::batch::Command;
use crate::wire_in::queue::Issuing;

/// Pause between two looks for errands where a test has the session stand.
const STANDING: Duration = Duration::from_micros(200);

impl<D: Device> Issuer<D> {
    /// Carries commands out. True: it was interrupted, and has set the rest aside.
    pub(crate) fn is_interrupted_within<'a>(
        &mut self,
        mut commands: impl Iterator<Item = Command<'a>>,
    ) -> Result<bool, Stop> {
        loop {
            if self.shared.queue.is_interrupted() {
                self.aside.commands.extend(commands.map(Kept::of));
                return Ok(true);
            }
            let Some(command) = commands.next() else { return Ok(false) };
            if self.stands_ahead_of(command.sequence) {
                self.aside.commands.push_back(Kept::of(command));
                self.aside.commands.extend(commands.map(Kept::of));
                return Ok(true);
            }
            self.carry_out(command)?;
        }
    }

    /// Whether a test has it stand here, ahead of the command of this sequence. Where half an object has come, or streams stand
    /// until the program has said more, no move is possible: then it stands behind the rest.
    fn stands_ahead_of(&mut self, sequence: u64) -> bool {
        if !self.stands.is_due(sequence) || self.has_half_an_object() || self.shared.queue.held() != (0, 0) {
            return false;
        }
        let went_on = self.errands.went_on();
        self.stands.stands_at(sequence, Instant::now, went_on)
    }

    /// Does errands until nobody has any, then carries out what was set aside.
    pub(crate) fn stand_aside(&mut self, issuing: &mut Issuing) -> Result<(), Stop> {
        self.shared.queue.give_back(issuing);
        self.aside.issuing = std::mem::take(issuing);
        let outcome = self.attend_and_go_on();
        *issuing = std::mem::take(&mut self.aside.issuing);
        outcome
    }

    fn attend_and_go_on(&mut self) -> Result<(), Stop> {
        let (errands, shared) = (self.errands(), Arc::clone(&self.shared));
        loop {
            // Of a command that was carried out here: nobody polls it while others are attended to, and no drain would see it.
            self.end_inline_wait();
            if !errands.attend(self) {
                // The session is over here: nothing of it is begun any more.
                return Ok(());
            }
            if let Some(stop) = self.stopped.take() {
                return Err(stop);
            }
            if !self.await_turn() {
                return Ok(());
            }
            while !shared.queue.is_interrupted() {
                let next = self.aside.commands.front().map(|next| next.sequence);
                if next.is_some_and(|next| self.stands_ahead_of(next)) {
                    std::thread::sleep(STANDING);
                    break;
                }
                let Some(command) = self.aside.commands.pop_front() else { return Ok(()) };
                self.carry_out(command.as_command())?;
            }
        }
    }

    /// Takes the next of what was read and not taken over; whether there was any.
    fn fetch(&mut self) -> bool {
        let Aside { commands, issuing } = &mut self.aside;
        let before = commands.len();
        let shared = Arc::clone(&self.shared);
        if let Some(batch) = shared.queue.next_at_hand(issuing) {
            commands.extend(batch.commands().map(Kept::of));
        }
        shared.queue.give_back(issuing);
        self.aside.commands.len() > before
    }

    /// Everything that was read and not begun, each command with all its bytes. Nobody reads any more, and every transfer
    /// that was announced has arrived.
    pub(crate) fn unissued(&mut self) -> Vec<Kept> {
        while self.fetch() {}
        let commands = std::mem::take(&mut self.aside.commands);
        self.aside.commands = commands.into_iter().map(|command| self.whole(command)).collect();
        self.aside.commands.iter().cloned().collect()
    }

    /// Commands that another worker has read and not begun come first.
    pub(crate) fn begin_with(&mut self, commands: Vec<Kept>) {
        self.aside.commands = commands.into();
    }

    /// A command with the bytes that lay elsewhere: a plain copy of these.
    fn whole(&self, command: Kept) -> Kept {
        let Kept { sequence, kind, ref payload, range } = command;
        let (stream, to, data) = match (range, kind) {
            (Some(range), _) => {
                let Ok(CopyToDevice { stream, to, .. }) = CopyToDevice::decode(payload) else { return command };
                (stream, to, self.taken_out(range))
            }
            (None, CopyBulkToDevice::KIND) => {
                let Ok(CopyBulkToDevice { stream, to, .. }) = CopyBulkToDevice::decode(payload) else { return command };
                let Some(upload) = self.shared.transfers.take(sequence) else { return command };
                let data = match &*upload {
                    Upload::Pinned { range, .. } => self.taken_out(*range),
                    Upload::Heap(heap) => {
                        let mut data = Vec::new();
                        heap.each(|_, bytes| data.extend_from_slice(bytes));
                        data
                    }
                };
                (stream, to, data)
            }
            (None, _) => return command,
        };
        let mut payload = Vec::with_capacity(data.len() + 64);
        CopyToDevice { stream, to, bytes: &data }.encode(&mut payload);
        Kept { sequence, kind: CopyToDevice::KIND, payload, range: None }
    }

    fn taken_out(&self, range: UploadRange) -> Vec<u8> {
        let mut data = Vec::with_capacity(range.bytes);
        self.uploads.memory(range).lend(range.offset, range.bytes, &mut |bytes| data.extend_from_slice(bytes));
        self.uploads.drop_range(range);
        data
    }
}
