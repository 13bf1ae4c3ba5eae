//! The developers' one door: every command that builds, generates or checks this repository. Arguments come in from
//! `cargo xtask`, files of the repository go out. It never runs as part of floe itself.
#![forbid(unsafe_code)]

mod apt;
mod bench;
mod check;
mod dist;
mod examples;
mod fuzz;
mod generate;
mod header;
mod pack;
mod package;
mod test;
mod toolchain;

use anyhow::Result;
use clap::{Parser, Subcommand};

use package::Kind;

#[derive(Parser)]
#[command(name = "xtask", about = "floe's developer commands")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the generated code from the call table
    Gen {
        /// Only compare the committed files with the table; fail when one is stale
        #[arg(long)]
        check: bool,
    },
    /// Writes api/versions.txt from NVIDIA's public cudaTypedefs.h
    GenVersions {
        /// Path of cudaTypedefs.h
        header: std::path::PathBuf,
    },
    /// Checks rules that no compiler checks
    Check {
        #[command(subcommand)]
        what: check::Check,
    },
    /// Compares the exported functions' arguments with NVIDIA's cuda.h
    CheckHeader,
    /// Builds everything in release and writes an installation to target/dist
    Dist {
        /// Build for shipping, in target/shipped: optimized across crates, stripped, without paths of this machine
        #[arg(long)]
        shipping: bool,
    },
    /// Builds an installation for shipping and packs it as a Debian or RPM package, or as a Python wheel, in target/package
    Package {
        /// Pack a wheel, which pip installs
        #[arg(long, conflicts_with = "rpm")]
        wheel: bool,
        /// Pack an RPM package, by rpmbuild
        #[arg(long)]
        rpm: bool,
        /// Pack the installation of `cargo xtask dist` instead: sooner there, larger, with paths of this machine
        #[arg(long)]
        dist: bool,
    },
    /// Builds an installation and runs `floe demo` from it
    Demo,
    /// Fetches nvcc, builds the example programs, runs every test that needs no GPU
    Test,
    /// Builds the example programs only
    Examples,
    /// Measures the CPU device and the path to it
    Bench {
        /// Only write target/bench: a portable folder that measures floe on a machine with a GPU
        #[arg(long, conflicts_with = "gpu")]
        pack: bool,
        /// Measure on this machine's GPU instead; flags after `--` go to `floe-bench speed`
        #[arg(long)]
        gpu: bool,
        /// Flags of `floe-bench speed`
        #[arg(last = true, requires = "gpu")]
        flags: Vec<String>,
    },
    /// Fuzzes the code that decodes, lowers and runs foreign bytes
    Fuzz {
        /// Seconds for each target
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// Use the address sanitizer: slower, and detects accesses outside of allocations
        #[arg(long)]
        address: bool,
        /// Only these targets
        targets: Vec<String>,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Gen { check } => generate::run(check),
        Command::GenVersions { header } => generate::calls::versions::write(&header),
        Command::Check { what } => check::run(&what),
        Command::CheckHeader => header::check(),
        Command::Dist { shipping: true } => dist::ship().map(|folder| println!("{}", folder.display())),
        Command::Dist { shipping: false } => dist::dist().map(|folder| println!("{}", folder.display())),
        Command::Package { wheel, rpm, dist } => {
            let installation = if dist { dist::dist() } else { dist::ship() };
            let kind = match (wheel, rpm) {
                (true, _) => Kind::Wheel,
                (false, true) => Kind::Rpm,
                (false, false) => Kind::Debian,
            };
            package::package(&installation?, kind).map(|package| println!("{}", package.display()))
        }
        Command::Demo => dist::demo(),
        Command::Test => test::test(),
        Command::Examples => test::example_programs(),
        Command::Bench { pack: true, .. } => pack::pack().map(|folder| println!("{}", folder.display())),
        Command::Bench { gpu: true, flags, .. } => pack::measure(&flags),
        Command::Bench { .. } => bench::bench(),
        Command::Fuzz { seconds, address, targets } => fuzz::fuzz(&fuzz::Fuzzing { seconds, targets, address }),
    }
}
