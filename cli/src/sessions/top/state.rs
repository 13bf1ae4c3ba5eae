//! What `floe top` shows and does: the last answers of servers, their order, the selected session, an open question.
//! In: answers and keys. Out: rows in order; what the user has agreed to. It asks no server and reads no terminal.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::rates::Rates;
use crate::servers::{GpuRow, Load, Look, MOST_GPUS, MOST_SESSIONS, Rate, SessionRow};

/// Digits of a GPU's index that can be typed.
const MOST_DIGITS: usize = 3;

/// Something that happened beside the keys.
#[derive(Debug)]
pub(super) enum News {
    /// The server of this index was looked at, or why not.
    Look(usize, Result<Look, String>),
    /// What came of an act.
    Done(Result<String, String>),
}

/// What the user has agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// Leave `floe top`.
    Leave,
    /// End a session.
    End(Target),
    /// Move a session to this GPU; `None`: to one that the server chooses.
    Migrate(Target, Option<u32>),
}

/// A session that something is to be done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) server: String,
    pub(super) session: u64,
    pub(super) program: String,
}

/// A question that waits for the user's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether this session is to end.
    End(Target),
    /// Where this session is to go: the digits so far.
    Migrate(Target, String),
}

/// A column that sessions can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Device,
    Session,
    User,
    Program,
    Used,
    Age,
    Share,
    Received,
    Sent,
    Waits,
    Moves,
    Transport,
    Client,
}

impl Column {
    /// All of them, as they stand on the screen.
    pub(super) const ALL: [Self; 13] = [
        Self::Device,
        Self::Session,
        Self::User,
        Self::Program,
        Self::Used,
        Self::Age,
        Self::Share,
        Self::Received,
        Self::Sent,
        Self::Waits,
        Self::Moves,
        Self::Transport,
        Self::Client,
    ];

    /// The order of two sessions by this column; numbers that people look for at the top come in falling order.
    fn order(self, one: &SessionRow, other: &SessionRow) -> Ordering {
        // A rate that is not known is below all others.
        let by_rate = |rate: fn(Rate) -> u64| other.rate.map(rate).cmp(&one.rate.map(rate));
        match self {
            Self::Device => (&one.server, one.gpu).cmp(&(&other.server, other.gpu)),
            Self::Session => one.session.cmp(&other.session),
            Self::User => one.user.cmp(&other.user),
            Self::Program => one.program.cmp(&other.program),
            Self::Used => other.used.cmp(&one.used),
            Self::Age => other.seconds.cmp(&one.seconds),
            Self::Share => other.gpu_time().total_cmp(&one.gpu_time()),
            Self::Received => by_rate(|rate| rate.received),
            Self::Sent => by_rate(|rate| rate.sent),
            Self::Waits => by_rate(|rate| rate.waits),
            Self::Moves => other.moves.cmp(&one.moves),
            Self::Transport => one.transport.cmp(&other.transport),
            Self::Client => one.client.cmp(&other.client),
        }
    }

    fn beside(self, step: usize) -> Self {
        let at = Self::ALL.iter().position(|column| *column == self).unwrap_or_default();
        Self::ALL[(at + step) % Self::ALL.len()]
    }
}

/// A server, as it was seen last.
#[derive(Debug, Default)]
struct Server {
    name: String,
    /// What it said last; kept while it does not answer.
    look: Look,
    rates: Rates,
    /// Why it does not answer.
    trouble: Option<String>,
    /// Rows that are not shown.
    left_out: usize,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct State {
    servers: Vec<Server>,
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    /// The selected session, by its server's name and its number.
    selected: Option<(String, u64)>,
    pub(super) question: Option<Question>,
    /// What came of the last act.
    pub(super) outcome: Option<Result<String, String>>,
}

impl State {
    /// Nothing is known of these servers.
    pub(super) fn new(servers: Vec<String>) -> Self {
        let servers = servers.into_iter().map(|name| Server { name, ..Server::default() }).collect();
        Self { servers, sort: Column::Used, is_reversed: false, selected: None, question: None, outcome: None }
    }

    /// Takes what happened.
    pub(super) fn take(&mut self, news: News) {
        match news {
            News::Look(index, look) => {
                if let Some(server) = self.servers.get_mut(index) {
                    server.take(look);
                }
            }
            News::Done(outcome) => self.outcome = Some(outcome),
        }
    }

    /// The servers whose rows are shown: each once, however often it is reached.
    fn shown(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().enumerate().filter(|(index, _)| self.twin(*index).is_none()).map(|(_, server)| server)
    }

    /// The name whose rows stand for this one's: of those that proved the same key the first that answers. One that led
    /// there before and is silent now hides nothing.
    fn twin(&self, index: usize) -> Option<&str> {
        let identity = self.servers[index].look.identity?;
        let same = self.servers.iter().enumerate().filter(|(_, server)| server.look.identity == Some(identity));
        let (shown, twin) =
            same.clone().find(|(_, server)| server.trouble.is_none()).or_else(|| same.clone().next())?;
        (shown != index).then_some(twin.name.as_str())
    }

    /// The number of servers.
    pub(super) fn count_servers(&self) -> usize {
        self.shown().count()
    }

    /// All GPUs, with how busy they are.
    pub(super) fn gpus(&self) -> Vec<(&GpuRow, Load)> {
        self.shown().flat_map(|server| server.look.gpus.iter().map(|gpu| (gpu, server.load(gpu.index)))).collect()
    }

    /// All sessions, in order.
    pub(super) fn sessions(&self) -> Vec<&SessionRow> {
        let mut all: Vec<_> = self.shown().flat_map(|server| &server.look.sessions).collect();
        all.sort_by(|one, other| {
            let order = self.sort.order(one, other);
            let order = if self.is_reversed { order.reverse() } else { order };
            order.then_with(|| (&one.server, one.session).cmp(&(&other.server, other.session)))
        });
        all
    }

    /// What is to be known beside the rows: servers that do not answer, and rows that are not shown.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (index, server) in self.servers.iter().enumerate() {
            if let Some(twin) = self.twin(index) {
                notes.push(format!("{}: the same server as {twin}", server.name));
            }
            notes.extend(server.trouble.clone());
            if server.left_out > 0 {
                notes.push(format!("{}: rows that are not shown: {}", server.name, server.left_out));
            }
        }
        notes
    }

    /// The place of the selected session among these; the first one's where it is not there.
    pub(super) fn place(&self, sessions: &[&SessionRow]) -> usize {
        let its = |row: &&SessionRow| {
            self.selected.as_ref().is_some_and(|(server, session)| row.server == *server && row.session == *session)
        };
        sessions.iter().position(its).unwrap_or_default()
    }

    /// Takes a key. Returns what the user has agreed to with it.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Act> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Act::Leave);
        }
        self.outcome = None;
        match self.question.take() {
            Some(Question::End(target)) => {
                return matches!(key.code, KeyCode::Char('y' | 'Y')).then_some(Act::End(target));
            }
            Some(Question::Migrate(target, digits)) => return self.answer(target, digits, key.code),
            None => {}
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Act::Leave),
            KeyCode::Up | KeyCode::Char('k') => self.select(|at, _| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(|at, count| (at + 1).min(count - 1)),
            KeyCode::Home => self.select(|_, _| 0),
            KeyCode::End => self.select(|_, count| count - 1),
            KeyCode::Right | KeyCode::Char('s') => self.sort = self.sort.beside(1),
            KeyCode::Left => self.sort = self.sort.beside(Column::ALL.len() - 1),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('e') => self.question = self.target().map(Question::End),
            KeyCode::Char('m') => {
                self.question = self.target().map(|target| Question::Migrate(target, String::new()));
            }
            _ => {}
        }
        None
    }

    /// A key of the question where a session is to go.
    fn answer(&mut self, target: Target, mut digits: String, key: KeyCode) -> Option<Act> {
        match key {
            KeyCode::Enter => return Some(Act::Migrate(target, digits.parse().ok())),
            KeyCode::Esc => return None,
            KeyCode::Backspace => _ = digits.pop(),
            KeyCode::Char(digit) if digit.is_ascii_digit() && digits.len() < MOST_DIGITS => digits.push(digit),
            _ => {}
        }
        self.question = Some(Question::Migrate(target, digits));
        None
    }

    fn select(&mut self, to: impl FnOnce(usize, usize) -> usize) {
        let sessions = self.sessions();
        if sessions.is_empty() {
            return;
        }
        let row = sessions[to(self.place(&sessions), sessions.len())];
        self.selected = Some((row.server.clone(), row.session));
    }

    /// The selected session. From here on it is that one, however the rows are sorted.
    fn target(&mut self) -> Option<Target> {
        self.select(|at, _| at);
        let sessions = self.sessions();
        let row = sessions.get(self.place(&sessions))?;
        Some(Target { server: row.server.clone(), session: row.session, program: row.program.clone() })
    }
}

impl Server {
    /// How busy a GPU is.
    fn load(&self, gpu: u32) -> Load {
        self.look.loads.iter().find(|load| load.gpu == gpu).copied().unwrap_or_default()
    }

    fn take(&mut self, look: Result<Look, String>) {
        match look {
            Ok(mut look) => {
                let over = |count: usize, most: usize| count.saturating_sub(most);
                self.left_out = over(look.sessions.len(), MOST_SESSIONS) + over(look.gpus.len(), MOST_GPUS);
                look.sessions.truncate(MOST_SESSIONS);
                look.gpus.truncate(MOST_GPUS);
                self.rates.fill(&mut look.sessions);
                (self.look, self.trouble) = (look, None);
            }
            // Its first line; the next one says what to do, for which this is no place.
            Err(why) => self.trouble = why.lines().next().map(str::to_owned),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
