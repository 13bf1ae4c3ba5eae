//! The policy: which rights each user has.
//! In: the operator's TOML file. Out: the rights of a name, or none for a name that has no place in it.
//! A user's own key wins; else the most generous of the groups; else `[default]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::file::{self, FileError};
use crate::limits::HostLimits;
use crate::name::Name;
use crate::rights::Rights;

/// A worker takes this much before its program has anything.
const LEAST_HOST_MEMORY: u64 = 256 << 20;
/// A worker has some tens of threads.
const LEAST_TASKS: u32 = 64;

/// A policy as its file has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    default: Option<Row>,
    #[serde(default)]
    groups: BTreeMap<Name, Row>,
    #[serde(default)]
    users: BTreeMap<Name, Row>,
}

/// One table of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Row {
    /// Of groups only.
    members: Option<Spanned<BTreeSet<Name>>>,
    gpus: Option<BTreeSet<u32>>,
    memory: Option<Bytes>,
    share: Option<Percent>,
    weight: Option<Weight>,
    sessions: Option<usize>,
    time: Option<Life>,
    host_memory: Option<HostBytes>,
    processors: Option<Processors>,
    tasks: Option<Tasks>,
    may_migrate: Option<bool>,
    may_see_others: Option<bool>,
}

/// Bytes, as a number or as people write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bytes(u64);

/// Bytes of host memory of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HostBytes(u64);

/// Thousandths of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Processors(u32);

/// Processes and threads of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tasks(u32);

/// Thousandths of a GPU's time, as people write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Percent(u32);

/// From 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Weight(u32);

/// A session's longest life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Life(Duration);

/// A number or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const FORM: &str = "not a size: write it as \"8G\", \"512M\" or a number of bytes";
        match Written::deserialize(deserializer) {
            Ok(Written::Number(bytes)) => Ok(Self(bytes)),
            Ok(Written::Text(text)) => floe_size::bytes(&text).map(Self).ok_or_else(|| serde::de::Error::custom(FORM)),
            Err(_) => Err(serde::de::Error::custom(FORM)),
        }
    }
}

impl<'de> Deserialize<'de> for HostBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Bytes(bytes) = Bytes::deserialize(deserializer)?;
        if bytes < LEAST_HOST_MEMORY {
            return Err(serde::de::Error::custom("too little host memory for a worker: write 256M or more"));
        }
        Ok(Self(bytes))
    }
}

impl<'de> Deserialize<'de> for Processors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("not a number of processors: write 0.1 to 65536, as 4 or 2.5");
        let number = f64::deserialize(deserializer).ok().filter(|number| (0.1..=65_536.0).contains(number));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 100 and 65,536,000")]
        number.map(|number| Self((number * 1000.0).round() as u32)).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Tasks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer).ok().filter(|number| (LEAST_TASKS..=4_194_304).contains(number));
        number.map(Self).ok_or_else(|| serde::de::Error::custom("not a number of tasks: write 64 to 4194304"))
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("not a part of a GPU: write it as \"25%\" or \"12.5%\"");
        let text = String::deserialize(deserializer).map_err(|_| wrong())?;
        floe_size::thousandths(&text).map(Self).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer).ok().filter(|number| (1..=1000).contains(number));
        number.map(Self).ok_or_else(|| serde::de::Error::custom("not a weight: write 1 to 1000"))
    }
}

impl<'de> Deserialize<'de> for Life {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const FORM: &str = "not a time: write it as \"90s\", \"30m\", \"12h\", \"7d\"";
        let text = String::deserialize(deserializer).map_err(|_| serde::de::Error::custom(FORM))?;
        let time = humantime::parse_duration(&text).ok().filter(|time| !time.is_zero());
        time.map(Self).ok_or_else(|| serde::de::Error::custom(FORM))
    }
}

impl Policy {
    /// Reads the file.
    ///
    /// # Errors
    /// [`FileError`]: it cannot be read, others may write it, or a line is wrong.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(path, &file::read(path)?)
    }

    /// Parses the file's text; `path` is for errors.
    ///
    /// # Errors
    /// [`FileError::Wrong`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, FileError> {
        let policy: Self = file::parse(path, text)?;
        let others = policy.default.iter().chain(policy.users.values());
        if let Some(members) = others.filter_map(|row| row.members.as_ref()).next() {
            return Err(file::wrong(path, text, members.span().start, "only a group has members".to_owned()));
        }
        if let Some((name, _)) = policy.groups.iter().find(|(_, row)| row.members.is_none()) {
            let at = text.find(&format!("groups.{name}")).unwrap_or(0);
            return Err(file::wrong(path, text, at, format!("the group has no key members: {name}")));
        }
        Ok(policy)
    }

    /// What a user may have; `None`: the policy has no place for this name.
    #[must_use]
    pub fn rights(&self, name: Name) -> Option<Rights> {
        let own = self.users.get(&name);
        let groups: Vec<_> = self.groups.values().filter(|row| row.has(name)).collect();
        if own.is_none() && groups.is_empty() && self.default.is_none() {
            return None;
        }
        let (default, groups) = (self.default.as_ref(), &groups);
        Some(Rights {
            gpus: pick(own, groups, default, |row| row.gpus.clone(), |one, other| &one | &other),
            memory: pick(own, groups, default, |row| row.memory, Ord::max).map(|bytes| bytes.0),
            share: pick(own, groups, default, |row| row.share, Ord::max).map(|share| share.0),
            weight: pick(own, groups, default, |row| row.weight, Ord::max).map_or(1, |weight| weight.0),
            sessions: pick(own, groups, default, |row| row.sessions, Ord::max),
            time: pick(own, groups, default, |row| row.time, Ord::max).map(|life| life.0),
            host: HostLimits {
                memory: pick(own, groups, default, |row| row.host_memory, Ord::max).map(|bytes| bytes.0),
                processors: pick(own, groups, default, |row| row.processors, Ord::max).map(|number| number.0),
                tasks: pick(own, groups, default, |row| row.tasks, Ord::max).map(|number| number.0),
            },
            may_migrate: pick(own, groups, default, |row| row.may_migrate, |one, other| one || other) == Some(true),
            may_see_others: pick(own, groups, default, |row| row.may_see_others, |one, other| one || other)
                == Some(true),
        })
    }

    /// The names that have a table or a group, and the number of groups.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let members = self.groups.values().filter_map(|row| row.members.as_ref()).flat_map(|all| all.get_ref());
        (members.chain(self.users.keys()).collect::<BTreeSet<_>>().len(), self.groups.len())
    }

    /// Whether names without a table and a group have a place.
    #[must_use]
    pub fn has_default(&self) -> bool {
        self.default.is_some()
    }

    /// Whether it limits what anybody's workers take of the server's machine.
    #[must_use]
    pub fn limits_hosts(&self) -> bool {
        let mut rows = self.default.iter().chain(self.groups.values()).chain(self.users.values());
        rows.any(|row| row.host_memory.is_some() || row.processors.is_some() || row.tasks.is_some())
    }

    /// The GPUs that it names and that are not among `offered`.
    #[must_use]
    pub fn unknown_gpus(&self, offered: &[u32]) -> BTreeSet<u32> {
        let rows = self.default.iter().chain(self.groups.values()).chain(self.users.values());
        let named = rows.filter_map(|row| row.gpus.as_ref()).flatten();
        named.copied().filter(|gpu| !offered.contains(gpu)).collect()
    }
}

impl Row {
    fn has(&self, name: Name) -> bool {
        self.members.as_ref().is_some_and(|members| members.get_ref().contains(&name))
    }
}

/// The user's own value; else the groups' values joined; else the default's.
fn pick<T>(
    own: Option<&Row>,
    groups: &[&Row],
    default: Option<&Row>,
    key: impl Fn(&Row) -> Option<T>,
    join: impl Fn(T, T) -> T,
) -> Option<T> {
    let of_groups = || groups.iter().filter_map(|row| key(row)).reduce(join);
    own.and_then(&key).or_else(of_groups).or_else(|| default.and_then(&key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = r#"
[default]
gpus = [0]
sessions = 1

[groups.research]
members = ["alice", "bob"]
gpus = [1]
memory = "8G"
time = "12h"
host-memory = "4G"
may-migrate = true

[groups.staff]
members = ["bob"]
gpus = [2]
memory = 1024
may-see-others = true

[users.alice]
sessions = 4
memory = "16G"
share = "50%"
weight = 3
processors = 2.5
"#;

    fn parse(text: &str) -> Result<Policy, String> {
        Policy::parse(Path::new("policy.toml"), text).map_err(|error| error.to_string())
    }

    fn rights(text: &str, name: &str) -> Option<Rights> {
        parse(text).expect("a policy").rights(Name::new(name).expect("a name"))
    }

    #[test]
    fn own_keys_win_then_the_most_generous_group_then_the_default() {
        let alice = rights(TEXT, "alice").expect("a place");
        let expected = Rights {
            gpus: Some([1].into()),
            memory: Some(16 << 30),
            share: Some(500),
            weight: 3,
            sessions: Some(4),
            time: Some(Duration::from_secs(12 * 3600)),
            host: HostLimits { memory: Some(4 << 30), processors: Some(2500), tasks: None },
            may_migrate: true,
            may_see_others: false,
        };
        assert_eq!(alice, expected);
        let bob = rights(TEXT, "bob").expect("a place");
        assert_eq!((bob.gpus, bob.memory, bob.sessions), (Some([1, 2].into()), Some(8 << 30), Some(1)));
        assert!(bob.may_migrate && bob.may_see_others);
        let other = rights(TEXT, "carol").expect("the default");
        assert_eq!((other.gpus, other.memory, other.may_migrate), (Some([0].into()), None, false));
    }

    #[test]
    fn who_has_no_place_has_no_rights() {
        assert_eq!(rights("[users.alice]\n", "bob"), None);
        assert!(rights("[users.alice]\n", "alice").is_some());
        assert_eq!(rights("", "alice"), None);
    }

    #[test]
    fn what_is_wrong_is_refused_by_name_and_line() {
        for (text, line, words) in [
            ("[users.alice]\nshares = 0.5\n", 2, "unknown field shares"),
            ("[users.alice]\nshare = 0.5\n", 2, "not a part of a GPU"),
            ("[users.alice]\nshare = \"120%\"\n", 2, "not a part of a GPU"),
            ("[users.alice]\nweight = 0\n", 2, "not a weight"),
            ("[user.alice]\n", 1, "unknown field user"),
            ("[users.alice]\nmay_migrate = true\n", 2, "unknown field may_migrate"),
            ("[users.alice]\n\nmemory = \"much\"\n", 3, "not a size"),
            ("[users.alice]\nmemory = -1\n", 2, "not a size"),
            ("[users.alice]\ntime = \"0s\"\n", 2, "not a time"),
            ("[users.alice]\ntime = 5\n", 2, "not a time"),
            ("[users.alice]\nhost-memory = \"1M\"\n", 2, "too little host memory"),
            ("[users.alice]\nhost-memory = \"x\"\n", 2, "not a size"),
            ("[users.alice]\nprocessors = 0\n", 2, "not a number of processors"),
            ("[users.alice]\nprocessors = nan\n", 2, "not a number of processors"),
            ("[users.alice]\nprocessors = \"2\"\n", 2, "not a number of processors"),
            ("[users.alice]\ntasks = 1\n", 2, "not a number of tasks"),
            ("[users.alice]\nsessions = -1\n", 2, "invalid value"),
            ("[users.alice]\nmembers = []\n", 2, "only a group has members"),
            ("[default]\nmembers = []\n", 2, "only a group has members"),
            ("\n[groups.staff]\ngpus = [0]\n", 2, "the group has no key members: staff"),
            ("[users.\"a b\"]\n", 1, "not a user's name: \"a b\""),
            ("[groups.staff]\nmembers = [\"\"]\n", 2, "not a user's name: \"\""),
            ("[users.alice]\n[users.alice]\n", 2, "duplicate key"),
            ("[users.alice\n", 1, ""),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.starts_with(&format!("policy.toml:{line}: ")) && said.contains(words), "{text:?}: {said}");
            assert!(!said.contains('`'), "{said}");
        }
    }

    #[test]
    fn gpus_that_are_not_offered_are_named() {
        let policy = parse(TEXT).expect("a policy");
        assert_eq!(policy.unknown_gpus(&[0, 1]), [2].into());
        assert_eq!((policy.count(), policy.has_default()), ((2, 2), true));
        assert!(policy.limits_hosts() && !parse("[users.alice]\nmemory = \"8G\"\n").expect("a policy").limits_hosts());
    }

    proptest! {
        #[test]
        fn a_further_group_takes_nothing_away(
            one in (prop::option::of(0_u64..9), prop::option::of(any::<bool>())),
            other in (prop::option::of(0_u64..9), prop::option::of(any::<bool>())),
        ) {
            let group = |name: &str, (memory, migrate): (Option<u64>, Option<bool>)| {
                let memory = memory.map_or(String::new(), |memory| format!("memory = {memory}\n"));
                let migrate = migrate.map_or(String::new(), |may| format!("may-migrate = {may}\n"));
                format!("[groups.{name}]\nmembers = [\"alice\"]\n{memory}{migrate}")
            };
            let alone = rights(&group("one", one), "alice").expect("a place");
            let both = rights(&(group("one", one) + &group("other", other)), "alice").expect("a place");
            prop_assert!(both.may_migrate >= alone.may_migrate);
            if alone.memory.is_some() {
                prop_assert!(both.memory >= alone.memory);
            }
        }

        #[test]
        fn any_text_is_a_policy_or_a_wrong_line(text in "[\\[\\]a-z.=0-9\" \n-]{0,80}") {
            if let Err(error) = parse(&text) {
                prop_assert!(error.starts_with("policy.toml:"), "{}", error);
            }
        }
    }
}
