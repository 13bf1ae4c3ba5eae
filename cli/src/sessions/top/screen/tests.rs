//! Screens, compared with those in `screens`. `FLOE_SCREENS=write` in the environment of the tests writes them anew.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;

use super::super::state::News;
use super::super::state::tests::{gpu, looked_again, press, session, state};
use super::*;
use crate::servers::Look;

fn drawn(state: &State, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(frame, state)).expect("drawn");
    terminal.backend().clone()
}

fn text(screen: &TestBackend) -> String {
    let buffer = screen.buffer();
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    };
    buffer.content.chunks(usize::from(buffer.area.width)).map(line).collect()
}

fn is_as(name: &str, state: &State, width: u16, height: u16) {
    let screen = text(&drawn(state, width, height));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sessions/top/screens").join(name).with_extension("txt");
    if std::env::var("FLOE_SCREENS").is_ok_and(|wish| wish == "write") {
        std::fs::write(&path, &screen).expect("written");
    }
    let golden = std::fs::read_to_string(&path).expect("a screen of this name");
    assert!(screen == golden, "{name} looks otherwise:\n{screen}");
}

#[test]
fn a_wide_screen_has_every_column() {
    let mut state = state();
    looked_again(&mut state);
    is_as("wide", &state, 190, 14);
}

#[test]
fn a_narrow_screen_has_the_columns_that_fit() {
    is_as("narrow", &state(), 80, 14);
}

#[test]
fn questions_name_the_session() {
    let mut state = state();
    press(&mut state, &[KeyCode::Down, KeyCode::Char('e')]);
    is_as("end", &state, 120, 14);
    press(&mut state, &[KeyCode::Esc, KeyCode::Char('m'), KeyCode::Char('1')]);
    is_as("migrate", &state, 120, 14);
    press(&mut state, &[KeyCode::Esc]);
    state.take(News::Done(Err("gpu1 refuses: no room\n  try later".to_owned())));
    is_as("refused", &state, 120, 14);
}

#[test]
fn what_does_not_fit_is_counted_and_the_selected_session_is_in_sight() {
    let mut state = State::new(vec!["gpu1".to_owned()]);
    let gpus = (0..16).map(|index| gpu("gpu1", index, 80)).collect();
    let sessions = (0..40).map(|number| session("gpu1", number, "worker", number << 20)).collect();
    state.take(News::Look(0, Ok(Look { gpus, sessions, ..Look::default() })));
    press(&mut state, &[KeyCode::End]);
    is_as("many", &state, 120, 20);
}

#[test]
fn nothing_is_known_yet() {
    is_as("empty", &State::new(vec!["gpu1".to_owned()]), 80, 10);
}

#[test]
fn the_selected_row_and_no_other_is_reversed() {
    let mut state = state();
    press(&mut state, &[KeyCode::Down]);
    let screen = drawn(&state, 120, 14);
    let is_reversed = |y: u16| screen.buffer()[(0, y)].modifier.contains(Modifier::REVERSED);
    let reversed: Vec<u16> = (0..14).filter(|y| is_reversed(*y)).collect();
    let line = text(&screen).lines().nth(usize::from(reversed[0])).expect("a line").to_owned();
    assert!(reversed.len() == 1 && line.contains("train.py"), "{line}");
}

#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (3, 2), (20, 5), (300, 3), (2, 60)] {
        drawn(&state(), width, height);
    }
}

#[test]
fn ages_are_for_people() {
    assert_eq!([5, 245, 11_045, 183_600].map(age), ["0:05", "4:05", "3:04:05", "2 d 03 h"]);
}

#[test]
fn rates_are_for_people_and_fit_their_column() {
    let words = [0, 1023, 1024, (1 << 20) - 1, 1 << 20, (5 << 20) + (3 << 18), (1 << 30) - 1, 3 << 29].map(per_second);
    let expected =
        ["0 B/s", "1023 B/s", "1 KiB/s", "1023 KiB/s", "1.0 MiB/s", "5.7 MiB/s", "1023.9 MiB/s", "1.5 GiB/s"];
    assert_eq!(words, expected);
    assert!(words.iter().all(|words| words.len() <= 12));
}

#[test]
fn the_end_of_a_long_device_is_shown() {
    assert_eq!(device("unix:///run/user/1000/floe/floed.sock", 3, 14), "…/floed.sock:3");
    assert_eq!(device("gpu1", 0, 6), "gpu1:0");
}

#[test]
fn bars_are_never_longer_than_whole() {
    let full = format!("[{}]", "|".repeat(BAR));
    assert_eq!((bar(5, 0).len(), bar(9, 3), bar(u64::MAX, u64::MAX)), (BAR + 2, full.clone(), full));
}
