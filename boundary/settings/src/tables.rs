//! All settings, one row each. A program's values, flags, variables, keys, help and part of the page come from its
//! table. It reads no setting.

use crate::error::SettingsError;
use crate::given::Given;
use crate::kinds::{
    Compute, Count, Devices, FilePath, Level, List, LogFormat, Micros, Nccl, Port, Report, Seconds, Secret, Size, Span,
    Switch, Text, Trace,
};
use crate::rows::table;
use crate::source::Source;
use crate::table::Reach::{All, Flag, Key, KeyAndFlag, Variable};
use crate::table::Table;
use crate::terms::{Class, Percent};

/// No bound above.
const ANY: u32 = u32::MAX;

table! {
    /// Settings of the client libraries and of the commands of `floe`: the top of the TOML file.
    CLIENT: ClientSettings, "programs, by the client libraries and the commands of floe", None;

    devices: Devices, "FLOE_DEVICES", KeyAndFlag("on"), "HOST:GPU,…", unset "RCUDA_DEVICE_COUNT, else a daemon of the program's own",
        "Devices in the program's order. HOST is a name, host:port, tcp://host:port, tls://host:port, clear://host:port, unix:///path, shm:///path or /path.";
    memory: List<Size>, "FLOE_MEMORY", KeyAndFlag("memory"), "BYTES", unset "all of the GPU",
        "Quota of each vGPU, which its server guarantees: bytes, or with K, M, G, T. Several stand in the devices' order; the last one repeats.";
    wait: Span, "FLOE_WAIT", KeyAndFlag("wait"), "TIME", default "5s",
        "How long a vGPU with a quota or a share waits for room on its GPU: seconds, or with m, h. 0: not at all.";
    share: List<Percent>, "FLOE_SHARE", KeyAndFlag("share"), "PERCENT", unset "by weight, what others' shares leave",
        "Part of its GPU's time that a vGPU gets whenever it has work, as 25%. Several stand in the devices' order; the last one repeats.";
    weight: Count<1, 1000>, "FLOE_WEIGHT", KeyAndFlag("weight"), "NUMBER", unset "the user's vGPUs without terms take turns together",
        "Weight of the vGPUs among those of the same user: 1 to 1000.";
    class: Class, "FLOE_CLASS", KeyAndFlag("class"), "CLASS", default "batch",
        "batch takes turns on the GPU; latency goes first while it is within its share.";
    time: Span, "FLOE_TIME", KeyAndFlag("time"), "TIME", unset "no limit",
        "How long a vGPU may exist: seconds, or with m, h; 0 for no limit. Then its server ends it, whatever it does.";
    stats: Report, "FLOE_STATS", KeyAndFlag("stats"), "FORM", default "0",
        "Print counters of driver calls when the program ends: 1 for a table, json, or json:FILE.";
    token: Secret, "FLOE_TOKEN", Key, "TOKEN", unset "the one in the token file",
        "The token itself, which servers reached by TCP must know.";
    token_file: FilePath, "FLOE_TOKEN_FILE", Key, "PATH", unset "$XDG_CONFIG_HOME/floe/token, else ~/.config/floe/token",
        "File that holds the token.";
    no_token: Switch, "FLOE_NO_TOKEN", Key, "", default "no",
        "Show no token, and ask servers for no proof of one. Otherwise a server that asks for none is refused.";
    tls_authorities: FilePath, "FLOE_TLS_AUTHORITIES", Key, "PATH", unset "tls:// addresses are refused",
        "PEM file of the authorities that sign certificates of servers reached by tls://HOST:PORT.";
    tls_certificate: FilePath, "FLOE_TLS_CERTIFICATE", Key, "PATH", unset "none is shown",
        "PEM file of this client's certificate, for servers that ask for one.";
    tls_key: FilePath, "FLOE_TLS_KEY", Key, "PATH", unset "none",
        "PEM file of that certificate's key.";
    bulk_connections: Count<0, 16>, "FLOE_BULK_CONNECTIONS", Key, "COUNT", unset "half of the processors, at most 8; to a far server one for each 2 ms",
        "TCP connections beside the main one that carry large copies: 0 to 16, and no more than the server allows.";
    copy_threads: Count<1, 64>, "FLOE_COPY_THREADS", Key, "COUNT", unset "half of the processors, at most 6",
        "Threads of one copy of pageable memory, 1 to 64. Over TCP they work beside those of the connections.";
    nccl: Nccl, "FLOE_NCCL", KeyAndFlag("nccl"), "WHERE", default "auto",
        "Where NCCL runs: own (in the program), forwarded (beside the GPUs), or auto: forwarded with several servers, or one reached by network that has NCCL.";
    job: Text, "FLOE_JOB", Variable, "NAME", unset "each floe run is one",
        "What the ranks of one job have in common. NCCL beside the GPUs has ranks of one job and server talk over NVLink.";
    own_cupti: Switch, "FLOE_OWN_CUPTI", KeyAndFlag("own-cupti"), "", default "no",
        "Leave the program its own CUPTI, which sees no GPU of floe's. Otherwise profilers get floe's, which does.";
    trace_file: FilePath, "FLOE_TRACE_FILE", KeyAndFlag("trace"), "FILE", unset "no trace",
        "File for a trace of the program's calls, waits, copies and kernels, which Perfetto shows. Further processes have their number in the name.";
    far: Switch, "FLOE_FAR", KeyAndFlag("far"), "", default "no",
        "Let synchronizations return at once where the program reads nothing by them. Errors and printed lines come later; times by the host mean nothing.";
    log: Level, "FLOE_LOG", Key, "LEVEL", unset "errors at once, warnings when the program fails",
        "What is written to stderr as it happens: error, warn, info or debug.";
    trace: Trace, "FLOE_TRACE", Variable, "CALLS", unset "none",
        "Driver calls written to stderr: failures for those that fail, calls for all of them, in order.";
    spin: Micros, "FLOE_SPIN", Variable, "MICROSECONDS", unset "100; 0 with fewer than four processors",
        "How long a waiting thread polls before it sleeps; a thousand times as long where a program waits for the GPU.";
    config: FilePath, "FLOE_CONFIG", Variable, "PATH", unset "$XDG_CONFIG_HOME/floe/floe.toml, else ~/.config/floe/floe.toml, else /etc/floe/floe.toml",
        "The TOML file.";
}

table! {
    /// Settings of the daemon, `floed` and `floe serve`: `[server]` of the TOML file.
    SERVER: ServerSettings, "servers, by floed and floe serve", Some("server");

    listen: Text, "FLOE_LISTEN", All, "ADDRESS", default "tcp://127.0.0.1:14833",
        "TCP address to listen on. Clients prove the token, which also seals what they send.";
    socket: FilePath, "FLOE_SOCKET", All, "PATH", unset "$XDG_RUNTIME_DIR/floe/floed.sock, else /run/floe/floed.sock",
        "Unix socket to listen on.";
    metrics: Port, "FLOE_METRICS", All, "ADDRESS", unset "no such port",
        "HTTP address for figures: /metrics (OpenMetrics), /healthz, /readyz. A port alone is one of 127.0.0.1. Whoever reaches it may read them.";
    token_file: FilePath, "FLOE_TOKEN_FILE", All, "PATH", unset "$XDG_CONFIG_HOME/floe/token, else ~/.config/floe/token",
        "File with the token that TCP clients must know; made at the first start.";
    tokens: FilePath, "FLOE_TOKENS", All, "FOLDER", unset "tokens, beside the token file",
        "Folder with the list of users' tokens and the server's key for them, which floe token makes.";
    audit: FilePath, "FLOE_AUDIT", All, "PATH", unset "no such log",
        "File to which admissions, refusals, moves and ends are appended, as lines of JSON. It is opened again at SIGHUP.";
    policy: FilePath, "FLOE_POLICY", All, "PATH", unset "no policy: every peer has its share",
        "TOML file that says what each user may have. It is read again at SIGHUP.";
    no_token: Switch, "FLOE_SERVER_NO_TOKEN", All, "", default "no",
        "Ask TCP clients for no token, and seal nothing but by TLS. Other than loopback addresses also need --insecure.";
    insecure: Switch, "FLOE_SERVER_INSECURE", All, "", default "no",
        "Allow --no-token on an address that others can reach.";
    tls_certificate: FilePath, "FLOE_SERVER_TLS_CERTIFICATE", All, "PATH", unset "no TLS",
        "PEM file of this server's certificate. TCP clients may then speak TLS (tls://HOST:PORT) on the same port.";
    tls_key: FilePath, "FLOE_SERVER_TLS_KEY", All, "PATH", unset "no TLS",
        "PEM file of that certificate's key.";
    tls_client_authorities: FilePath, "FLOE_SERVER_TLS_CLIENT_AUTHORITIES", All, "PATH", unset "clients need no certificate",
        "PEM file of authorities: TCP clients must show a certificate that one of them has signed.";
    tls_user_authorities: FilePath, "FLOE_SERVER_TLS_USER_AUTHORITIES", All, "PATH", unset "certificates name no users",
        "PEM file of authorities: who shows a certificate that one has signed, with the URI floe:NAME, is NAME without a token. SIGHUP reads it again.";
    tls_revocations: FilePath, "FLOE_SERVER_TLS_REVOCATIONS", All, "PATH", unset "no certificate is revoked",
        "PEM file of lists of revoked client certificates (CRL), one per authority. One out of date refuses all of its authority's. SIGHUP reads it again.";
    tls_only: Switch, "FLOE_SERVER_TLS_ONLY", All, "", default "no",
        "Serve TCP clients by TLS only. --tls-client-authorities implies it, as does a certificate where --listen is no loopback address.";
    tls_optional: Switch, "FLOE_SERVER_TLS_OPTIONAL", All, "", default "no",
        "With a certificate, also accept clients that seal by the token (tcp://HOST:PORT).";
    clear_text: Switch, "FLOE_SERVER_CLEAR_TEXT", All, "", default "no",
        "Also accept TCP clients in the clear (clear://HOST:PORT), which still prove the token. For private networks only; --no-token implies it.";
    trust_forwarded: Switch, "FLOE_SERVER_TRUST_FORWARDED", All, "", default "no",
        "Ask no token of this user's or root's processes on the Unix socket, also where they forward others' bytes, as socat does.";
    device_library: Text, "FLOE_DEVICE_LIBRARY", All, "LIBRARY", default "auto",
        "What workers drive: auto (NVIDIA's library, else the CPU device), nvidia, cpu, or the path of a libcuda.so.1.";
    gpus: List<Count<0, ANY>>, "FLOE_GPUS", All, "INDEX,…", unset "all",
        "GPUs to offer, by index.";
    memory_per_session: Size, "FLOE_MEMORY_PER_SESSION", All, "BYTES", unset "all of the GPU",
        "Largest quota of a session: bytes, or with K, M, G, T.";
    shared_memory: Size, "FLOE_SHARED_MEMORY", All, "BYTES", unset "half of the machine's memory",
        "Pinned host memory that a session of this machine may share with its worker: bytes, or with K, M, G, T. 0 shares none.";
    mirrored_memory: Size, "FLOE_MIRRORED_MEMORY", All, "BYTES", default "256M",
        "Pinned host memory of a session that its worker mirrors for kernels: bytes, or with K, M, G, T. A worker needs twice as much.";
    bulk_connections: Count<0, 16>, "FLOE_BULK_CONNECTIONS", All, "COUNT", default "16",
        "Most TCP connections of a session, beside its main one, that carry large copies: 0 to 16.";
    transport_memory: Size, "FLOE_TRANSPORT_MEMORY", All, "BYTES", default "64M",
        "Pinned memory of a worker for data in flight: bytes, or with K, M, G, T; 12M at least.";
    host_memory: Size, "FLOE_HOST_MEMORY", All, "BYTES", default "4G",
        "Host memory of a worker, without shared memory and CPU devices: bytes, or with K, M, G, T; 128M at least. 0: no limit.";
    suspended_memory: Size, "FLOE_SUSPENDED_MEMORY", All, "BYTES", unset "half of the machine's memory",
        "Host memory in which suspended sessions wait, of all together: bytes, or with K, M, G, T. 0: none is suspended.";
    grace: Seconds, "FLOE_GRACE", All, "SECONDS", default "60",
        "How long a session whose connection broke waits for its client to reconnect. 0: it ends with its connection.";
    idle_limit: Seconds, "FLOE_IDLE_LIMIT", All, "SECONDS", default "0",
        "End a session whose program sends nothing for so long, also while its work on the GPU runs. 0: never.";
    peer: List<Text>, "FLOE_PEER", All, "ADDRESS,…", unset "none: such copies pass the client",
        "Servers that sessions here may connect to, for copies between vGPUs of both: HOST, HOST:PORT, unix:///path. Name each at the other, too.";
    nccl: Text, "FLOE_SERVER_NCCL", All, "LIBRARY", default "auto",
        "NCCL that workers load for ranks on several servers: the path of a libnccl.so.2, auto (where it is installed), or off.";
    cupti: Text, "FLOE_SERVER_CUPTI", All, "LIBRARY", default "auto",
        "CUPTI that workers load for programs' profilers: the path of a libcupti.so.13, auto (where it is installed), or off.";
    mps: Switch, "FLOE_MPS", All, "", default "no",
        "Have sessions of a GPU compute side by side, by NVIDIA's MPS, not by turns: more throughput of small programs, less isolation.";
    no_rings: Switch, "FLOE_NO_RINGS", All, "", default "no",
        "Have clients of this machine send everything over the Unix socket, nothing through rings in shared memory.";
    max_sessions: Count<0, ANY>, "FLOE_MAX_SESSIONS", All, "COUNT", default "64",
        "Most sessions at once.";
    max_sessions_per_peer: Count<0, ANY>, "FLOE_MAX_SESSIONS_PER_PEER", All, "COUNT", unset "a quarter of --max-sessions",
        "Most sessions of one peer: a client address (of IPv6 its first 64 bits) or another user of this machine.";
    max_waiting_per_peer: Count<0, ANY>, "FLOE_MAX_WAITING_PER_PEER", All, "COUNT", unset "as many as --max-sessions-per-peer",
        "Most sessions of one peer that wait for their client to reconnect. Of more, those end that have waited longest.";
    module_cache: FilePath, "FLOE_MODULE_CACHE", All, "FOLDER", unset "$XDG_CACHE_HOME/floe/modules, else ~/.cache/floe/modules; for root /var/cache/floe/modules",
        "Folder that keeps contents of modules, so that a client sends them once.";
    module_cache_limit: Size, "FLOE_MODULE_CACHE_LIMIT", All, "BYTES", default "4G",
        "Most that the folder holds: bytes, or with K, M, G, T. 0 keeps nothing.";
    no_sandbox: Switch, "FLOE_NO_SANDBOX", All, "", default "no",
        "Run workers without their sandbox. A client that takes one over has all that this daemon's user has.";
    require_sandbox: Switch, "FLOE_REQUIRE_SANDBOX", All, "", default "no",
        "Refuse sessions where the kernel lacks a part of the sandbox (Landlock, seccomp).";
    fixed_addresses: Switch, "FLOE_FIXED_ADDRESSES", All, "", default "no",
        "Load drivers at the same addresses in every worker. Moves do not need it; an attack on one worker then works on all.";
    log_format: LogFormat, "FLOE_LOG_FORMAT", All, "FORM", default "text",
        "Form of the log on stderr: text, or json, which has an object with time, level, program and session in each line.";
    log_level: Level, "FLOE_LOG_LEVEL", All, "LEVEL", default "info",
        "What is logged: error, warn (with all that workers write), info or debug.";
    user: Text, "FLOE_USER", All, "NAME", unset "floe, where there is such a user",
        "The user to run as, where root has started this.";
    worker_ids: Text, "FLOE_WORKER_IDS", All, "FIRST-LAST", unset "workers share the server's user",
        "Ids of users and groups, set aside for workers: each user's workers run as a user of their own. Root has to start this.";
    worker: FilePath, "FLOE_WORKER", All, "PATH", unset "floe-worker beside this executable",
        "The worker's executable.";
    log: Level, "FLOE_LOG", Variable, "LEVEL", unset "warn",
        "What workers write to stderr: error, warn, info or debug.";
    trace: Trace, "FLOE_TRACE", Variable, "CALLS", unset "none",
        "Driver calls that workers write to stderr: failures or calls.";
    spin: Micros, "FLOE_SPIN", Variable, "MICROSECONDS", unset "100; 0 with fewer than four processors",
        "How long a waiting thread of a worker polls before it sleeps.";
    config: FilePath, "FLOE_CONFIG", Flag, "PATH", unset "$XDG_CONFIG_HOME/floe/floe.toml, else ~/.config/floe/floe.toml, else /etc/floe/floe.toml",
        "The TOML file.";
}

table! {
    /// Settings of the CPU device, in the process that loads it: a worker, which gets them from the daemon's environment.
    CPU_DEVICE: CpuDeviceSettings, "CPU devices, in the environment of floed", None;

    devices: Count<0, 8>, "FLOE_CPU_DEVICES", Variable, "COUNT", default "1",
        "How many CPU devices a machine without a GPU offers: 0 to 8.";
    memory: Size, "FLOE_CPU_MEMORY", Variable, "BYTES", unset "half of the machine's memory, shared by the devices",
        "Memory of each device: bytes, or with K, M, G, T.";
    compute: Compute, "FLOE_CPU_COMPUTE", Variable, "VERSION", default "9.0",
        "Compute capability that a device reports.";
    cores: Count<1, 1024>, "FLOE_CPU_CORES", Variable, "COUNT", unset "all that the process may use",
        "Threads that a device computes with: 1 to 1024.";
    queues: Count<0, 1024>, "FLOE_CPU_QUEUES", Variable, "COUNT", default "0",
        "Queues that the streams of a context share, as a GPU's streams do: 0 to 1024. 0: each stream has its own.";
    dry_run: Switch, "FLOE_CPU_DRY_RUN", Variable, "", default "no",
        "Accept kernels that come as machine code and compute nothing. Results mean nothing.";
}

/// The programs whose settings may stand in one file.
static IN_FILE: [Table; 2] = [CLIENT, SERVER];

impl Given {
    /// Gathers a program's settings from flags (by their settings' names), variables and the file.
    ///
    /// # Errors
    /// [`SettingsError`] when the file cannot be read, does not parse, or has a key that no program knows.
    pub fn gather(
        table: &'static Table,
        flags: &[(&'static str, String)],
        source: &dyn Source,
    ) -> Result<Self, SettingsError> {
        Self::of(table, flags, source, &IN_FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl Source for Nothing {
        fn variable(&self, _name: &str) -> Option<String> {
            None
        }

        fn file(&self, _path: &std::path::Path) -> std::io::Result<String> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn help_has_at_most_25_words_and_ends_as_sentences_do() {
        for setting in [CLIENT, SERVER, CPU_DEVICE].iter().flat_map(|table| table.settings) {
            assert!(setting.help.split_whitespace().count() <= 25, "{}: {}", setting.name, setting.help);
            assert!(setting.help.ends_with('.') && !setting.default.is_empty(), "{}", setting.name);
        }
    }

    #[test]
    fn defaults_are_values() {
        let given = |table: &'static crate::Table| Given::gather(table, &[], &Nothing).expect("nothing is set");
        let server = ServerSettings::read(&given(&SERVER)).expect("its defaults are values");
        assert_eq!((server.grace.as_secs(), server.host_memory, server.max_sessions), (60, 4 << 30, 64));
        let client = ClientSettings::read(&given(&CLIENT)).expect("its defaults are values");
        assert_eq!((client.stats, client.devices), (Report::None, None));
        let device = CpuDeviceSettings::read(&given(&CPU_DEVICE)).expect("its defaults are values");
        assert_eq!((device.devices, device.compute), (1, (9, 0)));
    }

    #[test]
    fn no_name_stands_twice_in_a_table() {
        for table in [CLIENT, SERVER, CPU_DEVICE] {
            for (index, setting) in table.settings.iter().enumerate() {
                let others = &table.settings[index + 1..];
                let is_same = |other: &&crate::Setting| {
                    other.name == setting.name
                        || other.variable == setting.variable
                        || other.flag().is_some_and(|flag| Some(flag) == setting.flag())
                };
                assert!(!others.iter().any(|other| is_same(&other)), "{}", setting.name);
            }
        }
    }
}
