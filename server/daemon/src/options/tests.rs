//! The settings that follow from made-up flags and files.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::authority::Authority;
use super::*;

/// No environment, and a file of settings at `/etc/floe/floe.toml`.
#[derive(Debug)]
struct Machine(&'static str);

impl Source for Machine {
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        let is_there = path == Path::new("/etc/floe/floe.toml");
        if is_there { Ok(self.0.to_owned()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

type Flag<'a> = (&'static str, &'a str);

fn with_file(file: &'static str, flags: &[Flag<'_>]) -> Result<Settings, DaemonError> {
    let flags = ServerFlags(flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect());
    Settings::of(&Options { flags, ..Options::default() }, &Handed::default(), &Machine(file))
}

fn settings(flags: &[Flag<'_>]) -> Result<Settings, DaemonError> {
    with_file("", flags)
}

fn understood(flags: &[Flag<'_>]) -> Settings {
    settings(flags).expect("understood")
}

const YES: &str = "yes";

#[test]
fn ids_of_workers_are_a_range_and_stand_not_beside_mps() {
    assert_eq!(understood(&[]).worker_ids, None);
    let ids =
        |flags: &[Flag<'_>]| settings(flags).map(|settings| settings.worker_ids).map_err(|error| error.to_string());
    let range = ("worker_ids", "600000-600063");
    assert_eq!(ids(&[range]).map(|ids| ids.map(|ids| ids.to_string())), Ok(Some("600000-600063".to_owned())));
    let refused = |flags: &[Flag<'_>]| ids(flags).expect_err("refused");
    assert!(refused(&[range, ("mps", YES)]).starts_with("--worker-ids 600000-600063: NVIDIA's MPS"));
    assert!(refused(&[("worker_ids", "0-63")]).starts_with("--worker-ids 0-63: ids for workers are from 1000"));
}

#[test]
fn an_open_address_without_a_token_is_refused() {
    let open = [("listen", "tcp://0.0.0.0:1"), ("no_token", YES)];
    assert!(matches!(settings(&open), Err(DaemonError::Insecure(_))));
    assert_eq!(understood(&[&open[..], &[("insecure", YES)]].concat()).token_file, None);
}

#[test]
fn tls_only_wants_a_certificate_and_nothing_beside_it() {
    assert!(matches!(settings(&[("tls_only", YES)]), Err(DaemonError::NoCertificate)));
    assert!(matches!(settings(&[("tls_certificate", "/certificate.pem")]), Err(DaemonError::Tls(_))));
    for other in ["tls_optional", "clear_text"] {
        let both = with_file("[server]\ntls-only = true", &[(other, YES)]);
        assert!(matches!(both, Err(DaemonError::TlsOnly(_))), "{other}");
    }
}

#[test]
fn with_a_certificate_others_than_loopback_are_served_by_tls_only_unless_the_operator_says_otherwise() {
    let authority = Authority::new();
    let [certificate, key] = authority.sign("localhost").map(|path| path.display().to_string());
    let authorities = authority.file().display().to_string();
    let tls_only = |address: &str, more: &[Flag<'_>]| {
        let flags = [("listen", address), ("tls_certificate", &certificate), ("tls_key", &key)];
        understood(&[&flags[..], more].concat()).tls_only
    };
    assert!(tls_only("tcp://0.0.0.0:1", &[]));
    assert!(!tls_only("tcp://127.0.0.1:1", &[]));
    assert!(!tls_only("tcp://0.0.0.0:1", &[("tls_optional", YES)]));
    assert!(!tls_only("tcp://0.0.0.0:1", &[("clear_text", YES)]));
    assert!(tls_only("tcp://0.0.0.0:1", &[("tls_optional", YES), ("tls_client_authorities", &authorities)]));
    assert!(!understood(&[("listen", "tcp://0.0.0.0:1")]).tls_only, "there is no certificate");
}

#[test]
fn clear_text_is_allowed_where_the_operator_says_so_or_there_is_nothing_to_seal_by() {
    assert!(!understood(&[]).clear_text);
    assert!(understood(&[("clear_text", YES)]).clear_text);
    assert!(understood(&[("no_token", YES)]).clear_text);
}

#[test]
fn loopback_may_go_without_a_token() {
    for address in ["127.0.0.1:1", "tcp://[::1]:1", "localhost"] {
        assert_eq!(understood(&[("listen", address), ("no_token", YES)]).token_file, None, "{address}");
    }
}

#[test]
fn the_default_is_loopback_with_a_token() {
    let settings = understood(&[]);
    assert!(settings.tcp.len() == 1 && settings.tcp.iter().all(is_loopback));
    assert_eq!(settings.token_file, Some("/etc/floe/token".into()));
}

#[test]
fn modules_are_cached_unless_the_limit_is_zero() {
    let place = |limit| understood(&[("module_cache", "/somewhere"), ("module_cache_limit", limit)]).module_cache;
    assert_eq!(place("4G"), Some(CachePlace { folder: "/somewhere".into(), limit: 4 << 30 }));
    assert_eq!(place("0"), None);
    assert!(settings(&[("module_cache_limit", "much")]).is_err());
}

#[test]
fn host_memory_is_shared_up_to_half_of_the_machines_unless_the_operator_says_otherwise() {
    assert!(understood(&[]).shared_memory > 0);
    for (text, bytes) in [("0", 0), ("3G", 3 << 30)] {
        assert_eq!(understood(&[("shared_memory", text)]).shared_memory, bytes);
    }
}

#[test]
fn there_are_bulk_connections_for_a_far_client_and_more_are_refused() {
    let count = |text| understood(&[("bulk_connections", text)]).bulk_connections;
    assert_eq!(["0", "3", "16"].map(count), [0, 3, 16]);
    assert_eq!(understood(&[]).bulk_connections, 16);
    assert!(with_file("[server]\nbulk-connections = 99", &[]).is_err());
}

#[test]
fn the_grace_period_is_in_seconds_and_may_be_none() {
    let grace = |file, flags: &[Flag<'_>]| with_file(file, flags).expect("a time").values.grace;
    assert_eq!(grace("", &[]), Duration::from_secs(60));
    assert_eq!(grace("[server]\ngrace = 90", &[]), Duration::from_secs(90));
    assert_eq!(grace("[server]\ngrace = 0.25", &[]), Duration::from_millis(250));
    assert_eq!(grace("[server]\ngrace = 90", &[("grace", "0")]), Duration::ZERO);
    let words = with_file("[server]\ngrace = -1", &[]).expect_err("no time").to_string();
    assert!(words.starts_with("/etc/floe/floe.toml:2: server.grace: not a number of seconds: -1"), "{words}");
}

#[test]
fn a_peer_has_a_quarter_of_the_sessions_unless_the_operator_says_otherwise() {
    let limits = |flags: &[Flag<'_>]| {
        let settings = understood(flags);
        (settings.sessions.each, settings.max_waiting_per_peer)
    };
    assert_eq!(limits(&[]), (16, 16));
    assert_eq!(limits(&[("max_sessions", "2")]), (1, 1));
    assert_eq!(limits(&[("max_sessions_per_peer", "40")]), (40, 40));
    assert_eq!(limits(&[("max_waiting_per_peer", "0")]), (16, 0));
}

#[test]
fn a_worker_has_four_gibibytes_of_host_memory_unless_the_operator_says_otherwise() {
    let memory = |text| understood(&[("host_memory", text)]).host_memory;
    assert_eq!((understood(&[]).host_memory, memory("1G"), memory("0")), (4 << 30, 1 << 30, 0));
    assert_eq!(memory("1K"), LEAST_HOST_MEMORY);
}

#[test]
fn the_sandbox_is_on_and_can_be_demanded_or_left_away_but_not_both() {
    let demand = |flags: &[Flag<'_>]| settings(flags).map(|settings| settings.sandbox);
    assert_eq!(demand(&[]).expect("the default"), Demand::Usual);
    assert_eq!(demand(&[("no_sandbox", YES)]).expect("a choice"), Demand::Off);
    assert_eq!(demand(&[("require_sandbox", YES)]).expect("a choice"), Demand::Required);
    assert!(matches!(demand(&[("no_sandbox", YES), ("require_sandbox", YES)]), Err(DaemonError::Sandbox)));
}

#[test]
fn command_lines_are_read_by_the_table() {
    #[derive(Debug, clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }
    let parse = |line: &str| {
        let parsed = <CommandLine as clap::Parser>::try_parse_from(line.split(' '));
        parsed.map(|line| {
            Settings::of(&line.options, &Handed::default(), &Machine("[server]\nno-rings = true")).expect("understood")
        })
    };
    let settings = parse("floed --grace 5 --gpus 0,2 --gpus 3 --tls-only=no --no-rings=no").expect("flags");
    assert_eq!(settings.values.grace, Duration::from_secs(5));
    assert_eq!(settings.values.gpus, Some(vec![0, 2, 3]));
    assert!(!settings.values.no_rings && !settings.values.tls_only);
    assert!(parse("floed --fixed-addresses").expect("a switch").values.fixed_addresses);
    assert!(parse("floed --listens h").is_err() && parse("floed --grace").is_err());
}

#[test]
fn figures_have_a_port_only_where_one_is_named_and_never_in_a_private_daemon() {
    assert_eq!(understood(&[]).metrics, None);
    assert_eq!(understood(&[("metrics", "9500")]).metrics, Some(([127, 0, 0, 1], 9500).into()));
    assert_eq!(
        with_file("[server]\nmetrics = \"0.0.0.0:9500\"", &[]).expect("understood").metrics,
        Some(([0, 0, 0, 0], 9500).into())
    );
    let flags = ServerFlags(vec![("metrics", "9500".to_owned())]);
    let private = Options { flags, private: true, until_exit_of: Some(1), ..Options::default() };
    assert_eq!(Settings::of(&private, &Handed::default(), &Machine("")).expect("understood").metrics, None);
}
