//! One session, one request. The pattern makes a draft, tries a branch from it, gives the branch up
//! with a rewind, tries another, and ends. Both branches begin with the same keyed call, and send
//! requests with the same words. A steer, a compaction and kills come at every point.
//!
//! `Log` is the state derived from the log. `Ram` is lost in a crash.
use crate::explore::{Label, Model};

crate::rules! {
    rewind_staged: "the rewind and the state that follows from it are one append",
    user_stays: "messages that the user sent for the request stay",
    closed_batch: "no rewind while a batch is open",
    whole_calls: "a rewind separates no call from its result",
    undo_compaction: "a summary of messages on both sides of the point is undone",
    keys_stay: "what is recorded under a key stays",
    digest_names_reply: "the digest of a request counts for its own reply only",
}

/// Messages, as bits. A summary has the bits of the messages that it replaces.
const REQUEST: u8 = 1;
const DRAFT: u8 = 2;
const CALL: u8 = 4;
const RESULT: u8 = 8;
const BRANCH: [u8; 2] = [16, 32];
const STEER: u8 = 64;
const LAST: u8 = 128;
const REPLIES: u8 = DRAFT | BRANCH[0] | BRANCH[1] | LAST;
/// The messages that the rewind removes.
const GIVEN_UP: u8 = CALL | RESULT | BRANCH[0];

const QUEUED: u8 = 1;
const DELIVERED: u8 = 2;

/// The state derived from the log. `round`: the pattern's state, 0 before the first branch, then
/// the number of the branch, and 3 while it answers a message that came after the second. `asked`:
/// the reply that the last request with words of its own would have, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Log {
    round: u8,
    context: [u8; 8],
    replaced: [u8; 8],
    steer: u8,
    asked: u8,
    keyed: bool,
    open: bool,
    rewound: bool,
    compacted: bool,
    done: bool,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ram {
    up: bool,
    pc: u8,
    flight: u8,
    returned: u8,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct World {
    kills: u8,
    paid: [u8; 4],
    lost: [u8; 4],
    ran: u8,
    answered: bool,
    bad: Option<&'static str>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct S {
    l: Log,
    r: Ram,
    w: World,
}

#[derive(Clone, Copy)]
pub struct Branches {
    pub off: u64,
    pub kills: u8,
}

/// Returns the number of a request, by its reply.
fn number(reply: u8) -> usize {
    [DRAFT, BRANCH[0], BRANCH[1], LAST].iter().position(|r| *r == reply).unwrap_or(0)
}

fn last(context: &[u8; 8]) -> u8 {
    *context.iter().rev().find(|m| **m != 0).unwrap_or(&0)
}

impl Log {
    fn push(&mut self, message: u8) {
        if let Some(free) = self.context.iter_mut().find(|m| **m == 0) {
            *free = message;
        }
    }

    /// Replaces the first `n` messages by a summary.
    fn compact(&mut self, n: usize) {
        self.replaced = [0; 8];
        self.replaced[..n].copy_from_slice(&self.context[..n]);
        let summary = self.context[..n].iter().fold(0, |all, m| all | m);
        let rest: Vec<u8> = self.context[n..].iter().copied().filter(|m| *m != 0).collect();
        self.set(std::iter::once(summary).chain(rest));
        self.compacted = true;
    }

    fn set(&mut self, messages: impl IntoIterator<Item = u8>) {
        let mut context = [0; 8];
        context.iter_mut().zip(messages).for_each(|(slot, message)| *slot = message);
        self.context = context;
    }

    /// Removes messages from the context.
    fn rewind(&mut self, removed: u8, undoes: bool) {
        let mut context = Vec::new();
        for message in self.context {
            let is_summary = message.count_ones() > 1;
            if is_summary && undoes && message & removed != 0 {
                context.extend(self.replaced);
            } else {
                context.push(message);
            }
        }
        let stays = |m: &u8| *m != 0 && (*m & removed == 0 || m.count_ones() > 1);
        self.set(context.into_iter().filter(stays));
        self.rewound = true;
    }
}

impl Branches {
    fn on(&self, r: Rule) -> bool {
        self.off >> r as u64 & 1 == 0
    }

    /// Returns the violation of a request that contains this context.
    fn check_request(l: &Log) -> Option<&'static str> {
        let all = l.context.iter().fold(0, |all, m| all | m);
        let (call, result) = (all & CALL != 0, all & RESULT != 0);
        let needed = if l.round > 0 { REQUEST | DRAFT } else { REQUEST };
        if call != result {
            Some("a request contains a call without its result, or a result without its call")
        } else if l.round >= 2 && all & GIVEN_UP != 0 {
            Some("a request contains a branch that was given up")
        } else if all & needed != needed {
            Some("a message from before the point is missing")
        } else if l.steer == DELIVERED && all & STEER == 0 {
            Some("a delivered message of the user is in no later request")
        } else {
            None
        }
    }

    /// Asks for this reply: returns a recorded one, sends the request, or waits for the reply.
    fn ask(&self, s: &S, reply: u8, own_words: bool, out: &mut Vec<(Label, S)>) {
        let mut go = |what: &'static str, n: S| out.push(((what, 9, 9), n));
        let tail = last(&s.l.context);
        let mut n = *s;
        if s.r.flight != 0 {
            (n.r.flight, n.r.returned) = (0, reply);
            n.l.push(reply);
            n.w.answered |= s.l.steer == DELIVERED;
            n.r.pc += 1;
            return go("the reply arrives", n);
        }
        let is_asked = match self.on(Rule::digest_names_reply) {
            true => s.l.asked == tail,
            false => s.l.asked != 0,
        };
        let is_recorded = match own_words {
            true => tail & REPLIES != 0 && is_asked && s.r.returned != tail,
            false => tail & REPLIES != 0,
        };
        if is_recorded {
            if tail != reply {
                n.w.bad = Some("a reply is taken for that of another request");
            }
            n.r.returned = tail;
            n.r.pc += 1;
            return go("the recorded reply is returned", n);
        }
        for end in 2..8 {
            let at = s.l.context[end];
            if !s.l.compacted && at != 0 && at != RESULT {
                let mut n = *s;
                n.l.compact(end);
                go("the first messages are compacted", n);
            }
        }
        n.w.bad = Self::check_request(&s.l).or(s.w.bad);
        n.l.asked = if own_words { reply } else { 0 };
        n.r.flight = reply;
        n.w.paid[number(reply)] += 1;
        go("a request is sent", n);
    }

    fn rewind(&self, s: &S, to_call: bool) -> S {
        let mut n = *s;
        let kept = if to_call { CALL } else { 0 };
        let users = if self.on(Rule::user_stays) { 0 } else { STEER };
        n.l.rewind(GIVEN_UP & !kept | users, self.on(Rule::undo_compaction));
        n.w.answered = false; // the reply that contained the answer is removed
        if !self.on(Rule::keys_stay) {
            n.l.keyed = false;
        }
        n
    }

    /// Takes one step of the pattern, or of the engine below it.
    fn step(&self, s: &S, out: &mut Vec<(Label, S)>) {
        use Rule::*;
        let branch = BRANCH[(s.l.round >= 2) as usize];
        let mut go = |what: &'static str, n: S| out.push(((what, 9, 9), n));
        let mut n = *s;
        if s.l.done {
            return;
        }
        if s.l.open {
            if s.l.steer == QUEUED && s.l.round == 1 && !self.on(closed_batch) {
                let mut n = self.rewind(s, false);
                n.l.round = 2;
                go("a steer came: rewound while the call runs", n);
            }
            n.w.ran += 1;
            (n.l.open, n.l.keyed) = (false, true);
            n.l.push(RESULT);
            return go("the keyed call runs, its result is recorded", n);
        }
        match s.r.pc {
            0 => {
                n.r.pc = [1, 2, 2, 7][s.l.round as usize];
                go("the pattern is entered", n);
            }
            1 => self.ask(s, DRAFT, false, out),
            2 => {
                let has_reply = s.l.context.contains(&branch);
                if s.l.steer == QUEUED && !has_reply {
                    n.l.round = s.l.round.max(1);
                    n.l.steer = DELIVERED;
                    n.l.push(STEER);
                    return go("the steer is delivered", n);
                }
                if s.l.keyed {
                    n.r.pc = 3;
                    return go("the keyed call: its recorded result", n);
                }
                n.l.round = s.l.round.max(1);
                n.l.open = true;
                n.l.push(CALL);
                go("the keyed call is made", n);
            }
            3 => self.ask(s, branch, true, out),
            4 if s.l.round == 1 => {
                for to_call in [false, true] {
                    if to_call && self.on(whole_calls) {
                        continue;
                    }
                    let mut n = self.rewind(s, to_call);
                    if self.on(rewind_staged) {
                        (n.l.round, n.r.pc) = (2, 2);
                        go("state 2 and the rewind, one append", n);
                    } else if !s.l.rewound {
                        go("the rewind", n);
                    }
                }
                if !self.on(rewind_staged) {
                    n.l.round = 2;
                    n.r.pc = if s.l.rewound { 2 } else { 6 };
                    go("state 2", n);
                }
            }
            6 => {
                n = self.rewind(s, false);
                n.r.pc = 2;
                go("the rewind", n);
            }
            4 if s.l.steer == QUEUED => {
                (n.l.round, n.l.steer) = (3, DELIVERED);
                n.l.push(STEER);
                n.r.pc = 7;
                go("the steer is delivered", n);
            }
            7 => self.ask(s, LAST, false, out),
            _ => {
                n.l.done = true;
                go("run_ended(done), since no message is queued", n);
            }
        }
    }

    fn outside(&self, s: &S, out: &mut Vec<(Label, S)>) {
        if s.l.done {
            return;
        }
        if s.w.kills < self.kills {
            let mut n = *s;
            if s.r.flight != 0 {
                n.w.lost[number(s.r.flight)] += 1;
            }
            (n.r, n.w.kills) = (Ram::default(), s.w.kills + 1);
            out.push((("KILL", 9, 9), n));
        }
        if s.l.steer == 0 {
            let mut n = *s;
            n.l.steer = QUEUED;
            out.push((("user steers (queued)", 9, 9), n));
        }
    }
}

impl Model for Branches {
    type State = S;

    fn start(&self) -> S {
        let mut s = S { r: Ram { up: true, ..Ram::default() }, ..S::default() };
        s.l.push(REQUEST);
        s
    }

    fn next(&self, s: &S, out: &mut Vec<(Label, S)>) -> Option<&'static str> {
        if s.w.bad.is_some() {
            return s.w.bad;
        }
        if (0..4).any(|k| s.w.paid[k] > 1 + s.w.lost[k]) {
            return Some("a request is paid for again although its reply is in the log");
        }
        if s.w.ran > 1 {
            return Some("a call with a key is made twice");
        }
        if s.l.done && s.l.steer != 0 && !s.w.answered {
            return Some("the run ends, and a message of the user was not answered");
        }
        if !s.r.up {
            let mut n = *s;
            n.r.up = true;
            out.push((("restart", 9, 9), n));
            return None;
        }
        self.step(s, out);
        self.outside(s, out);
        None
    }
}
