//! The wait for room on a GPU, by a request that has asked for a quota or a share.
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
    let ahead = news.ahead;
    let [memory, guarantee] = [news.memory, news.guarantee].map(|bytes| format!("{} MiB", bytes >> 20));
    let [share, free_share] = [news.share, news.free_share].map(floe_size::percent);
    let (asked, free) = match (news.memory, news.share) {
        (_, 0) => (memory, format!("for a guarantee {guarantee}")),
        (0, _) => (format!("{share} of the time"), free_share),
        _ => (
            format!("{memory} and {share} of the time"),
            format!("for a guarantee {guarantee}, of the time {free_share}"),
        ),
    };
    format!("floe: waiting for {asked} on GPU {gpu} of {server}: free {free}, requests ahead: {ahead}\n")
}

#[cfg(test)]
mod tests {
    use floe_settings::GpuAddress;

    use super::*;

    #[test]
    fn a_line_says_how_much_is_asked_how_much_is_free_and_who_is_ahead() {
        let place = GpuAddress { server: "h".to_owned(), gpu: 1 };
        let wanted = WantedDevice { place, memory: 8 << 30, share: 0, twin: 0 };
        for (memory, share, expected) in [
            (8 << 30, 0, "8192 MiB on GPU 1 of h: free for a guarantee 3072 MiB"),
            (0, 250, "25% of the time on GPU 1 of h: free 10%"),
            (
                8 << 30,
                250,
                "8192 MiB and 25% of the time on GPU 1 of h: free for a guarantee 3072 MiB, of the time 10%",
            ),
        ] {
            let news = Waiting { ahead: 2, memory, guarantee: 3 << 30, share, free_share: 100 };
            assert_eq!(line(&news, &wanted), format!("floe: waiting for {expected}, requests ahead: 2\n"));
        }
    }
}
