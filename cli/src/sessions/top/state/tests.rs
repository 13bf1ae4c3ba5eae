//! Answers and keys, and what follows from them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;

/// A session of 100 bytes a second of age.
pub(in super::super) fn session(server: &str, number: u64, program: &str, used: u64) -> SessionRow {
    SessionRow {
        server: server.to_owned(),
        session: number,
        gpu: 0,
        client: "desk (10.0.0.9:50000)".to_owned(),
        pid: 4000 + u32::try_from(number).expect("small"),
        program: program.to_owned(),
        quota: 8 << 30,
        used,
        seconds: 60 * number,
        worker: 0,
        transport: "tcp".to_owned(),
        guaranteed: true,
        user: "alice".to_owned(),
        share: 0,
        weight: 0,
        class: "batch",
        gpu_ms: 0,
        of_ms: 0,
        moves: 0,
        received: 0,
        sent: 0,
        waits: 0,
        counted_ms: 0,
        rate: None,
    }
}

/// A GPU of 80 GiB with so many of them in use.
pub(in super::super) fn gpu(server: &str, index: u32, used: u64) -> GpuRow {
    GpuRow {
        server: server.to_owned(),
        index,
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        kind: "nvidia".to_owned(),
        uuid: String::new(),
        compute_capability: "9.0".to_owned(),
        driver: "13.0".to_owned(),
        memory: 80 << 30,
        free: (80 - used) << 30,
        guarantee: (80 - used) << 30,
        share: 1000,
        sessions: 2,
    }
}

/// Two servers, one of which has answered.
pub(in super::super) fn state() -> State {
    let mut state = State::new(vec!["gpu1".to_owned(), "gpu2".to_owned()]);
    let sessions = vec![
        session("gpu1", 1, "train.py", 5 << 30),
        SessionRow { share: 250, gpu_ms: 248, of_ms: 1000, ..session("gpu1", 2, "infer", 7 << 30) },
        SessionRow {
            moves: 3,
            quota: 0,
            guaranteed: false,
            user: String::new(),
            ..session("gpu1", 3, "bench", 1 << 20)
        },
    ];
    let load = Load { gpu: 0, utilization: Some(87), temperature: Some(61), power: Some(412_345) };
    let look = Look {
        gpus: vec![gpu("gpu1", 0, 12), gpu("gpu1", 1, 0)],
        sessions,
        loads: vec![load],
        identity: Some([1; 32]),
    };
    state.take(News::Look(0, Ok(look)));
    state.take(News::Look(1, Err("no server at tcp://gpu2:14833: connection refused\n  start one".to_owned())));
    state
}

/// A second later the first two sessions have carried something, and a fourth has come.
pub(in super::super) fn looked_again(state: &mut State) {
    let mut look = Look { sessions: state.servers[0].look.sessions.clone(), ..state.servers[0].look.clone() };
    for (row, counts) in look.sessions.iter_mut().zip([(40 << 20, 3 << 10, 1200), (700, 5 << 30, 7), (0, 0, 0)]) {
        (row.received, row.sent, row.waits) = counts;
        row.counted_ms += 1000;
    }
    look.sessions.push(session("gpu1", 4, "new", 0));
    state.take(News::Look(0, Ok(look)));
}

pub(in super::super) fn press(state: &mut State, keys: &[KeyCode]) -> Option<Act> {
    keys.iter().map(|code| state.press(KeyEvent::new(*code, KeyModifiers::NONE))).last().flatten()
}

fn numbers(state: &State) -> Vec<u64> {
    state.sessions().iter().map(|row| row.session).collect()
}

fn target(session: u64, program: &str) -> Target {
    Target { server: "gpu1".to_owned(), session, program: program.to_owned() }
}

#[test]
fn keys_sort_by_every_column_and_turn_the_order() {
    let mut state = state();
    assert_eq!(numbers(&state), [2, 1, 3], "the largest first");
    press(&mut state, &[KeyCode::Char('r')]);
    assert_eq!(numbers(&state), [3, 1, 2]);
    press(&mut state, &[KeyCode::Char('r'), KeyCode::Left]);
    assert_eq!((state.sort, numbers(&state)), (Column::Program, vec![3, 2, 1]));
    press(&mut state, &[KeyCode::Right, KeyCode::Right, KeyCode::Right]);
    assert_eq!((state.sort, numbers(&state)), (Column::Share, vec![2, 1, 3]));
    press(&mut state, &[KeyCode::Right; 4]);
    assert_eq!((state.sort, numbers(&state)), (Column::Moves, vec![3, 1, 2]), "equal ones by server and number");
    press(&mut state, &[KeyCode::Right; 3]);
    assert_eq!(state.sort, Column::Device, "behind the last column comes the first");
}

#[test]
fn keys_sort_by_rates_and_unknown_ones_are_last() {
    let mut state = state();
    looked_again(&mut state);
    press(&mut state, &[KeyCode::Right; 3]);
    assert_eq!((state.sort, numbers(&state)), (Column::Received, vec![1, 2, 3, 4]));
    press(&mut state, &[KeyCode::Right]);
    assert_eq!((state.sort, numbers(&state)), (Column::Sent, vec![2, 1, 3, 4]));
    press(&mut state, &[KeyCode::Right]);
    assert_eq!((state.sort, numbers(&state)), (Column::Waits, vec![1, 2, 3, 4]));
    press(&mut state, &[KeyCode::Char('r')]);
    assert_eq!(numbers(&state), [4, 3, 2, 1]);
}

#[test]
fn a_session_ends_only_after_a_yes() {
    let mut state = state();
    assert_eq!(press(&mut state, &[KeyCode::Char('e')]), None);
    assert_eq!(state.question, Some(Question::End(target(2, "infer"))));
    assert_eq!((press(&mut state, &[KeyCode::Enter]), state.question.clone()), (None, None));
    let end = press(&mut state, &[KeyCode::Down, KeyCode::Char('e'), KeyCode::Char('y')]);
    assert_eq!(end, Some(Act::End(target(1, "train.py"))));
    assert_eq!(press(&mut state, &[KeyCode::Char('y')]), None, "one yes, one end");
}

#[test]
fn what_was_asked_of_one_session_is_not_done_to_another_that_takes_its_place() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('e')]);
    let rows = vec![session("gpu1", 2, "infer", 1), session("gpu1", 9, "other", 9 << 30)];
    state.take(News::Look(0, Ok(Look { sessions: rows, ..Look::default() })));
    assert_eq!(numbers(&state), [9, 2], "another one is at the top now");
    assert_eq!(press(&mut state, &[KeyCode::Char('y')]), Some(Act::End(target(2, "infer"))));
    let sessions = state.sessions();
    assert_eq!(sessions[state.place(&sessions)].session, 2, "the selection stays with its session");
}

#[test]
fn a_session_moves_to_the_gpu_that_was_typed_or_that_the_server_chooses() {
    let mut state = state();
    let [m, enter] = [KeyCode::Char('m'), KeyCode::Enter];
    assert_eq!(press(&mut state, &[m, enter]), Some(Act::Migrate(target(2, "infer"), None)));
    let typed = [m, KeyCode::Char('1'), KeyCode::Char('x'), KeyCode::Char('2'), KeyCode::Backspace, enter];
    assert_eq!(press(&mut state, &typed), Some(Act::Migrate(target(2, "infer"), Some(1))));
    assert_eq!(press(&mut state, &[m, KeyCode::Esc]), None);
    assert_eq!(state.question, None);
    let many = [m].into_iter().chain([KeyCode::Char('9'); 40]).chain([enter]).collect::<Vec<_>>();
    assert_eq!(press(&mut state, &many), Some(Act::Migrate(target(2, "infer"), Some(999))));
}

#[test]
fn keys_without_sessions_do_nothing() {
    let mut state = State::new(vec!["gpu1".to_owned()]);
    let keys = ['e', 'm', 'j', 'k', 'y'].map(KeyCode::Char);
    assert_eq!((press(&mut state, &keys), state.question.clone()), (None, None));
    assert_eq!(press(&mut state, &[KeyCode::End, KeyCode::Char('q')]), Some(Act::Leave));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    state.question = Some(Question::End(target(1, "x")));
    assert_eq!(state.press(control_c), Some(Act::Leave), "also while something is asked");
}

#[test]
fn a_server_that_is_reached_by_two_names_is_shown_once_and_one_that_left_keeps_its_rows() {
    let mut state = state();
    let twin = Look { sessions: vec![session("gpu2", 1, "train.py", 1)], identity: Some([1; 32]), ..Look::default() };
    state.take(News::Look(1, Ok(twin)));
    assert_eq!((state.count_servers(), state.sessions().len()), (1, 3));
    assert_eq!(state.notes(), ["gpu2: the same server as gpu1"]);
    let left = || Err("no server there\n  start one".to_owned());
    state.take(News::Look(1, left()));
    assert_eq!(state.sessions().len(), 3);
    state.take(News::Look(0, left()));
    assert_eq!((state.count_servers(), state.sessions().len()), (1, 3));
    assert_eq!(state.notes(), ["no server there", "gpu2: the same server as gpu1", "no server there"]);
}

#[test]
fn an_address_that_led_to_a_server_and_is_silent_hides_none_of_its_rows() {
    let mut state = state();
    state.take(News::Look(0, Err("no server at gpu1\n  start one".to_owned())));
    let look = Look { sessions: vec![session("gpu2", 7, "new.py", 1)], identity: Some([1; 32]), ..Look::default() };
    state.take(News::Look(1, Ok(look)));
    assert_eq!((state.count_servers(), numbers(&state)), (1, vec![7]));
    assert_eq!(state.notes(), ["gpu1: the same server as gpu2", "no server at gpu1"]);
}

#[test]
fn a_server_that_claims_sessions_without_end_is_shown_in_part() {
    let mut state = State::new(vec!["gpu1".to_owned()]);
    let sessions = (0..5000).map(|number| session("gpu1", number, "x", 1)).collect();
    state.take(News::Look(0, Ok(Look { sessions, ..Look::default() })));
    assert_eq!((state.sessions().len(), state.notes()), (4096, vec!["gpu1: rows that are not shown: 904".to_owned()]));
}
