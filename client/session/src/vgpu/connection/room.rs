//! The wait for room on a GPU, by a request that has asked for a quota.
//! In: news of the server. Out: the reply's body; lines on stderr when that takes longer than a second.
//! It waits no longer than the user said, whatever the server says.

use std::io::Write as _;
use std::time::{Duration, Instant};

use floe_wire::{Attach, Waiting};

use super::error::ConnectError;
use super::handshake::{ATTACH, ATTACHING, Dialogue};
use crate::settings::WantedDevice;

/// What a server says to a request.
pub(super) enum Heard {
    /// The reply's body.
    Reply(Vec<u8>),
    /// The request waits for room.
    Waiting(Waiting),
}

impl Dialogue<'_> {
    /// Sends Attach and waits for its reply's body: for room as long as the user said, and then for the session.
    pub(super) fn ask_for_room(
        &mut self,
        message: &Attach<'_>,
        wanted: &WantedDevice,
        wait: Duration,
    ) -> Result<Vec<u8>, ConnectError> {
        let sequence = self.link.send(message).map_err(|source| self.broken(source))?;
        let until = Instant::now() + wait + ATTACH;
        let mut told = None;
        loop {
            let limit = until.saturating_duration_since(Instant::now()).min(ATTACH);
            match self.hear(sequence, ATTACHING, limit)? {
                Heard::Reply(body) => return Ok(body),
                Heard::Waiting(news) if told.as_ref() == Some(&news) => {}
                Heard::Waiting(news) => {
                    // A closed stderr is the program's wish: there is nobody left to tell.
                    let _ = std::io::stderr().write_all(line(&news, wanted).as_bytes());
                    told = Some(news);
                }
            }
        }
    }
}

/// A line about a wait.
fn line(news: &Waiting, wanted: &WantedDevice) -> String {
    let (gpu, server) = (wanted.place.gpu, &wanted.place.server);
    let [asked, free] = [news.memory, news.guarantee].map(|bytes| bytes >> 20);
    let ahead = news.ahead;
    format!(
        "floe: waiting for {asked} MiB on GPU {gpu} of {server}: free for a guarantee {free} MiB, requests ahead: {ahead}\n"
    )
}

#[cfg(test)]
mod tests {
    use floe_settings::GpuAddress;

    use super::*;

    #[test]
    fn a_line_says_how_much_is_asked_how_much_is_free_and_who_is_ahead() {
        let place = GpuAddress { server: "h".to_owned(), gpu: 1 };
        let wanted = WantedDevice { place, memory: 8 << 30, share: 0, twin: 0 };
        let news = Waiting { ahead: 2, memory: 8 << 30, guarantee: 3 << 30 };
        assert_eq!(
            line(&news, &wanted),
            "floe: waiting for 8192 MiB on GPU 1 of h: free for a guarantee 3072 MiB, requests ahead: 2\n"
        );
    }
}
