//! One session that waits for a time or a signal, and two processes: does the wait end, and once?
//!
//! Breadth-first search over every interleaving; the first violation has a shortest trace. Each
//! field of `Rules` is one rule, and `RULES.md` has the results.

mod rules;

use std::collections::HashSet;

use rules::{ALL, Rules};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Timer {
    None,
    Waits,
    Rang,
    Cancelled,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Run {
    None,
    /// A run for the user. It may reach the timer.
    User,
    /// The run that the timer has started.
    OfTimer,
}

/// The state that follows from the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Log {
    timer: Timer,
    run: Run,
    /// Number of signals that no wait has.
    kept: u8,
    /// A signal has arrived for the wait.
    has_signal: bool,
    /// Number of signals with which waits have ended.
    taken: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    Set,
    Signal,
    /// The pattern cancels its wait before it has ended.
    Cancel,
    /// The timer rings as the cause of a run.
    Ring,
    /// The timer rings during a run that reaches it.
    RingIn,
    /// Without `starts`: the timer has rung, and its run follows.
    Rang,
    StartOfTimer,
    Start,
    End,
    /// An abort of the sleeping session.
    Abort,
}

impl Log {
    fn apply(&mut self, entry: Entry, rules: &Rules) {
        match entry {
            Entry::Set => {
                (self.timer, self.has_signal) = (Timer::Waits, self.kept > 0);
                self.kept = self.kept.saturating_sub(1);
            }
            Entry::Signal if self.timer == Timer::Waits && !self.has_signal => {
                self.has_signal = true;
            }
            Entry::Signal => self.kept += u8::from(rules.keeps),
            Entry::Cancel => {
                self.kept += u8::from(rules.returns && self.has_signal);
                (self.timer, self.has_signal) = (Timer::None, false);
            }
            Entry::Ring | Entry::RingIn | Entry::Rang => {
                self.timer = Timer::Rang;
                self.taken += u8::from(std::mem::take(&mut self.has_signal));
                if entry == Entry::Ring {
                    self.run = Run::OfTimer;
                }
            }
            Entry::StartOfTimer => self.run = Run::OfTimer,
            Entry::Start => self.run = Run::User,
            Entry::End => self.run = Run::None,
            Entry::Abort if rules.cancels => self.timer = Timer::Cancelled,
            Entry::Abort => {}
        }
    }
}

/// A process that has the session open, or had it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Owner {
    view: Log,
    /// The process has appended that the timer has rung, and not that its run starts.
    must_start: bool,
    /// The process itself has seen to the timer.
    has_rung: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    log: Log,
    owners: [Option<Owner>; 2],
    /// The process that the store takes for the owner.
    current: Option<u8>,
    /// Sessions are woken by one-way calls instead of sweeps.
    drives: bool,
    /// A wake-up is registered for the time of the timer.
    registered: bool,
    /// A wake-up or a first call waits for a process.
    calls: u8,
    has_passed: bool,
    is_aborted: bool,
    rings: u8,
    /// A run has started during another one.
    is_nested: bool,
    /// The pattern has continued after the timer.
    continues: u8,
    kills: u8,
    takeovers: u8,
    messages: u8,
    aborts: u8,
    signals: u8,
    cancels: u8,
    /// Number of signals whose senders know that they have arrived.
    acknowledged: u8,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Open(u8),
    Work(u8),
    Ring(u8),
    Reach(u8),
    Cancel(u8),
    Register,
    Leave(u8),
    /// The user sends a message, which a process takes.
    Message(u8),
    /// Somebody sends a signal, which a process takes.
    Signal(u8),
    Abort(u8),
    Kill(u8),
    /// The owner's lease ends although it lives.
    Lose,
    Wake,
    Pass,
}

fn is_of_world(action: &Action) -> bool {
    use Action::*;
    matches!(action, Message(_) | Signal(_) | Abort(_) | Kill(_) | Lose | Pass)
}

fn is_due(state: &State, rules: &Rules) -> bool {
    let Log { timer, run, has_signal, .. } = state.log;
    let has_come = rules.due && state.has_passed || rules.due_signal && has_signal;
    run != Run::None || timer == Timer::Waits && has_come
}

fn may_ring(state: &State, owner: &Owner, rules: &Rules) -> bool {
    let waits = match rules.compares {
        true => owner.view.timer == Timer::Waits,
        false => matches!(owner.view.timer, Timer::Waits | Timer::Rang) && !owner.has_rung,
    };
    let has_come = state.has_passed || owner.view.has_signal;
    waits && has_come && (owner.view.run == Run::None || !rules.rests)
}

fn actions(state: &State, rules: &Rules) -> Vec<Action> {
    let mut all = Vec::new();
    let sleeps = |view: &Log| view.timer == Timer::Waits && view.run == Run::None;
    for p in 0..2u8 {
        let Some(owner) = &state.owners[p as usize] else {
            let is_called = match state.drives {
                true => state.calls > 0,
                false => is_due(state, rules),
            };
            if state.current.is_none() && is_called {
                all.push(Action::Open(p));
            }
            if state.current.is_none() && state.messages > 0 {
                all.push(Action::Message(p));
            }
            if state.current.is_none() && state.signals > 0 {
                all.push(Action::Signal(p));
            }
            continue;
        };
        let rings = may_ring(state, owner, rules);
        if owner.view.run != Run::None || owner.must_start {
            all.push(Action::Work(p));
        }
        if rings {
            all.push(Action::Ring(p));
        }
        let has_come = state.has_passed || owner.view.has_signal;
        if owner.view.run == Run::User && has_come && owner.view.timer == Timer::Waits {
            all.push(Action::Reach(p));
        }
        if owner.view.run == Run::User && owner.view.timer == Timer::Waits && state.cancels > 0 {
            all.push(Action::Cancel(p));
        }
        let registers = state.drives && sleeps(&owner.view) && !state.has_passed;
        if registers && !state.registered {
            all.push(Action::Register);
        }
        let rests = owner.view.run == Run::None && !owner.must_start && !rings;
        if rests && (!registers || state.registered || !rules.registers) {
            all.push(Action::Leave(p));
        }
        if owner.view.run == Run::None && state.messages > 0 {
            all.push(Action::Message(p));
        }
        if state.signals > 0 {
            all.push(Action::Signal(p));
        }
        if sleeps(&owner.view) && state.aborts > 0 && !rings {
            all.push(Action::Abort(p));
        }
        if state.kills > 0 {
            all.push(Action::Kill(p));
        }
    }
    if state.takeovers > 0 && state.current.is_some() {
        all.push(Action::Lose);
    }
    if state.registered && state.has_passed {
        all.push(Action::Wake);
    }
    if state.log.timer == Timer::Waits && !state.has_passed {
        all.push(Action::Pass);
    }
    all
}

/// Appends for a process. A process that has lost the session forgets it.
fn append(state: &mut State, p: u8, entry: Entry, rules: &Rules) {
    let is_current = state.current == Some(p);
    let Some(owner) = &mut state.owners[p as usize] else { return };
    if rules.fenced && !is_current {
        state.owners[p as usize] = None;
        return;
    }
    owner.view.apply(entry, rules);
    state.rings += u8::from(matches!(entry, Entry::Ring | Entry::RingIn | Entry::Rang));
    let continues = matches!(entry, Entry::Ring | Entry::RingIn | Entry::StartOfTimer);
    state.continues += u8::from(continues);
    let starts = matches!(entry, Entry::Ring | Entry::StartOfTimer | Entry::Start);
    state.is_nested |= starts && state.log.run != Run::None;
    state.log.apply(entry, rules);
    state.is_aborted |= entry == Entry::Abort;
    state.acknowledged += u8::from(entry == Entry::Signal);
}

fn apply(mut state: State, action: Action, rules: &Rules) -> State {
    match action {
        Action::Open(p) => {
            let owner = Owner { view: state.log, must_start: false, has_rung: false };
            state.owners[p as usize] = Some(owner);
            state.current = Some(p);
            state.calls = state.calls.saturating_sub(1);
        }
        Action::Work(p) => {
            let Some(owner) = state.owners[p as usize] else { return state };
            let entry = match owner.view.timer {
                _ if owner.must_start => Entry::StartOfTimer,
                Timer::None => Entry::Set,
                _ => Entry::End,
            };
            append(&mut state, p, entry, rules);
            if let Some(owner) = &mut state.owners[p as usize] {
                owner.must_start = false;
            }
        }
        Action::Ring(p) => {
            let entry = if rules.starts { Entry::Ring } else { Entry::Rang };
            append(&mut state, p, entry, rules);
            if let Some(owner) = &mut state.owners[p as usize] {
                (owner.must_start, owner.has_rung) = (!rules.starts, true);
            }
        }
        Action::Reach(p) => {
            append(&mut state, p, Entry::RingIn, rules);
            if let Some(owner) = &mut state.owners[p as usize] {
                owner.has_rung = rules.compares; // the clock does not know of it
            }
        }
        Action::Cancel(p) => {
            state.cancels -= 1;
            append(&mut state, p, Entry::Cancel, rules);
        }
        Action::Register => state.registered = true,
        Action::Leave(p) => leave(&mut state, p, false),
        Action::Message(p) => {
            state.messages -= 1;
            open(&mut state, p);
            if state.owners[p as usize].is_some_and(|owner| owner.view.run == Run::None) {
                append(&mut state, p, Entry::Start, rules);
            }
        }
        Action::Signal(p) => {
            state.signals -= 1;
            open(&mut state, p);
            append(&mut state, p, Entry::Signal, rules);
        }
        Action::Abort(p) => {
            state.aborts -= 1;
            append(&mut state, p, Entry::Abort, rules);
        }
        Action::Kill(p) => {
            state.kills -= 1;
            leave(&mut state, p, true);
        }
        Action::Lose => {
            state.takeovers -= 1;
            state.current = None;
            state.calls = 1; // the call is given to another process
        }
        Action::Wake => (state.registered, state.calls) = (false, state.calls + 1),
        Action::Pass => state.has_passed = true,
    }
    state
}

/// Opens the session in a process that has an input for it, unless it has it open.
fn open(state: &mut State, p: u8) {
    if state.owners[p as usize].is_none() {
        let owner = Owner { view: state.log, must_start: false, has_rung: false };
        (state.owners[p as usize], state.current) = (Some(owner), Some(p));
    }
}

/// Removes a process from the session. The call of a killed process is given to another one.
fn leave(state: &mut State, p: u8, is_killed: bool) {
    state.owners[p as usize] = None;
    if state.current == Some(p) {
        state.current = None;
        state.calls += u8::from(is_killed && state.drives);
    }
}

/// Checks the properties. With `rests`, nothing happens unless time passes or somebody does
/// something.
fn check(state: &State, rests: bool) -> Option<&'static str> {
    if state.rings > 1 {
        return Some("a timer rings twice");
    }
    if state.is_aborted && state.rings > 0 {
        return Some("a timer rings after the user has aborted the sleep");
    }
    if state.is_nested {
        return Some("a run starts during another one");
    }
    let is_left = state.current.is_none();
    let waits = state.log.timer == Timer::Waits && !state.is_aborted;
    if rests && is_left && state.has_passed && waits && state.log.run == Run::None {
        return Some("the time has passed, and the timer never rings");
    }
    if rests && is_left && state.log.has_signal && waits && state.log.run == Run::None {
        return Some("the signal has arrived, and the wait never ends");
    }
    let Log { kept, has_signal, taken, .. } = state.log;
    if !state.is_aborted && state.acknowledged != kept + u8::from(has_signal) + taken {
        return Some("a signal is lost or doubled");
    }
    if rests && state.rings == 1 && state.continues == 0 {
        return Some("a timer has rung, and the pattern never continues");
    }
    None
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
                let after = apply(state, action, rules);
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
    let first = |drives, kills, takeovers, messages, aborts, signals| State {
        log: Log { timer: Timer::None, run: Run::User, kept: 0, has_signal: false, taken: 0 },
        owners: [None, None],
        current: None,
        drives,
        registered: false,
        calls: 1,
        has_passed: false,
        is_aborted: false,
        rings: 0,
        is_nested: false,
        continues: 0,
        kills,
        takeovers,
        messages,
        aborts,
        signals,
        cancels: u8::from(signals > 1),
        acknowledged: 0,
    };
    vec![
        ("sweeps, three kills", first(false, 3, 0, 0, 0, 0)),
        ("sweeps, a false takeover and a kill", first(false, 1, 2, 0, 0, 0)),
        ("sweeps, two messages", first(false, 2, 1, 2, 0, 0)),
        ("sweeps, an abort", first(false, 2, 1, 1, 1, 0)),
        ("sweeps, a signal", first(false, 2, 1, 0, 0, 1)),
        ("sweeps, two signals and a cancelled wait", first(false, 2, 1, 0, 0, 2)),
        ("sweeps, a signal and a message", first(false, 1, 1, 1, 0, 1)),
        ("sweeps, a signal and an abort", first(false, 1, 1, 0, 1, 1)),
        ("drives, three kills", first(true, 3, 0, 0, 0, 0)),
        ("drives, a false takeover and a kill", first(true, 1, 2, 0, 0, 0)),
        ("drives, two messages", first(true, 2, 1, 2, 0, 0)),
        ("drives, an abort", first(true, 2, 1, 1, 1, 0)),
        ("drives, a signal", first(true, 2, 1, 0, 0, 1)),
        ("drives, two signals and a cancelled wait", first(true, 2, 1, 0, 0, 2)),
        ("drives, a signal and a message", first(true, 1, 1, 1, 0, 1)),
        ("drives, a signal and an abort", first(true, 1, 1, 0, 1, 1)),
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
        ("fenced", Rules { fenced: false, ..ALL }),
        ("compares", Rules { compares: false, ..ALL }),
        ("starts", Rules { starts: false, ..ALL }),
        ("due", Rules { due: false, ..ALL }),
        ("registers", Rules { registers: false, ..ALL }),
        ("cancels", Rules { cancels: false, ..ALL }),
        ("rests", Rules { rests: false, ..ALL }),
        ("keeps", Rules { keeps: false, ..ALL }),
        ("due_signal", Rules { due_signal: false, ..ALL }),
        ("returns", Rules { returns: false, ..ALL }),
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
