//! Each promise of `docs/promises.md` names tests, and each test that the page names exists.
//! In: the page, and the sources that it names. Out: the tests that are not there, the promises that name none.
//! It never runs a named test and cannot tell whether one asserts enough.

use floe_tests::repository;

/// The folders in which a file is a test: a fuzz target has no other name.
const FUZZ_TARGETS: &str = "fuzz/fuzz_targets/";
/// How the heading of a promise begins; its number follows.
const PROMISE: &str = "### P";

/// A test as the page names it: `path.rs: function`, or the path of a fuzz target.
struct Named<'a> {
    path: &'a str,
    function: Option<&'a str>,
}

impl<'a> Named<'a> {
    /// The test that a code span of the page names, if it names one.
    fn of(span: &'a str) -> Option<Self> {
        if let Some(end) = span.find(".rs:") {
            return Some(Self { path: &span[..end + 3], function: Some(span[end + 4..].trim()) });
        }
        let is_target = span.starts_with(FUZZ_TARGETS) && span.ends_with(".rs");
        is_target.then_some(Self { path: span, function: None })
    }

    /// Why there is no such test.
    fn problem(&self, source: impl Fn(&str) -> Option<String>) -> Option<String> {
        let Self { path, function } = self;
        let Some(text) = source(path) else { return Some(format!("no such file: {path}")) };
        match function {
            Some(function) if !has_test(&text, function) => Some(format!("{path} has no test: {function}")),
            None if !text.contains("fuzz_target!") => Some(format!("no fuzz target: {path}")),
            Some(_) | None => None,
        }
    }
}

/// Whether a source has a test of this name that is not ignored.
fn has_test(source: &str, name: &str) -> bool {
    let (lines, head): (Vec<&str>, _) = (source.lines().map(str::trim).collect(), format!("fn {name}("));
    let is_test = |at: usize| {
        let above = || lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        above().any(|line| *line == "#[test]") && !above().any(|line| line.starts_with("#[ignore"))
    };
    lines.iter().enumerate().any(|(at, line)| line.starts_with(&head) && is_test(at))
}

/// The tests that lines of the page name.
fn named<'a>(lines: &[&'a str]) -> Vec<Named<'a>> {
    lines.iter().flat_map(|line| line.split('`').skip(1).step_by(2)).filter_map(Named::of).collect()
}

/// The promises' numbers as they stand in their headings, each with the lines up to the next heading.
fn promises<'a>(lines: &[&'a str]) -> Vec<(&'a str, Vec<&'a str>)> {
    let number = |line: &'a str| line.strip_prefix(PROMISE)?.split_once('.').map(|(number, _)| number);
    let section = |(at, line): (usize, &&'a str)| {
        let rest = lines[at + 1..].iter().copied();
        number(line).map(|number| (number, rest.take_while(|line| !line.starts_with('#')).collect()))
    };
    lines.iter().enumerate().filter_map(section).collect()
}

/// The mistakes of a page, given the sources by path.
fn wrong(page: &str, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let lines: Vec<&str> = page.lines().collect();
    let promises = promises(&lines);
    let mut wrong: Vec<String> = named(&lines).iter().filter_map(|test| test.problem(&source)).collect();
    for (place, (number, section)) in (1..).zip(&promises) {
        if *number != place.to_string() {
            wrong.push(format!("P{number} stands in the place of P{place}"));
        }
        if named(section).is_empty() {
            wrong.push(format!("P{number} names no test"));
        }
    }
    if promises.is_empty() {
        wrong.push("no promise is found".to_owned());
    }
    wrong
}

#[test]
fn every_promise_is_held_by_tests_that_exist() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).ok();
    let page = read("docs/promises.md").expect("the page is part of the repository");
    let wrong = wrong(&page, read);
    assert!(wrong.is_empty(), "docs/promises.md:\n{}", wrong.join("\n"));
}

#[test]
fn a_page_that_promises_more_than_tests_hold_is_found_out() {
    let source = |path: &str| match path {
        "a.rs" => Some("#[test]\nfn holds() {}\n  #[test]\n  // Why.\n  fn too() {}\nfn helps() {}\n".to_owned()),
        "b.rs" => Some("#[test]\n#[ignore = \"slow\"]\nfn sleeps() {}\n".to_owned()),
        "fuzz/fuzz_targets/c.rs" => Some("fuzz_target!(|bytes: &[u8]| {});".to_owned()),
        "fuzz/fuzz_targets/d.rs" => Some("fn main() {}".to_owned()),
        _ => None,
    };
    let right = "# Page\n### P1. One\n`a.rs` and `x: y`.\n- `a.rs: holds`\n- `a.rs: too`\n\n\
                 ### P2. Two\n- `fuzz/fuzz_targets/c.rs`\n## End\n";
    assert_eq!(wrong(right, source), [""; 0]);
    for (page, expected) in [
        ("### P1. One\n- `gone.rs: holds`\n", "no such file: gone.rs"),
        ("### P1. One\n- `a.rs: hold`\n", "a.rs has no test: hold"),
        ("### P1. One\n- `a.rs:helps`\n", "a.rs has no test: helps"),
        ("### P1. One\n- `b.rs: sleeps`\n", "b.rs has no test: sleeps"),
        ("### P1. One\n- `fuzz/fuzz_targets/gone.rs`\n", "no such file: fuzz/fuzz_targets/gone.rs"),
        ("### P1. One\n- `fuzz/fuzz_targets/d.rs`\n", "no fuzz target: fuzz/fuzz_targets/d.rs"),
        ("### P1. One\nTrust us: `a.rs`.\n### P2. Two\n- `a.rs: holds`\n", "P1 names no test"),
        ("### P1. One\n## End\n- `a.rs: holds`\n", "P1 names no test"),
        ("### P2. Two\n- `a.rs: holds`\n", "P2 stands in the place of P1"),
        ("# Page\n`a.rs: holds`\n", "no promise is found"),
        ("### P1. One\n- `a.rs: holds`\n## Cost\n`gone.rs: holds`\n", "no such file: gone.rs"),
    ] {
        assert_eq!(wrong(page, source), [expected], "{page}");
    }
}
