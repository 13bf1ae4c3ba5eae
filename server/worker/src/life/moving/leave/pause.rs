//! The time in which the program stands.
//! In: a session that runs. Out: one that stands with nothing under way, whose link is left, and what it is made of; then it
//! goes on, or never does again. Nothing of it is given up here: going on is always possible.

use std::sync::Arc;
use std::time::{Duration, Instant};

use floe_device::Device;

use super::Session;
use super::off::Off;
use crate::issue::errands::Parked;
use crate::issue::issuer::Issuer;
use crate::life::moving::words::{Contents, Last, UNTAKEN, Untaken, Variable};
use crate::life::parking::ParkedLink;

/// Pause between two looks whether everything is over; the first ones are shorter.
const LOOK: Duration = Duration::from_millis(1);
const FIRST_LOOK: Duration = Duration::from_micros(20);
/// The longest time for what a standing session does by itself.
const STANDING: Duration = Duration::from_secs(60);

/// A session that stands. Dropped, it goes on, unless its link stands too.
pub(super) struct Pause<'a, D: Device> {
    session: &'a Session<'a, D>,
    parked: Option<Parked<Issuer<D>>>,
    link: Option<ParkedLink>,
}

/// The last state, and the bytes behind its word.
pub(super) struct LastState {
    pub(super) word: Last,
    pub(super) bodies: Vec<Vec<u8>>,
}

impl<'a, D: Device> Pause<'a, D> {
    /// Has the issuer stand at its next border.
    pub(super) fn begin(session: &'a Session<'a, D>, deadline: Instant) -> Result<Self, Off> {
        let parked = session.errands.park(deadline)?;
        Ok(Self { session, parked: Some(parked), link: None })
    }

    /// Has the standing issuer do something.
    fn call<T: Send + 'static>(&self, errand: impl FnOnce(&mut Issuer<D>) -> T + Send + 'static) -> Result<T, Off> {
        let parked = self.parked.as_ref().ok_or_else(|| Off::Ended("the session goes on".into()))?;
        Ok(parked.call(Instant::now() + STANDING, errand)?)
    }

    /// Waits until everything that was issued is over, and the client was told.
    pub(super) fn drain(&self, deadline: Instant) -> Result<(), Off> {
        let failed = Off::device("the session's work failed");
        self.call(Issuer::begin_drain)?.map_err(&failed)?;
        let mut look = FIRST_LOOK;
        while let Some(left) = self.call(Issuer::left_of_drain)?.map_err(&failed)? {
            if Instant::now() >= deadline {
                return Err(Off::NotNow(left.to_string()));
            }
            std::thread::sleep(look);
            look = LOOK.min(look * 2);
        }
        if let Some(error) = self.call(|issuer| issuer.context_error())? {
            return Err(failed(error));
        }
        // What kernels have printed, and changed in mirrored memory, leaves ahead of the session.
        let shared = self.session.shared;
        let told = shared.show_printed(true).and_then(|()| shared.mirrors.tell(&shared.sender));
        told.map_err(|error| Off::Ended(error.to_string()))
    }

    /// Has the readers rest and the link stand still. Returns all that is not memory, and not an object.
    pub(super) fn stop_link(&mut self, deadline: Instant) -> Result<LastState, Off> {
        let link = self.session.parking.park_link(deadline)?;
        let image = link.taken.image.encode();
        let last_transfer = link.last_transfer;
        let descriptor = self.offer_untaken(&link)?;
        self.link = Some(link);
        let unissued = self.call(Issuer::unissued)?;
        let (functions, times) = self.call(|issuer| (issuer.functions_given_up(), issuer.event_times()))?;
        let times = times.map_err(Off::device("asking when events were recorded"))?;
        let mut word = Last {
            failure: self.session.shared.failures.peek(),
            given_up: functions,
            times,
            last_transfer,
            descriptor,
            link: image.len() as u64,
            ..Last::default()
        };
        let mut bodies = vec![image];
        for command in unissued {
            word.unissued.push((command.sequence, command.kind, command.payload.len() as u64));
            bodies.push(command.payload);
        }
        Ok(LastState { word, bodies })
    }

    /// Offers a descriptor of the client's that no command has taken, where there is one.
    fn offer_untaken(&self, link: &ParkedLink) -> Result<Option<Untaken>, Off> {
        let shared = self.session.shared;
        let command = floe_lock::lock(&shared.descriptor);
        let (file, at) = match (&link.taken.descriptor, &*command) {
            (Some(_), Some(_)) => return Err(Off::NotNow("two descriptors of the client's are on their way".into())),
            (Some(file), None) => (file, Untaken::Link),
            (None, Some(file)) => (file, Untaken::Command),
            (None, None) => return Ok(None),
        };
        let file = file.try_clone().map_err(|error| Off::Ended(format!("a descriptor of the client's: {error}")))?;
        shared.hub.offer_file(UNTAKEN, file);
        Ok(Some(at))
    }

    /// The bytes of what is not memory of blocks, beside arrays.
    pub(super) fn contents(&self, variables: &Arc<Vec<Variable>>) -> Result<Vec<(Contents, Vec<u8>)>, Off> {
        let variables = Arc::clone(variables);
        let contents = self.call(move |issuer| issuer.variables_and_mirrors(&variables))?;
        contents.map_err(Off::device("reading variables"))
    }

    /// The bytes of slices of arrays, from this one on: so many together. Empty: there is none. An array may be larger than what
    /// this process may have of host memory.
    pub(super) fn slices(&self, from: usize, most: usize) -> Result<Vec<(Contents, Vec<u8>)>, Off> {
        let slices = self.call(move |issuer| issuer.slices_of_arrays(from, most))?;
        slices.map_err(Off::device("reading arrays"))
    }

    /// One number for all of the session's tables.
    pub(super) fn digest(&self) -> Result<[u8; 32], Off> {
        self.call(|issuer| issuer.digest())
    }

    /// The session goes on here.
    pub(super) fn go_on(mut self) -> Result<(), Off> {
        if let Some(link) = self.link.take() {
            self.session.parking.unpark(link).map_err(|error| Off::Lost(error.to_string()))?;
        }
        Ok(())
    }

    /// The session never goes on here.
    pub(super) fn stay(mut self) {
        // Its issuer stands until the process ends.
        std::mem::forget(self.parked.take());
    }
}
