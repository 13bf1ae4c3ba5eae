//! Turns of processes that are measured together: only one may run while it is timed.
//! In: requests for a turn, arrivals, starts and ends. Out: the members that run next. It is pure: it knows no process,
//! no pipe, no clock.

/// The state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberState {
    /// It runs: it sets something up, or it has its turn.
    Busy,
    /// It pauses until nothing else runs.
    Asks,
    /// It pauses until all have reached this point.
    Meets,
    /// It has ended.
    Gone,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
struct Member {
    state: MemberState,
    /// Which section it stands in.
    section: usize,
    /// Number of turns since all last met.
    turns: usize,
}

impl Member {
    const STARTED: Self = Self { state: MemberState::Busy, section: 0, turns: 0 };
}

/// The order of their turns.
#[derive(Debug)]
pub(crate) struct Order {
    members: Vec<Member>,
}

impl Order {
    /// So many start.
    pub(crate) fn new(members: usize) -> Self {
        Self { members: vec![Member::STARTED; members] }
    }

    /// One that had ended runs again.
    pub(crate) fn started(&mut self, who: usize) {
        self.members[who] = Member::STARTED;
    }

    /// It pauses in this section and asks for a turn.
    pub(crate) fn asks(&mut self, who: usize, section: usize) {
        self.members[who] = Member { state: MemberState::Asks, section, ..self.members[who] };
    }

    /// It pauses in this section and waits for the others.
    pub(crate) fn meets(&mut self, who: usize, section: usize) {
        self.members[who] = Member { state: MemberState::Meets, section, ..self.members[who] };
    }

    /// It has ended, whatever it was doing.
    pub(crate) fn ended(&mut self, who: usize) {
        self.members[who].state = MemberState::Gone;
    }

    /// Whether it runs.
    pub(crate) fn is_busy(&self, who: usize) -> bool {
        self.members[who].state == MemberState::Busy
    }

    /// The members that run next: none while one runs; else the next that asks for a turn; else all that have met. A
    /// member in a later section waits until the others have reached it.
    pub(crate) fn go_on(&mut self) -> Vec<usize> {
        if self.members.iter().any(|member| member.state == MemberState::Busy) {
            return Vec::new();
        }
        let standing = self.members.iter().filter(|member| member.state != MemberState::Gone);
        let Some(section) = standing.map(|member| member.section).min() else { return Vec::new() };
        if let Some(next) = self.next_turn(section) {
            self.members[next].turns += 1;
            self.members[next].state = MemberState::Busy;
            return vec![next];
        }
        let met = self.at(MemberState::Meets, section);
        for who in &met {
            self.members[*who] = Member::STARTED;
        }
        met
    }

    /// Of those that ask, one with the fewest turns; each turn begins with another.
    fn next_turn(&self, section: usize) -> Option<usize> {
        let count = self.members.len();
        let after_the_first = |who: usize, turn: usize| (who + count - turn % count) % count;
        let asking = self.at(MemberState::Asks, section).into_iter();
        asking.min_by_key(|who| {
            let turn = self.members[*who].turns;
            (turn, after_the_first(*who, turn))
        })
    }

    fn at(&self, state: MemberState, section: usize) -> Vec<usize> {
        let there = |who: &usize| self.members[*who].state == state && self.members[*who].section == section;
        (0..self.members.len()).filter(there).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: [usize; 0] = [];

    /// So many, of whom all but the first ask for a turn in the first section.
    fn all_but_the_first_ask(members: usize) -> Order {
        let mut order = Order::new(members);
        (1..members).for_each(|who| order.asks(who, 0));
        order
    }

    #[test]
    fn nobody_has_a_turn_while_one_still_sets_up() {
        let mut order = all_but_the_first_ask(3);
        assert_eq!(order.go_on(), NOBODY);
        order.asks(0, 0);
        assert_eq!(order.go_on(), [0]);
        assert_eq!(order.go_on(), NOBODY, "the turn is taken");
    }

    #[test]
    fn each_turn_begins_with_another() {
        let mut order = all_but_the_first_ask(3);
        order.asks(0, 0);
        let mut went = Vec::new();
        for _ in 0..9 {
            let who = order.go_on()[0];
            went.push(who);
            order.asks(who, 0);
        }
        assert_eq!(went, [0, 1, 2, 1, 2, 0, 2, 0, 1]);
    }

    #[test]
    fn members_that_met_continue_together_with_no_turns_counted() {
        let mut order = all_but_the_first_ask(2);
        order.meets(0, 0);
        assert_eq!(order.go_on(), [1], "who still has turns to come has them");
        order.meets(1, 0);
        assert_eq!(order.go_on(), [0, 1]);
        order.asks(1, 0);
        order.asks(0, 0);
        assert_eq!(order.go_on(), [0], "turns are counted from the meeting on");
    }

    #[test]
    fn one_that_dies_in_its_turn_leaves_it_to_the_next() {
        let mut order = all_but_the_first_ask(3);
        order.asks(0, 0);
        assert_eq!(order.go_on(), [0]);
        order.ended(0);
        assert_eq!(order.go_on(), [1]);
    }

    #[test]
    fn one_that_dies_while_it_waits_is_passed_over() {
        let mut order = all_but_the_first_ask(3);
        order.asks(0, 0);
        assert_eq!(order.go_on(), [0]);
        order.ended(1);
        order.asks(0, 0);
        assert_eq!(order.go_on(), [2]);
    }

    #[test]
    fn one_that_dies_while_others_wait_for_it_holds_nobody() {
        let mut order = Order::new(3);
        order.meets(0, 0);
        order.meets(1, 0);
        assert_eq!(order.go_on(), NOBODY);
        order.ended(2);
        assert_eq!(order.go_on(), [0, 1]);
    }

    #[test]
    fn one_that_dies_at_the_meeting_holds_nobody() {
        let mut order = Order::new(2);
        order.meets(0, 0);
        order.ended(0);
        order.meets(1, 0);
        assert_eq!(order.go_on(), [1]);
    }

    #[test]
    fn a_member_restarted_in_a_later_section_waits_for_the_others_there() {
        let mut order = all_but_the_first_ask(2);
        order.started(0);
        assert_eq!(order.go_on(), NOBODY, "it sets up");
        order.asks(0, 1);
        assert_eq!(order.go_on(), [1]);
        order.meets(1, 0);
        assert_eq!(order.go_on(), [1], "who is ahead is not waited for");
        order.asks(1, 1);
        assert_eq!(order.go_on(), [0]);
    }

    #[test]
    fn when_all_have_ended_nobody_goes() {
        let mut order = Order::new(1);
        order.ended(0);
        assert_eq!(order.go_on(), NOBODY);
    }
}
