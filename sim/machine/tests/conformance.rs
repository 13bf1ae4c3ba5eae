//! Golden PTX files: each of `ptx/*.ptx` is one kernel with its launch, inputs and expected results in its own header.
//! Every file is loaded, launched and compared through the machine's public interface. It runs on one worker and on
//! two, with every set of vector instructions of this host. It also runs in parts: stopped, saved and continued all the
//! time.
//! The header language is described in `ptx/README.md`; a file that states nothing to check is an error.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "values are bits here, and the modules serve several test programs"
)]

mod header;
mod rig;

use std::path::{Path, PathBuf};

use floe_machine::{FaultKind, Level, LoadError, Outcome};
use header::{Argument, Header, Values};
use rig::{Rig, parameters};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ptx");
    let entries = std::fs::read_dir(folder).expect("the folder of golden files");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    paths.sort();
    paths
}

/// Runs one file; an error says what differs.
fn check(
    text: &str,
    header: &Header,
    base: u64,
    (workers, level, in_pieces): (usize, Level, bool),
) -> Result<(), String> {
    let mut device = Rig::new(base, workers, level);
    device.in_pieces = in_pieces;
    let loaded = device.load(text).and_then(|program| {
        let kernel = program.kernel(&header.kernel)?;
        Ok((program, kernel))
    });
    let (_program, kernel) = match (loaded, &header.refused) {
        (Ok(_), Some((line, what))) => return Err(format!("accepted; expected refusal in line {line}: {what}")),
        (Ok(loaded), None) => loaded,
        (Err(error), Some((line, what))) => return check_refusal(&error, *line, what),
        (Err(error), None) => return Err(format!("refused: {error}")),
    };
    let mut addresses = Vec::new();
    let mut values = Vec::new();
    for argument in &header.arguments {
        match argument {
            Argument::Buffer(name, contents) => {
                let address = device.upload(&contents.bytes);
                addresses.push((name.clone(), address));
                values.push(address.to_le_bytes().to_vec());
            }
            Argument::Value(contents) => values.push(contents.bytes.clone()),
        }
    }
    let mut launch = device.launch(&kernel, 1, 1, parameters(&kernel, &values)?);
    launch.grid = header.grid;
    launch.block = header.block;
    launch.dynamic_shared = header.shared;
    launch.cooperative = header.cooperative;
    let outcome = device.run(launch)?;
    check_outcome(&outcome, header)?;
    for (name, expected) in &header.expected {
        let (_, address) = addresses.iter().find(|(other, _)| other == name).ok_or(format!("no buffer: {name}"))?;
        let got = device.download(*address, expected.bytes.len());
        check_buffer(name, expected, &got)?;
    }
    match &header.printed {
        Some(expected) if *expected != device.printed() => {
            Err(format!("printed {:?}, expected {expected:?}", device.printed()))
        }
        _ => Ok(()),
    }
}

fn check_refusal(error: &LoadError, line: u32, what: &str) -> Result<(), String> {
    let at = match error {
        LoadError::Unsupported { line, .. } | LoadError::Syntax { line, .. } => *line,
        _ => 0,
    };
    let message = error.to_string();
    if at == line && message.contains(what) {
        return Ok(());
    }
    Err(format!("refused in line {at} with {message:?}, expected line {line} and {what:?}"))
}

fn check_outcome(outcome: &Outcome, header: &Header) -> Result<(), String> {
    match (outcome, &header.fault) {
        (Outcome::Done, None) => Ok(()),
        (Outcome::Fault(fault), Some((kind, line))) if fault.kind == *kind && (*line == 0 || fault.line == *line) => {
            if header.thread.is_some_and(|thread| thread != fault.thread) {
                return Err(format!("fault of thread {:?}: {fault}", fault.thread));
            }
            Ok(())
        }
        (outcome, None) => Err(format!("{outcome:?}")),
        (outcome, Some(fault)) => Err(format!("{outcome:?}, expected fault {fault:?}")),
    }
}

fn check_buffer(name: &str, expected: &Values, got: &[u8]) -> Result<(), String> {
    let wrong: Vec<usize> = (0..expected.len()).filter(|&i| !expected.agrees(i, got)).collect();
    let Some(&first) = wrong.first() else {
        return Ok(());
    };
    Err(format!(
        "{name}: {} of {} differ, first [{first}]: {}, expected {}",
        wrong.len(),
        expected.len(),
        expected.show(first, got),
        expected.show(first, &expected.bytes)
    ))
}

#[test]
fn every_golden_file_runs_as_its_header_says() {
    let mut failures = Vec::new();
    let files = files();
    assert!(files.len() > 40, "golden files are missing: {}", files.len());
    for (index, path) in files.iter().enumerate() {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).expect("readable");
        let header = match Header::parse(&text) {
            Ok(header) => header,
            Err(error) => {
                failures.push(format!("{name}: header: {error}"));
                continue;
            }
        };
        let levels = Level::available().into_iter().map(|level| (2, level, false));
        for way in levels.chain([(1, Level::best(), false), (1, Level::best(), true)]) {
            let base = 0x4000_0000_0000 + ((index as u64) << 33);
            let result = check(&text, &header, base, way);
            match (result, &header.failing) {
                (Err(error), None) => failures.push(format!("{name} {way:?}: {error}")),
                (Ok(()), Some(why)) => failures.push(format!("{name}: passes, but is listed as failing: {why}")),
                _ => {}
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_fault_has_the_code_a_program_expects() {
    let codes = [
        (FaultKind::IllegalAddress, 700),
        (FaultKind::Assert, 710),
        (FaultKind::Misaligned, 716),
        (FaultKind::InvalidProgramCounter, 718),
        (FaultKind::Trap, 719),
    ];
    for (kind, code) in codes {
        assert_eq!(kind.code(), code);
    }
}
