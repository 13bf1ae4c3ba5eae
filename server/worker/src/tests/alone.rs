//! A session without threads of its own: its parts, for tests that read and carry out by themselves.
//! In: a device and a budget. Out: the parts, over a socket pair.

use floe_device::Costs;
use floe_transport::{Expected, Receiver, Spin, Stripes, Transfers};

use super::*;
use crate::complete::completer::Completer;
use crate::complete::printing::Printing;
use crate::issue::host_functions::HostFunctions;
use crate::issue::issuer::{Allowance, Issuer};
use crate::life::recording::Recording;
use crate::life::shared::Shared;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::memory::transfer_buffers::Uploads;
use crate::memory::window::{Window, Windows};
use crate::peer::collective::Collectives;
use crate::peer::hub::Hub;
use crate::peer::link::table::Links;
use crate::wire_in::queue::Queue;
use crate::wire_in::reader::Reader;

/// The parts.
pub(super) struct Alone {
    pub(super) client: UnixStream,
    pub(super) receiver: Receiver,
    pub(super) reader: Reader<Fake>,
    pub(super) issuer: Issuer<Fake>,
    pub(super) shared: Arc<Shared<Fake>>,
}

impl Alone {
    pub(super) fn on(device: Arc<Fake>, budget: &Budget) -> Self {
        let (client, ours) = UnixStream::pair().unwrap();
        let (sender, receiver) = Link::new(ours.into()).split();
        let shared = Arc::new(Shared {
            hub: Arc::new(Hub::alone(Arc::default(), budget)),
            device,
            sender,
            stripes: Stripes::default(),
            transfers: Transfers::new(Spin::default()),
            failures: Default::default(),
            output: Output::none(),
            printing: Printing::default(),
            queue: Queue::new(buffer_bytes().commands, 1 << 30, Spin::default(), Expected::default()),
            log: Log::nowhere(),
            mirrors: crate::memory::mirrors::Mirrors::new(MIRRORED, budget),
            descriptor: Default::default(),
            links: Links::new(budget),
            collectives: Collectives::new(None, false, 0, &Budget::default()),
            recording: Recording::new(None, budget),
            turn: Default::default(),
            client: Default::default(),
            carried: Default::default(),
        });
        let (_, _, tasks) = Completer::new(Arc::clone(&shared), Spin::default());
        let functions = Arc::new(HostFunctions::default());
        let uploads = Uploads::new(buffer_bytes().upload, budget);
        let windows = Windows::new(Window::of(0).unwrap());
        let ledger = Ledger::new(0, Costs::default(), Arc::default(), None);
        let (granularity, budget) = (BLOCK, budget.clone());
        let buffers = buffer_bytes();
        let allowance = Allowance { windows, ledger, budget, granularity, shared_memory: SHARED, buffers };
        let reader =
            Reader { shared: Arc::clone(&shared), functions: Arc::clone(&functions), uploads: Arc::clone(&uploads) };
        let issuer = Issuer::new(Arc::clone(&shared), tasks, functions, uploads, allowance, None, Spin::default());
        Self { client, receiver, reader, issuer, shared }
    }
}
