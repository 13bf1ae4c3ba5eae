//! How `floe top` looks.
//! In: the state and a frame of some size. Out: the frame, drawn. The same state and size make the same screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};

use super::state::{Column, Question, State};
use crate::servers::{GpuRow, Load, Rate, SessionRow, size};

/// Characters of a bar, without its brackets.
const BAR: usize = 12;
/// Notes that are shown at once.
const MOST_NOTES: usize = 3;
/// The fewest and the most characters of a device: a server's name and a GPU's index.
const DEVICE: (usize, usize) = (6, 24);
/// The same of a user's name, with the mark of the column's heading.
const USER: (usize, usize) = (5, 16);
/// The fewest columns of a screen with bars.
const WITH_BARS: u16 = 100;
const GPU_HEADINGS: [&str; 7] = ["DEVICE", "NAME", "MEMORY", "BUSY", "TEMP", "POWER", "SESSIONS"];
const KEYS: &str = "↑↓ select   ←→ sort   r reverse   e end   m migrate   q quit";

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let (gpus, notes, sessions) = (state.gpus(), state.notes(), state.sessions());
    let height = usize::from(frame.area().height);
    // The sessions have half of the screen, or more.
    let gpu_lines = (gpus.len() + 1).min(height / 2).max(2);
    let note_lines = notes.len().min(MOST_NOTES);
    let [title, devices, trouble, _, rows, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines(gpu_lines)),
        Constraint::Length(lines(note_lines)),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let counts = format!("   servers: {}   GPUs: {}   sessions: {}", state.count_servers(), gpus.len(), sessions.len());
    frame.render_widget(Line::from(vec![Span::from("floe top").bold(), Span::from(counts)]), title);
    let widths = Widths { device: device_width(&gpus, &sessions), user: user_width(&sessions) };
    draw_gpus(frame, devices, widths.device, &gpus);
    draw_notes(frame, trouble, &notes);
    draw_sessions(frame, rows, widths, state, &sessions);
    frame.render_widget(foot_line(state), foot);
}

fn lines(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

fn heading() -> Style {
    Style::new().fg(Color::Cyan)
}

/// Characters of the columns whose widths are not always the same.
#[derive(Debug, Clone, Copy)]
struct Widths {
    device: usize,
    user: usize,
}

/// Characters that the longest name of a user needs and may have.
fn user_width(sessions: &[&SessionRow]) -> usize {
    let longest = sessions.iter().map(|row| row.user.chars().count()).max();
    longest.unwrap_or_default().clamp(USER.0, USER.1)
}

/// Characters that the longest name of a device needs and may have.
fn device_width(gpus: &[(&GpuRow, Load)], sessions: &[&SessionRow]) -> usize {
    let of_gpus = gpus.iter().map(|(gpu, _)| (&gpu.server, gpu.index));
    let of_sessions = sessions.iter().map(|row| (&row.server, row.gpu));
    let longest = of_gpus.chain(of_sessions).map(|(server, gpu)| format!("{server}:{gpu}").chars().count()).max();
    longest.unwrap_or_default().clamp(DEVICE.0, DEVICE.1)
}

/// A device in so many characters. The end of a long name says more than its beginning.
fn device(server: &str, gpu: u32, width: usize) -> String {
    let name = format!("{server}:{gpu}");
    let over = name.chars().count().saturating_sub(width);
    if over == 0 {
        name
    } else {
        name.chars().skip(over + 1).fold("…".to_owned(), |text, next| text + &next.to_string())
    }
}

fn draw_gpus(frame: &mut Frame<'_>, area: Rect, width: usize, gpus: &[(&GpuRow, Load)]) {
    let room = usize::from(area.height).saturating_sub(1);
    let shown = if gpus.len() > room { room.saturating_sub(1) } else { gpus.len() };
    let with_bars = area.width >= WITH_BARS;
    let row = |(gpu, load): &(&GpuRow, Load)| gpu_row(gpu, *load, width, with_bars);
    let mut rows: Vec<_> = gpus.iter().take(shown).map(row).collect();
    if shown < gpus.len() {
        rows.push(Row::new([format!("{} more", gpus.len() - shown)]));
    }
    let header = Row::new(GPU_HEADINGS).style(heading());
    let memory = if with_bars { 35 } else { 20 };
    let widths = [lines(width), 0, memory, 5, 5, 6, 8].map(Constraint::Length);
    let widths = widths.map(|width| if width == Constraint::Length(0) { Constraint::Fill(1) } else { width });
    frame.render_widget(Table::new(rows, widths).header(header), area);
}

fn gpu_row(gpu: &GpuRow, load: Load, width: usize, with_bar: bool) -> Row<'static> {
    let used = gpu.memory.saturating_sub(gpu.free);
    let bar = if with_bar { bar(used, gpu.memory) + " " } else { String::new() };
    let number =
        |value: Option<u64>, unit: &str| value.map_or_else(|| "–".to_owned(), |value| format!("{value} {unit}"));
    Row::new([
        device(&gpu.server, gpu.index, width),
        gpu.name.clone(),
        format!("{bar}{} of {}", size(used), size(gpu.memory)),
        number(load.utilization, "%"),
        number(load.temperature, "°C"),
        number(load.power.map(|milliwatts| milliwatts / 1000), "W"),
        gpu.sessions.to_string(),
    ])
}

/// A part of a whole as a bar.
fn bar(part: u64, whole: u64) -> String {
    let filled = if whole == 0 { 0 } else { u128::from(part.min(whole)) * BAR as u128 / u128::from(whole) };
    let filled = usize::try_from(filled).unwrap_or(BAR);
    format!("[{}{}]", "|".repeat(filled), " ".repeat(BAR - filled))
}

fn draw_notes(frame: &mut Frame<'_>, area: Rect, notes: &[String]) {
    let mut shown: Vec<_> = notes.iter().take(MOST_NOTES).map(|note| Line::from(note.clone())).collect();
    if notes.len() > MOST_NOTES {
        let rest = notes.len() - MOST_NOTES + 1;
        shown[MOST_NOTES - 1] = Line::from(format!("{rest} more notes of this kind"));
    }
    frame.render_widget(Paragraph::new(shown).fg(Color::Yellow), area);
}

/// Heading and width of a column.
fn column(column: Column, widths: Widths) -> (&'static str, u16) {
    match column {
        Column::Device => ("DEVICE", lines(widths.device)),
        Column::Session => ("SESSION", 8),
        Column::User => ("USER", lines(widths.user)),
        Column::Program => ("PROGRAM", 16),
        Column::Used => ("MEMORY", 28),
        Column::Age => ("AGE", 8),
        Column::Share => ("SHARE", 16),
        Column::Received => ("TO GPU", 12),
        Column::Sent => ("FROM GPU", 12),
        Column::Waits => ("WAITS/S", 9),
        Column::Moves => ("MOVES", 6),
        Column::Transport => ("TRANSPORT", 14),
        Column::Client => ("CLIENT", 28),
    }
}

/// As many columns as there is room for, from the left; what is left is the program's.
fn columns(width: u16, widths: Widths) -> Vec<Column> {
    let mut left = width;
    let fits = |one: &Column| {
        let needs = column(*one, widths).1 + 1;
        let is_there = left >= needs;
        left = left.saturating_sub(needs);
        is_there
    };
    Column::ALL.into_iter().take_while(fits).collect()
}

fn draw_sessions(frame: &mut Frame<'_>, area: Rect, widths: Widths, state: &State, sessions: &[&SessionRow]) {
    let columns = columns(area.width.saturating_add(1), widths);
    let place = state.place(sessions);
    let room = usize::from(area.height).saturating_sub(1);
    // The selected row is the last one where the rows before it fill the screen.
    let first = (place + 1).saturating_sub(room.max(1));
    let rows = sessions.iter().enumerate().skip(first).take(room).map(|(index, row)| {
        let style = if index == place { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(columns.iter().map(|column| cell(*column, row, widths.device))).style(style)
    });
    let titles = columns.iter().map(|one| {
        let (name, mark) = (column(*one, widths).0, if state.is_reversed { "▲" } else { "▼" });
        if *one == state.sort { Span::from(format!("{name}{mark}")).bold() } else { Span::from(name) }
    });
    let constraints = columns.iter().map(|one| match one {
        Column::Program => Constraint::Min(column(*one, widths).1),
        other => Constraint::Length(column(*other, widths).1),
    });
    frame.render_widget(Table::new(rows, constraints).header(Row::new(titles).style(heading())), area);
}

fn cell(column: Column, row: &SessionRow, width: usize) -> String {
    match column {
        Column::Device => device(&row.server, row.gpu, width),
        Column::Session => row.session.to_string(),
        Column::User => {
            if row.user.is_empty() {
                "-".to_owned()
            } else {
                row.user.clone()
            }
        }
        Column::Program => format!("{} ({})", row.program, row.pid),
        Column::Used => memory(row),
        Column::Age => age(row.seconds),
        Column::Share => row.share(),
        Column::Received => rate(row.rate, |rate| per_second(rate.received)),
        Column::Sent => rate(row.rate, |rate| per_second(rate.sent)),
        Column::Waits => rate(row.rate, |rate| rate.waits.to_string()),
        Column::Moves => row.moves.to_string(),
        Column::Transport => row.transport.clone(),
        Column::Client => row.client.clone(),
    }
}

/// What a session uses of what it may have.
fn memory(row: &SessionRow) -> String {
    match (row.quota, row.guaranteed) {
        (0, _) => format!("{}, best effort", size(row.used)),
        (quota, true) => format!("{} of {}", size(row.used), size(quota)),
        (quota, false) => format!("{} of at most {}", size(row.used), size(quota)),
    }
}

fn rate(rate: Option<Rate>, words: impl FnOnce(Rate) -> String) -> String {
    rate.map_or_else(|| "–".to_owned(), words)
}

/// Bytes per second as people read them. Small rates are of interest, too: `floe_size` counts in MiB.
fn per_second(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B/s"),
        1024..0x10_0000 => format!("{} KiB/s", bytes >> 10),
        // Tenths, rounded down.
        0x10_0000..0x4000_0000 => format!("{}.{} MiB/s", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20),
        _ => format!("{}.{} GiB/s", bytes >> 30, ((bytes & 0x3fff_ffff) * 10) >> 30),
    }
}

/// Seconds as people read them: `4:05`, `3:04:05`, `2 d 03 h`.
fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{:02}", seconds % 60),
        (0, hours) => format!("{hours}:{:02}:{:02}", minutes % 60, seconds % 60),
        (days, hours) => format!("{days} d {:02} h", hours % 24),
    }
}

fn foot_line(state: &State) -> Line<'static> {
    match (&state.question, &state.outcome) {
        (Some(Question::End(target)), _) => {
            let (session, program) = (target.session, &target.program);
            Line::from(format!("end session {session} ({program}) of {}? y: yes, any other key: no", target.server))
                .bold()
        }
        (Some(Question::Migrate(target, digits)), _) => {
            let (session, program) = (target.session, &target.program);
            let words = "Enter: move it there, or where the server chooses; Esc: no";
            Line::from(format!("move session {session} ({program}) to GPU: {digits}_   {words}")).bold()
        }
        (None, Some(Ok(words))) => Line::from(words.clone()).fg(Color::Green),
        (None, Some(Err(words))) => Line::from(words.replace('\n', ";")).fg(Color::Red),
        (None, None) => Line::from(KEYS),
    }
}

#[cfg(test)]
mod tests;
