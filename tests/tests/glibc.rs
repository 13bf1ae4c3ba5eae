//! Programs with a C library of their own load the client's libraries: the test checks which versions these require.

use std::collections::BTreeSet;
use std::process::Command;

/// The C library of RHEL 8 and of manylinux_2_28, as minor version.
const OLDEST: u32 = 28;

#[test]
fn the_client_libraries_load_beside_glibc_2_28() {
    let dist = floe_tests::made_folder("FLOE_DIST", "dist");
    for name in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        let library = dist.join("lib/client").join(name);
        let output = Command::new("objdump").arg("-T").arg(&library).output().expect("binutils are installed");
        assert!(output.status.success(), "{output:?}");
        let table = String::from_utf8(output.stdout).expect("names of symbols are text");
        let needed: BTreeSet<(u32, &str)> = table.lines().filter_map(of_glibc).collect();
        assert!(needed.len() > 50, "{name}: {needed:?}");
        let newer: Vec<_> = needed.iter().filter(|(minor, _)| *minor > OLDEST).collect();
        assert!(newer.is_empty(), "{name} wants more than glibc 2.{OLDEST} has: {newer:?}");
    }
}

/// A line's name and the minor version of glibc that it asks for.
fn of_glibc(line: &str) -> Option<(u32, &str)> {
    let mut words = line.split_whitespace().rev();
    let name = words.next()?;
    let version = words.find_map(|word| word.trim_matches(['(', ')']).strip_prefix("GLIBC_2."))?;
    Some((version.split('.').next()?.parse().ok()?, name))
}
