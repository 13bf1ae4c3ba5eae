//! The answers of one vGPU's server about how kernels fit it. Questions come in, answers go out while nothing they
//! depend on has changed. It asks nobody.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use floe_abi::{CudaResult, function_attribute};
use floe_lock::lock;

use crate::vgpu::attributes::Attributes;
use crate::vgpu::connection::Ticket;

/// Values of the attributes that are set without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Settings(pub(crate) [i32; 3]);

impl Settings {
    /// The attributes by their numbers, with the values.
    pub(crate) fn each(self) -> impl Iterator<Item = (u32, i32)> {
        use function_attribute as a;
        let numbers = [
            a::MAX_DYNAMIC_SHARED_SIZE_BYTES,
            a::PREFERRED_SHARED_MEMORY_CARVEOUT,
            a::NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
        ];
        numbers.into_iter().zip(self.0)
    }

    /// The settings by the values of attributes.
    pub(crate) fn by(value: impl Fn(u32) -> i32) -> Self {
        let mut settings = Self([0; 3]);
        for (at, (number, _)) in Self([0; 3]).each().enumerate() {
            settings.0[at] = value(number);
        }
        settings
    }
}

/// The answers of one vGPU's server about how kernels fit. All of it depends on the kernels' attributes.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    answers: HashMap<Asked, u64>,
    /// Answers that were asked for early.
    expected: HashMap<Asked, Expected>,
    /// Launches with clusters that the device has taken once.
    accepted: HashSet<ClusterLaunch>,
    /// Changes of what answers depend on: begun ones that are not over, and those that are.
    changing: u32,
    changed: u64,
}

/// An answer that was asked for early, and how the kernel was set for it, if that was another way than it was found.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) ticket: Ticket,
    pub(crate) setting: Option<Arc<Setting>>,
}

/// A kernel was to be set so; the answer says whether it is.
#[derive(Debug)]
pub(crate) struct Setting {
    ticket: Ticket,
    wanted: Settings,
    holds: Mutex<Option<bool>>,
}

impl Setting {
    /// The ticket is of the last thing that was set.
    pub(crate) fn new(ticket: Ticket, wanted: Settings) -> Self {
        Self { ticket, wanted, holds: Mutex::default() }
    }

    /// Whether it is set so, by a look at the answer, which is taken once.
    pub(crate) fn holds(&self, look: impl FnOnce(&Ticket, Settings) -> CudaResult<bool>) -> CudaResult<bool> {
        let mut holds = lock(&self.holds);
        match *holds {
            Some(known) => Ok(known),
            None => {
                // An answer that could not be taken does not come again.
                *holds = Some(false);
                let seen = look(&self.ticket, self.wanted)?;
                *holds = Some(seen);
                Ok(seen)
            }
        }
    }
}

/// One question about a kernel, by its id, as it is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) kernel: u64,
    pub(crate) settings: Settings,
    pub(crate) question: Question,
}

/// What is asked about a kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Question {
    /// Blocks of so many threads that fit a multiprocessor.
    Blocks { block: i32, shared: u64, flags: u32 },
    /// Dynamic shared memory in bytes where so many blocks are to fit one.
    AvailableShared { blocks: i32, block: i32 },
    /// Clusters: `what` as on the wire.
    Clusters { what: u32, grid: [u32; 3], block: [u32; 3], shared: u32, attributes: Attributes },
}

/// Answers that are expected and that no start before has asked for: as many as there are kernels and questions of a start.
const MOST_EXPECTED: usize = 4096;
/// The sizes of clusters that libraries walk through, in blocks: as many as any group of multiprocessors has room for.
const ROW: u32 = 32;
/// Threads of a warp, in whose multiples programs walk through the sizes of blocks.
const WARP: i32 = 32;
/// Warps of the largest block.
const MOST_WARPS: i32 = 32;

impl Question {
    /// What libraries ask right behind this question about a kernel that is set so. They look for the best size of a cluster by
    /// one question for each, and for the blocks that fit with all the shared memory that the kernel may use.
    pub(crate) fn followers(&self, settings: Settings) -> Vec<Self> {
        match self {
            Self::AvailableShared { block, .. } => {
                let most =
                    settings.each().find(|(number, _)| *number == function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES);
                let shared = most.and_then(|(_, bytes)| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
                shared.map(|shared| Self::Blocks { block: *block, shared, flags: 0 }).into_iter().collect()
            }
            Self::Clusters { what, grid: grid @ [size, 1, 1], block, shared, attributes }
                if attributes.cluster() == Some(*grid) =>
            {
                let others = (1..=ROW).filter(|other| other != size);
                let of = |size: u32| {
                    let grid = [size, 1, 1];
                    let attributes = attributes.with_cluster(grid);
                    Self::Clusters { what: *what, grid, block: *block, shared: *shared, attributes }
                };
                others.map(of).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The facts that decide whether the device takes a launch with clusters, if the grid is made of whole clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClusterLaunch {
    pub(crate) kernel: u64,
    pub(crate) settings: Settings,
    pub(crate) cluster: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

/// A moment; an answer to a question that is asked then may be remembered if nothing has changed since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(Option<u64>);

impl Occupancy {
    /// Forgets everything: something has changed that is not among a kernel's [`Settings`].
    pub(crate) fn clear(&mut self) {
        self.answers.clear();
        self.expected.clear();
        self.accepted.clear();
        self.changed += 1;
    }

    /// The answer, if it is known.
    pub(crate) fn answer(&self, asked: &Asked) -> Option<u64> {
        self.answers.get(asked).copied()
    }

    /// An answer was asked for early, at this moment or behind it.
    pub(crate) fn expect(&mut self, asked: Asked, expected: Expected, asked_at: Moment) {
        if self.is_as(asked_at) {
            self.expected.insert(asked, expected);
        }
    }

    /// Whether this is neither known nor asked for, and may be asked for early: what nobody asks for after all stays.
    pub(crate) fn may_foresee(&self, asked: &Asked) -> bool {
        let is_known = self.answers.contains_key(asked) || self.expected.contains_key(asked);
        !is_known && self.expected.len() < MOST_EXPECTED
    }

    /// The questions that a program will come to which has asked about a kernel with another size of blocks before, and all else the
    /// same: it walks through the sizes.
    pub(crate) fn walked(&self, asked: &Asked) -> Vec<Question> {
        let Question::Blocks { block, shared, flags } = asked.question else { return Vec::new() };
        let others: Vec<Question> = (1..=MOST_WARPS)
            .map(|warps| Question::Blocks { block: warps * WARP, shared, flags })
            .filter(|other| *other != asked.question)
            .collect();
        let is_known = |question: &Question| self.answers.contains_key(&Asked { question: question.clone(), ..*asked });
        if block % WARP == 0 && others.iter().any(is_known) { others } else { Vec::new() }
    }

    /// The answer that was asked for early, once.
    pub(crate) fn take_expected(&mut self, asked: &Asked) -> Option<Expected> {
        self.expected.remove(asked)
    }

    /// The moment, to be taken before a kernel's settings are looked at.
    pub(crate) fn now(&self) -> Moment {
        Moment((self.changing == 0).then_some(self.changed))
    }

    /// Remembers an answer, unless a change since `asked_at` may have come in between.
    pub(crate) fn learn(&mut self, asked: Asked, answer: u64, asked_at: Moment) {
        if self.is_as(asked_at) {
            self.answers.insert(asked, answer);
        }
    }

    /// Whether the device has taken such a launch before.
    pub(crate) fn has_accepted(&self, launch: &ClusterLaunch) -> bool {
        self.accepted.contains(launch)
    }

    /// The device has taken such a launch, which was issued at this moment.
    pub(crate) fn accept(&mut self, launch: ClusterLaunch, issued_at: Moment) {
        if self.is_as(issued_at) {
            self.accepted.insert(launch);
        }
    }

    fn is_as(&self, Moment(then): Moment) -> bool {
        self.changing == 0 && then == Some(self.changed)
    }
}

/// While it lives, a kernel is set otherwise: what is asked meanwhile may be answered for before or for after.
pub(crate) struct Change<'a>(&'a Mutex<Occupancy>);

impl<'a> Change<'a> {
    /// Something is about to change that these answers depend on.
    pub(crate) fn of(occupancy: &'a Mutex<Occupancy>) -> Self {
        lock(occupancy).changing += 1;
        Self(occupancy)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut occupancy = lock(self.0);
        occupancy.changing -= 1;
        occupancy.changed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kernel: u64) -> Asked {
        Asked { kernel, settings: Settings([0; 3]), question: Question::AvailableShared { blocks: 1, block: 32 } }
    }

    #[test]
    fn a_walk_through_sizes_of_clusters_is_foreseen_and_no_other_question() {
        let attributes = |text: &str| Attributes::of_text(text).unwrap_or_default();
        let of = |size: u32, grid: [u32; 3], others: &str| {
            let attributes = attributes(&format!("{others}4={size:02x}0000000100000001000000"));
            Question::Clusters { what: 0, grid, block: [128, 1, 1], shared: 7, attributes }
        };
        let foreseen = of(3, [3, 1, 1], "8=01000000,").followers(Settings([0; 3]));
        assert_eq!(foreseen.len(), 31);
        for size in (1..=32).filter(|size| *size != 3) {
            assert!(foreseen.contains(&of(size, [size, 1, 1], "8=01000000,")), "{size}");
        }
        assert_eq!(of(3, [6, 1, 1], "").followers(Settings([0; 3])), [], "a launch of two clusters");
        assert_eq!(of(3, [3, 2, 1], "").followers(Settings([0; 3])), []);
        let shared = Question::AvailableShared { blocks: 1, block: 64 };
        assert_eq!(shared.followers(Settings([0, -1, 0])), []);
        let blocks = Question::Blocks { block: 64, shared: 99, flags: 0 };
        assert_eq!(shared.followers(Settings([99, -1, 1])), std::slice::from_ref(&blocks));
        assert_eq!(blocks.followers(Settings([99, -1, 1])), []);
    }

    #[test]
    fn an_answer_is_remembered_only_where_nothing_changed_since_it_was_asked_for() {
        let mut occupancy = Occupancy::default();
        let then = occupancy.now();
        occupancy.learn(asked(1), 7, then);
        assert_eq!(occupancy.answer(&asked(1)), Some(7));
        occupancy.changing += 1;
        let meanwhile = occupancy.now();
        occupancy.learn(asked(2), 7, then);
        (occupancy.changing, occupancy.changed) = (0, 1);
        occupancy.learn(asked(2), 7, then);
        occupancy.learn(asked(2), 7, meanwhile);
        assert_eq!(occupancy.answer(&asked(2)), None);
        let then = occupancy.now();
        occupancy.clear();
        occupancy.learn(asked(1), 7, then);
        assert_eq!(occupancy.answer(&asked(1)), None, "also one that was under way");
    }
}
