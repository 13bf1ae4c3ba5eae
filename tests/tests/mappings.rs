//! Memory that a program maps itself, by several threads. In: tests/programs/mappings.c, which checks what it reads. Out: its verdict,
//! on the CPU device alone and through a daemon.

use floe_tests::{Floed, Program, built_c};

#[test]
fn threads_map_where_others_have_just_unmapped() {
    let (_folder, built) = built_c("mappings");
    let daemon = Floed::start();
    let alone = Program::new(built.clone(), &[]).on_the_device_library().run();
    let through_floe = Program::new(built, &[]).on(&daemon, daemon.unix()).run();
    for (name, outcome) in [("alone", alone), ("through floe", through_floe)] {
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "right\n"), "{name}: {}", outcome.stderr);
    }
}
