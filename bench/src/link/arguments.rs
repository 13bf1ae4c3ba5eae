//! Flags of `floe bench link`: words of the command line come in, checked values go out.
//! It starts nothing and reaches no server.

use std::path::PathBuf;

use floe_emulation::Network;

/// Flags of `floe bench link`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A GPU to reach: tcp://HOST[:PORT][:GPU] (or clear://, tls://) or unix:///PATH[:GPU]; may be given several times. Without
    /// it: a server of this command's own on this machine, by every transport, over TCP in the clear, sealed and by TLS
    #[arg(long, value_name = "ADDRESS")]
    pub(super) on: Vec<String>,
    #[command(flatten)]
    pub(super) network: Network,
    /// The largest copy: bytes, or with K, M, G; with --quick 256M is the default
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1G",
        default_value_if("quick", "true", "256M"),
        value_parser = bytes
    )]
    pub(super) largest: u64,
    /// Keep each measurement short: about a minute and a half in all
    #[arg(long)]
    pub(super) quick: bool,
    /// Leave out the measurement without floe
    #[arg(long)]
    pub(super) no_native: bool,
    /// Draw the curves into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Write what was measured into this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Device library of this command's own server: auto, nvidia, cpu, or the path of a libcuda.so.1
    #[arg(long, value_name = "LIBRARY", default_value = "auto")]
    pub(super) device_library: String,
}

fn bytes(text: &str) -> Result<u64, String> {
    floe_size::bytes(text).ok_or_else(|| "bytes, or with K, M, G, T".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_quick_measurement_ends_with_smaller_copies_unless_others_are_asked_for() {
        let largest = |flags: &[&str]| {
            let flags = std::iter::once("link").chain(flags.iter().copied());
            Command::try_parse_from(flags).map(|command| command.arguments.largest).expect("known flags")
        };
        assert_eq!(largest(&[]), 1 << 30);
        assert_eq!(largest(&["--quick"]), 256 << 20);
        assert_eq!(largest(&["--quick", "--largest", "64K"]), 64 << 10);
    }
}
