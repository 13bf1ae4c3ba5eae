//! One program on several ways at once, timed by turns: a process per way, all alive, one running while it is timed.
//! In: the ways, the sections each has left, and how it is started. Out: findings and failures. After a failure the
//! rest of a way's sections run in a new process; a process that dies or falls silent delays no other.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::findings::Failure;
use super::line::{self, Line};
use super::turns::Order;
use crate::bars::Way;
use crate::program::{Ending, Event, Heard, Process};

/// Makes the command that runs these sections by this way, and names its log.
pub(crate) type Starts<'a> = dyn Fn(Way, &[&'static str]) -> Result<(Command, PathBuf)> + 'a;

/// A program and its sections.
pub(crate) struct Plan<'a> {
    /// The program's name.
    pub(crate) program: &'a str,
    /// The program's sections, in their order.
    pub(crate) sections: &'a [&'static str],
    /// Longest silence of a program whose turn it is.
    pub(crate) patience: Duration,
    /// Starts it.
    pub(crate) start: &'a Starts<'a>,
}

/// One way.
struct Member {
    way: Way,
    /// Sections that have not come to an end, good or bad.
    left: Vec<&'static str>,
    process: Option<Process>,
    /// Whether this process reported a failure.
    failed: bool,
    /// Time of its last line or of its last turn's start.
    since: Instant,
}

/// All of them.
struct Together<'a> {
    plan: &'a Plan<'a>,
    members: Vec<Member>,
    order: Order,
    events: Sender<Event>,
    failures: Vec<Failure>,
}

/// Runs the remaining sections of each way; `note` gets every finding.
///
/// # Errors
/// When a program does not start or cannot be waited for.
pub(crate) fn run(
    plan: &Plan<'_>,
    ways: Vec<(Way, Vec<&'static str>)>,
    note: &mut dyn FnMut(Way, Line, &Heard),
) -> Result<Vec<Failure>> {
    let (sender, events) = channel();
    let member = |(way, left)| Member { way, left, process: None, failed: false, since: Instant::now() };
    let members: Vec<Member> = ways.into_iter().filter(|(_, left)| !left.is_empty()).map(member).collect();
    let order = Order::new(members.len());
    let mut together = Together { plan, members, order, events: sender, failures: Vec::new() };
    for who in 0..together.members.len() {
        together.start(who)?;
    }
    while let Some(wait) = together.go_on() {
        match events.recv_timeout(wait) {
            Ok(Event::Line(heard)) => together.hear(&heard, note),
            Ok(Event::End { process }) => together.end(process)?,
            Err(_) => together.end_the_silent()?,
        }
    }
    Ok(together.failures)
}

impl Together<'_> {
    fn start(&mut self, who: usize) -> Result<()> {
        let member = &mut self.members[who];
        let (command, log) = (self.plan.start)(member.way, &member.left)?;
        member.process = Some(Process::start(command, &log, self.events.clone())?);
        (member.failed, member.since) = (false, Instant::now());
        self.order.started(who);
        Ok(())
    }

    /// Lets go who may. Gives how long the others' silence is still borne; `None` when all have ended.
    fn go_on(&mut self) -> Option<Duration> {
        for who in self.order.go_on() {
            self.members[who].go_on();
        }
        self.running().map(|who| self.plan.patience.saturating_sub(self.members[who].since.elapsed())).min()
    }

    fn running(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|who| self.order.is_busy(*who))
    }

    fn hear(&mut self, heard: &Heard, note: &mut dyn FnMut(Way, Line, &Heard)) {
        let Some(who) = self.of_process(heard.process) else { return };
        let member = &mut self.members[who];
        member.since = Instant::now();
        match line::parse(&heard.text) {
            None => {}
            Some(Line::Turn) => self.order.asks(who, section(self.plan, member)),
            Some(Line::Meet) => self.order.meets(who, section(self.plan, member)),
            Some(Line::Done { section }) => member.is_over(&section),
            Some(Line::Failed { section, reason }) => {
                member.is_over(&section);
                member.failed = true;
                self.failures.push(Failure { section, way: member.way, reason });
            }
            Some(line @ Line::Pause { .. }) => {
                note(member.way, line, heard);
                member.go_on();
            }
            Some(line) => note(member.way, line, heard),
        }
    }

    /// One that was stopped is known no more.
    fn of_process(&self, process: u32) -> Option<usize> {
        self.members.iter().position(|member| member.process.as_ref().is_some_and(|running| running.id() == process))
    }

    fn end(&mut self, process: u32) -> Result<()> {
        let Some(who) = self.of_process(process) else { return Ok(()) };
        let Some(process) = self.members[who].process.take() else { return Ok(()) };
        let ending = process.end(self.plan.patience)?;
        self.ended(who, &ending)
    }

    fn end_the_silent(&mut self) -> Result<()> {
        let silent: Vec<usize> =
            self.running().filter(|who| self.members[*who].since.elapsed() >= self.plan.patience).collect();
        for who in silent {
            if let Some(process) = self.members[who].process.take() {
                let ending = process.stop(self.plan.patience)?;
                self.ended(who, &ending)?;
            }
        }
        Ok(())
    }

    /// Notes a failure that no process reported, and starts the remaining sections.
    fn ended(&mut self, who: usize, ending: &Ending) -> Result<()> {
        self.order.ended(who);
        let member = &mut self.members[who];
        if !member.failed && (!ending.success || !member.left.is_empty()) {
            // It ended without a word about the section it was in, or after its last one.
            let exit = || format!("{}, exit", self.plan.program);
            let section = member.left.first().map_or_else(exit, ToString::to_string);
            member.is_over(&section);
            let reason = format!("{}: {}", ending.how, ending.said);
            self.failures.push(Failure { section, way: member.way, reason });
        }
        if member.left.is_empty() { Ok(()) } else { self.start(who) }
    }
}

/// Which of the program's sections a way is in.
fn section(plan: &Plan<'_>, member: &Member) -> usize {
    let is_next = |section: &&'static str| member.left.first() == Some(section);
    plan.sections.iter().position(is_next).unwrap_or(plan.sections.len())
}

impl Member {
    fn go_on(&mut self) {
        self.since = Instant::now();
        if let Some(process) = &mut self.process {
            process.go_on();
        }
    }

    /// A name that is no section's stands for the section it is in.
    fn is_over(&mut self, name: &str) {
        let at = self.left.iter().position(|section| *section == name).unwrap_or(0);
        if at < self.left.len() {
            self.left.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const SECTIONS: &[&str] = &["one", "two"];
    const WAYS: [Way; 3] = [Way::Native, Way::Shm, Way::Unix];
    /// Turns of each measurement in the program below.
    const TURNS: usize = 4;

    /// A measured program of two sections that says when each of its bursts began and ended.
    /// Its arguments: the folder of `measuring.py`, the way that fails in its second burst, its own way, then the usual ones.
    const PROGRAM: &str = r#"
import os, sys, time
sys.path.insert(0, sys.argv.pop(1))
fails, way = sys.argv.pop(1), sys.argv.pop(1)
import measuring
plain, bursts = measuring.burst, []

def burst(*arguments):
    begin = time.monotonic()
    times = plain(*arguments)
    measuring.say("version", name="burst", value=f"{begin} {time.monotonic()}")
    bursts.append(begin)
    if way == fails and len(bursts) == 2 and "one" in sys.argv:
        os._exit(3)
    return times

measuring.burst = burst

def section(name):
    measuring.measure(name, lambda: time.sleep(0.001), turns=4)

measuring.run({"one": lambda: section("one"), "two": lambda: section("two")})
"#;

    /// Findings: bursts in the order of their begins, the metrics each way timed, the failures.
    #[derive(Debug, Default)]
    struct Found {
        bursts: Vec<(f64, f64, Way)>,
        times: Vec<(Way, String)>,
        failures: Vec<Failure>,
    }

    impl Found {
        /// The ways of the bursts, turn by turn.
        fn turns(&self, ways: usize) -> Vec<Vec<Way>> {
            let sorted = |turn: &[(f64, f64, Way)]| {
                let mut ways: Vec<Way> = turn.iter().map(|(_, _, way)| *way).collect();
                ways.sort_unstable();
                ways
            };
            self.bursts.chunks(ways).map(sorted).collect()
        }

        fn no_two_overlap(&self) -> bool {
            self.bursts.windows(2).all(|pair| pair[0].1 <= pair[1].0)
        }

        fn has_timed(&self, way: Way) -> Vec<&str> {
            self.times.iter().filter(|(of, _)| *of == way).map(|(_, name)| name.as_str()).collect()
        }
    }

    /// Runs what `command` makes of a way and its sections, natively, by rings and by a socket at once.
    fn found(patience: Duration, command: impl Fn(Way, &[&'static str]) -> Command) -> Found {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let start = |way: Way, sections: &[&'static str]| {
            Ok((command(way, sections), folder.path().join(format!("{}.log", way.name()))))
        };
        let plan = Plan { program: "program", sections: SECTIONS, patience, start: &start };
        let mut found = Found::default();
        let mut note = |way, line, _: &Heard| match line {
            Line::Version { value, .. } => {
                let (begin, end) = value.split_once(' ').expect("two times");
                found.bursts.push((begin.parse().expect("a time"), end.parse().expect("a time"), way));
            }
            Line::Time { name, .. } => found.times.push((way, name)),
            line => panic!("not said by the program: {line:?}"),
        };
        let ways = WAYS.map(|way| (way, SECTIONS.to_vec())).to_vec();
        let failures = run(&plan, ways, &mut note).expect("the programs start");
        found.bursts.sort_by(|one, other| one.0.total_cmp(&other.0));
        Found { failures, ..found }
    }

    fn python(fails: &'static str) -> Found {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        found(Duration::from_secs(60), |way, sections| {
            let mut command = Command::new("python3");
            command.args(["-B", "-c", PROGRAM]).arg(&programs).args([fails, way.name(), "40"]).args(sections);
            command
        })
    }

    #[test]
    fn no_two_bursts_overlap_and_every_way_is_in_every_turn() {
        let found = python("nobody");
        assert!(found.failures.is_empty() && found.no_two_overlap(), "{found:?}");
        assert_eq!(found.turns(3), vec![WAYS.to_vec(); TURNS * SECTIONS.len()]);
        assert_eq!(WAYS.map(|way| found.has_timed(way)), [SECTIONS; 3]);
    }

    #[test]
    fn one_that_dies_in_its_turn_is_told_of_and_is_back_in_the_next_section() {
        let found = python("shm");
        let failure = Failure { section: "one".to_owned(), way: Way::Shm, reason: "exit code 3: ".to_owned() };
        assert_eq!(found.failures, [failure]);
        assert!(found.no_two_overlap(), "{found:?}");
        assert_eq!(WAYS.map(|way| found.has_timed(way)), [SECTIONS, &["two"], SECTIONS]);
        // Two turns with it, two without, and the next section with it again.
        let (first, rest) = (found.turns(3)[..2].to_vec(), found.turns(3).len());
        assert_eq!((first, rest), (vec![WAYS.to_vec(); 2], (3 * 2 + 2 * 2 + 3 * TURNS).div_ceil(3)));
        let last: Vec<Way> = found.bursts[found.bursts.len() - 3 * TURNS..].iter().map(|burst| burst.2).collect();
        assert!(last.chunks(3).all(|turn| WAYS.iter().all(|way| turn.contains(way))), "{last:?}");
    }

    #[test]
    fn one_that_falls_silent_holds_the_others_no_longer_than_silence_is_borne() {
        let found = found(Duration::from_secs(2), |way, sections| {
            let silent = way == Way::Unix && sections.contains(&"one");
            let measured = r#"for section; do
                echo '{"kind":"turn"}'; read go; echo '{"kind":"meet"}'; read go
                echo '{"kind":"time","name":"'$section'","seconds":1}'; echo '{"kind":"done","section":"'$section'"}'
                done"#;
            let mut command = Command::new("sh");
            command.args(["-c", if silent { "sleep 1000" } else { measured }, "sh"]).args(sections);
            command
        });
        let reason = "silent for 2 s: ".to_owned();
        assert_eq!(found.failures, [Failure { section: "one".to_owned(), way: Way::Unix, reason }]);
        assert_eq!(WAYS.map(|way| found.has_timed(way)), [SECTIONS, SECTIONS, &["two"]]);
    }
}
