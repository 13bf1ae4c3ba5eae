//! Programs that share a GPU: they are started with their terms, run side by side for a while, and are asked in the same moment.
//! In: kinds of work and terms. Out: what each did in that time. A sum that is wrong is an error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bars::Way;
use crate::installation::Installation;
use crate::moving::Mover;
use crate::program::asked::{Asked, Done};
use crate::server::{Server, make_token};

/// Programs run so long before they are asked for the first time.
pub(super) const SETTLING: Duration = Duration::from_millis(700);
/// The kernel by which a kernel's time per iteration is found.
const CALIBRATING: u64 = 20_000;

/// What a program does all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Kernels of a millisecond.
    Single,
    /// Kernels of 0.1 ms.
    Short,
    /// Graphs of ten kernels of 0.1 ms.
    Graph,
    /// Kernels of a microsecond.
    Tiny,
    /// Kernels of 200 ms, one at a time.
    Long,
    /// A kernel of 50 us whose result it reads, and 5 ms of rest.
    Answer,
    /// A kernel of a microsecond 50 times a second.
    Idle,
    /// Kernels of a millisecond that fill a 64th of the GPU.
    Small,
}

/// A program: what it does, and its flags of `floe run`.
pub(super) type Tenant<'a> = (Kind, &'a [&'a str]);

/// What programs are started with.
#[derive(Debug)]
pub(super) struct Tenants<'a> {
    installation: &'a Installation,
    server: &'a Server,
    mover: Mover<'a>,
    program: PathBuf,
    way: Way,
    /// The token file of the user whose programs these are, who comes by sealed TCP: by a socket all are one user.
    token: Option<PathBuf>,
    blocks: u32,
    /// Iterations of a kernel of a millisecond.
    a_millisecond: u64,
    quick: bool,
    cpu_device: bool,
}

impl<'a> Tenants<'a> {
    /// Finds out how much work a millisecond is, on a GPU that does nothing else.
    ///
    /// # Errors
    /// When the program does not run.
    pub(super) fn new(
        installation: &'a Installation,
        server: &'a Server,
        way: Way,
        quick: bool,
        cpu_device: bool,
    ) -> Result<Self> {
        // Eight blocks of 256 threads for each of the 132 processors of the largest GPUs there are today: not one more fits.
        let blocks = if cpu_device { 1 } else { 1056 };
        let program = installation.bench_program("tenant")?;
        let mover = Mover::new(installation, server)?;
        let a_millisecond = CALIBRATING;
        let tenants =
            Self { installation, server, mover, program, way, token: None, blocks, a_millisecond, quick, cpu_device };
        let done = tenants.together(&[(Kind::Single, &[])], 1.0)?;
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let a_millisecond = (done[0].rate() * CALIBRATING as f64 / 1e3) as u64;
        ensure!(a_millisecond > 0, "no kernel was over within a second");
        Ok(Self { a_millisecond, ..tenants })
    }

    /// Whether a processor does a GPU's work.
    pub(super) fn is_cpu_device(&self) -> bool {
        self.cpu_device
    }

    /// The same programs on another server of the same GPU.
    ///
    /// # Errors
    /// When it has no GPU to ask.
    pub(super) fn on<'b>(&'b self, server: &'b Server) -> Result<Tenants<'b>> {
        let mover = Mover::new(self.installation, server)?;
        Ok(Tenants { server, mover, program: self.program.clone(), token: None, ..*self })
    }

    /// The same programs of the user with this token file.
    ///
    /// # Errors
    /// When the server has no GPU to ask.
    pub(super) fn of_user(&self, token: PathBuf) -> Result<Tenants<'_>> {
        Ok(Tenants { token: Some(token), ..self.on(self.server)? })
    }

    /// The token file of a user, for a server that starts in this folder later.
    ///
    /// # Errors
    /// When none is made.
    pub(super) fn token(&self, folder: &Path, name: &str) -> Result<PathBuf> {
        make_token(self.installation, folder, name)
    }

    /// A server of the same GPU with more flags, whose files are in this folder.
    ///
    /// # Errors
    /// When it does not listen.
    pub(super) fn server(&self, library: &str, folder: &Path, flags: &[&str]) -> Result<Server> {
        Server::start_with(self.installation, library, folder, flags)
    }

    /// `floe run` with flags, and the words behind them.
    pub(super) fn command(&self, flags: &[&str], words: &[PathBuf]) -> Command {
        let mut command = Command::new(self.installation.floe());
        let device = if self.token.is_some() { self.server.by_tcp("tcp") } else { self.server.device(self.way) };
        command.args(["run", "--on", &device]).args(flags).arg("--").args(words);
        self.server.give_token(&mut command);
        if let Some(token) = &self.token {
            command.env("FLOE_TOKEN_FILE", token);
        }
        command
    }

    /// A measured program of the installation.
    ///
    /// # Errors
    /// When it is missing.
    pub(super) fn program(&self, name: &str) -> Result<PathBuf> {
        self.installation.bench_program(name)
    }

    /// Starts a program.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn start(&self, (kind, flags): Tenant<'_>) -> Result<Asked> {
        let millisecond = self.a_millisecond;
        let (mode, iterations, each, pause) = match kind {
            Kind::Single => ("single", millisecond, 16, 0),
            Kind::Short => ("single", millisecond / 10, 160, 0),
            Kind::Graph => ("graph", millisecond / 10, 160, 0),
            Kind::Tiny => ("single", millisecond / 1000, 1000, 0),
            Kind::Long => ("single", millisecond * 200, 1, 0),
            Kind::Answer => ("answer", millisecond / 20, 1, 5000),
            Kind::Idle => ("answer", millisecond / 1000, 1, 20_000),
            Kind::Small => ("single", millisecond, 16, 0),
        };
        let blocks = if kind == Kind::Small { self.blocks.div_ceil(64) } else { self.blocks };
        let numbers = [u64::from(blocks), iterations.max(1), each, pause].map(|number| number.to_string().into());
        let words: Vec<PathBuf> = [self.program.clone(), mode.into()].into_iter().chain(numbers).collect();
        Asked::start(self.command(flags, &words))
    }

    /// Has programs run side by side for so many seconds, a tenth of them in a quick run; what each did.
    ///
    /// # Errors
    /// When one fails, or its sum is wrong.
    pub(super) fn together(&self, tenants: &[Tenant<'_>], seconds: f64) -> Result<Vec<Done>> {
        self.beside(tenants.iter().map(|tenant| self.start(*tenant)).collect::<Result<Vec<_>>>()?, seconds)
    }

    /// The same for programs that were started already.
    ///
    /// # Errors
    /// When one fails, or its sum is wrong.
    pub(super) fn beside(&self, mut programs: Vec<Asked>, seconds: f64) -> Result<Vec<Done>> {
        std::thread::sleep(SETTLING);
        let done = self.window(&mut programs, seconds)?;
        // All are told to end first: who waits for one while another is busy waits longer.
        programs.into_iter().try_for_each(ended)?;
        Ok(done)
    }

    /// What running programs do within so many seconds.
    ///
    /// # Errors
    /// When one has ended.
    pub(super) fn window(&self, programs: &mut [Asked], seconds: f64) -> Result<Vec<Done>> {
        asked(programs)?;
        let before = self.mover.gpu_time()?;
        std::thread::sleep(Duration::from_secs_f64(if self.quick { seconds / 10.0 } else { seconds }));
        let after = self.mover.gpu_time()?;
        let mut done = asked(programs)?;
        for (done, (before, after)) in done.iter_mut().zip(before.into_iter().zip(after)) {
            let [had, of] = [0, 1].map(|which| after[which].saturating_sub(before[which]));
            #[allow(clippy::cast_precision_loss, reason = "milliseconds of a run")]
            let part = had as f64 / of as f64;
            done.had = (of > 0).then_some(part);
        }
        Ok(done)
    }

    /// Kernels a second of a program that has the GPU to itself, without terms.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn alone(&self, kind: Kind) -> Result<f64> {
        let done = self.together(&[(kind, &[])], if kind == Kind::Long { 4.0 } else { 2.0 })?;
        let rate = done[0].rate();
        ensure!(rate > 0.0, "nothing was done by a program that was alone");
        Ok(rate)
    }
}

fn asked(programs: &mut [Asked]) -> Result<Vec<Done>> {
    programs.iter_mut().try_for_each(Asked::request)?;
    programs.iter_mut().map(Asked::done).collect()
}

/// Ends a program, which checks its sum.
///
/// # Errors
/// When it was wrong.
pub(super) fn ended(program: Asked) -> Result<()> {
    let last = program.end().context("a program among others")?;
    ensure!(last.starts_with("right "), "its sum was not right: {last}");
    Ok(())
}
