//! What is measured about shares, group by group. In: programs that can be started. Out: findings with their limits.

use anyhow::{Result, ensure};

use super::finding::Finding;
use super::tenants::{Kind, SETTLING, Tenants, ended};
use crate::installation::Equipment;
use crate::program::asked::{Asked, Done};

/// A tenant with terms that say nothing about how much: it takes turns.
const EQUAL: &[&str] = &["--weight", "1"];

/// Measurements that belong together.
#[derive(Debug, Clone, Copy)]
pub(super) enum Group {
    Even,
    Users,
    Weights,
    Quarter,
    Alone,
    Latency,
    Cost,
    Training,
    Mps,
}

const GROUPS: [(&str, Group); 9] = [
    ("even", Group::Even),
    ("users", Group::Users),
    ("weights", Group::Weights),
    ("quarter", Group::Quarter),
    ("alone", Group::Alone),
    ("latency", Group::Latency),
    ("cost", Group::Cost),
    ("training", Group::Training),
    ("mps", Group::Mps),
];

/// The groups of these names; all where none is named.
///
/// # Errors
/// When there is no such group.
pub(super) fn chosen(names: &[String]) -> Result<Vec<Group>> {
    for name in names {
        ensure!(GROUPS.iter().any(|(known, _)| known == name), "there is no such group: {name}");
    }
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    Ok(GROUPS.iter().filter(|(name, _)| is_wanted(name)).map(|(_, group)| *group).collect())
}

impl Group {
    /// # Errors
    /// When a program fails, or its sum is wrong.
    pub(super) fn measure(self, tenants: &Tenants<'_>, equipment: &Equipment) -> Result<Vec<Finding>> {
        match self {
            Self::Even => even(tenants),
            Self::Users => users(tenants, equipment),
            Self::Weights => weights(tenants),
            Self::Quarter => quarter(tenants),
            Self::Alone => alone(tenants),
            Self::Latency => latency(tenants),
            Self::Cost => cost(tenants),
            Self::Training => training(tenants, equipment),
            Self::Mps => mps(tenants, equipment),
        }
    }
}

fn rates(done: &[Done]) -> Vec<f64> {
    done.iter().map(Done::rate).collect()
}

fn fastest_over_slowest(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max) / rates.iter().copied().fold(f64::MAX, f64::min)
}

fn even(tenants: &Tenants<'_>) -> Result<Vec<Finding>> {
    let one = tenants.alone(Kind::Single)?;
    let mut findings = Vec::new();
    for (terms, words) in [(&[] as &[&str], "no terms"), (EQUAL, "equal weights")] {
        let rates = rates(&tenants.together(&[(Kind::Single, terms); 8], 5.0)?);
        let spread = fastest_over_slowest(&rates);
        findings.push(Finding::new(format!("8 tenants, {words}: fastest over slowest"), spread, "x").at_most(1.05));
        let sum = rates.iter().sum::<f64>() / one;
        findings.push(Finding::new(format!("8 tenants, {words}: all together, of one alone"), sum, "x"));
    }
    Ok(findings)
}

/// Two users with names and without terms, of whom one runs three programs.
fn users(tenants: &Tenants<'_>, equipment: &Equipment) -> Result<Vec<Finding>> {
    let one = tenants.alone(Kind::Single)?;
    let folder = tempfile::tempdir()?;
    let tokens = [tenants.token(folder.path(), "many")?, tenants.token(folder.path(), "few")?];
    let server = tenants.server(&equipment.device_library, folder.path(), &[])?;
    let tenants = tenants.on(&server)?;
    let [many, few] = tokens.map(|token| tenants.of_user(token));
    let (many, few) = (many?, few?);
    let start =
        |of: &Tenants<'_>, count: usize| (0..count).map(|_| of.start((Kind::Single, &[]))).collect::<Result<_>>();
    let programs = [start(&many, 3)?, start(&few, 1)?].into_iter().flat_map(|programs: Vec<_>| programs).collect();
    let rates = rates(&tenants.beside(programs, 7.0)?);
    let sum: f64 = rates.iter().sum();
    let part = |rate: f64| rate / sum * 100.0;
    Ok(vec![
        Finding::new("a user with one program beside one with three", part(rates[3]), "%").at_least(47.5).at_most(52.5),
        Finding::new("  the three: fastest over slowest", fastest_over_slowest(&rates[..3]), "x").at_most(1.05),
        Finding::new("  all together, of one alone", sum / one, "x"),
    ])
}

fn weights(tenants: &Tenants<'_>) -> Result<Vec<Finding>> {
    let one = tenants.alone(Kind::Single)?;
    let weights = [1.0, 2.0, 4.0];
    let terms: [&[&str]; 3] = [&["--weight", "1"], &["--weight", "2"], &["--weight", "4"]];
    let rates = rates(&tenants.together(&terms.map(|terms| (Kind::Single, terms)), 7.0)?);
    let sum: f64 = rates.iter().sum();
    let mut findings = Vec::new();
    for (rate, weight) in rates.iter().zip(weights) {
        let ratio = rate / sum / (weight / 7.0);
        findings.push(
            Finding::new(format!("weight {weight} of 7: had of what it should"), ratio, "x")
                .at_least(0.95)
                .at_most(1.05),
        );
    }
    findings.push(Finding::new("weights 1:2:4: all together, of one alone", sum / one, "x"));
    Ok(findings)
}

fn quarter(tenants: &Tenants<'_>) -> Result<Vec<Finding>> {
    let one = tenants.alone(Kind::Single)?;
    let mut findings = Vec::new();
    let kinds = [
        (Kind::Single, "kernels of 1 ms", 5.0),
        (Kind::Graph, "graphs", 5.0),
        (Kind::Tiny, "kernels of 1 us", 5.0),
        (Kind::Long, "kernels of 200 ms", 10.0),
    ];
    for (kind, words, seconds) in kinds {
        let alone = if kind == Kind::Single { one } else { tenants.alone(kind)? };
        let done = tenants.together(&[(kind, &["--share", "25%"]), (Kind::Single, &[])], seconds)?;
        let part = |done: &Done, alone: f64| done.rate() / alone * 100.0;
        let had = part(&done[0], alone);
        findings.push(Finding::new(format!("a share of 25 %, {words}"), had, "%").at_least(23.0).at_most(27.0));
        findings.push(Finding::new(
            format!("  by the server's clock, {words}"),
            done[0].had.unwrap_or(0.0) * 100.0,
            "%",
        ));
        findings.push(Finding::new(format!("  the other beside it, {words}"), part(&done[1], one), "%"));
    }
    Ok(findings)
}

fn alone(tenants: &Tenants<'_>) -> Result<Vec<Finding>> {
    let share: &[&str] = &["--share", "25%"];
    let one = tenants.alone(Kind::Single)?;
    let with = tenants.together(&[(Kind::Single, share)], 3.0)?[0].rate() / one;
    let beside = tenants.together(&[(Kind::Single, share), (Kind::Idle, &[])], 3.0)?[0].rate() / one;
    Ok(vec![
        Finding::new("alone with a share of 25 %, of alone without", with * 100.0, "%").at_least(99.0),
        Finding::new("beside one that wakes 50 times a second", beside * 100.0, "%"),
    ])
}

fn latency(tenants: &Tenants<'_>) -> Result<Vec<Finding>> {
    let class: &[&str] = &["--class", "latency", "--share", "25%"];
    let alone = tenants.together(&[(Kind::Answer, class)], 6.0)?[0];
    let mut findings = vec![
        Finding::new("launch to result, alone: half", alone.p50_ms, "ms"),
        Finding::new("launch to result, alone: 99 of 100", alone.p99_ms, "ms"),
    ];
    // A kernel is not interrupted, so the limit is for such as are shorter than what is waited for.
    let kinds = [
        (Kind::Short, "kernels of 0.1 ms", true),
        (Kind::Graph, "graphs of ten kernels of 0.1 ms", false),
        (Kind::Single, "kernels of 1 ms", false),
        (Kind::Long, "kernels of 200 ms", false),
    ];
    for (kind, words, has_limit) in kinds {
        let beside = |own: &'static [&'static str], theirs| {
            let all = [(Kind::Answer, own), (kind, theirs), (kind, theirs), (kind, theirs)];
            Ok::<_, anyhow::Error>(tenants.together(&all, 6.0)?[0])
        };
        let [without, with] = [beside(&[], &[])?, beside(class, EQUAL)?];
        let title = |how: &str| format!("beside three that are busy with {words}, {how}");
        findings.push(Finding::new(title("by the driver's slices: 99 of 100"), without.p99_ms, "ms"));
        findings.push(Finding::new(title("latency class: half"), with.p50_ms, "ms"));
        let finding = Finding::new(title("latency class: 99 of 100"), with.p99_ms, "ms");
        findings.push(if has_limit { finding.at_most(3.0 * alone.p99_ms) } else { finding });
    }
    Ok(findings)
}

/// What a program without terms did in a round: while it was alone, beside another that wakes up 50 times a second, and beside the
/// same while turns are taken because that has terms.
type Round = [Done; 3];

/// So many rounds, each of which begins with another of the three: what changes within a minute affects them alike.
fn by_turns(tenants: &Tenants<'_>, program: &mut Asked, rounds: usize, seconds: f64) -> Result<Vec<Round>> {
    let mut found = vec![Round::default(); rounds];
    for (number, round) in found.iter_mut().enumerate() {
        for which in (0..3).map(|turn| (number + turn) % 3) {
            let terms: [Option<&[&str]>; 3] = [None, Some(&[]), Some(EQUAL)];
            let idle = terms[which].map(|terms| tenants.start((Kind::Idle, terms))).transpose()?;
            // What the beginning of one and the end of another cost is not meant.
            std::thread::sleep(SETTLING);
            round[which] = tenants.window(std::slice::from_mut(program), seconds)?[0];
            idle.map_or(Ok(()), ended)?;
        }
    }
    Ok(found)
}

/// The median of a figure of each round.
fn median(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn cost(tenants: &Tenants<'_>) -> Result<Vec<Finding>> {
    let mut program = tenants.start((Kind::Tiny, &[]))?;
    let rounds = by_turns(tenants, &mut program, 5, 1.0)?;
    ended(program)?;
    let posting = |which: usize| median(&rounds, |round| round[which].posting_ns);
    let kernels = |which: usize| median(&rounds, |round| round[which].rate() / round[0].rate()) * 100.0;
    let more = median(&rounds, |[_, beside, turns]| turns.posting_ns - beside.posting_ns);
    Ok(vec![
        Finding::new("a launch, alone", posting(0), "ns"),
        Finding::new("a launch beside one that wakes 50 times a second", posting(1), "ns"),
        Finding::new("  more, while turns are taken", more, "ns").at_most(100.0),
        Finding::new("kernels of 1 us beside it, of alone", kernels(1), "%"),
        Finding::new("  while turns are taken, of alone", kernels(2), "%"),
    ])
}

fn training(tenants: &Tenants<'_>, equipment: &Equipment) -> Result<Vec<Finding>> {
    if !equipment.can_train() {
        return Ok(Vec::new());
    }
    let words = [(&equipment.python).into(), tenants.program("endless_training.py")?, "resnet18".into()];
    let mut program = Asked::start(tenants.command(&[], &words))?;
    let rounds = by_turns(tenants, &mut program, 15, 1.0)?;
    program.end()?;
    let step = median(&rounds, |[alone, ..]| 1e3 / alone.rate());
    let beside = median(&rounds, |[alone, beside, _]| alone.rate() / beside.rate());
    let turns = median(&rounds, |[_, beside, turns]| beside.rate() / turns.rate());
    Ok(vec![
        Finding::new("a step of ResNet-18, alone", step, "ms"),
        Finding::new("beside one that wakes 50 times a second, of alone", beside, "x"),
        Finding::new("  the same while turns are taken, of without", turns, "x").at_most(1.01),
    ])
}

/// The same beside each other by NVIDIA's MPS, where the server has that.
fn mps(tenants: &Tenants<'_>, equipment: &Equipment) -> Result<Vec<Finding>> {
    if tenants.is_cpu_device() {
        return Ok(Vec::new());
    }
    let sum = |done: &[Done]| rates(done).iter().sum::<f64>();
    let (one, small) = (tenants.alone(Kind::Single)?, [(Kind::Small, &[] as &[&str]); 8]);
    let by_slices = sum(&tenants.together(&small, 5.0)?);
    let folder = tempfile::tempdir()?;
    let server = tenants.server(&equipment.device_library, folder.path(), &["--mps"])?;
    let beside = tenants.on(&server)?;
    let smalls = sum(&beside.together(&small, 5.0)?) / by_slices;
    let busy = sum(&beside.together(&[(Kind::Single, &[] as &[&str]); 2], 5.0)?) / one;
    let alone = beside.together(&[(Kind::Single, &["--share", "25%"])], 3.0)?[0].rate() / one;
    let class: &[&str] = &["--class", "latency"];
    let [first, with] = [Kind::Answer, Kind::Single].map(|kind| (kind, if kind == Kind::Answer { class } else { &[] }));
    let quiet = beside.together(&[first], 6.0)?[0];
    let answers = beside.together(&[first, with, with, with], 6.0)?[0];
    Ok(vec![
        Finding::new("8 small tenants by MPS, of the same by slices", smalls, "x").at_least(1.8),
        Finding::new("two that fill the GPU by MPS: together, of one alone", busy, "x").at_least(0.98),
        Finding::new("alone with a share of 25 % by MPS, of alone without", alone * 100.0, "%"),
        Finding::new("launch to result by MPS, alone: 99 of 100", quiet.p99_ms, "ms"),
        Finding::new("  beside three that are busy with kernels of 1 ms: 99 of 100", answers.p99_ms, "ms"),
    ])
}
