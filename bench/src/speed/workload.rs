//! The programs that are measured and the sections each has. A name comes in, a program with arguments goes out.
//! Sections of one program share a process, because importing a framework takes longer than most measurements. A file
//! whose sections are measured differently has one entry per course.

/// How a program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// An executable of ours.
    Executable,
    /// A Python file.
    Python,
}

/// How its ways are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// Alone, one way after the other, in every round.
    InSuccession,
    /// All at once, timed by turns, in every round.
    ByTurns,
    /// Alone, one way after the other, in the first round only: what it measures is no time.
    Once,
}

/// The vGPUs of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vgpus {
    /// Of one server, and of a GPU each where there are enough.
    Of(u32),
    /// Of one server and of a GPU each: where there are too few, it is not measured.
    OfEach(u32),
    /// Two, of a server each, which know each other; of a GPU each where there are enough.
    OfTwoServers,
}

/// One program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// Its file below `share/bench`.
    pub(crate) file: &'static str,
    /// How its process starts.
    pub(crate) runner: Runner,
    /// How its ways are measured.
    pub(crate) course: Course,
    /// Its sections in the order they run; each can be asked for alone.
    pub(crate) sections: &'static [&'static str],
    /// The vGPUs that it has through floe.
    pub(crate) vgpus: Vgpus,
    /// Milliseconds one measurement may take: in full, in a quick run.
    pub(crate) budget: (u32, u32),
}

/// Every program.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        file: "driver_calls",
        runner: Runner::Executable,
        course: Course::InSuccession,
        sections: &["launches", "events", "allocations", "copies"],
        vgpus: Vgpus::Of(1),
        budget: (200, 80),
    },
    Workload {
        file: "between_gpus",
        runner: Runner::Executable,
        course: Course::InSuccession,
        sections: &["peers"],
        vgpus: Vgpus::Of(2),
        budget: (200, 80),
    },
    Workload {
        file: "between_gpus",
        runner: Runner::Executable,
        course: Course::InSuccession,
        sections: &["servers"],
        vgpus: Vgpus::OfTwoServers,
        budget: (2000, 600),
    },
    Workload {
        file: "collectives",
        runner: Runner::Executable,
        course: Course::InSuccession,
        sections: &["one_process"],
        vgpus: Vgpus::OfEach(2),
        budget: (200, 80),
    },
    // A program of its own: beside the GPUs a vGPU that had a communicator keeps its GPU's place in its node.
    Workload {
        file: "collectives",
        runner: Runner::Executable,
        course: Course::InSuccession,
        sections: &["two_processes"],
        vgpus: Vgpus::OfEach(2),
        budget: (200, 80),
    },
    Workload {
        file: "first_result.py",
        runner: Runner::Python,
        course: Course::InSuccession,
        sections: &["start"],
        vgpus: Vgpus::Of(1),
        budget: (1, 1),
    },
    Workload {
        file: "inference.py",
        runner: Runner::Python,
        course: Course::ByTurns,
        sections: &["encoder", "eager", "matmul", "sum", "graph"],
        vgpus: Vgpus::Of(1),
        budget: (800, 300),
    },
    Workload {
        file: "training.py",
        runner: Runner::Python,
        course: Course::ByTurns,
        sections: &["resnet18", "gpt_bf16", "gpt_fp16"],
        vgpus: Vgpus::Of(1),
        budget: (1500, 500),
    },
    Workload {
        file: "parallel.py",
        runner: Runner::Python,
        course: Course::ByTurns,
        sections: &["ddp_resnet50", "ddp_gpt", "fsdp2_gpt", "dp_resnet50"],
        vgpus: Vgpus::OfEach(2),
        budget: (1500, 500),
    },
    // Memory is measured for the whole GPU, so no other process may use it.
    Workload {
        file: "training.py",
        runner: Runner::Python,
        course: Course::Once,
        sections: &["memory"],
        vgpus: Vgpus::Of(1),
        budget: (1, 1),
    },
];

/// The workloads with the sections that were asked for; all when none was. A file's stem asks for all its sections.
///
/// # Errors
/// The first name that is neither.
pub(crate) fn chosen(only: &[String]) -> Result<Vec<(&'static Workload, Vec<&'static str>)>, String> {
    let known = |name: &String| WORKLOADS.iter().any(|workload| workload.is(name) || workload.has(name));
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        return Err(unknown.clone());
    }
    let wanted = |workload: &Workload, section: &str| {
        only.is_empty() || only.iter().any(|name| workload.is(name) || name == section)
    };
    let of = |workload: &'static Workload| {
        let sections: Vec<_> = workload.sections.iter().copied().filter(|section| wanted(workload, section)).collect();
        (workload, sections)
    };
    Ok(WORKLOADS.iter().map(of).filter(|(_, sections)| !sections.is_empty()).collect())
}

impl Workload {
    /// Does this round (counted from 1) measure it?
    pub(crate) fn is_measured_in(&self, round: usize) -> bool {
        self.course != Course::Once || round == 1
    }

    /// The number of GPUs without which nothing is to be compared.
    pub(crate) fn least_gpus(&self) -> u32 {
        if let Vgpus::OfEach(count) = self.vgpus { count } else { 1 }
    }

    fn is(&self, name: &str) -> bool {
        self.file.trim_end_matches(".py") == name
    }

    fn has(&self, section: &str) -> bool {
        self.sections.contains(&section)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_asked_for_is_everything() {
        assert_eq!(chosen(&[]).expect("no name is wrong").len(), WORKLOADS.len());
    }

    #[test]
    fn a_section_comes_alone_and_a_program_with_all_of_its_own() {
        let chosen = chosen(&["copies".into(), "training".into()]).expect("both exist");
        assert_eq!(chosen[0].1, ["copies"]);
        assert_eq!(chosen[1].1, ["resnet18", "gpt_bf16", "gpt_fp16"]);
        assert_eq!(chosen[2].1, ["memory"]);
    }

    #[test]
    fn memory_is_weighed_in_the_first_round_only() {
        let measured = |round| WORKLOADS.iter().filter(|workload| workload.is_measured_in(round)).count();
        assert_eq!((measured(1), measured(2)), (WORKLOADS.len(), WORKLOADS.len() - 1));
    }

    #[test]
    fn an_unknown_name_is_named() {
        assert_eq!(chosen(&["copies".into(), "rain".into()]).expect_err("there is no rain"), "rain");
    }
}
