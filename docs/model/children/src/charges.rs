//! One session with a budget of requests. The pattern sends two keyed detached requests at the same
//! time. Each attempt is paid for when it is sent. If it fails, the request is sent once more or
//! ends without a reply. A steer can end the wait before a request is sent. Afterwards the pattern
//! asks once for the answer.
//!
//! `Log` is the state derived from the log. `Ram` is lost in a crash.
use crate::explore::{Label, Model};

crate::rules! {
    reserve_first: "detached_started is in the log before a request is sent",
    reserve_all: "one detached_started reserves for all requests before the first is sent",
    charge_attempts: "charged counts the attempts that left no reply",
    end_is_charge: "the end of a request and its charge are one append",
    lost_stays: "what is reserved at an opening stays charged",
    not_sent_returns: "not_sent gives back what was reserved for requests that were not sent",
    not_sent_unsent: "not_sent is for requests that were never sent",
    release_own: "the end of a request releases its own estimate only",
}

const WAITS: u8 = 1;
const FLIES: u8 = 2;

/// The state derived from the log. Amounts are requests: an estimate is one, and each attempt costs
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Log {
    reserved: [bool; 3],
    lost: u8,
    spent: u8,
    replied: [bool; 2],
    ended: [bool; 2],
    steered: bool,
    end: u8,
}
/// The state of the process. `phase` of a request: 0 not begun, then [`WAITS`] and [`FLIES`].
/// `due`: a charge that is not written yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ram {
    up: bool,
    phase: [u8; 3],
    retried: [bool; 2],
    failed: [u8; 2],
    due: u8,
    returned: bool,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct World {
    kills: u8,
    paid: u8,
    /// The amount reserved for requests that a kill found unsent.
    unsent: u8,
    /// `true` if a request was paid for since the pattern called `ask_all`.
    paid_now: bool,
    bad: Option<&'static str>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct S {
    l: Log,
    r: Ram,
    w: World,
}

#[derive(Clone, Copy)]
pub struct Charges {
    pub off: u64,
    pub kills: u8,
    pub budget: u8,
}

const DONE: u8 = 1;
const LIMIT: u8 = 2;

impl Charges {
    fn on(&self, r: Rule) -> bool {
        self.off >> r as u64 & 1 == 0
    }

    fn charged(s: &S) -> u8 {
        s.l.spent + s.l.lost + s.l.reserved.iter().filter(|r| **r).count() as u8
    }

    fn fits(&self, s: &S, more: u8) -> bool {
        Self::charged(s) + more <= self.budget
    }

    fn send(s: &S, k: usize) -> S {
        let mut n = *s;
        n.r.phase[k] = FLIES;
        n.w.paid += 1;
        n.w.paid_now |= k < 2;
        n
    }

    /// Ends a request: its cost replaces its estimate.
    fn end(&self, n: &mut S, k: usize, cost: u8) {
        if self.on(Rule::end_is_charge) {
            n.l.spent += cost;
        } else {
            n.r.due += cost;
        }
        n.l.reserved[k] = false;
        if !self.on(Rule::release_own) {
            n.l.reserved = [false; 3];
        }
        n.r.phase[k] = 0;
    }

    /// Takes the next step of a detached request.
    fn request(&self, s: &S, k: usize, out: &mut Vec<(Label, S)>) {
        use Rule::*;
        let mut go = |what: &'static str, n: S| out.push(((what, k as u8, 9), n));
        let attempts = if self.on(charge_attempts) { s.r.failed[k] } else { 0 };
        if s.r.phase[k] == WAITS {
            let all = self.on(reserve_all) || s.l.reserved[k] || !self.on(reserve_first);
            if all && !s.l.steered {
                go("a detached request is sent", Self::send(s, k));
            }
            if !all && self.fits(s, 1) {
                let mut n = *s;
                n.l.reserved[k] = true;
                go("detached_started for one", n);
            } else if !all {
                let mut n = *s;
                n.l.end = LIMIT;
                (0..2).filter(|k| s.r.phase[*k] == WAITS).for_each(|k| n.l.reserved[k] = false);
                if s.w.paid_now {
                    n.w.bad = Some("ask_all is refused after a part of it was paid for");
                }
                go("refused: limit", n);
            }
        }
        let is_unsent = s.r.phase[k] == WAITS && s.r.failed[k] == 0;
        let flies = s.r.phase[k] == FLIES;
        if s.l.steered && (is_unsent || flies && !self.on(not_sent_unsent)) {
            let mut n = *s;
            (n.r.phase[k], n.l.ended[k]) = (0, true);
            if self.on(not_sent_returns) {
                n.l.reserved[k] = false;
                return go("a steer ends the wait: not_sent", n);
            }
            return go("a steer ends the wait", n);
        }
        if s.l.steered && s.r.phase[k] == WAITS {
            let mut n = *s;
            n.l.ended[k] = true;
            self.end(&mut n, k, attempts);
            return go("a steer ends the wait for a retry: charged", n);
        }
        if flies {
            let mut n = *s;
            (n.l.replied[k], n.l.ended[k]) = (true, true);
            self.end(&mut n, k, 1 + attempts);
            go("a reply arrives: detached", n);
            let mut n = *s;
            n.r.failed[k] += 1;
            if !s.r.retried[k] && self.fits(s, s.r.failed[k] + 1) {
                (n.r.phase[k], n.r.retried[k]) = (WAITS, true);
                // The failed attempt is charged before the next one is sent.
                if self.on(charge_attempts) {
                    n.l.spent += 1;
                }
                n.r.failed[k] = 0;
                return go("an attempt fails: charged, to be sent once more", n);
            }
            n.l.ended[k] = true;
            let cost = if self.on(charge_attempts) { n.r.failed[k] } else { 0 };
            self.end(&mut n, k, cost);
            go("the last attempt fails: charged, ended", n);
        }
    }

    fn step(&self, s: &S, out: &mut Vec<(Label, S)>) {
        use Rule::*;
        let mut go = |what: &'static str, n: S| out.push(((what, 9, 9), n));
        let mut n = *s;
        if s.r.due > 0 {
            (n.l.spent, n.r.due) = (s.l.spent + s.r.due, 0);
            return go("charged, after the end of the request", n);
        }
        let missing = [0, 1].map(|k| !s.l.ended[k]);
        let is_idle = s.r.phase == [0; 3];
        if is_idle && missing != [false; 2] && !s.r.returned {
            n.w.paid_now = false;
            let count = missing.iter().filter(|m| **m).count() as u8;
            let reserves = self.on(reserve_all) && self.on(reserve_first);
            if reserves && !self.fits(s, count) || !self.fits(s, 1) {
                n.l.end = LIMIT;
                return go("ask_all: refused: limit", n);
            }
            for k in 0..2 {
                if missing[k] {
                    n.r.phase[k] = WAITS;
                    n.l.reserved[k] |= reserves;
                }
            }
            n.r.returned = true;
            return go("ask_all: detached_started", n);
        }
        if missing != [false; 2] {
            for k in 0..2 {
                self.request(s, k, out);
            }
            return;
        }
        if s.r.phase[2] == FLIES {
            self.end(&mut n, 2, 1);
            n.l.end = DONE;
            return go("replied, run_ended(done)", n);
        }
        if !self.fits(s, 1) {
            n.l.end = LIMIT;
            return go("the answer: refused: limit", n);
        }
        n = Self::send(s, 2);
        n.l.reserved[2] = true;
        go("request_started, the answer is requested", n);
    }
}

impl Model for Charges {
    type State = S;

    fn start(&self) -> S {
        S { r: Ram { up: true, ..Ram::default() }, ..S::default() }
    }

    fn next(&self, s: &S, out: &mut Vec<(Label, S)>) -> Option<&'static str> {
        if s.w.bad.is_some() {
            return s.w.bad;
        }
        if s.w.paid > self.budget {
            return Some("more is paid than the budget");
        }
        if s.w.paid > Self::charged(s) + s.r.due + s.r.failed.iter().sum::<u8>() {
            return Some("more is paid than is charged");
        }
        // A kill may leave a charge for a request that was not sent. Nothing else may.
        if s.l.end != 0 && Self::charged(s) > s.w.paid + s.w.unsent {
            return Some("what was not sent is charged");
        }
        if s.l.end != 0 {
            return None;
        }
        if !s.r.up {
            let mut n = *s;
            n.r.up = true;
            let reserved = s.l.reserved.iter().filter(|r| **r).count() as u8;
            n.l.reserved = [false; 3];
            if self.on(Rule::lost_stays) {
                n.l.lost += reserved;
            }
            out.push((("restart", 9, 9), n));
            return None;
        }
        self.step(s, out);
        if s.w.kills < self.kills {
            let mut n = *s;
            let unsent = (0..3).filter(|k| s.l.reserved[*k] && s.r.phase[*k] != FLIES).count();
            n.w.unsent += unsent as u8;
            (n.r, n.w.kills) = (Ram::default(), s.w.kills + 1);
            out.push((("KILL", 9, 9), n));
        }
        if !s.l.steered {
            let mut n = *s;
            n.l.steered = true;
            out.push((("user steers (interrupt)", 9, 9), n));
        }
        None
    }
}
