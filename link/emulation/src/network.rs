//! The emulated network, as people write it: `--rtt 100us --bandwidth 10Gb/s`.
//! In: flags. Out: a round-trip time and a bandwidth, or the mistake in the text.

use std::time::Duration;

use thiserror::Error;

/// A network between client and server: the flags of every command that emulates one.
#[derive(Clone, Copy, Debug, Default, PartialEq, clap::Args)]
pub struct Network {
    /// The time from a byte's departure to its answer's arrival, without the server's own. `None`: as short as possible
    /// here.
    #[arg(
        long = "rtt",
        value_name = "TIME",
        value_parser = Self::parse_round_trip,
        help = "Emulate a network of this round-trip time to servers reached by TCP: 100us, 2ms"
    )]
    pub round_trip: Option<Duration>,
    /// Bytes per second in each direction. `None`: as fast as this machine's own network.
    #[arg(
        long = "bandwidth",
        value_name = "RATE",
        value_parser = Self::parse_bandwidth,
        help = "Emulate a network of this bandwidth to servers reached by TCP: 10Gb/s for bits, 1.25GB/s for bytes"
    )]
    pub bytes_per_second: Option<f64>,
}

/// Text that is not a network.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NetworkError {
    /// The round-trip time.
    #[error("not a round-trip time: {0}\n  write it with a unit, at most 10 s: 100us, 2ms")]
    RoundTrip(String),
    /// The bandwidth.
    #[error("not a bandwidth: {0}\n  write it with a unit: 10Gb/s for bits, 1.25GB/s for bytes")]
    Bandwidth(String),
}

impl Network {
    /// Whether it differs from this machine's own.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        *self != Self::default()
    }

    /// Parses a round-trip time with its unit, at most ten seconds.
    ///
    /// # Errors
    /// [`NetworkError::RoundTrip`].
    pub fn parse_round_trip(text: &str) -> Result<Duration, NetworkError> {
        let parsed = humantime::parse_duration(text).ok();
        let wrong = || NetworkError::RoundTrip(text.to_owned());
        parsed.filter(|time| *time <= Duration::from_secs(10)).ok_or_else(wrong)
    }

    /// Parses a bandwidth in bits (`10Gb/s`, `10Gbit/s`) or bytes (`1.25GB/s`) per second, with decimal prefixes.
    /// Returns bytes per second.
    ///
    /// # Errors
    /// [`NetworkError::Bandwidth`].
    pub fn parse_bandwidth(text: &str) -> Result<f64, NetworkError> {
        let wrong = || NetworkError::Bandwidth(text.to_owned());
        let rate = text.trim().strip_suffix("/s").or_else(|| text.trim().strip_suffix("ps")).ok_or_else(wrong)?;
        let (rate, of_a_byte) =
            match (rate.strip_suffix("bit").or_else(|| rate.strip_suffix('b')), rate.strip_suffix('B')) {
                (Some(bits), _) => (bits, 1.0 / 8.0),
                (None, Some(bytes)) => (bytes, 1.0),
                (None, None) => return Err(wrong()),
            };
        let (number, scale) = match rate.trim_end().char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&rate[..at], 1e3),
            Some((at, 'M')) => (&rate[..at], 1e6),
            Some((at, 'G')) => (&rate[..at], 1e9),
            Some((at, 'T')) => (&rate[..at], 1e12),
            _ => (rate, 1.0),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let bytes = number * scale * of_a_byte;
        // Below a kilobyte per second not even a session begins within its deadlines.
        if bytes.is_finite() && bytes >= 1e3 { Ok(bytes) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        network: Network,
    }

    fn parsed(flags: &[&str]) -> Result<Network, clap::Error> {
        Command::try_parse_from(std::iter::once(&"floe").chain(flags)).map(|command| command.network)
    }

    #[test]
    fn flags_are_a_network_and_none_is_asked_for_without_them() {
        let of = |flags: &[&str]| parsed(flags).expect("known flags");
        let network = Network { round_trip: Some(Duration::from_millis(2)), bytes_per_second: Some(1.25e9) };
        assert_eq!(of(&["--rtt", "2ms", "--bandwidth", "10Gb/s"]), network);
        assert!(of(&["--rtt", "0s"]).is_asked_for() && of(&["--bandwidth", "10Gb/s"]).is_asked_for());
        assert!(!of(&[]).is_asked_for());
        assert!(parsed(&["--rtt", "2"]).is_err_and(|error| error.to_string().contains("with a unit")));
    }

    #[test]
    fn bits_and_bytes_are_told_apart() {
        for (text, bytes) in [
            ("10Gb/s", 1.25e9),
            ("10 Gbit/s", 1.25e9),
            ("10Gbps", 1.25e9),
            ("1.25GB/s", 1.25e9),
            ("400 Mb/s", 5e7),
            ("8000b/s", 1e3),
        ] {
            assert_eq!(Network::parse_bandwidth(text), Ok(bytes), "{text}");
        }
        for text in ["10", "10G", "Gb/s", "-1Gb/s", "0b/s", "infGb/s", "10Xb/s", "10é/s", ""] {
            assert_eq!(Network::parse_bandwidth(text), Err(NetworkError::Bandwidth(text.into())), "{text}");
        }
    }

    #[test]
    fn a_round_trip_has_a_unit_and_an_end() {
        assert_eq!(Network::parse_round_trip("100us"), Ok(Duration::from_micros(100)));
        for text in ["100", "1h", "", "fast"] {
            assert!(Network::parse_round_trip(text).is_err(), "{text}");
        }
    }
}
