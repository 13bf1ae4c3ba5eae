//! Values of flags, of enumerations and of members of structs, each passed to the driver API by an ordinary program.
//! In: `api/values.toml`, which says for each what the answer is, and the program `tests/programs/values`, which makes the calls
//! through floe. Out: every answer that is another. What CUDA does not name is passed, too. That nothing of the header is
//! missing in the table, `cargo xtask check-header` says.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use floe_tests::{Floed, Program, compile_c, repository};
use serde::Deserialize;

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    sets: BTreeMap<String, BTreeMap<String, i64>>,
    row: Vec<Row>,
    /// What only the check of the header reads.
    #[serde(rename = "elsewhere")]
    _elsewhere: BTreeMap<String, Vec<String>>,
}

/// Probes whose values have the same answers; `SUCCESS` where none is named.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    of: Vec<String>,
    /// The values, by the names that CUDA has for them.
    #[serde(default)]
    set: Option<String>,
    /// The values are bits of a word of so many; each other bit is passed, too. Without it each number beside the set's is.
    #[serde(default)]
    bits: Option<u32>,
    /// By code: names of the set.
    #[serde(default)]
    answers: BTreeMap<String, Vec<String>>,
    /// The same, where the CPU device has less than GPUs.
    #[serde(default)]
    on_cpu_device: BTreeMap<String, Vec<String>>,
    /// Values without names and their answers, instead of a set or beside it.
    #[serde(default)]
    numbers: BTreeMap<String, Vec<i64>>,
    /// The answer to what CUDA does not name.
    #[serde(default = "invalid")]
    beyond: String,
    /// The answer to 0 where that has no name.
    #[serde(default = "success")]
    zero: String,
    /// Why the answer to what CUDA does not name is another than INVALID_VALUE.
    #[serde(default, rename = "why")]
    why: Option<String>,
}

fn invalid() -> String {
    "INVALID_VALUE".to_owned()
}

fn success() -> String {
    "SUCCESS".to_owned()
}

/// The codes that the table names.
fn code(name: &str) -> i64 {
    match name {
        "SUCCESS" => 0,
        "INVALID_VALUE" => 1,
        "INVALID_DEVICE" => 101,
        "INVALID_CONTEXT" => 201,
        "UNSUPPORTED_LIMIT" => 215,
        "UNSUPPORTED_EXEC_AFFINITY" => 224,
        "ILLEGAL_STATE" => 401,
        "NOT_SUPPORTED" => 801,
        "INVALID_CLUSTER_SIZE" => 912,
        "UNKNOWN" => 999,
        other => panic!("api/values.toml: no code of this name: {other}"),
    }
}

impl Row {
    /// Each value with its answer, and its name where it has one.
    fn values(&self, sets: &BTreeMap<String, BTreeMap<String, i64>>) -> Vec<(i64, i64, String)> {
        let numbers = self
            .numbers
            .iter()
            .flat_map(|(answer, values)| values.iter().map(move |value| (*value, code(answer), value.to_string())));
        let Some(set) = &self.set else { return numbers.collect() };
        let set = sets.get(set).unwrap_or_else(|| panic!("api/values.toml: no set: {set}"));
        let named = set.iter().map(|(name, value)| (*value, self.answer_to(name), name.clone()));
        let said: BTreeSet<i64> = self.numbers.values().flatten().copied().collect();
        let unnamed = self.unnamed(set).into_iter().filter(|(value, ..)| !said.contains(value));
        numbers.chain(named).chain(unnamed).collect()
    }

    fn answer_to(&self, name: &str) -> i64 {
        let on_cpu = std::env::var("FLOE_TEST_DEVICE").is_err();
        let tables = [on_cpu.then_some(&self.on_cpu_device), Some(&self.answers)];
        let mut all = tables.into_iter().flatten().flatten();
        all.find(|(_, names)| names.iter().any(|other| other == name)).map_or(0, |(answer, _)| code(answer))
    }

    /// What CUDA does not name: each other bit, or the numbers around those that have names.
    fn unnamed(&self, set: &BTreeMap<String, i64>) -> Vec<(i64, i64, String)> {
        let named: BTreeSet<i64> = set.values().copied().collect();
        // The last of some enumerations is none, but keeps them as wide as an int.
        let real = || named.iter().copied().filter(|value| *value != i64::from(i32::MAX));
        let beyond = code(&self.beyond);
        let Some(bits) = self.bits else {
            let last = real().max().unwrap_or(0);
            let around = [last + 1, 1000, if real().min() > Some(0) { 0 } else { i64::from(u32::MAX) }];
            return around
                .into_iter()
                .filter(|value| !named.contains(value))
                .map(|v| (v, beyond, v.to_string()))
                .collect();
        };
        let known = real().fold(0, |all, value| all | value);
        let other = (0..bits).map(|bit| 1_i64 << bit).filter(|bit| known & bit == 0);
        let other = other.map(|value| (value, beyond, format!("{value:#x}")));
        let zero = (!named.contains(&0)).then(|| (0, code(&self.zero), "0".to_owned()));
        other.chain(zero).collect()
    }
}

fn table() -> Table {
    let text = std::fs::read_to_string(repository().join("api/values.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

#[test]
fn every_value_of_every_flag_and_enumeration_has_its_answer() {
    let table = table();
    let daemon = Floed::start_with(&[], &[("FLOE_CPU_DEVICES", "2")]);
    let folder = daemon.token_file().parent().unwrap().to_path_buf();
    let wanted: Vec<_> = table
        .row
        .iter()
        .flat_map(|row| {
            let values = row.values(&table.sets);
            row.of.iter().flat_map(move |probe| values.clone().into_iter().map(move |value| (probe.clone(), value)))
        })
        .collect();
    let mut questions = String::new();
    wanted.iter().for_each(|(probe, (value, ..))| writeln!(questions, "{probe} {value}").unwrap());
    let file = folder.join("questions");
    std::fs::write(&file, questions).unwrap();
    let places = [0, 1].map(|gpu| format!("{}:{gpu}", daemon.unix()));
    let program = floe_tests::built_examples().join("values");
    let outcome = Program::new(program, &[file.to_str().unwrap()]).on_each(&daemon, &places).run();
    let answers: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!((outcome.code, answers.len()), (Some(0), wanted.len()), "it ended early: {}", outcome.stderr);
    let mut wrong = Vec::new();
    for ((probe, (value, code, name)), answer) in wanted.iter().zip(answers) {
        let got = answer.strip_prefix(&format!("{probe} {value} "));
        if got.and_then(|got| got.parse().ok()) != Some(*code) {
            wrong.push(format!("{probe} {name}: {code}, and not: {answer}"));
        }
    }
    assert!(wanted.len() > 3000 && wrong.is_empty(), "{} of {}:\n{}", wrong.len(), wanted.len(), wrong.join("\n"));
}

#[test]
fn each_probe_of_the_program_is_in_one_row_and_others_say_why() {
    let table = table();
    let program = floe_tests::built_examples().join("values");
    let listed = Program::new(program, &["--list"]).on_the_device_library().run().stdout;
    let made: BTreeSet<&str> = listed.lines().collect();
    let mut named = BTreeSet::new();
    for row in &table.row {
        assert!(row.beyond == "INVALID_VALUE" || row.why.is_some(), "{:?}: no reason", row.of);
        for probe in &row.of {
            assert!(named.insert(probe.as_str()), "in two rows: {probe}");
        }
    }
    assert_eq!(made, named);
}

/// Codes of failed captures, one line each. The program runs natively, too, where these lines are to be the same.
#[test]
fn a_failed_capture_says_what_failed() {
    let daemon = Floed::start();
    let program = daemon.token_file().parent().unwrap().join("capture_codes");
    compile_c("capture_codes", &program);
    let through = Program::new(program.clone(), &[]).on(&daemon, daemon.unix()).run();
    assert_eq!(through.code, Some(0), "{through:?}");
    let alone = Program::new(program, &[]).on_the_device_library().run();
    assert_eq!(through.stdout, alone.stdout);
    let said = |what: &str| {
        let line = through.stdout.lines().find(|line| line.get(..52).map(str::trim) == Some(what));
        line.unwrap_or_else(|| panic!("no line: {what}"))[52..].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let lines = [
        // Unjoined work is the only failure that UNJOINED is said of.
        ("fork with work, not joined", "s1 0 904 s0"),
        ("fork ended by itself", "903 s2 901 901 s0"),
        ("synchronize", "900 s2 901 901 s0"),
        ("query of a captured event", "907 s2 901 901 s0"),
        ("wait for an event from outside", "905 s2 901 901 s0"),
        ("two captures meet", "902 901 s2 901 901 s0"),
        ("fork to the legacy stream", "906 s2 901 901 s0"),
        ("end on another thread", "908 s0 401"),
        ("end without a beginning", "401"),
    ];
    for (what, codes) in lines {
        assert_eq!(said(what), codes, "{what}");
    }
}
