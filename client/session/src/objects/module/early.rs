//! What a program's last start used of its libraries, asked for before this one brings them (`--far`). A record of starts comes in;
//! libraries go out to those that the program has brought, by the hashes of their contents. What it does not bring, it cannot
//! reach; that goes back when memory is short, and with the context or the session.

use std::sync::{Arc, Mutex};

use floe_abi::CudaResult;
use floe_surface::JitOptions;

use crate::memory::blocks::early::of_first_start;
use crate::objects::module::ahead::Ahead;
use crate::objects::module::record::Source;
use crate::start::Start;
use crate::vgpu::Vgpu;
use floe_lock::lock;

/// Bytes of contents, libraries, and what of them is asked for at once.
const MOST_BYTES: u64 = 512 << 20;
const MOST_LIBRARIES: usize = 128;
const MOST_ENTRIES: usize = 2048;

/// The starts of the program, and the libraries that were asked for.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) start: Arc<Start>,
    ahead: Mutex<Vec<Ahead>>,
}

impl Early {
    /// Asks for what the last start used.
    pub(crate) fn begin(start: Start, vgpu: &Arc<Vgpu>) -> Self {
        let (mut ahead, mut bytes, mut entries) = (Vec::new(), 0_u64, 0);
        for (name, used) in &start.before().libraries {
            let Some(source) = name.source.as_ref().filter(|_| used.age == 0) else { continue };
            bytes = bytes.saturating_add(source.contents.iter().map(|(_, bytes)| *bytes).sum());
            entries += used.entries();
            if bytes > MOST_BYTES || entries > MOST_ENTRIES || ahead.len() >= MOST_LIBRARIES {
                break;
            }
            match Ahead::ask(vgpu, source, &JitOptions::none(), used.clone()) {
                Ok(asked) => {
                    vgpu.early.libraries().insert(asked.id());
                    ahead.push(asked);
                }
                // The link is gone, which the program's own calls say.
                Err(_) => break,
            }
        }
        // Behind the libraries: the first allocation waits for its block, and finds all of this here.
        let blocks = if start.is_first() { of_first_start(vgpu.snapshot.memory) } else { &start.before().blocks };
        let _ = vgpu.ask_blocks(blocks);
        let begun = Self { start: Arc::new(start), ahead: Mutex::new(ahead) };
        let _ = Self::hurry(vgpu);
        begun
    }

    /// The library of this source, once, if it was asked for.
    pub(crate) fn take(&self, vgpu: &Vgpu, source: &Source) -> Option<Ahead> {
        let mut ahead = lock(&self.ahead);
        let mut waiting = vgpu.early.libraries();
        ahead.retain(|ahead| ahead.is_for(vgpu) && waiting.contains(&ahead.id()));
        let at = ahead.iter().position(|ahead| ahead.source() == source)?;
        let brought = ahead.swap_remove(at);
        waiting.remove(&brought.id());
        Some(brought)
    }

    /// Asks about the kernels that are there by now, of all libraries at once.
    pub(crate) fn advance(&self, vgpu: &Arc<Vgpu>) -> CudaResult<()> {
        vgpu.connection.look();
        {
            let (mut ahead, waiting) = (lock(&self.ahead), vgpu.early.libraries());
            ahead.retain(|ahead| ahead.is_for(vgpu) && waiting.contains(&ahead.id()));
            ahead.iter_mut().try_for_each(|ahead| ahead.advance(vgpu))?;
        }
        Self::hurry(vgpu)
    }

    /// Sends what is asked, and has the answers read as they come.
    fn hurry(vgpu: &Vgpu) -> CudaResult<()> {
        vgpu.connection.flush()?;
        vgpu.connection.watch();
        Ok(())
    }
}
