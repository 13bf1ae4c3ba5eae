//! `ncclConfig_t` and `ncclCollConfig_t`, of all versions up to NCCL 2.32: structures that say their own size and version.
//! In: the program's structures. Out: the numbers that it sets, in the order of the wire; what floe cannot carry, by its name.
//! Nothing that a program sets is left out silently.

use std::ffi::{CStr, c_char, c_int};

use floe_nccl::{CONFIG_NUMBERS, code};

use crate::comms::Comm;
use crate::groups::Settings;
use crate::session::{Failure, Outcome};

/// `ncclConfig_t` of NCCL 2.32; programs of older versions say that theirs is shorter.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    /// cgaClusterSize, minCTAs, maxCTAs.
    first: [c_int; 3],
    net_name: *const c_char,
    /// splitShare, trafficClass.
    second: [c_int; 2],
    comm_name: *const c_char,
    /// collnetEnable and all that follow it.
    rest: [c_int; CONFIG_NUMBERS - 5],
}

impl Config {
    /// With this head, and no member set.
    fn unset(size: usize, magic: u32, version: u32) -> Self {
        Self {
            size,
            magic,
            version,
            blocking: UNDEFINED,
            first: [UNDEFINED; 3],
            net_name: std::ptr::null(),
            second: [UNDEFINED; 2],
            comm_name: std::ptr::null(),
            rest: [UNDEFINED; CONFIG_NUMBERS - 5],
        }
    }
}

/// `ncclCollConfig_t` of NCCL 2.32.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CallConfig {
    size: usize,
    magic: u32,
    version: u32,
    extensions: usize,
    /// minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize.
    numbers: [c_int; 4],
    algorithms: *const c_char,
    is_forced: c_int,
    policy: c_int,
    tag: u64,
    event: usize,
}

const MAGIC: u32 = 0xcafe_beef;
const UNDEFINED: c_int = c_int::MIN;
/// Bytes before the first setting.
const HEAD: usize = 16;
/// The newest version whose structures are known here.
const NEWEST: u32 = 23_299;
/// Since which version the program's structure has the numbers of `rest`: before, its bytes there mean nothing.
const SINCE: [(u32, usize); 7] =
    [(22_700, 4), (22_800, 6), (22_900, 8), (23_000, 9), (23_005, 10), (23_100, 14), (23_200, 15)];
/// Since when there is a traffic class.
const TRAFFIC_CLASS: u32 = 22_500;
/// The one network that workers have.
const NETWORK: &[u8] = b"socket";

fn uninitialized() -> Failure {
    Failure::new(code::INVALID_ARGUMENT, "a configuration without its initializer of nccl.h")
}

/// Copies a structure that begins with its size, as far as both have it, over `to`. The bytes that are left.
///
/// # Safety
/// `from` has as many bytes as its first field says.
unsafe fn copy<T: Copy>(from: *const T, to: &mut T) -> Outcome<Vec<u8>> {
    // SAFETY: every version of the structure begins with its size.
    let size = unsafe { from.cast::<usize>().read() };
    // Longer ones are no structures: a page is more than NCCL will ever have.
    if !(HEAD..=4096).contains(&size) {
        return Err(uninitialized());
    }
    // SAFETY: our caller says so.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
    let (known, left) = bytes.split_at(size.min(size_of::<T>()));
    // SAFETY: it has no fewer bytes than are copied, and any bytes are values of its fields.
    unsafe { std::ptr::copy_nonoverlapping(known.as_ptr(), std::ptr::from_mut(to).cast::<u8>(), known.len()) };
    Ok(left.to_vec())
}

/// Whether bytes that a newer structure has beyond the known ones are as its initializer leaves them: numbers that are not
/// defined, addresses that are NULL, and what fills up to eight bytes.
fn are_untouched(bytes: &[u8]) -> bool {
    bytes.chunks(8).all(|unit| {
        let is_undefined = |word: &[u8]| word == UNDEFINED.to_ne_bytes();
        let (low, high) = unit.split_at(unit.len().min(4));
        unit.iter().all(|byte| *byte == 0)
            || (is_undefined(low) && (is_undefined(high) || high.iter().all(|byte| *byte == 0)))
    })
}

/// What a program sets; without a configuration a communicator has its parent's, and one without a parent blocks.
///
/// # Safety
/// `config` is NULL or has as many bytes as its first field says, and its texts end.
pub(super) unsafe fn settings(config: *const Config, parent: Option<&Comm>) -> Outcome<Settings> {
    if config.is_null() {
        return Ok(Settings { blocks: parent.is_none_or(|parent| parent.blocks), numbers: None, name: None });
    }
    let mut read = Config::unset(0, 0, 0);
    // SAFETY: our caller says so.
    let left = unsafe { copy(config, &mut read)? };
    if read.magic != MAGIC {
        return Err(uninitialized());
    }
    if read.version > NEWEST && !are_untouched(&left) {
        let words = "ncclConfig_t sets a member that is newer than NCCL 2.32, which floe does not know";
        return Err(Failure::new(code::INVALID_USAGE, words));
    }
    // SAFETY: our caller says so.
    unsafe { refuse_network(read.net_name)? };
    let name = (!read.comm_name.is_null()).then(|| {
        // SAFETY: the program's text ends.
        unsafe { CStr::from_ptr(read.comm_name) }.to_owned()
    });
    Ok(Settings { blocks: read.blocking != 0, numbers: Some(numbers(&read)), name })
}

/// In the order of the wire.
fn numbers(read: &Config) -> [c_int; CONFIG_NUMBERS] {
    let mut all = [UNDEFINED; CONFIG_NUMBERS];
    let (head, rest) = all.split_at_mut(5);
    let traffic_class = if read.version < TRAFFIC_CLASS { UNDEFINED } else { read.second[1] };
    head.copy_from_slice(&[read.first[0], read.first[1], read.first[2], read.second[0], traffic_class]);
    let known = SINCE.iter().rev().find(|(version, _)| read.version >= *version).map_or(0, |(_, numbers)| *numbers);
    rest[..known].copy_from_slice(&read.rest[..known]);
    all
}

/// # Safety
/// `name` is NULL or ends.
unsafe fn refuse_network(name: *const c_char) -> Outcome<()> {
    if name.is_null() {
        return Ok(());
    }
    // SAFETY: our caller says so.
    let name = unsafe { CStr::from_ptr(name) };
    if name.to_bytes().eq_ignore_ascii_case(NETWORK) {
        return Ok(());
    }
    let words =
        format!("netName of ncclConfig_t: beside the GPU there is Socket only, and not {}", name.to_string_lossy());
    Err(Failure::new(code::INVALID_USAGE, &words))
}

/// Checks the configuration of one call: it may be there, but nothing of it is carried to NCCL.
///
/// # Safety
/// `config` is NULL or has as many bytes as its first field says, and its text ends.
pub(super) unsafe fn refuse_call_settings(config: *const CallConfig) -> Outcome<()> {
    if config.is_null() {
        return Ok(());
    }
    let mut read = CallConfig {
        size: 0,
        magic: 0,
        version: 0,
        extensions: 0,
        numbers: [UNDEFINED; 4],
        algorithms: std::ptr::null(),
        is_forced: 1,
        policy: UNDEFINED,
        tag: 0,
        event: 0,
    };
    // SAFETY: our caller says so.
    let left = unsafe { copy(config, &mut read)? };
    if read.magic != MAGIC {
        return Err(uninitialized());
    }
    // NCCL itself ignores every extension, and a profiler's tag is for plugins, which workers have none of.
    let is_chosen = !read.algorithms.is_null() && {
        // SAFETY: our caller says so.
        !unsafe { CStr::from_ptr(read.algorithms) }.is_empty()
    };
    let names = ["minCTAs", "maxCTAs", "nvlsCTAs", "cgaClusterSize"].into_iter().zip(read.numbers);
    let number = names.filter(|(_, number)| *number != UNDEFINED).map(|(name, _)| name).next();
    let other = [
        (is_chosen, "algSelection"),
        (read.policy != UNDEFINED, "CTAPolicy"),
        (read.event != 0, "launchCompletionEvent"),
        (read.version > NEWEST && !are_untouched(&left), "a member that is newer than NCCL 2.32"),
    ];
    match number.or_else(|| other.into_iter().find(|(is_set, _)| *is_set).map(|(_, name)| name)) {
        None => Ok(()),
        Some(name) => {
            let words = format!("ncclCollConfig_t sets {name}, which is not there for NCCL beside the GPU");
            Err(Failure::new(code::INVALID_USAGE, &words))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// As `NCCL_CONFIG_INITIALIZER` of a version makes it, of so many bytes.
    fn initialized(version: u32, size: usize) -> Config {
        Config::unset(size, MAGIC, version)
    }

    fn read(config: &Config) -> Result<[c_int; CONFIG_NUMBERS], String> {
        // SAFETY: it has the bytes that it says, and no texts.
        let settings = unsafe { settings(config, None) }.map_err(|failure| failure.words)?;
        Ok(settings.numbers.unwrap_or_default())
    }

    #[test]
    fn layouts_are_those_of_nccl_2_32() {
        assert_eq!(
            [offset_of!(Config, net_name), offset_of!(Config, comm_name), offset_of!(Config, rest)],
            [32, 48, 56]
        );
        assert_eq!(size_of::<Config>(), 120);
        assert_eq!([offset_of!(CallConfig, numbers), offset_of!(CallConfig, algorithms)], [24, 40]);
        assert_eq!([offset_of!(CallConfig, tag), offset_of!(CallConfig, event), size_of::<CallConfig>()], [56, 64, 72]);
    }

    #[test]
    fn numbers_of_each_version_are_carried_and_the_bytes_behind_them_mean_nothing() {
        let mut config = initialized(23_203, 120);
        config.rest[14] = 3;
        assert_eq!(read(&config).map(|all| all[19]), Ok(3), "nvlsHostMode");
        // NCCL 2.30.3 has nine numbers there, and four bytes that fill up.
        let mut config = initialized(23_003, 96);
        (config.rest[8], config.rest[9]) = (7, 0);
        assert_eq!(read(&config).map(|all| (all[13], all[14])), Ok((7, UNDEFINED)));
        let mut config = initialized(22_809, 80);
        (config.rest[5], config.rest[6]) = (1, 1);
        assert_eq!(read(&config).map(|all| (all[10], all[11])), Ok((1, UNDEFINED)));
    }

    #[test]
    fn what_is_not_carried_is_refused_by_name() {
        let mut config = initialized(23_203, 120);
        config.net_name = c"SOCKET".as_ptr();
        assert!(read(&config).is_ok());
        config.net_name = c"IB".as_ptr();
        assert!(read(&config).is_err_and(|words| words.contains("netName")));
        assert!(read(&Config { magic: 1, ..config }).is_err());
        assert!(read(&initialized(23_203, 8)).is_err());
        assert!(read(&initialized(23_203, usize::MAX)).is_err());
    }

    #[test]
    fn a_newer_structure_is_taken_where_its_newer_members_are_as_the_initializer_leaves_them() {
        #[repr(C)]
        struct Newer {
            known: Config,
            number: c_int,
            other: c_int,
            pointer: usize,
        }
        let mut config =
            Newer { known: initialized(23_300, size_of::<Newer>()), number: UNDEFINED, other: UNDEFINED, pointer: 0 };
        let read_newer = |config: &Newer| read(unsafe_known(config));
        assert!(read_newer(&config).is_ok());
        config.other = 0;
        assert!(read_newer(&config).is_ok(), "it may fill up");
        config.number = 2;
        assert!(read_newer(&config).is_err_and(|words| words.contains("newer than NCCL 2.32")));
    }

    /// The first member's address, with the whole structure behind it.
    fn unsafe_known<T>(config: &T) -> &Config {
        // SAFETY: the structure begins with one, and lives as long.
        unsafe { &*std::ptr::from_ref(config).cast::<Config>() }
    }

    #[test]
    fn a_calls_configuration_may_be_there_and_set_nothing() {
        let mut config = CallConfig {
            size: size_of::<CallConfig>(),
            magic: MAGIC,
            version: 23_203,
            extensions: 0,
            numbers: [UNDEFINED; 4],
            algorithms: std::ptr::null(),
            is_forced: 1,
            policy: UNDEFINED,
            tag: 5,
            event: 0,
        };
        // SAFETY: they have the bytes that they say, and texts that end.
        let refused = |config: *const CallConfig| unsafe { refuse_call_settings(config) }.map_err(|it| it.words);
        assert_eq!(refused(std::ptr::null()), Ok(()));
        assert_eq!(refused(&raw const config), Ok(()));
        config.algorithms = c"ring".as_ptr();
        assert!(refused(&raw const config).is_err_and(|words| words.contains("algSelection")));
        config.numbers[1] = 4;
        assert!(refused(&raw const config).is_err_and(|words| words.contains("maxCTAs")));
    }
}
