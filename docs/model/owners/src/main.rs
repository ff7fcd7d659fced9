//! Two sessions, two processes, and work that kills its process: who continues, and for how long?
//!
//! Breadth-first search over every interleaving; the first violation has a shortest trace. Each
//! field of `Rules` is one rule, and `RULES.md` has the results.

use std::collections::HashSet;

/// The number of lost owners after which the work waits for a person.
const MAX_LOST: u8 = 2;

#[derive(Clone, Copy)]
struct Rules {
    /// Lost owners are counted.
    counts: bool,
    /// Progress resets the count.
    resets: bool,
    /// An owner that leaves in order notes that in the log.
    left: bool,
    /// An owner notes in the log that it takes an input from the mailbox, before it takes it.
    mail: bool,
    /// A message that is queued for the run in progress is not progress.
    steers: bool,
    /// A process continues sessions that have lost an owner one at a time.
    alone: bool,
    /// While work is held with inputs in the mailbox, the owner takes only decisions from it.
    gate: bool,
    /// Work that a person has continued gets a new count.
    restarts: bool,
    /// Work that a person has continued is still continued alone.
    watches: bool,
    /// An abort refuses the inputs that are set aside.
    refuses: bool,
}

const ALL: Rules = Rules {
    counts: true,
    resets: true,
    left: true,
    mail: true,
    steers: true,
    alone: true,
    gate: true,
    restarts: true,
    watches: true,
    refuses: true,
};

/// The remaining events from outside.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    kills: u8,
    drains: u8,
    continues: u8,
    aborts: u8,
    posts: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Session {
    /// The number of steps left in the run; zero without a run in progress.
    run: u8,
    /// The step that kills the process; zero if no step does.
    poison: u8,
    /// `true` while an input waits that kills the process which handles it.
    pill: bool,
    /// The number of messages that wait in the mailbox, after the pill.
    rows: u8,
    /// The process that has opened the session.
    owner: Option<u8>,
    // The state of the log:
    lost: u8,
    orderly: bool,
    mail: bool,
    held: bool,
    /// `true` if a person has continued the work, and it has made no progress since.
    watched: bool,
    // The state of the checker:
    /// The number of owners that this session has killed since a person's last decision.
    killed: u8,
    /// The number of owners lost without progress; `outside` of them were killed from outside.
    losses: u8,
    outside: u8,
    /// `true` if a person has aborted the session and sent nothing since.
    aborted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    sessions: [Session; 2],
    world: World,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Open { session: usize, process: u8 },
    Step(usize),
    TakeRow(usize),
    Leave(usize),
    Kill(u8),
    Drain(u8),
    Continue(usize),
    Abort(usize),
    Post(usize),
}

impl Session {
    fn new(run: u8, poison: u8, pill: bool, rows: u8) -> Self {
        Session {
            run,
            poison,
            pill,
            rows,
            owner: None,
            lost: 0,
            orderly: true,
            mail: false,
            held: false,
            watched: false,
            killed: 0,
            losses: 0,
            outside: 0,
            aborted: false,
        }
    }

    fn has_mail(&self) -> bool {
        self.pill || self.rows > 0
    }

    /// Returns whether the session has lost its owner if it is opened now.
    fn would_lose(&self) -> bool {
        !self.orderly && (self.run > 0 || self.mail)
    }

    fn is_suspect(&self) -> bool {
        self.lost > 0 || self.watched || self.would_lose()
    }

    fn is_poison(&self) -> bool {
        self.run > 0 && self.run == self.poison || self.run == 0 && self.pill
    }

    fn progress(&mut self, rules: &Rules) {
        if rules.resets {
            self.lost = 0;
        }
        (self.orderly, self.mail, self.held, self.watched) = (false, false, false, false);
        (self.losses, self.outside) = (0, 0);
    }

    fn lose_owner(&mut self, from_outside: bool) {
        self.owner = None;
        if self.run > 0 || self.has_mail() {
            self.losses += 1;
            self.outside += u8::from(from_outside);
        }
    }

    fn decide(&mut self) {
        (self.lost, self.orderly, self.mail, self.held) = (0, true, false, false);
        (self.killed, self.losses, self.outside) = (0, 0, 0);
    }
}

fn actions(state: &State, rules: &Rules) -> Vec<Action> {
    let mut out = Vec::new();
    for (at, one) in state.sessions.iter().enumerate() {
        let session = at;
        match one.owner {
            None => {
                // A post makes a held session due once more. Otherwise the sweep leaves it alone.
                let is_due = one.run > 0 || one.has_mail();
                for process in 0..2 {
                    let others =
                        state.sessions.iter().enumerate().filter(|(other, _)| *other != at);
                    let is_taken = |(_, other): (usize, &Session)| {
                        other.owner == Some(process) && (other.lost > 0 || other.watched)
                    };
                    let may_enter =
                        !rules.alone || !one.is_suspect() || !others.into_iter().any(is_taken);
                    if is_due && !one.held && may_enter {
                        out.push(Action::Open { session, process });
                    }
                }
                if one.held && state.world.continues > 0 {
                    out.push(Action::Continue(at));
                }
                if one.held && state.world.aborts > 0 {
                    out.push(Action::Abort(at));
                }
                if one.held && state.world.posts > 0 {
                    out.push(Action::Post(at));
                }
            }
            Some(_) if one.run > 0 => {
                out.push(Action::Step(at));
                if one.rows > 0 && !one.pill {
                    out.push(Action::TakeRow(at));
                }
            }
            Some(_) if one.has_mail() => out.push(Action::TakeRow(at)),
            Some(_) => out.push(Action::Leave(at)),
        }
    }
    for process in 0..2 {
        let is_used = state.sessions.iter().any(|one| one.owner == Some(process));
        if is_used && state.world.kills > 0 {
            out.push(Action::Kill(process));
        }
        if is_used && state.world.drains > 0 {
            out.push(Action::Drain(process));
        }
    }
    out
}

/// Kills the process of a session because of the session's own work.
fn die(state: &mut State, session: usize) {
    let process = state.sessions[session].owner;
    state.sessions[session].killed += 1;
    for one in state.sessions.iter_mut().filter(|one| one.owner == process) {
        one.lose_owner(false);
    }
}

fn apply(before: &State, action: Action, rules: &Rules) -> State {
    let mut state = *before;
    match action {
        Action::Open { session, process } => {
            let one = &mut state.sessions[session];
            if rules.counts && one.would_lose() {
                one.lost += 1;
            }
            (one.orderly, one.mail) = (false, false);
            if one.lost >= MAX_LOST {
                (one.held, one.orderly, one.lost) = (true, true, 0); // and it is closed again
            } else {
                one.owner = Some(process);
            }
        }
        Action::Step(session) => {
            if state.sessions[session].is_poison() {
                die(&mut state, session);
            } else {
                let one = &mut state.sessions[session];
                one.run -= 1;
                one.progress(rules);
            }
        }
        Action::TakeRow(session) => {
            let one = &mut state.sessions[session];
            one.mail |= rules.mail && one.run == 0;
            if state.sessions[session].is_poison() && state.sessions[session].run == 0 {
                die(&mut state, session);
            } else {
                let one = &mut state.sessions[session];
                one.rows -= 1;
                if one.run == 0 {
                    one.run = 1;
                    one.progress(rules);
                } else if !rules.steers {
                    one.progress(rules);
                }
            }
        }
        Action::Leave(session) => {
            let one = &mut state.sessions[session];
            (one.owner, one.orderly) = (None, rules.left);
        }
        Action::Kill(process) => {
            state.world.kills -= 1;
            for one in state.sessions.iter_mut().filter(|one| one.owner == Some(process)) {
                one.lose_owner(true);
            }
        }
        Action::Drain(process) => {
            state.world.drains -= 1;
            for one in state.sessions.iter_mut().filter(|one| one.owner == Some(process)) {
                (one.owner, one.orderly) = (None, rules.left);
            }
        }
        Action::Continue(session) => {
            state.world.continues -= 1;
            let one = &mut state.sessions[session];
            let lost = one.lost.max(MAX_LOST - 1);
            one.decide();
            one.watched = rules.watches;
            if !rules.restarts {
                (one.lost, one.orderly) = (lost, false);
            }
        }
        Action::Abort(session) => {
            state.world.aborts -= 1;
            let one = &mut state.sessions[session];
            one.decide();
            (one.run, one.poison, one.aborted) = (0, 0, true);
            if rules.refuses {
                (one.pill, one.rows) = (false, 0); // each is told so
            }
        }
        Action::Post(session) => {
            state.world.posts -= 1;
            let one = &mut state.sessions[session];
            let gated = rules.gate && one.has_mail();
            one.rows += 1;
            one.aborted = false;
            if !gated {
                // The new request is taken, and ends the run that was interrupted.
                if one.pill {
                    one.owner = Some(0);
                    die(&mut state, session);
                } else {
                    (one.rows, one.run, one.poison) = (one.rows - 1, 1, 0);
                    one.decide();
                }
            }
        }
    }
    state
}

/// Checks the properties. With `rests`, nothing happens unless somebody decides, posts or kills.
fn check(state: &State, rests: bool) -> Option<&'static str> {
    for one in &state.sessions {
        let is_healthy = !one.is_poison();
        if one.killed > MAX_LOST {
            return Some("work kills more owners than it may between two decisions of a person");
        }
        if one.held && one.losses < MAX_LOST {
            return Some("work is held that has lost fewer owners");
        }
        if one.held && is_healthy && one.outside == 0 {
            return Some("healthy work is held because of the work of another session");
        }
        if rests && one.owner.is_none() && !one.held && (one.run > 0 || one.has_mail()) {
            return Some("work or an input is left for ever, and nobody is told");
        }
        if one.aborted && one.held {
            return Some("what a person has aborted is held again");
        }
    }
    None
}

fn is_of_world(action: &Action) -> bool {
    matches!(
        action,
        Action::Kill(_)
            | Action::Drain(_)
            | Action::Continue(_)
            | Action::Abort(_)
            | Action::Post(_)
    )
}

/// Returns the number of states, and the first violation with its trace.
fn explore(first: State, rules: &Rules) -> (usize, Option<(&'static str, Vec<Action>)>) {
    let mut seen = HashSet::from([first]);
    let mut level = vec![(first, Vec::new())];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (state, trace) in level {
            let actions = actions(&state, rules);
            if let Some(why) = check(&state, actions.iter().all(is_of_world)) {
                return (seen.len(), Some((why, trace)));
            }
            for action in actions {
                let after = apply(&state, action, rules);
                if seen.insert(after) {
                    let trace = trace.iter().copied().chain([action]).collect();
                    next.push((after, trace));
                }
            }
        }
        level = next;
    }
    (seen.len(), None)
}

fn configurations() -> Vec<(&'static str, State)> {
    let world = World { kills: 2, drains: 2, continues: 1, aborts: 1, posts: 1 };
    let healthy = Session::new(2, 0, false, 1);
    let with = |one: Session, world: World| State { sessions: [one, healthy], world };
    vec![
        ("a run that kills, beside a healthy one", with(Session::new(3, 2, false, 0), world)),
        ("the same, with messages for it", with(Session::new(2, 2, false, 2), world)),
        ("a pill in the mailbox", with(Session::new(0, 0, true, 1), world)),
        ("a pill behind a run", with(Session::new(2, 0, true, 1), world)),
        ("a run that kills, and a pill", with(Session::new(2, 1, true, 0), world)),
        ("two healthy runs", with(Session::new(2, 0, false, 1), world)),
        (
            "a run that kills, and nobody else does",
            with(Session::new(2, 2, false, 0), World { kills: 0, drains: 0, ..world }),
        ),
    ]
}

fn main() {
    let mut is_right = true;
    for (name, first) in configurations() {
        let (states, found) = explore(first, &ALL);
        println!("{name}: {states} states, {}", found.as_ref().map_or("ok", |(why, _)| why));
        if let Some((_, trace)) = found {
            println!("    {trace:?}");
            is_right = false;
        }
    }
    let without: [(&str, Rules); 10] = [
        ("counts", Rules { counts: false, ..ALL }),
        ("resets", Rules { resets: false, ..ALL }),
        ("left", Rules { left: false, ..ALL }),
        ("mail", Rules { mail: false, ..ALL }),
        ("steers", Rules { steers: false, ..ALL }),
        ("alone", Rules { alone: false, ..ALL }),
        ("gate", Rules { gate: false, ..ALL }),
        ("restarts", Rules { restarts: false, ..ALL }),
        ("watches", Rules { watches: false, ..ALL }),
        ("refuses", Rules { refuses: false, ..ALL }),
    ];
    for (rule, rules) in without {
        let found = configurations()
            .into_iter()
            .filter_map(|(name, first)| {
                let (why, trace) = explore(first, &rules).1?;
                Some((trace.len(), name, why, trace))
            })
            .min_by_key(|found| found.0);
        match found {
            None => {
                println!("without `{rule}`: no violation");
                is_right = false;
            }
            Some((_, name, why, trace)) => {
                println!("without `{rule}`: {why} ({name})\n    {trace:?}")
            }
        }
    }
    assert!(is_right, "a rule is missing, or is not needed");
}
