//! How this machine's TCP treats connections that pause, for `floe doctor`. The kernel's setting comes in, a finding goes out:
//! what a client or server on this machine sends to a far one is slow after each pause. It changes nothing.

use super::finding::{Finding, Weight};

/// The setting, of this process's network namespace.
const SETTING: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
/// Segments of the window that a connection begins with (RFC 6928), and bytes of one in Ethernet frames of 1,500.
const INITIAL_WINDOW: (u32, u32) = (10, 1448);

/// The finding; `None` where the setting cannot be read.
pub(super) fn finding() -> Option<Finding> {
    of_setting(&std::fs::read_to_string(SETTING).ok()?)
}

fn of_setting(value: &str) -> Option<Finding> {
    let what = "far connections";
    match value.trim() {
        "0" => Some(Finding::new(
            Weight::Good,
            what,
            "TCP keeps its speed through pauses (tcp_slow_start_after_idle is 0)",
        )),
        "1" => {
            let (segments, bytes) = INITIAL_WINDOW;
            let words = format!(
                "TCP slows down in pauses (tcp_slow_start_after_idle is 1): this machine then sends as little as {} KiB in \
                 the first round trip, as client and as server\n  \
                 where the other side is far: sysctl net.ipv4.tcp_slow_start_after_idle=0, on both machines",
                segments * bytes / 1024
            );
            Some(Finding::new(Weight::Note, what, words))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_shrinks_is_noted_with_its_figure_and_the_way_out() {
        let found = of_setting("1\n").expect("a finding");
        assert_eq!(found.weight, Weight::Note);
        assert!(
            found.text.contains("tcp_slow_start_after_idle is 1") && found.text.contains("14 KiB"),
            "{}",
            found.text
        );
        let advice = found.advice.expect("a way out");
        assert!(advice.contains("sysctl net.ipv4.tcp_slow_start_after_idle=0"), "{advice}");
    }

    #[test]
    fn a_window_that_stays_is_good_and_what_cannot_be_read_is_no_finding() {
        let found = of_setting("0\n").expect("a finding");
        assert_eq!((found.weight, found.advice), (Weight::Good, None));
        assert_eq!([of_setting(""), of_setting("2"), of_setting("on")], [None, None, None]);
    }
}
