//! What `docs/json.md` says of commands' JSON, and what they print. In: the page, daemons, a program, every command with `--json`.
//! Out: members that are missing, of another type, or not on the page; commands that are not on it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use floe_tests::{Floed, installation, repository};
use serde_json::Value;
use tempfile::TempDir;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// The heading of the commands that have no `--json`.
const WITHOUT: &str = "Commands without";
/// The cell of a member that is always there.
const NEVER: &str = "–";

/// What the page says of a value.
#[derive(Debug, Default, PartialEq)]
enum Shape {
    /// Nothing yet.
    #[default]
    Unknown,
    List(Box<Shape>),
    Object(BTreeMap<String, Member>),
    /// A type of JSON Schema, or several; the texts that it may be, if they are listed.
    Plain {
        types: Vec<String>,
        texts: Vec<String>,
    },
}

#[derive(Debug, Default, PartialEq)]
struct Member {
    shape: Shape,
    /// Whether it may be absent.
    is_optional: bool,
}

impl Shape {
    /// Adds a line of a table: a path below this value, and what is there.
    fn add(&mut self, path: &str, leaf: Shape, is_optional: bool) {
        if path.is_empty() {
            assert_eq!(*self, Self::Unknown, "a member is there twice");
            *self = leaf;
        } else if let Some(rest) = path.strip_prefix("[]") {
            if *self == Self::Unknown {
                *self = Self::List(Box::default());
            }
            let Self::List(element) = self else { panic!("it is no list: {path}") };
            element.add(rest, leaf, is_optional);
        } else {
            let path = path.strip_prefix('.').unwrap_or_else(|| panic!("no path: {path}"));
            let (name, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
            if *self == Self::Unknown {
                *self = Self::Object(BTreeMap::new());
            }
            let Self::Object(members) = self else { panic!("it is no object: {path}") };
            let member = members.entry(name.to_owned()).or_default();
            member.is_optional |= is_optional && rest.is_empty();
            member.shape.add(rest, leaf, is_optional);
        }
    }

    /// A type as the page writes it: `string`, `integer or null`, ``string: `a`, `b` ``.
    fn plain(cell: &str) -> Self {
        let (types, texts) = cell.split_once(':').unwrap_or((cell, ""));
        let types: Vec<_> = types.split(" or ").map(|one| one.trim().to_owned()).collect();
        let known = ["string", "integer", "number", "boolean", "null"];
        assert!(types.iter().all(|one| known.contains(&one.as_str())), "no type: {cell}");
        Self::Plain { types, texts: texts.split('`').skip(1).step_by(2).map(str::to_owned).collect() }
    }

    /// Compares a value at a path. `seen` gets the optional members, and whether each was there.
    fn check(&self, value: &Value, path: &str, seen: &mut BTreeSet<(String, bool)>) -> Vec<String> {
        match (self, value) {
            (Self::List(element), Value::Array(values)) => {
                values.iter().flat_map(|value| element.check(value, &format!("{path}[]"), seen)).collect()
            }
            (Self::Object(members), Value::Object(values)) => {
                let unknown = values.keys().filter(|name| !members.contains_key(*name));
                let mut wrong: Vec<_> = unknown.map(|name| format!("{path}.{name} is not on the page")).collect();
                for (name, member) in members {
                    let path = format!("{path}.{name}");
                    if member.is_optional {
                        seen.insert((path.clone(), values.contains_key(name)));
                    }
                    match values.get(name) {
                        Some(value) => wrong.extend(member.shape.check(value, &path, seen)),
                        None if member.is_optional => {}
                        None => wrong.push(format!("{path} is absent")),
                    }
                }
                wrong
            }
            (Self::Plain { types, texts }, value) => {
                let is_type = types
                    .iter()
                    .any(|one| one == type_of(value) || (one, type_of(value)) == (&"number".to_owned(), "integer"));
                let is_text =
                    texts.is_empty() || value.as_str().is_some_and(|text| texts.iter().any(|one| one == text));
                (!is_type || !is_text)
                    .then(|| format!("{path} is {value}, and not {types:?} {texts:?}"))
                    .into_iter()
                    .collect()
            }
            (shape, value) => vec![format!("{path} is {value}, and not {shape:?}")],
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The page: shapes by command, and the commands that have none.
struct Page {
    shapes: BTreeMap<String, Shape>,
    without: BTreeSet<String>,
}

impl Page {
    fn of_the_repository() -> Self {
        Self::read(&std::fs::read_to_string(repository().join("docs/json.md")).expect("the page"))
    }

    fn read(text: &str) -> Self {
        let mut page = Self { shapes: BTreeMap::new(), without: BTreeSet::new() };
        for section in text.split("\n## ").skip(1) {
            let (heading, rest) = section.split_once('\n').expect("lines below a heading");
            let rows = rest.lines().filter_map(|line| line.strip_prefix("| `"));
            if heading == WITHOUT {
                page.without.extend(rows.map(|row| row.split('`').next().expect("a command").to_owned()));
                continue;
            }
            for command in heading.split(", ") {
                let mut shape = Shape::Unknown;
                for row in rows.clone() {
                    let cells: Vec<_> = row.split(" | ").collect();
                    let [path, types, _unit, absent, _meaning] = cells[..] else { panic!("five cells: {row}") };
                    shape.add(path.trim_end_matches('`'), Shape::plain(types), absent != NEVER);
                }
                assert!(page.shapes.insert(command.to_owned(), shape).is_none(), "twice: {command}");
            }
        }
        page
    }
}

/// What was printed so far, compared with the page.
struct Printed {
    page: Page,
    /// By command, its optional members that were there, and that were not.
    seen: BTreeMap<String, BTreeSet<(String, bool)>>,
    home: TempDir,
}

impl Printed {
    fn new() -> Self {
        Self { page: Page::of_the_repository(), seen: BTreeMap::new(), home: tempfile::tempdir().expect("a folder") }
    }

    /// `floe`, of a user without settings on a machine without a daemon.
    fn floe(&self, arguments: &[&str]) -> Command {
        let mut floe = Command::new(installation().join("bin/floe"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FLOE_") || name.starts_with("RCUDA_")) {
            floe.env_remove(name);
        }
        for folder in ["HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
            floe.env(folder, self.home.path());
        }
        floe.args(arguments).env("FLOE_CPU_MEMORY", "1G").stdin(Stdio::null());
        floe
    }

    /// Takes what a command has printed: JSON as the page has it, and no more.
    #[track_caller]
    fn take(&mut self, command: &str, output: &Output, code: i32) -> Value {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
        let value: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{command}: {error}: {output:?}"));
        let shape = self.page.shapes.get(command).unwrap_or_else(|| panic!("not on the page: {command}"));
        let wrong = shape.check(&value, "", self.seen.entry(command.to_owned()).or_default());
        assert_eq!(wrong, [""; 0], "{command}: {value}");
        value
    }

    /// Runs a command that ends with this code, and takes what it prints. `command` is its first words.
    #[track_caller]
    fn run(&mut self, command: &str, arguments: &[&str], code: i32) -> Value {
        let words: Vec<_> = command.split(' ').skip(1).chain(arguments.iter().copied()).chain(["--json"]).collect();
        let output = self.floe(&words).output().expect("floe runs");
        self.take(command, &output, code)
    }

    /// The same of a move, which a server refuses as long as the session's work does not end in time.
    #[track_caller]
    fn moves(&mut self, command: &str, arguments: &[&str]) -> Value {
        let begin = Instant::now();
        let words: Vec<_> = command.split(' ').skip(1).chain(arguments.iter().copied()).chain(["--json"]).collect();
        loop {
            let output = self.floe(&words).output().expect("floe runs");
            if output.status.success() {
                return self.take(command, &output, 0);
            }
            assert!(begin.elapsed() < PATIENCE, "{command}: {output:?}");
        }
    }

    /// Whether an optional member of a command was both there and not.
    fn has_seen_both(&self, command: &str, path: &str) -> bool {
        let seen = &self.seen[command];
        [true, false].iter().all(|was_there| seen.contains(&(path.to_owned(), *was_there)))
    }
}

/// A program with a session of a server, until it is dropped.
struct Program {
    child: Child,
    _folder: TempDir,
}

impl Program {
    fn start(printed: &Printed, server: &str) -> Self {
        let (folder, busy) = floe_tests::built_c("busy");
        let mut floe = printed.floe(&["run", "--no-check", "--on", &format!("{server}:0"), "--"]);
        floe.arg(busy).args(["100", "paused"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = floe.spawn().expect("it runs");
        let mut ready = [0; 6];
        child.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("it says that it is ready");
        Self { child, _folder: folder }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Where its session was ended it may have ended itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_a_page_does_not_say_and_what_it_says_and_is_not_there_is_found() {
    let page = Page::read(
        "# x\n\n## floe a, floe b\n\n| member | type | unit | absent | meaning |\n|---|---|---|---|---|\n\
         | `.one` | integer | – | – | a |\n| `.two` | string: `x`, `y` | – | now and then | b |\n\
         | `.list[].inner` | number or null | – | – | c |\n\n## Commands without\n\n| `floe c` | d |\n",
    );
    assert_eq!(page.without, BTreeSet::from(["floe c".to_owned()]));
    assert_eq!(page.shapes["floe a"], page.shapes["floe b"]);
    let wrong = |value: Value| page.shapes["floe a"].check(&value, "", &mut BTreeSet::new());
    let good =
        serde_json::json!({ "one": 1, "two": "x", "list": [{ "inner": 2 }, { "inner": 0.5 }, { "inner": null }] });
    assert_eq!(wrong(good.clone()), [""; 0]);
    for (change, expected) in [
        (("one", Value::from(1.5)), ".one is 1.5"),
        (("one", Value::Null), ".one is null"),
        (("two", "z".into()), ".two is \"z\""),
        (("three", 1.into()), ".three is not on the page"),
        (("list", serde_json::json!([{}])), ".list[].inner is absent"),
        (("list", serde_json::json!([{ "inner": "x" }])), ".list[].inner is \"x\""),
        (("list", serde_json::json!({})), ".list is {}"),
    ] {
        let mut value = good.clone();
        value[change.0] = change.1;
        let found = wrong(value);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
    }
    let mut seen = BTreeSet::new();
    assert_eq!(page.shapes["floe a"].check(&serde_json::json!({ "one": 1, "list": [] }), "", &mut seen), [""; 0]);
    assert_eq!(seen, BTreeSet::from([(".two".to_owned(), false)]));
    assert_eq!(wrong(serde_json::json!({ "list": [] })), [".one is absent"]);
}

/// The commands below one, by its help, and those below them; itself, where there are none. `floe bench` has another's.
fn commands(printed: &Printed, command: &str) -> Vec<(String, String)> {
    let words: Vec<_> = command.split(' ').skip(1).chain(["--help"]).collect();
    let output = printed.floe(&words).output().expect("floe runs");
    assert!(output.status.success(), "{command}: {output:?}");
    let help = String::from_utf8(output.stdout).expect("text");
    let below = help.split("\nCommands:\n").nth(1).filter(|_| command != "floe bench");
    let Some(below) = below else { return vec![(command.to_owned(), help)] };
    let below = below.lines().take_while(|line| !line.is_empty());
    // A name has two spaces before it; lines that go on have more.
    let names = below.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names = names.map(|line| line.split(' ').next().expect("a name")).filter(|name| *name != "help");
    names.flat_map(|name| commands(printed, &format!("{command} {name}"))).collect()
}

#[test]
fn every_command_is_on_the_page_with_its_json_or_among_those_without() {
    let printed = Printed::new();
    let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
    for (command, help) in commands(&printed, "floe") {
        let has_flag = help.lines().any(|line| line.trim_start().starts_with("--json"));
        if has_flag {
            with.insert(command)
        } else {
            without.insert(command)
        };
    }
    assert!(with.contains("floe ps") && with.contains("floe token make") && without.contains("floe run"), "{with:?}");
    assert_eq!(printed.page.shapes.keys().cloned().collect::<BTreeSet<_>>(), with);
    assert_eq!(printed.page.without, without);
}

#[test]
fn lists_moves_and_ends_print_what_the_page_says() {
    let mut printed = Printed::new();
    let daemon =
        Floed::start_on("cpu", &[], &[("FLOE_CPU_DEVICES", "2"), ("FLOE_CPU_MEMORY", "1G"), ("FLOE_GRACE", "60")]);
    let on = ["--on", daemon.unix()];
    let program = Program::start(&printed, daemon.unix());
    assert_eq!(printed.run("floe gpus", &on, 0).as_array().map(Vec::len), Some(2));
    let rows = printed.run("floe ps", &on, 0);
    let session = rows[0]["session"].to_string();
    let of = |more: &[&'static str]| [&[&*session], more, &on].concat();
    assert_eq!(printed.moves("floe migrate", &of(&["--to", "1"]))["gpu"], 1);
    assert_eq!(printed.moves("floe suspend", &of(&[]))["gpu"], Value::Null);
    let resumed = printed.moves("floe resume", &of(&["--to", "0"]));
    assert!(resumed["gpu"] == 0 && resumed["phases"].as_array().is_some_and(|all| !all.is_empty()), "{resumed}");
    let upgraded = printed.moves("floe upgrade", &on);
    assert_eq!(upgraded.as_array().map(Vec::len), Some(1));
    let ended = printed.run("floe end", &of(&[]), 0);
    assert_eq!(ended, serde_json::json!({ "server": daemon.unix(), "session": rows[0]["session"] }));
    daemon.wait_for_workers(0);
    drop(program);
    // A session that does not wait for its client cannot leave its worker.
    let daemon = Floed::start_on("cpu", &[], &[("FLOE_GRACE", "0"), ("FLOE_CPU_MEMORY", "1G")]);
    let _program = Program::start(&printed, daemon.unix());
    let kept = printed.run("floe upgrade", &["--on", daemon.unix()], 1);
    assert!(kept[0]["kept"].as_str().is_some_and(|why| !why.is_empty()), "{kept}");
    assert!(printed.has_seen_both("floe upgrade", "[].kept"));
    let refused = printed.floe(&["end", "99", "--json", "--on", daemon.unix()]).output().expect("floe runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(125), 0), "{said}");
    assert!(said.starts_with("floe: ") && said.contains("no session of yours here"), "{said}");
}

#[test]
fn tokens_are_made_listed_and_revoked_as_the_page_says() {
    let mut printed = Printed::new();
    let folder = printed.home.path().join("tokens").display().to_string();
    let tokens = ["--tokens", &*folder];
    let made = printed.run("floe token make", &[&["alice"], &tokens[..]].concat(), 0);
    printed.run("floe token make", &[&["bob"], &tokens[..]].concat(), 0);
    assert_eq!(made["user"], "alice");
    let listed = printed.run("floe token list", &tokens, 0);
    let row = |rows: &Value, number: &Value| {
        rows.as_array().expect("a list").iter().find(|row| row["number"] == *number).cloned().expect("its row")
    };
    let before = row(&listed, &made["number"]);
    assert_eq!((&before["user"], &before["state"]), (&"alice".into(), &"good".into()));
    let drained = printed.run("floe token revoke", &[&["alice"], &tokens[..]].concat(), 0);
    assert_eq!((drained.as_array().map(Vec::len), &drained[0]["state"]), (Some(1), &"drains".into()));
    let ended = printed.run("floe token revoke", &[&["alice", "--end"], &tokens[..]].concat(), 0);
    assert_eq!(ended[0]["state"], "ended");
    assert_eq!(row(&printed.run("floe token list", &tokens, 0), &made["number"]), ended[0]);
    let nobody =
        printed.floe(&["token", "revoke", "carol", "--json", "--tokens", &folder]).output().expect("floe runs");
    assert_eq!((nobody.status.code(), nobody.stdout.len()), (Some(125), 0), "{nobody:?}");
}

#[test]
fn doctor_demo_and_settings_print_what_the_page_says() {
    let mut printed = Printed::new();
    let nobody = format!("unix://{}/nobody.sock", printed.home.path().display());
    let wrong = printed.run("floe doctor", &["--on", &nobody], 1);
    let findings = wrong["findings"].as_array().expect("a list");
    let of_server = findings.iter().find(|found| found["subject"] == format!("server {nobody}")).expect("its finding");
    assert_eq!(
        (&of_server["severity"], &of_server["advice"]),
        (&"wrong".into(), &"start one: floe serve, which says where its socket is".into())
    );
    assert!(printed.has_seen_both("floe doctor", ".findings[].advice"), "{wrong}");
    let version = Command::new(installation().join("bin/floe")).arg("--version").output().expect("floe runs");
    let version = String::from_utf8(version.stdout).expect("text");
    assert_eq!(format!("floe {}", wrong["floe"].as_str().expect("a version")), version.trim());
    let passed = printed.run("floe demo", &[], 0);
    assert!(passed["passed"] == true && passed["calls"].as_u64() > passed["waits"].as_u64(), "{passed}");
    let daemon = Floed::start_on("cpu", &[], &[("FLOE_CPU_MEMORY", "1M")]);
    let failed = printed.run("floe demo", &["--on", &format!("{}:0", daemon.unix())], 1);
    assert!(failed["passed"] == false && printed.has_seen_both("floe demo", ".calls"), "{failed}");
    let settings = printed.run("floe config show", &[], 0);
    assert!(settings.as_array().is_some_and(|rows| rows.iter().any(|row| row["setting"] == "devices")), "{settings}");
}

#[test]
fn what_stdout_does_not_take_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens").display().to_string();
    let commands: [&[&str]; 4] = [
        &["cdi", "--on", "gpu1:0"],
        &["completions", "bash"],
        &["doctor", "--json", "--on", "127.0.0.1:1:0"],
        &["token", "list", "--tokens", &tokens],
    ];
    let run = |arguments: &[&str], stdout: Stdio| {
        let mut command = Command::new(installation().join("bin/floe"));
        command.args(arguments).env("HOME", folder.path()).env("XDG_RUNTIME_DIR", folder.path());
        let output = command.stdout(stdout).stderr(Stdio::piped()).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let full = || Stdio::from(std::fs::File::create("/dev/full").expect("there"));
    let left = || Stdio::from(std::io::pipe().expect("made").1);
    for arguments in commands {
        let words = "floe: cannot write to stdout: No space left on device (os error 28)\n";
        assert_eq!(run(arguments, full()), (Some(125), words.to_owned()), "{arguments:?}");
        assert_eq!(run(arguments, left()), (Some(141), String::new()), "{arguments:?}");
    }
    // A token that nobody has seen is named, so that it can be revoked.
    for stdout in [full(), left()] {
        let (code, words) = run(&["token", "make", "alice", "--json", "--tokens", &tokens], stdout);
        let number = words.split_once(": nobody has token ").and_then(|(_, rest)| rest.split_once(" of alice\n"));
        let (number, rest) = number.unwrap_or_else(|| panic!("{words}"));
        assert_eq!((code, rest), (Some(125), &*format!("  floe token revoke {number}; then make another\n")));
        assert_eq!(run(&["token", "revoke", number, "--tokens", &tokens], Stdio::null()), (Some(0), String::new()));
    }
}
