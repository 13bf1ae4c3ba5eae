//! The figures of a real daemon: programs and peers come and go, its HTTP port is asked.
//! In: programs, clients made by hand, connections of strangers. Out: the verdict on counts, never on times.
//! One test runs Debian's Prometheus: `cargo xtask check monitoring`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use floe_tests::{Floed, Port, Program, installation, repository};
use floe_transport::Link;
use floe_wire::*;
use serde_json::Value;

/// Longer than anything takes. A page is up to a second old.
const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon with a port for figures, and the port's address.
fn daemon(flags: &[&str]) -> (Floed, SocketAddr) {
    let daemon = Floed::start_logging(&[flags, &["--metrics", "0"]].concat());
    let log = daemon.log();
    let address = log.split_once("figures: http://").and_then(|(_, rest)| rest.split_once("/metrics"));
    let address = address.expect("the log says where").0.parse().expect("an address");
    (daemon, address)
}

/// An answer: head and body.
fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    (head.to_owned(), body.to_owned())
}

fn page(address: SocketAddr) -> String {
    let (head, body) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
        "{head}"
    );
    assert_is_openmetrics(&body);
    body
}

/// The sum of a metric's series whose labels contain all of these texts.
fn sum(page: &str, name: &str, labels: &[&str]) -> f64 {
    let its = page.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let own = series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label));
        own.then(|| value.parse::<f64>().expect("a number"))
    });
    its.sum()
}

/// Waits until a page says this.
#[track_caller]
fn says(address: SocketAddr, name: &str, labels: &[&str], expected: f64) -> String {
    let start = Instant::now();
    loop {
        let page = page(address);
        let found = sum(&page, name, labels);
        if (found - expected).abs() < f64::EPSILON {
            return page;
        }
        assert!(start.elapsed() < PATIENCE, "{name}{labels:?}: {found}, not {expected}\n{page}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a path's answer is this; its head. A main loop that a busy machine keeps from answering for a second is told as
/// silent.
#[track_caller]
fn becomes(address: SocketAddr, path: &str, expected: &str) -> String {
    let start = Instant::now();
    loop {
        let (head, body) = get(address, path);
        if body == expected {
            return head;
        }
        assert!(start.elapsed() < PATIENCE, "{path}: {body}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads a page by the standard's rules that concern ours, without the encoder that wrote it.
fn assert_is_openmetrics(page: &str) {
    let lines = page.strip_suffix("# EOF\n").expect("an end").lines();
    let (mut families, mut series, mut family) = (BTreeSet::new(), BTreeSet::new(), ("", ""));
    for line in lines {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split_once(' ').expect("a name and a type");
            assert!(families.insert(family.0), "twice: {line}");
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').expect("a name and a unit");
            assert!(name == family.0 && name.ends_with(&format!("_{unit}")), "{line}");
        } else if !line.starts_with("# HELP ") {
            let (sample, value) = line.rsplit_once(' ').expect("a series and a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.insert(sample), "twice: {line}");
            let name = sample.split('{').next().unwrap_or_default();
            let suffix = name.strip_prefix(family.0).unwrap_or_else(|| panic!("of no family: {line}"));
            let allowed: &[&str] = match family.1 {
                "gauge" => &[""],
                "counter" => &["_total"],
                "info" => &["_info"],
                "histogram" => &["_bucket", "_count", "_sum"],
                other => panic!("a type that is not ours: {other}"),
            };
            assert!(allowed.contains(&suffix), "{line}");
            assert!(sample == name || (sample.ends_with("\"}") && sample.contains("=\"")), "{line}");
        }
    }
    assert!(families.len() > 20, "{page}");
}

/// A session of a client made by hand, over the Unix socket; or the server's words.
fn attached(daemon: &Floed) -> Result<(Link, u64), String> {
    attached_with(daemon, 0)
}

/// The same that was promised so many thousandths of the GPU's time.
fn attached_with(daemon: &Floed, share: u32) -> Result<(Link, u64), String> {
    let path = daemon.unix().strip_prefix("unix://").expect("a Unix address");
    let mut link = Link::new(UnixStream::connect(path).expect("the daemon listens").into());
    let hello = Hello { magic: MAGIC, oldest: OLDEST_VERSION, newest: NEWEST_VERSION, client: "secret-client" };
    link.send_in_person(&hello).expect("sent");
    answer(&mut link)?;
    link.send(&Attach { program: "secret-program", host: "secret-host", share, ..Attach::default() }).expect("sent");
    let body = answer(&mut link)?;
    let session = Attach::decode_reply(&body).expect("a session").session;
    Ok((link, session))
}

fn answer(link: &mut Link) -> Result<Vec<u8>, String> {
    loop {
        let frame = link.receive(Some(Instant::now() + PATIENCE)).expect("an answer").expect("an answer");
        if frame.kind == Salt::KIND {
            continue;
        }
        match Push::decode(frame.kind, frame.payload).expect("a message") {
            Push::Reply(reply) if reply.status == 0 => return Ok(reply.body.to_vec()),
            Push::Reply(reply) => return Err(reply.detail.to_owned()),
            Push::Ended(ended) => return Err(ended.detail.to_owned()),
            _ => {}
        }
    }
}

fn demo() -> PathBuf {
    installation().join("bin/floe-demo")
}

#[test]
fn a_program_is_counted_from_its_start_to_its_end() {
    let (daemon, address) = daemon(&[]);
    let before = page(address);
    for name in ["floe_sessions", "floe_sessions_started_total", "floe_sessions_ended_total", "floe_workers"] {
        assert!(sum(&before, name, &[]).abs() < f64::EPSILON, "{before}");
    }
    assert!(
        sum(&before, "floe_gpu_memory_total_bytes", &["index=\"0\"", "uuid=\"GPU-", "name=\"floe CPU device"]) > 0.0
    );
    assert!(!before.contains("\nDCGM_"), "a CPU device says nothing that DCGM means");
    assert!(sum(&before, "process_threads", &[]) >= 2.0 && sum(&before, "process_open_fds", &[]) >= 5.0);

    let outcome = Program::new(demo(), &[]).on(&daemon, daemon.unix()).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let after = says(address, "floe_sessions_ended_total", &["reason=\"client_left\""], 1.0);
    assert!((sum(&after, "floe_sessions_started_total", &[]) - 1.0).abs() < f64::EPSILON, "{after}");
    assert!((sum(&after, "floe_sessions_ended_total", &[]) - 1.0).abs() < f64::EPSILON, "{after}");
    says(address, "floe_sessions", &[], 0.0);
    says(address, "floe_gpu_memory_used_bytes", &[], 0.0);

    let wrong = Program::new(demo(), &[]).on(&daemon, daemon.tcp()).variable("FLOE_TOKEN", "wrong").run();
    assert_ne!(wrong.code, Some(0));
    let page = page(address);
    assert!(sum(&page, "floe_sessions_started_total", &[]) < 2.0);
    let start = Instant::now();
    while sum(&self::page(address), "floe_connections_refused_total", &["not_permitted"]) < 1.0 {
        assert!(start.elapsed() < PATIENCE, "a wrong token counts");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_live_session_is_one_of_its_gpu_and_transport_and_nothing_of_its_client_is_shown() {
    let (daemon, address) = daemon(&[]);
    let (link, session) = attached(&daemon).expect("a session");
    let page = says(address, "floe_sessions", &["transport=\"unix\"", "index=\"0\""], 1.0);
    assert!((sum(&page, "floe_sessions", &[]) - 1.0).abs() < f64::EPSILON, "{page}");
    says(address, "floe_workers", &[], 1.0);
    let token = std::fs::read_to_string(daemon.token_file()).expect("it has one");
    for secret in ["secret", token.trim(), &format!("session=\"{session}\"")] {
        assert!(!page.contains(secret), "{secret} is shown:\n{page}");
    }
    // Done or given up: both are counted once.
    let floe = installation().join("bin/floe");
    let moved = Command::new(floe).args(["migrate", &session.to_string(), "--to", "0", "--on", daemon.unix()]).output();
    println!("{}", String::from_utf8_lossy(&moved.expect("floe migrate runs").stderr));
    let page = says(address, "floe_moves_begun_total", &["kind=\"move\""], 1.0);
    let (done, given_up) = (sum(&page, "floe_moves_done_total", &[]), sum(&page, "floe_moves_given_up_total", &[]));
    assert!((done + given_up - 1.0).abs() < f64::EPSILON, "{page}");
    assert!((sum(&page, "floe_move_pause_seconds_count", &[]) - done).abs() < f64::EPSILON, "{page}");
    drop(link);
    daemon.wait_for_workers(0);
    says(address, "floe_sessions_ended_total", &[], 1.0);
    // Its end is counted before its row is gone.
    says(address, "floe_sessions", &[], 0.0);
}

#[test]
fn what_a_program_copies_and_waits_for_is_counted_for_its_gpu() {
    let (daemon, address) = daemon(&[]);
    let program = Program::new(demo(), &[]).on(&daemon, daemon.tcp()).variable("FLOE_STATS", "json");
    let outcome = program.run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let statistics = outcome.statistics();
    assert!(statistics.bytes_to_device > 1 << 20 && statistics.bytes_from_device > 1 << 20, "{statistics:?}");
    let page = says(address, "floe_sessions_ended_total", &["reason=\"client_left\""], 1.0);
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    for (name, least) in [
        ("floe_gpu_link_received_bytes_total", statistics.bytes_to_device),
        ("floe_gpu_link_sent_bytes_total", statistics.bytes_from_device),
        ("floe_gpu_waits_total", statistics.waits_with_context),
    ] {
        let counted = sum(&page, name, &["index=\"0\""]);
        assert!(counted >= least as f64, "{name}: {counted}, at least {least}\n{page}");
    }
}

#[test]
fn what_a_live_sessions_link_carries_is_shown_to_who_sees_the_session() {
    // Less than a client has to acknowledge, which this one does not.
    let data = [7; 100_000];
    let bytes = data.len() as u64;
    let (stream, at) = (StreamId(0), DevicePtr(WINDOW_BASE));
    let daemon = Floed::start();
    let (mut link, _) = attached(&daemon).expect("a session");
    let mut ask = |message: &dyn Fn(&mut Link)| {
        message(&mut link);
        answer(&mut link).expect("it is right");
    };
    ask(&|link| _ = link.send(&CreateBlock { block: BlockId(1), bytes: 64 << 20 }).expect("sent"));
    ask(&|link| {
        link.send(&MapBlock { block: BlockId(1), offset: 0, at, bytes: 64 << 20, access: 3 }).expect("sent");
        for _ in 0..3 {
            link.send(&CopyToDevice { stream, to: at, bytes: &data }).expect("sent");
        }
        link.send(&CopyFromDevice { stream, from: at, bytes }).expect("sent");
    });
    for _ in 0..10 {
        ask(&|link| _ = link.send(&MemoryInfo {}).expect("sent"));
    }
    let start = Instant::now();
    loop {
        let rows = daemon.sessions();
        let count = |name: &str| rows[0][name].as_u64().expect("a number");
        let [received, sent, waits] = ["received", "sent", "waits"].map(count);
        if received >= 3 * bytes && sent >= bytes && waits >= 12 {
            assert!(received < 4 * bytes && sent < 2 * bytes && waits == 12, "{rows:?}");
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{rows:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_gpus_promised_part_and_the_time_of_turns_are_shown() {
    let (daemon, address) = daemon(&[]);
    let gpu = ["index=\"0\""];
    let alone = attached_with(&daemon, 500).expect("a session");
    let page = says(address, "floe_gpu_share_promised_ratio", &gpu, 0.5);
    assert!(sum(&page, "floe_gpu_scheduled_seconds_total", &gpu).abs() < f64::EPSILON, "nobody waits:\n{page}");
    let other = attached_with(&daemon, 250).expect("a session");
    says(address, "floe_gpu_share_promised_ratio", &gpu, 0.75);
    let scheduled = |page: &str| sum(page, "floe_gpu_scheduled_seconds_total", &gpu);
    let start = Instant::now();
    while scheduled(&self::page(address)) <= 0.0 {
        assert!(start.elapsed() < PATIENCE, "turns are taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop((alone, other));
    daemon.wait_for_workers(0);
    let page = says(address, "floe_gpu_share_promised_ratio", &gpu, 0.0);
    let had = sum(&page, "floe_gpu_turns_had_seconds_total", &gpu);
    assert!(scheduled(&page) > 0.0 && had <= scheduled(&page), "{page}");
    assert!(page.contains("floe_gpu_turns_total{"), "{page}");
}

#[test]
fn a_full_server_is_healthy_and_not_ready_until_a_session_ends() {
    let (daemon, address) = daemon(&["--max-sessions", "1"]);
    becomes(address, "/readyz", "ok\n");
    let (link, _) = attached(&daemon).expect("a session");
    let head = becomes(address, "/readyz", "this server has reached its limit of sessions: 1\n");
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
    becomes(address, "/healthz", "ok\n");
    let refused = attached(&daemon).map(drop).expect_err("it is full");
    assert!(refused.contains("limit of sessions: 1"), "{refused}");
    says(address, "floe_sessions_refused_total", &["reason=\"server_full\""], 1.0);
    says(address, "floe_connections_refused_total", &["reason=\"request\""], 1.0);
    drop(link);
    becomes(address, "/readyz", "ok\n");
    assert!(get(address, "/").0.starts_with("HTTP/1.1 404 "));
}

#[test]
fn strangers_at_the_port_keep_no_session_out() {
    let (daemon, address) = daemon(&[]);
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let (link, _) = attached(&daemon).expect("a session");
    says(address, "floe_sessions", &[], 1.0);
    becomes(address, "/healthz", "ok\n");
    let refused = sum(&page(address), "floe_connections_refused_total", &[]);
    assert!(refused.abs() < f64::EPSILON, "they are no clients");
    drop((silent, link));
}

#[test]
fn without_the_setting_there_is_no_port_and_a_wrong_one_is_refused_by_name() {
    let daemon = Floed::start_logging(&[]);
    assert!(!daemon.log().contains("figures:"));
    let wrong = Command::new(installation().join("bin/floed")).args(["--metrics", "gpu-server:9500"]).output();
    let words = wrong.expect("floed runs").stderr;
    let words = String::from_utf8_lossy(&words).into_owned();
    assert!(words.contains("not a port, and no IP address with one: gpu-server:9500"), "{words}");
}

/// A Prometheus of the test's own, which ends with it.
struct Prometheus {
    process: Child,
    _folder: tempfile::TempDir,
    _port: Port,
    address: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    /// Scrapes this address, with floe's alerts.
    fn start(tools: &Path, scraped: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::reserve();
        let free = port.address();
        let alerts = repository().join("server/metrics/alerts.yml");
        let mut config = "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\n".to_owned();
        writeln!(config, "rule_files: ['{}']", alerts.display()).expect("a text takes all");
        writeln!(config, "scrape_configs:\n  - job_name: floe\n    static_configs:\n      - targets: ['{scraped}']")
            .expect("as above");
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).expect("written");
        let process = Command::new(tools.join("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={free}"))
            .stderr(Stdio::null())
            .spawn()
            .expect("Prometheus starts");
        Self { process, _folder: folder, _port: port, address: free }
    }

    /// An answer of its interface, as soon as that says what is wanted.
    fn answer(&self, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        let mut last = String::new();
        while start.elapsed() < PATIENCE {
            if let Some(text) = self.get(path) {
                if let Ok(answer) = serde_json::from_str(&text)
                    && is_wanted(&answer)
                {
                    return answer;
                }
                last = text;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{path}: {last}");
    }

    /// HTTP/1.0, so that the body comes in one piece. `None` while it does not listen.
    fn get(&self, path: &str) -> Option<String> {
        let mut socket = TcpStream::connect(self.address).ok()?;
        write!(socket, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer.split_once("\r\n\r\n")?.1.to_owned())
    }
}

/// A query's text in an address.
fn query(expression: &str) -> String {
    let escaped = expression.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"));
    format!("/api/v1/query?query={escaped}")
}

/// All texts under a key, wherever they stand.
fn texts<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| texts(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, key, found)),
        _ => {}
    }
}

#[test]
#[ignore = "needs Prometheus: cargo xtask check monitoring"]
fn prometheus_scrapes_a_daemon_and_understands_alerts_and_dashboard() {
    let tools = PathBuf::from(std::env::var_os("FLOE_PROMETHEUS").expect("cargo xtask check monitoring sets it"));
    let (daemon, address) = daemon(&[]);
    let (_link, _) = attached(&daemon).expect("a session");
    let prometheus = Prometheus::start(&tools, address);
    let is_up = |answer: &Value| {
        let target = &answer["data"]["activeTargets"][0];
        target["health"] == "up" && target["lastError"] == ""
    };
    prometheus.answer("/api/v1/targets", is_up);
    let has = |expression: &str, value: &str| {
        let says = |answer: &Value| answer["data"]["result"][0]["value"][1] == value;
        prometheus.answer(&query(expression), says);
    };
    has("sum(floe_sessions{transport=\"unix\"})", "1");
    has("floe_sessions_started_total", "1");
    has("count(floe_move_pause_seconds_bucket)", "13");
    has("count(floe_build_info)", "1");
    let rules = prometheus.answer("/api/v1/rules", |answer| {
        let rules = answer["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok")
    });
    let rules = rules["data"]["groups"][0]["rules"].as_array().expect("as above");
    assert!(rules.iter().all(|rule| rule["state"] != "firing"), "{rules:?}");
    let dashboard = std::fs::read_to_string(repository().join("server/metrics/grafana.json")).expect("it is there");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let mut expressions = Vec::new();
    texts(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 20);
    for expression in expressions {
        let expression =
            expression.replace("$__rate_interval", "1m").replace("$job", "floe").replace("$instance", ".*");
        let answer = prometheus.answer(&query(&expression), |_| true);
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
    }
}
