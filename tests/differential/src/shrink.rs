//! A program that fails, made small.
//! In: its operations, and a question whether some of them still fail. Out: the indices of few that do. It never gives
//! operations that the model does not admit: what needs a removed one goes with it.

use crate::model::{Capabilities, Model};
use crate::operation::Operation;

/// The operations of a list that make sense and one result without the others.
pub(crate) fn admitted(program: &[Operation], keep: &[usize], can: Capabilities) -> Vec<usize> {
    let mut model = Model::new(can);
    keep.iter().copied().filter(|index| model.admit(&program[*index]).is_ok()).collect()
}

/// Removes operations, in halves, quarters and so on down to single ones, for as long as that fails.
pub(crate) fn shrink(program: &[Operation], can: Capabilities, mut fails: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let mut keep: Vec<usize> = (0..program.len()).collect();
    let mut size = keep.len() / 2;
    while size > 0 {
        let (mut at, before) = (keep.len(), keep.len());
        while at > 0 {
            let from = at.saturating_sub(size);
            let rest: Vec<usize> = keep[..from].iter().chain(&keep[at.min(keep.len())..]).copied().collect();
            let rest = admitted(program, &rest, can);
            if rest.len() < keep.len() && fails(&rest) {
                keep = rest;
            }
            at = from.min(keep.len());
        }
        if size > 1 || keep.len() == before {
            size /= 2;
        }
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::program;

    const CAN: Capabilities = Capabilities {
        vgpus: 2,
        mapped: true,
        peers: false,
        across: true,
        processes: false,
        managed: true,
        reads_in_order: true,
    };
    const PEERS: Capabilities = Capabilities { peers: true, ..CAN };
    const PROCESSES: Capabilities = Capabilities { across: false, processes: true, ..CAN };

    #[test]
    fn what_is_left_holds_the_operation_that_fails_and_what_it_needs() {
        let program = program(7, 200, CAN);
        let launch = program.iter().position(|operation| matches!(operation, Operation::LaunchGraph { .. }));
        let launch = launch.expect("200 operations launch a graph");
        let left = shrink(&program, CAN, |keep| keep.contains(&launch));
        assert!(left.contains(&launch) && left.len() < 20, "{left:?}");
        assert_eq!(admitted(&program, &left, CAN), left);
    }

    #[test]
    fn programs_of_a_seed_are_the_same_and_all_of_it_is_admitted() {
        for (seed, can) in (0..30).zip([CAN, PEERS, PROCESSES].into_iter().cycle()) {
            let one = program(seed, 150, can);
            assert_eq!(one, program(seed, 150, can));
            let all: Vec<usize> = (0..one.len()).collect();
            assert_eq!(admitted(&one, &all, can), all);
        }
    }
}
