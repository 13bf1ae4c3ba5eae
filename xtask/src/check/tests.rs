//! Each rule on a made-up repository: files come in, the first lines of what is found go out.

use std::fs;

use tempfile::TempDir;

use super::circles;
use super::listed::{FILE, Listed};
use super::shape::Shape;
use super::tree::Tree;

/// The root of a crate that keeps all rules.
const ROOT: &str = "#![forbid(unsafe_code)]\nmod a;\nmod b;\n";

/// A repository of one crate with these files beside or instead of good ones.
fn repository(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let good = [
        ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"one\"]\n"),
        ("one/Cargo.toml", "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"),
        ("one/src/lib.rs", ROOT),
        ("one/src/a.rs", "use crate::b::Low;\npub struct High(Low);\n"),
        ("one/src/b.rs", "pub struct Low;\n#[cfg(test)]\nmod tests {\n    use crate::a::High;\n}\n"),
        (FILE, ""),
        ("docs/page.md", "`one/src/a.rs` has `High`, see [the other](page.md#part) and `one/src/lib.rs`.\n"),
    ];
    for (name, text) in good.iter().chain(files) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("folders");
        fs::write(path, text).expect("a file");
    }
    folder
}

/// The state of a repository.
fn shape(repository: &TempDir) -> Shape {
    let root = repository.path();
    Shape::read(root, &Tree::read(root).expect("files")).expect("sources")
}

/// The first line of each finding.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let repository = repository(files);
    let findings = shape(&repository).against(&Listed::read(repository.path()).expect("a list"));
    findings.iter().map(|finding| finding.to_string().lines().next().unwrap_or_default().to_owned()).collect()
}

/// A function with so many lines between its braces.
fn function(lines: usize) -> String {
    format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines))
}

#[test]
fn a_good_repository_passes() {
    assert_eq!(found(&[]), [""; 0]);
}

#[test]
fn a_function_over_the_limit_is_found_where_it_is_no_test() {
    assert_eq!(found(&[("one/src/b.rs", &function(60))]), [""; 0]);
    assert_eq!(found(&[("one/src/b.rs", &function(61))]), ["function over 60 lines: one/src/b.rs: long: 61"]);
    let of_type = format!("struct T;\nimpl T {{\n{}}}\n", function(70));
    assert_eq!(found(&[("one/src/b.rs", &of_type)]), ["function over 60 lines: one/src/b.rs: T::long: 70"]);
    assert_eq!(found(&[("one/src/b.rs", &format!("#[test]\n{}", function(70)))]), [""; 0]);
}

#[test]
fn a_file_over_the_limit_is_found_without_its_tests() {
    let items = |count: usize| "const A: u8 = 0;\n".repeat(count);
    let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", items(500), items(100));
    assert_eq!(found(&[("one/src/b.rs", &with_tests)]), [""; 0]);
    let expected = "file over 500 lines without its tests: one/src/b.rs: 501";
    assert_eq!(found(&[("one/src/b.rs", &items(501))]), [expected]);
}

#[test]
fn a_folder_over_the_limit_is_found_in_source_trees() {
    let names: Vec<String> = (0..18).map(|number| format!("one/src/file{number}.txt")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(found(&files[..17]), [""; 0]);
    assert_eq!(found(&files), ["folder over 20 entries: one/src: 21"]);
    let elsewhere: Vec<String> = (0..30).map(|number| format!("one/data/file{number}.txt")).collect();
    let elsewhere: Vec<(&str, &str)> = elsewhere.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(found(&elsewhere), [""; 0]);
}

#[test]
fn a_circle_is_found_in_whatever_way_an_item_is_named() {
    let expected = ["files that use each other in a circle: one: 2"];
    for back in [
        "use crate::a::High;\npub struct Low;\n",
        "use crate::a::{self, High as Other};\npub struct Low;\n",
        "use super::a;\npub struct Low;\nfn f(_: a::High) {}\n",
        "pub struct Low;\nfn f(_: crate::a::High) {}\n",
        "pub struct Low;\nfn f() { println!(\"{}\", crate::a::High::SIZE) }\n",
        "pub struct Low;\nfn f() { use crate::a::High; }\n",
        "use crate::a::*;\npub struct Low;\nfn f(_: High) {}\n",
        "use crate::High;\npub struct Low;\n",
    ] {
        let root = format!("{ROOT}pub use a::High;\n");
        assert_eq!(found(&[("one/src/lib.rs", &root), ("one/src/b.rs", back)]), expected, "{back}");
    }
}

#[test]
fn a_file_that_names_no_item_of_another_makes_no_circle() {
    for other in [
        "use crate::a;\npub struct Low;\n",
        "use other::a::High;\npub struct Low;\n",
        "use crate::a::*;\npub struct Low;\nfn f(_: Elsewhere) {}\n",
        "pub struct Low;\n#[cfg(all(test, unix))]\nfn f(_: crate::a::High) {}\n",
        "pub struct Low;\nfn f(a: u8) { println!(\"{}\", a) }\n",
    ] {
        assert_eq!(found(&[("one/src/b.rs", other)]), [""; 0], "{other}");
    }
    // A re-export of a parent leads past it.
    let parent = "mod deep;\npub use deep::Low;\n";
    let deep = [("one/src/b.rs", parent), ("one/src/b/deep.rs", "use crate::Root;\npub struct Low;\n")];
    let root = format!("{ROOT}pub struct Root;\n");
    assert_eq!(found(&[deep[0], deep[1], ("one/src/lib.rs", &root)]), [""; 0]);
}

#[test]
fn groups_and_a_shortest_way_around_are_found() {
    let arrows = [(0, 1), (1, 2), (2, 0), (2, 1), (3, 0), (4, 5), (5, 4)];
    assert_eq!(circles::groups(&arrows), [vec![0, 1, 2], vec![4, 5]]);
    assert_eq!(circles::shortest(&[0, 1, 2], &arrows), [1, 2, 1]);
}

#[test]
fn unsafe_code_is_found_where_the_list_has_none() {
    let unsafe_file = ("one/src/b.rs", "pub struct Low;\nfn f() {\n    unsafe { g() }\n}\n");
    let root = ("one/src/lib.rs", "mod a;\nmod b;\n");
    let expected = "unsafe code in an unlisted file: one/src/b.rs:3";
    assert_eq!(found(&[unsafe_file, root]), [expected]);
    let list = (FILE, "[unsafe]\none = [\"one/src/b.rs\"]\n");
    assert_eq!(found(&[unsafe_file, root, list]), [""; 0]);
    let stale = "xtask/shape.toml lists a file without unsafe code: one/src/b.rs";
    assert_eq!(found(&[list]), [stale]);
}

#[test]
fn a_crate_that_does_not_forbid_unsafe_code_is_found() {
    let lacks = "crate without unsafe code that does not forbid it: one/src/";
    assert_eq!(found(&[("one/src/lib.rs", "mod a;\nmod b;\n")]), [format!("{lacks}lib.rs")]);
    assert_eq!(found(&[("one/src/main.rs", "fn main() {}\n")]), [format!("{lacks}main.rs")]);
    assert_eq!(found(&[("one/tests/whole.rs", "fn f() {}\n")]), [""; 0]);
}

#[test]
fn missing_names_of_pages_are_found() {
    for name in [
        "`one/src/gone.rs`",
        "`one/gone/`",
        "`gone.rs`",
        "`one/src/a.rs: gone`",
        "`gone_by_now()`",
        "`High::gone`",
        "`GoneType`",
        "[there](gone.md)",
    ] {
        let what = name.trim_matches('`').trim_start_matches("[there](").trim_end_matches(')');
        let what = if name.ends_with("()`") { "gone_by_now()" } else { what };
        let expected = format!("docs/page.md:3 names a missing item: {what}");
        assert_eq!(found(&[("docs/page.md", &format!("# Page\n\nSee {name}.\n"))]), [expected]);
    }
    let there = "`a.rs`, `src/b.rs`, `one/src/`, `one/src/a.rs: helps()`, `High`, `x/y`, `--flag`, [out](https://host/a)\n\
                 ```\n`gone.rs`\n```\n";
    let code = ("one/src/a.rs", "use crate::b::Low;\npub struct High(Low);\nfn helps() {}\n");
    assert_eq!(found(&[code, ("docs/page.md", there), ("CHANGELOG.md", "`one/src/gone.rs`")]), [""; 0]);
}

#[test]
fn the_list_shrinks_and_never_grows() {
    let list = |size: usize| format!("[functions]\n\"one/src/b.rs: long\" = {size}\n");
    let with = |listed: usize, lines: usize| found(&[(FILE, &list(listed)), ("one/src/b.rs", &function(lines))]);
    assert_eq!(with(70, 70), [""; 0]);
    assert_eq!(with(70, 71), ["function over 60 lines, listed as 70: one/src/b.rs: long: 71"]);
    let stale = "xtask/shape.toml lists a function as 70, and it is";
    assert_eq!(with(70, 65), [format!("{stale} 65: one/src/b.rs: long")]);
    assert_eq!(with(70, 10), [format!("{stale} within the limit: one/src/b.rs: long")]);

    let repository = repository(&[(FILE, &list(70)), ("one/src/b.rs", &function(65)), ("one/src/a.rs", &function(80))]);
    let now = shape(&repository).now;
    let shrunk = Listed::read(repository.path()).expect("a list").shrunk(&now);
    shrunk.write(repository.path()).expect("the list is written");
    let read = Listed::read(repository.path()).expect("the written list");
    assert_eq!(read.functions, [("one/src/b.rs: long".to_owned(), 65)].into());
}
