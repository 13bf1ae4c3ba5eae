//! Any mixture of sessions: whoever always has work gets near to what it is due, beside kernels of any length, pauses and classes.

use std::time::Duration;

use proptest::prelude::*;

use super::simulation::{Load, Simulation};
use crate::fractions::{Active, fractions};
use crate::terms::{Class, Member, Terms};

/// A session: its user, share, weight, whether it is in a hurry, kernels and pauses in units of 50 µs; no pause: it always works.
type One = (u8, u32, u32, bool, u64, u64);

fn one() -> impl Strategy<Value = One> {
    let kernel = prop_oneof![1..20_u64, 20..400_u64];
    let pause = prop_oneof![2 => Just(0_u64), 1 => 1..200_u64];
    (0..4_u8, 0..5_u32, 0..4_u32, prop::bool::weighted(0.2), kernel, pause)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// No kernel here is longer than 20 ms. What others leave unused makes it more.
    #[test]
    fn who_always_has_work_gets_most_of_what_it_is_due(all in prop::collection::vec(one(), 2..7)) {
        let micros = |units: u64| Duration::from_micros(50 * units);
        let members: Vec<Member<u8>> = all.iter().map(|&(user, share, weight, latency, ..)| {
            let class = if latency { Class::Latency } else { Class::Batch };
            // Somebody has terms.
            Member { user, user_weight: 1, is_named: false, terms: Terms { share: share * 40, weight: weight.max(1), class } }
        }).collect();
        let mut simulation = Simulation::new();
        for (number, (member, &(.., kernel, pause))) in members.iter().zip(&all).enumerate() {
            let work = if pause == 0 { Duration::MAX } else { micros(kernel) };
            simulation.add(number as u64, *member, Load { kernel: micros(kernel), work, pause: micros(pause) });
        }
        simulation.run(Duration::from_secs(20));
        let active: Vec<_> = members.iter().map(|member| Active {
            user: member.user, user_weight: 1, share: member.terms.share, weight: member.terms.weight,
        }).collect();
        let due = fractions(&active);
        for (number, (&(.., pause), due)) in all.iter().zip(&due).enumerate() {
            let (had, due) = (simulation.thousandths(number as u64), due / 1000);
            prop_assert!(pause != 0 || had * 10 + 100 >= due * 8, "session {number} had {had}, was due {due}: {all:?}");
        }
    }
}
