//! The place of one vGPU: a server and the index of a GPU there. The user's text comes in. Server and index go out, or
//! an error that says what to write instead. It never resolves names.

use crate::error::SettingsError;

/// No server has so many GPUs. A larger number after a single colon was meant as a port.
const MOST_GPUS: u32 = 256;

/// The form of a device, for errors.
pub(crate) const FORM: &str = "write HOST:GPU, with a port HOST:PORT:GPU";

/// A server and one of its GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuAddress {
    /// The server as the transport reads addresses: `host`, `host:port`, `tcp://…`, `unix:///…`, `shm:///…`, `/…`.
    pub server: String,
    /// The GPU's index there.
    pub gpu: u32,
}

impl GpuAddress {
    /// Parses `HOST:GPU`, `HOST:PORT:GPU`, `unix:///path:GPU`, or a server alone, which means its GPU 0. `name` is the
    /// variable, key or flag of the text.
    ///
    /// # Errors
    /// [`SettingsError::Value`] saying what to write instead.
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingsError> {
        Self::read(text).map_err(|reason| SettingsError::Value {
            name: name.to_owned(),
            reason: reason.to_owned(),
            value: text.to_owned(),
            advice: FORM.to_owned(),
        })
    }

    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        const TOO_LARGE: &str = "the last number is too large for a GPU's index";
        // A bracketed IPv6 address ends in a bracket and so has no number after its last colon.
        let (server, gpu) = match text.rsplit_once(':') {
            Some((server, digits)) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                (server, digits.parse().map_err(|_| TOO_LARGE)?)
            }
            _ => (text, 0),
        };
        if server.is_empty() || server.ends_with("//") {
            return Err("no server before the GPU's index");
        }
        if gpu >= MOST_GPUS {
            return Err(TOO_LARGE);
        }
        Ok(Self { server: server.to_owned(), gpu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(String, u32), String> {
        GpuAddress::parse("FLOE_DEVICES", text)
            .map(|place| (place.server, place.gpu))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_is_read() {
        for (text, server, gpu) in [
            ("gpu1:2", "gpu1", 2),
            ("gpu1", "gpu1", 0),
            ("gpu1:14833:1", "gpu1:14833", 1),
            ("tcp://10.0.0.1:14833:0", "tcp://10.0.0.1:14833", 0),
            ("unix:///run/floe.sock:3", "unix:///run/floe.sock", 3),
            ("unix:///run/floe.sock", "unix:///run/floe.sock", 0),
            ("shm:///run/floe.sock:3", "shm:///run/floe.sock", 3),
            ("/run/floe.sock:1", "/run/floe.sock", 1),
            ("[::1]:14833:1", "[::1]:14833", 1),
            ("[::1]", "[::1]", 0),
        ] {
            assert_eq!(parse(text), Ok((server.to_owned(), gpu)), "{text}");
        }
    }

    #[test]
    fn a_port_without_gpu_is_explained() {
        assert_eq!(
            parse("gpu1:14833").expect_err("no index"),
            "FLOE_DEVICES: the last number is too large for a GPU's index: gpu1:14833\n  write HOST:GPU, with a port HOST:PORT:GPU"
        );
    }

    #[test]
    fn a_missing_server_is_refused() {
        assert!(parse(":1").is_err());
        assert!(parse("tcp://:1").is_err());
    }
}
