//! One session, two requests, one pattern. The pattern announces a plan, asks the user a question,
//! uses the answer, makes two detached requests side by side, gives a child a task, and ends. After
//! a crash or a decision it is entered from its start.
//!
//! `Log` is the state derived from the log. `Ram` is lost in a crash.
use crate::explore::{Label, Model};

crate::rules! {
    staged: "state is written in the append of the next message",
    staged_end: "state is written in the append of run_ended",
    request_scope: "request-scoped state is dropped when a request begins",
    scope_atomic: "the drop is the append that begins the request",
    keyed_question: "re-entry with the same key finds the recorded question",
    key_scope: "keys of questions and detached requests are those of the request",
    answer_logged: "an answer is durable before it is acknowledged",
    names_question: "an answer names its question; another open question refuses it",
    refuse_closed: "an answer to a question that is closed is refused",
    resume_answered: "restart: a run that was answered or superseded is resumed",
    withdraw_with_message: "the message and the withdrawal of the question are one append",
    abort_withdraws: "an abort withdraws the open question",
    request_withdraws: "a new request withdraws the open question",
    log_on_arrival: "each detached reply is logged when it arrives",
    reply_keyed: "detached replies are found by key, not by order",
    child_scope: "the name of a child's session contains the request, not only the key",
    reply_digest: "a recorded reply is given back only if the request is the same",
}

const NONE: u8 = 0;
const AWAITS: u8 = 1;
const DONE: u8 = 2;
const ABORTED: u8 = 3;
const OPEN: u8 = 1;
const ANSWERED: u8 = 2;
const WITHDRAWN: u8 = 3;

/// The state derived from the log. `child`: 1 started, 2 ended (a session each; `for_request` is
/// the request that started it). `state`: 1 plan announced, 2 answer used, 3 done. `reply`:
/// 1 + key + 2 * version of the context, per request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Log {
    request: u8,
    state: u8,
    owner: u8,
    plan: [u8; 2],
    used: [u8; 2],
    question: [u8; 2],
    asked: [u8; 2],
    reply: [[u8; 2]; 2],
    run: [u8; 2],
    version: u8,
    steered: bool,
    child: [u8; 2],
    for_request: [u8; 2],
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ram {
    up: bool,
    running: bool,
    pc: u8,
    half: u8,
    sent: [bool; 2],
    arrived: [bool; 2],
    answer: bool,
    withdraw: bool,
    drop: bool,
    reset: bool,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct World {
    kills: u8,
    acks: [u8; 2],
    paid: [[[u8; 2]; 2]; 2],
    lost: [[[u8; 2]; 2]; 2],
    bad: Option<&'static str>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct S {
    l: Log,
    r: Ram,
    w: World,
}

#[derive(Clone, Copy)]
pub struct Talk {
    pub off: u64,
    pub kills: u8,
}

impl S {
    /// Loses the replies in flight, which may be paid for again.
    fn lose(&mut self) {
        let (q, v) = (self.l.request as usize, self.l.version as usize);
        for k in 0..2 {
            if self.r.sent[k] {
                self.w.lost[q][k][v] += 1
            }
        }
    }
    fn enter(&mut self) {
        self.r = Ram {
            up: true,
            running: true,
            answer: self.r.answer,
            reset: self.r.reset,
            ..Ram::default()
        }
    }
}

impl Talk {
    fn on(&self, r: Rule) -> bool {
        self.off >> r as u64 & 1 == 0
    }

    /// Takes one step of the pattern, or of the engine below it.
    fn step(&self, s: &S, out: &mut Vec<(Label, S)>) {
        use Rule::*;
        let q = s.l.request as usize;
        let mut go = |what: &'static str, n: S| out.push(((what, 9, 9), n));
        if s.r.reset {
            let mut n = *s;
            n.r.reset = false;
            n.l.state = 0;
            return go("state dropped", n);
        }
        if s.r.withdraw {
            let mut n = *s;
            n.r.withdraw = false;
            n.l.question[q] = WITHDRAWN;
            return go("question withdrawn", n);
        }
        if !s.r.running {
            let resumes = s.l.run[q] == NONE
                || s.l.run[q] == AWAITS && s.l.question[q] != OPEN && self.on(resume_answered);
            if resumes {
                let mut n = *s;
                n.l.run[q] = NONE;
                n.enter();
                go("run_started, the pattern is entered", n)
            }
            return;
        }
        let mut n = *s;
        match s.r.pc {
            0 => {
                if s.l.state > 0 && s.l.owner as usize != q {
                    n.w.bad = Some("a request sees the state of the one before it")
                }
                n.l.owner = q as u8;
                if s.l.state >= 1 && s.r.half == 0 {
                    n.r.pc = 1;
                    go("plan already announced", n)
                } else if self.on(staged) {
                    n.l.state = 1;
                    n.l.plan[q] += 1;
                    n.r.pc = 1;
                    go("state 1 and the plan, one append", n)
                } else {
                    let mut m = n;
                    if s.r.half != 1 {
                        m.l.state = 1;
                        m.r.half = 1;
                        if s.r.half == 2 {
                            m.r.half = 0;
                            m.r.pc = 1
                        }
                        go("state 1", m)
                    }
                    if s.r.half != 2 {
                        n.l.plan[q] += 1;
                        n.r.half = 2;
                        if s.r.half == 1 {
                            n.r.half = 0;
                            n.r.pc = 1
                        }
                        go("the plan", n)
                    }
                }
            }
            1 => {
                let found = if !self.on(key_scope) && q == 1 && s.l.question[0] == ANSWERED {
                    4
                } else {
                    s.l.question[q]
                };
                match found {
                    _ if s.r.answer => {
                        n.r.answer = false;
                        n.r.pc = 2;
                        go("question: the answer in RAM", n)
                    }
                    NONE => {
                        n.l.question[q] = OPEN;
                        n.l.asked[q] += 1;
                        n.r.pc = 9;
                        go("question: asked", n)
                    }
                    OPEN | ANSWERED if !self.on(keyed_question) => {
                        n.l.question[q] = OPEN;
                        n.l.asked[q] += 1;
                        n.r.pc = 9;
                        go("question: asked", n)
                    }
                    OPEN => {
                        n.r.pc = 9;
                        go("question: still waiting", n)
                    }
                    ANSWERED => {
                        n.r.pc = 2;
                        go("question: the recorded answer", n)
                    }
                    4 => {
                        n.w.bad = Some("an answer to one request is used in the next");
                        go("question: the recorded answer", n)
                    }
                    _ => {
                        n.r.pc = 3;
                        go("question: superseded", n)
                    }
                }
            }
            9 => {
                if s.l.question[q] == OPEN {
                    n.l.run[q] = AWAITS
                }
                n.r.running = false;
                n.r.pc = 0;
                go("run_ended(awaiting_action)", n)
            }
            2 => {
                if s.l.state < 2 {
                    n.l.state = 2;
                    n.l.used[q] += 1
                }
                n.r.pc = 3;
                go("state 2 and the message made of the answer, one append", n)
            }
            3 => {
                let old = |k: usize| {
                    let r = if !self.on(key_scope) && s.l.reply[q][k] == 0 && q == 1 {
                        s.l.reply[0][k]
                    } else {
                        s.l.reply[q][k]
                    };
                    if r > 0 && self.on(reply_digest) && (r - 1) / 2 != s.l.version { 0 } else { r }
                };
                for k in 0..2 {
                    let v = s.l.version as usize;
                    if old(k) == 0 && !s.r.sent[k] && !s.r.arrived[k] {
                        let mut m = *s;
                        m.r.sent[k] = true;
                        m.w.paid[q][k][v] += 1;
                        go(["request a sent", "request b sent"][k], m)
                    }
                    if s.r.sent[k] {
                        let mut m = *s;
                        m.r.sent[k] = false;
                        let text = 1 + k as u8 + 2 * s.l.version;
                        let slot = if self.on(reply_keyed) {
                            k
                        } else {
                            (0..2).find(|&j| s.l.reply[q][j] == 0).unwrap_or(k)
                        };
                        if self.on(log_on_arrival) {
                            m.l.reply[q][slot] = text
                        } else {
                            m.r.arrived[k] = true
                        }
                        go(["reply a arrives", "reply b arrives"][k], m)
                    }
                }
                if s.r.arrived == [true; 2] {
                    for k in 0..2 {
                        n.l.reply[q][k] = 1 + k as u8 + 2 * s.l.version
                    }
                    n.r.arrived = [false; 2];
                    go("both replies are logged", n)
                } else if old(0) > 0 && old(1) > 0 && s.r.sent == [false; 2] {
                    for k in 0..2 {
                        if (old(k) - 1) / 2 != s.l.version {
                            n.w.bad = Some("the reply to another request is given back")
                        }
                        if (old(k) - 1) % 2 != k as u8 && s.w.kills > 0 {
                            n.w.bad = Some("a reply is given back for the wrong key")
                        }
                        if s.l.reply[q][k] == 0 {
                            n.w.bad = Some("a reply of the request before is given back")
                        }
                    }
                    n.r.pc = 4;
                    go("ask_all returns", n)
                }
            }
            4 => {
                let c = if self.on(child_scope) { q } else { 0 };
                match s.l.child[c] {
                    0 => {
                        n.l.child[c] = 1;
                        n.l.for_request[c] = q as u8;
                        go("child_started", n)
                    }
                    1 => {
                        n.l.child[c] = 2;
                        go("child_ended", n)
                    }
                    _ => {
                        if s.l.for_request[c] as usize != q {
                            n.w.bad = Some(
                                "a request is given the result of a child of the request before",
                            )
                        }
                        n.r.pc = 5;
                        go("children returns", n)
                    }
                }
            }
            _ => {
                let end = |mut n: S| {
                    n.l.run[q] = DONE;
                    n.r = Ram { up: true, ..Ram::default() };
                    n
                };
                if self.on(staged_end) {
                    n.l.state = 3;
                    go("state 3 and run_ended(done), one append", end(n))
                } else if s.l.state == 3 {
                    go("run_ended(done)", end(n))
                } else {
                    n.l.state = 3;
                    go("state 3", n)
                }
            }
        }
    }

    fn outside(&self, s: &S, out: &mut Vec<(Label, S)>) {
        use Rule::*;
        let q = s.l.request as usize;
        let mut go = |what: &'static str, n: S| out.push(((what, 9, 9), n));
        if s.w.kills < self.kills {
            let mut n = *s;
            n.lose();
            n.r = Ram::default();
            n.w.kills += 1;
            go("KILL", n)
        }
        for shown in 0..2 {
            if s.l.asked[shown] == 0 || s.w.acks[shown] >= 2 {
                continue;
            }
            let target = if self.on(names_question) { shown } else { q };
            if s.l.question[target] == OPEN && !s.r.answer {
                let mut n = *s;
                n.w.acks[shown] += 1;
                if target != shown {
                    n.w.bad =
                        Some("an answer is used for another question than the one it was shown for")
                }
                if self.on(answer_logged) {
                    n.l.question[target] = ANSWERED
                } else {
                    n.r.answer = true;
                    n.l.run[target] = NONE;
                    n.r.running = false
                }
                go(
                    ["user answers the first question", "user answers the second question"][shown],
                    n,
                )
            } else if !self.on(refuse_closed) && s.w.acks[shown] > 0 {
                let mut n = *s;
                n.w.acks[shown] += 1;
                go("user answers again, acknowledged", n)
            } else if !self.on(refuse_closed) {
                let mut n = *s;
                n.w.acks[shown] += 1;
                go("user answers a closed question, acknowledged", n)
            }
        }
        // A steer is taken between the methods, never inside `ask_all`.
        let busy = s.r.pc >= 3 && s.r.pc != 9 || s.r.half != 0;
        if !s.l.steered && s.l.run[q] < DONE && !busy {
            let mut n = *s;
            n.l.steered = true;
            if s.l.question[q] == OPEN {
                if self.on(withdraw_with_message) {
                    n.l.question[q] = WITHDRAWN
                } else {
                    n.r.withdraw = true
                }
            }
            n.l.version = 1;
            go("user steers (the message is delivered)", n)
        }
        if s.l.run[q] < DONE {
            let mut n = *s;
            n.lose();
            n.l.run[q] = ABORTED;
            for c in &mut n.l.child {
                if *c == 1 {
                    *c = 2
                }
            }
            if s.l.question[q] == OPEN && self.on(abort_withdraws) {
                n.l.question[q] = WITHDRAWN
            }
            n.r = Ram { up: true, ..Ram::default() };
            go("user aborts", n)
        }
        if q == 0 && s.l.run[0] != NONE {
            let mut n = *s;
            n.l.request = 1;
            if s.l.question[0] == OPEN && self.on(request_withdraws) {
                n.l.question[0] = WITHDRAWN
            }
            if self.on(request_scope) {
                if self.on(scope_atomic) {
                    n.l.state = 0
                } else {
                    n.r.reset = true;
                }
            }
            let reset = n.r.reset;
            n.r = Ram { up: true, reset, ..Ram::default() };
            go("user sends the second request", n)
        }
    }

    fn at_rest(&self, s: &S) -> Option<&'static str> {
        let q = s.l.request as usize;
        for i in 0..2 {
            if s.l.question[i] == OPEN && (i != q || s.l.run[i] != AWAITS) {
                return Some("a question stays open that no run waits for");
            }
            if s.l.run[i] == AWAITS && i == q && s.l.question[i] != OPEN {
                return Some("the run waits for nobody");
            }
            if s.l.run[i] == DONE && s.w.acks[i] != s.l.used[i] {
                return Some("an acknowledged answer is not used exactly once");
            }
            if s.l.run[i] == DONE && s.l.plan[i] != 1 {
                return Some("the plan is not announced exactly once");
            }
            if s.w.acks[i] > 1 {
                return Some("a question is answered twice, both acknowledged");
            }
        }
        None
    }
}

impl Model for Talk {
    type State = S;
    fn start(&self) -> S {
        S { r: Ram { up: true, ..Ram::default() }, ..S::default() }
    }
    fn next(&self, s: &S, out: &mut Vec<(Label, S)>) -> Option<&'static str> {
        if s.w.bad.is_some() {
            return s.w.bad;
        }
        let q = s.l.request as usize;
        for i in 0..2 {
            if s.l.asked[i] > 1 {
                return Some("a question is asked twice");
            }
            if s.l.plan[i] > 1 || s.l.used[i] > 1 {
                return Some("a message is written twice");
            }
            for k in 0..2 {
                for v in 0..2 {
                    if s.w.paid[i][k][v] > 1 + s.w.lost[i][k][v] {
                        return Some("a detached reply is paid for again although it had arrived");
                    }
                }
            }
        }
        if !s.r.up {
            // The state of the log after a crash.
            let mine = s.l.owner as usize == q;
            if mine && (s.l.state >= 1) != (s.l.plan[q] > 0) && s.l.state < 3 {
                return Some("after a crash the state and its message are apart");
            }
            if mine && (s.l.state == 3) != (s.l.run[q] == DONE) {
                return Some("after a crash the state and the end of the run are apart");
            }
            let mut n = *s;
            n.r.up = true;
            out.push((("restart", 9, 9), n));
            return None;
        }
        self.step(s, out);
        if out.is_empty() {
            if let Some(bad) = self.at_rest(s) {
                return Some(bad);
            }
        }
        self.outside(s, out);
        None
    }
}
