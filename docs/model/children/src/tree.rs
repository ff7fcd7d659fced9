//! A parent session and two children in one store and one process, which can be killed between any
//! two appends.
//!
//! `Parent` and `Child` are the states derived from their logs. A transition appends to at most one
//! log. `Ram` is lost in a crash. `World` is the view of an outside observer: effects, payments and
//! acknowledgements.
mod engine;
mod outside;

use crate::explore::{Label, Model};

crate::rules! {
    start_first: "child_started is durable before the child is opened",
    keyed: "re-entry with the same key finds the recorded child",
    prompt_id: "the child's first prompt has a fixed input id",
    look_first: "after a crash a child is prompted only if its log has no prompt",
    examine_empty: "restart: a child without a prompt, opened or not, is started",
    examine_interrupted: "restart: an interrupted child is continued",
    examine_waiting: "restart: a waiting child's action is surfaced if the parent lacks it",
    examine_ended: "restart: child_ended is written from the child's own end",
    surface_keyed: "child_awaits is keyed by path and call",
    parent_first: "a decision is recorded in the parent before it is forwarded",
    same_id: "a decision is forwarded under its input id",
    names_call: "a decision names its call; the child refuses it for another",
    reforward: "restart: recorded decisions are forwarded again",
    idle_has_all: "an idle child_awaits comes after the child has recorded every decision",
    refuse_at_child: "a decision sent to the child itself is refused",
    check_listed: "a decision for an action that is not listed is refused",
    unlist_on_end: "child_ended removes the child's actions from the list",
    unlist_on_close: "the abort and the message unlist the actions, not only child_ended",
    abort_logged: "abort_requested is durable in the parent",
    abort_token: "one cancel token for the tree, set before the abort is acknowledged",
    abort_reaches: "an abort closes every open child; a dropped handle is not enough",
    abort_first: "restart: the root's abort is read before a child is continued",
    abort_keeps_end: "a child that had ended keeps its outcome when the parent is aborted",
    child_abort_entry: "the child logs an abort_requested of its own",
    only_via_root: "a child is opened through its root only",
    sup_reaches: "a message closes the children that wait",
    sup_logged: "which children a message closes follows from the parent's log",
    sup_only_shown: "a message closes only children whose action was listed when it came",
    expiry_at_root: "an action's deadline is the root's: it expires in the parent's log first",
    sup_undecided: "a message does not close a child whose decision is recorded",
    wait_ends: "the parent's run ends only when every child has its child_ended",
    child_first_end: "the child's run_ended is durable before child_ended",
    end_is_result: "child_ended is the result of the parent's call: one append",
    cost_in_end: "outcome and cost are one append",
    cost_from_log: "the cost in child_ended is folded from the child's log",
    cost_once: "only child_ended adds cost; child_awaits does not",
    reserve: "a share is reserved by child_started",
    return_share: "child_ended returns the share",
    check_share: "a child checks its share before each request",
    limit_from_log: "what a child has spent is folded from its log after a crash",
    request_intent: "a request is logged, and charged, before it is sent",
    intent_first: "call_started before the effect",
    once_unknown: "a started once-only call is not run again",
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Out {
    Done,
    Failed,
    Limit,
    Aborted,
    Superseded,
    Unknown,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ph {
    Empty,
    Opened,
    NeedRequest,
    Sent,
    Await,
    Yes,
    No,
    Started,
    Replied,
    End(Out),
}
use Ph::*;

/// The state derived from a child's log. `k` is the index of its current call. Its calls follow one
/// another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Child {
    ph: Ph,
    k: u8,
    reqs: u8,
    prompts: u8,
    abort: bool,
    ids: u8,
}
/// The state derived from the parent's log. `shown`: `child_awaits` entries per call. `dec`: 0
/// none, 1 approve, 2 deny. `has`: the decisions that the child has recorded, according to an idle
/// `child_awaits`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parent {
    started: [bool; 2],
    shown: [[u8; 2]; 2],
    dec: [[u8; 2]; 2],
    has: [u8; 2],
    ended: [Option<Out>; 2],
    cost: [u8; 2],
    result: [Option<Out>; 2],
    abort: bool,
    msg: bool,
    sup: [bool; 2],
    own: u8,
    end: Option<Out>,
}
/// The state of the process. `tool`: 1 spawned, 2 its effect has happened. `fwd`: decisions to
/// forward.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ram {
    up: bool,
    token: bool,
    cancel: [bool; 2],
    live: [bool; 2],
    direct: [bool; 2],
    tool: [u8; 2],
    req: [bool; 2],
    to_prompt: [bool; 2],
    fwd: [[bool; 2]; 2],
    own_req: bool,
    spent: [u8; 2],
    shown: [bool; 2],
    to_record: [u8; 2],
    cost_due: [bool; 2],
    result_due: [bool; 2],
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct World {
    ran: [[u8; 2]; 2],
    took: [[u8; 2]; 2],
    acks: [[u8; 2]; 2],
    paid: u8,
    aborted: bool,
    sup: [bool; 2],
    unseen: [bool; 2],
    kills: u8,
    decs: u8,
    bad: Option<&'static str>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct S {
    p: Parent,
    c: [Child; 2],
    r: Ram,
    w: World,
}

#[derive(Clone, Copy)]
pub struct Tree {
    pub off: u64,
    pub calls: [u8; 2],
    pub share: [u8; 2],
    pub budget: u8,
    pub kills: u8,
    pub decs: u8,
    pub msg: bool,
    pub abort: bool,
    pub fails: bool,
    pub expires: bool,
}

impl S {
    fn apply(&mut self, i: usize, k: usize, yes: bool) {
        self.w.took[i][k] += 1;
        if self.c[i].k as usize != k {
            self.w.bad =
                Some("a decision takes effect on another call than the one it was shown for")
        }
        self.c[i].ph = if yes { Yes } else { No };
    }
    fn pays(&mut self, i: usize) {
        self.w.paid += 1;
        self.late(i, "a child pays after the abort or the message was acknowledged")
    }
    fn late(&mut self, i: usize, what: &'static str) {
        if self.w.aborted || self.w.sup[i] {
            self.w.bad = Some(what)
        }
    }
}

impl Tree {
    fn on(&self, r: Rule) -> bool {
        self.off >> r as u64 & 1 == 0
    }
    fn reserved(&self, s: &S, all: bool) -> u8 {
        (0..2)
            .filter(|&i| s.p.started[i] && (all || s.p.ended[i].is_none()))
            .map(|i| self.share[i])
            .sum()
    }
    fn spent(&self, s: &S) -> u8 {
        s.p.own + s.p.cost[0] + s.p.cost[1]
    }
    fn listed(&self, s: &S, i: usize, k: usize) -> bool {
        s.p.shown[i][k] > 0
            && s.p.dec[i][k] == 0
            && !(self.on(Rule::unlist_on_end) && s.p.ended[i].is_some())
            && !(self.on(Rule::unlist_on_close) && (s.p.abort || s.p.sup[i]))
    }
    /// Returns whether the process knows that child `i` must be closed.
    fn knows(&self, s: &S, i: usize) -> bool {
        s.r.token || s.r.cancel[i]
    }

    /// Returns the violation of a rule that holds in every state.
    fn always(&self, s: &S) -> Option<&'static str> {
        if s.w.bad.is_some() {
            return s.w.bad;
        }
        if s.w.paid > self.budget {
            return Some("more is paid than the budget");
        }
        if self.spent(s) + self.reserved(s, false) > self.budget {
            return Some("shares and spending exceed the budget");
        }
        for i in 0..2 {
            if s.c[i].prompts > 1 {
                return Some("a child is prompted twice");
            }
            if s.w.unseen[i] {
                return Some("a message closes a child whose action its author never saw");
            }
            for k in 0..2 {
                if s.w.ran[i][k] > 1 {
                    return Some("a once-only tool runs twice");
                }
                if s.w.took[i][k] > 1 {
                    return Some("a decision takes effect twice");
                }
                if s.p.shown[i][k] > 1 && self.listed(s, i, k) {
                    return Some("an action is listed twice");
                }
            }
            if let (End(o), Some(p)) = (s.c[i].ph, s.p.ended[i]) {
                if o != p {
                    return Some("the parent's result differs from the child's outcome");
                }
            }
            if let (Some(o), Some(p)) = (s.p.result[i], s.p.ended[i]) {
                if o != p {
                    return Some("the call's result differs from the child's outcome");
                }
            }
        }
        None
    }

    /// Returns the violation of a rule that holds when nothing moves unless the user acts.
    fn at_rest(&self, s: &S) -> Option<&'static str> {
        for i in 0..2 {
            let c = s.c[i];
            for k in 0..2 {
                let listed = self.listed(s, i, k);
                let waits = c.ph == Await && c.k as usize == k;
                if waits && !listed {
                    return Some(
                        "a child waits for ever: its action is not listed, nobody can close it",
                    );
                }
                if listed && !waits {
                    return Some("an action is listed although it is not open");
                }
                if s.w.acks[i][k] != s.w.took[i][k] && !s.w.aborted {
                    return Some(
                        "an acknowledged decision has no effect, or an effect was not acknowledged",
                    );
                }
            }
            if s.p.ended[i].is_some() && s.p.started[i] && s.p.cost[i] != c.reqs {
                return Some("a child's cost is not counted exactly once");
            }
            if !matches!(c.ph, Empty | Await | End(_))
                || s.p.ended[i].is_some() && !matches!(c.ph, Empty | End(_))
            {
                return Some("a child stays open for ever");
            }
            if s.p.end.is_some() && !matches!(c.ph, Empty | End(_)) {
                return Some("a child stays open for ever");
            }
        }
        let asks = (0..2).any(|i| (0..2).any(|k| self.listed(s, i, k)));
        if s.p.end.is_none() && !asks {
            return Some("the parent neither ends nor waits for anybody");
        }
        if s.p.end.is_some() && self.reserved(s, !self.on(Rule::return_share)) > 0 {
            return Some("a share is not returned");
        }
        None
    }
}

impl Model for Tree {
    type State = S;
    fn start(&self) -> S {
        let c = Child { ph: Empty, k: 0, reqs: 0, prompts: 0, abort: false, ids: 0 };
        let p = Parent {
            started: [false; 2],
            shown: [[0; 2]; 2],
            dec: [[0; 2]; 2],
            has: [0; 2],
            ended: [None; 2],
            cost: [0; 2],
            result: [None; 2],
            abort: false,
            msg: false,
            sup: [false; 2],
            own: 0,
            end: None,
        };
        S { p, c: [c; 2], r: Ram { up: true, ..Ram::default() }, w: World::default() }
    }
    fn next(&self, s: &S, out: &mut Vec<(Label, S)>) -> Option<&'static str> {
        use Rule::*;
        if let Some(bad) = self.always(s) {
            return Some(bad);
        }
        if !s.r.up {
            let mut n = *s;
            n.r.up = true;
            n.r.token = s.p.abort && self.on(abort_first);
            for i in 0..2 {
                n.r.cancel[i] = s.p.sup[i];
                for k in 0..2 {
                    n.r.fwd[i][k] = self.on(reforward)
                        && s.p.dec[i][k] != 0
                        && s.p.has[i] >> k & 1 == 0
                        && s.p.ended[i].is_none()
                }
                if !self.on(keyed) && s.p.started[i] && s.p.ended[i].is_none() {
                    n.c[i] = self.start().c[i];
                    n.p.started[i] = false;
                    n.p.shown[i] = [0; 2];
                    n.p.dec[i] = [0; 2];
                    n.p.has[i] = 0;
                    n.r.fwd[i] = [false; 2];
                }
            }
            out.push((("restart", 9, 9), n));
            return None;
        }
        self.engine(s, out);
        if out.is_empty() {
            if let Some(bad) = self.at_rest(s) {
                return Some(bad);
            }
        }
        self.outside(s, out);
        None
    }
}
