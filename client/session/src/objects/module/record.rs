//! What starts of a program used: libraries by what names them, kernels and variables of them, and what was asked about the
//! kernels. Records are put together, and turned into lines of text and back. Whatever a text says, a record of it asks for
//! nothing that a program could not ask for, and for no more than the limits here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::vgpu::attributes::Attributes;
use crate::vgpu::occupancy::{Question, Settings};

/// Kernels, variables and questions of one program.
pub(crate) const MOST_ENTRIES: usize = 4096;
/// Libraries of one program.
pub(crate) const MOST_LIBRARIES: usize = 256;
/// The longest name: mangled names of templates reach thousands of letters.
pub(crate) const LONGEST_NAME: usize = 4096;
/// Contents of one library, and their bytes: more than any has.
const MOST_CONTENTS: usize = 64;
const MOST_BYTES: u64 = 1 << 30;
/// Blocks of memory of a beginning.
const MOST_BLOCKS: usize = 64;
/// Starts in a row that did not bring a library that is still remembered.
const OLDEST: u32 = 8;
/// The first line.
const FORM: &str = "floe start 2";

/// What a library looks like: its sizes and samples of its bytes. Two that look alike are asked for each other's kernels.
pub(crate) type Look = [u8; 32];

/// By what a server knows a library: `LoadLibrary.kind`, and hashes and sizes of its contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) kind: u32,
    pub(crate) contents: Vec<([u8; 32], u64)>,
}

/// By what a library is known here. Without a source it can be asked for only when the program has brought it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) look: Look,
    pub(crate) source: Option<Source>,
}

/// What was asked about a kernel, as it was set.
pub(crate) type Questions = BTreeSet<(Settings, Question)>;

/// What starts used of one library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) kernels: BTreeMap<String, Questions>,
    pub(crate) variables: BTreeSet<String>,
    /// Starts since the last one that brought it.
    pub(crate) age: u32,
}

/// What starts of a program used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) libraries: BTreeMap<Name, Used>,
    /// Sizes of the blocks of memory that the last one made at its beginning.
    pub(crate) blocks: Vec<u64>,
}

impl Used {
    /// This, and what another one has.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, questions) in &other.kernels {
            self.kernels.entry(name.clone()).or_default().extend(questions.iter().cloned());
        }
        self.variables.extend(other.variables.iter().cloned());
    }

    /// Whether it has nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.kernels.is_empty() && self.variables.is_empty()
    }

    /// Kernels, questions and variables.
    pub(crate) fn entries(&self) -> usize {
        self.kernels.values().map(|questions| 1 + questions.len()).sum::<usize>() + self.variables.len()
    }
}

impl Record {
    /// Whether there is room for another entry.
    pub(crate) fn has_room(&self) -> bool {
        self.libraries.len() < MOST_LIBRARIES && self.entries() < MOST_ENTRIES
    }

    fn entries(&self) -> usize {
        self.libraries.values().map(Used::entries).sum()
    }

    /// This start's record with what earlier ones used. Where that would be too much, the earlier ones are forgotten.
    pub(crate) fn behind(&self, before: &Self) -> Self {
        let mut all = self.clone();
        for (name, used) in &before.libraries {
            match all.libraries.get_mut(name) {
                Some(now) => now.add(used),
                None if used.age < OLDEST => {
                    all.libraries.insert(name.clone(), Used { age: used.age + 1, ..used.clone() });
                }
                None => {}
            }
        }
        let fits = all.libraries.len() <= MOST_LIBRARIES && all.entries() <= MOST_ENTRIES;
        if fits { all } else { self.clone() }
    }

    /// A line for each library, and behind it one for each of its kernels, with the questions about that, and variables.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{FORM}\n");
        self.blocks.iter().for_each(|bytes| {
            let _ = writeln!(text, "block {bytes}");
        });
        for (name, used) in &self.libraries {
            let look = blake3::Hash::from_bytes(name.look).to_hex();
            let _ = writeln!(text, "library {look} {} {}", used.age, source_text(name.source.as_ref()));
            for (kernel, questions) in &used.kernels {
                let _ = writeln!(text, "kernel {kernel}");
                for (Settings([shared, carveout, cluster]), question) in questions {
                    let _ = writeln!(text, "asked {shared} {carveout} {cluster} {}", question_text(question));
                }
            }
            for variable in &used.variables {
                let _ = writeln!(text, "variable {variable}");
            }
        }
        text
    }

    /// The record of a text; `None` where it is none, or a larger one than any that is written.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let (first, lines) = text.split_once('\n')?;
        let (mut record, mut at) = (Self::default(), None);
        let mut kernel = None;
        for (count, line) in (first == FORM).then_some(lines)?.lines().enumerate() {
            let (what, rest) = line.split_once(' ')?;
            if count >= MOST_ENTRIES + MOST_LIBRARIES + MOST_BLOCKS {
                return None;
            }
            if what == "block" {
                record.blocks.push(rest.parse().ok().filter(|_| record.blocks.len() < MOST_BLOCKS)?);
                continue;
            }
            if what == "library" {
                let (name, age) = library_of(rest)?;
                record.libraries.insert(name.clone(), Used { age, ..Used::default() });
                (at, kernel) = (Some(name), None);
                continue;
            }
            let used = record.libraries.get_mut(at.as_ref()?)?;
            match what {
                "kernel" => {
                    used.kernels.entry(plain(rest)?.to_owned()).or_default();
                    kernel = Some(rest.to_owned());
                }
                "variable" => {
                    used.variables.insert(plain(rest)?.to_owned());
                }
                "asked" => {
                    used.kernels.get_mut(kernel.as_ref()?)?.insert(asked_of(rest)?);
                }
                _ => return None,
            }
        }
        (record.libraries.len() <= MOST_LIBRARIES).then_some(record)
    }
}

/// A name that a line holds, and no longer one than any is.
pub(crate) fn plain(name: &str) -> Option<&str> {
    let is_plain = !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(char::is_control);
    is_plain.then_some(name)
}

fn source_text(source: Option<&Source>) -> String {
    let Some(source) = source else { return "0 -".to_owned() };
    let content = |(hash, bytes): &([u8; 32], u64)| format!("{}:{bytes}", blake3::Hash::from_bytes(*hash).to_hex());
    format!("{} {}", source.kind, source.contents.iter().map(content).collect::<Vec<_>>().join(","))
}

fn library_of(text: &str) -> Option<(Name, u32)> {
    let mut words = text.split(' ');
    let look = *blake3::Hash::from_hex(words.next()?).ok()?.as_bytes();
    let age = words.next()?.parse().ok().filter(|age| *age <= OLDEST)?;
    let (kind, contents) = (words.next()?.parse().ok()?, words.next()?);
    let source = match kind {
        0 => None,
        // Only fat binaries have several.
        1..=3 => Some(Source { kind, contents: contents_of(contents).filter(|all| kind == 1 || all.len() == 1)? }),
        _ => return None,
    };
    words.next().is_none().then_some((Name { look, source }, age))
}

fn contents_of(text: &str) -> Option<Vec<([u8; 32], u64)>> {
    let content = |text: &str| {
        let (hash, bytes) = text.split_once(':')?;
        Some((*blake3::Hash::from_hex(hash).ok()?.as_bytes(), bytes.parse().ok()?))
    };
    let contents = text.split(',').map(content).collect::<Option<Vec<_>>>()?;
    let all = contents.iter().try_fold(0_u64, |all, (_, bytes): &([u8; 32], u64)| all.checked_add(*bytes))?;
    (contents.len() <= MOST_CONTENTS && all <= MOST_BYTES).then_some(contents)
}

fn question_text(question: &Question) -> String {
    match question {
        Question::Blocks { block, shared, flags } => format!("blocks {block} {shared} {flags}"),
        Question::AvailableShared { blocks, block } => format!("shared {blocks} {block}"),
        Question::Clusters { what, grid: [x, y, z], block: [a, b, c], shared, attributes } => {
            format!("clusters {what} {x} {y} {z} {a} {b} {c} {shared} {}", attributes.to_text())
        }
    }
}

/// A question that a program may ask, with the settings; the numbers are as far checked as the calls check them.
fn asked_of(text: &str) -> Option<(Settings, Question)> {
    let words: Vec<&str> = text.split(' ').collect();
    let int = |at: usize| words.get(at)?.parse::<i32>().ok();
    let number = |at: usize| words.get(at)?.parse::<u32>().ok();
    let axes = |at: usize| Some([number(at)?, number(at + 1)?, number(at + 2)?]);
    let positive = |at: usize| int(at).filter(|value| *value > 0);
    let question = match (*words.get(3)?, words.len()) {
        ("blocks", 7) => Question::Blocks {
            block: positive(4)?,
            shared: words[5].parse().ok()?,
            flags: number(6).filter(|flags| *flags <= 1)?,
        },
        ("shared", 6) => Question::AvailableShared { blocks: positive(4)?, block: positive(5)? },
        ("clusters", 13) => Question::Clusters {
            what: number(4).filter(|what| *what <= 1)?,
            grid: axes(5)?,
            block: axes(8)?,
            shared: number(11)?,
            attributes: Attributes::of_text(words[12])?,
        },
        _ => return None,
    };
    Some((Settings([int(0)?, int(1)?, int(2)?]), question))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let settings = Settings([65_536, -1, 1]);
        let questions = [
            Question::Blocks { block: 128, shared: 7, flags: 1 },
            Question::AvailableShared { blocks: 1, block: 32 },
            Question::Clusters {
                what: 1,
                grid: [2, 1, 1],
                block: [3, 1, 1],
                shared: 9,
                attributes: Attributes::default(),
            },
        ];
        let questions: Questions = questions.into_iter().map(|question| (settings, question)).collect();
        let used = Used {
            kernels: [("a b".to_owned(), questions), ("c".to_owned(), Questions::default())].into(),
            variables: ["v".to_owned()].into(),
            age: 3,
        };
        let source = Source { kind: 1, contents: vec![([1; 32], 5), ([2; 32], 0)] };
        let names = [Name { look: [7; 32], source: Some(source) }, Name { look: [8; 32], source: None }];
        Record { libraries: names.into_iter().map(|name| (name, used.clone())).collect(), blocks: vec![2 << 20, 7] }
    }

    #[test]
    fn a_record_is_what_its_text_says() {
        assert_eq!(Record::of_text(&record().to_text()), Some(record()));
        assert_eq!(Record::of_text(&Record::default().to_text()), Some(Record::default()));
    }

    #[test]
    fn what_no_program_asks_for_is_no_record() {
        let text = record().to_text();
        let changes = [
            ("floe start 2", "floe start 1"),
            ("kernel a b", "kernel "),
            ("kernel a b", "thing a b"),
            (" 1 01", " 4 01"),
            (":5,", ":1073741825,"),
            (":5,", ":18446744073709551615,"),
            (" 3 1 ", " 9 1 "),
            ("blocks 128", "blocks -128"),
            ("blocks 128 7 1", "blocks 128 7 2"),
            ("blocks 128 7 1", "blocks 128 7"),
            ("clusters 1", "clusters 2"),
            ("65536", "655360000000"),
            ("block 7", "block -7"),
        ];
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            assert_eq!(Record::of_text(&text.replace(from, to)), None, "{from} {to}");
        }
        let questions = "asked 0 0 0 blocks 1 1 1\n";
        assert_eq!(Record::of_text(&format!("{FORM}\n{questions}")), None, "about no kernel");
        assert_eq!(
            Record::of_text(&(text.clone() + &questions.repeat(MOST_ENTRIES + MOST_LIBRARIES + MOST_BLOCKS))),
            None
        );
    }

    #[test]
    fn what_is_not_brought_for_long_is_forgotten() {
        let now =
            Record { libraries: [(Name { look: [9; 32], source: None }, Used::default())].into(), blocks: Vec::new() };
        let mut all = record();
        for age in 4..=OLDEST {
            all = now.behind(&all);
            assert_eq!((all.libraries.len(), all.libraries.values().map(|used| used.age).max()), (3, Some(age)));
        }
        assert_eq!(now.behind(&all), now);
        assert_eq!(record().behind(&record()).libraries.values().map(|used| used.age).max(), Some(3));
    }
}
