//! Steps of the parent, the children and their engine.
use super::Out::*;
use super::Ph::*;
use super::{Rule, S, Tree};
use crate::explore::Label;

impl Tree {
    pub(super) fn engine(&self, s: &S, out: &mut Vec<(Label, S)>) {
        use Rule::*;
        let mut go = |what: &'static str, i: usize, n: S| out.push(((what, i as u8, 9), n));
        for i in 0..2 {
            let (c, knows) = (s.c[i], self.knows(s, i));
            let ended = s.p.ended[i].is_some();
            let open = !matches!(c.ph, End(_));
            // --- the parent starts a child, or refuses it for lack of budget
            if s.p.end.is_none() && !s.p.started[i] && !ended && !knows {
                let held =
                    if self.on(reserve) { self.reserved(s, !self.on(return_share)) } else { 0 };
                let mut n = *s;
                if self.spent(s) + held + self.share[i] > self.budget {
                    n.p.ended[i] = Some(Limit);
                    n.p.result[i] = Some(Limit);
                    go("parent: refuses the child, the budget has no share left", i, n)
                } else if self.on(start_first) {
                    n.p.started[i] = true;
                    n.r.live[i] = true;
                    n.r.to_prompt[i] = true;
                    go("parent: child_started", i, n)
                } else {
                    if !s.r.live[i] {
                        n.r.live[i] = true;
                        n.r.to_prompt[i] = c.prompts == 0;
                        go("parent opens the child", i, n)
                    }
                    if c.ph != Empty {
                        let mut n = *s;
                        n.p.started[i] = true;
                        n.r.live[i] = true;
                        go("parent: child_started", i, n)
                    }
                }
            }
            // --- the child's own engine
            let cannot_know = s.r.direct[i]
                || (s.r.token && !self.on(abort_reaches))
                || (s.r.cancel[i] && !self.on(sup_reaches) && !s.r.token);
            if s.r.live[i] && open && (cannot_know || !knows) {
                let mut n = *s;
                let x = &mut n.c[i];
                if c.ph == Empty {
                    x.ph = Opened;
                    go("child: opened", i, n)
                } else if s.r.to_prompt[i] {
                    n.r.to_prompt[i] = false;
                    if c.prompts == 0 || !self.on(prompt_id) {
                        x.prompts += 1;
                        if c.ph == Opened {
                            x.ph = NeedRequest
                        }
                    }
                    go("child: prompt", i, n)
                }
                let mut n = *s;
                let spent = if self.on(limit_from_log) { c.reqs } else { s.r.spent[i] };
                match c.ph {
                    NeedRequest | Sent if !s.r.req[i] => {
                        if spent >= self.share[i] && self.on(check_share) {
                            n.c[i].ph = End(Limit);
                            go("child: run_ended(limit)", i, n)
                        } else if c.reqs < self.share[i] + 2 {
                            if self.on(request_intent) {
                                n.c[i].ph = Sent;
                                n.c[i].reqs += 1
                            }
                            n.r.req[i] = true;
                            n.r.spent[i] += 1;
                            n.pays(i);
                            go("child: request_started, and sends it", i, n)
                        }
                    }
                    NeedRequest | Sent => {
                        n.r.req[i] = false;
                        if !self.on(request_intent) {
                            n.c[i].reqs += 1
                        }
                        let mut m = n;
                        m.c[i].ph = Replied;
                        go("child: final reply", i, m);
                        if self.fails {
                            let mut m = n;
                            m.c[i].ph = End(Failed);
                            go("child: run_ended(failed)", i, m)
                        }
                        if c.k < self.calls[i] {
                            n.c[i].ph = Await;
                            go("child: reply with a call, call_awaiting", i, n)
                        }
                    }
                    Yes if s.r.tool[i] == 0 => {
                        if self.on(intent_first) {
                            n.c[i].ph = Started
                        }
                        n.r.tool[i] = 1;
                        go("child: call_started", i, n)
                    }
                    Yes | Started if s.r.tool[i] == 1 => {
                        n.r.tool[i] = 2;
                        n.w.ran[i][c.k as usize] += 1;
                        n.late(
                            i,
                            "a child's tool runs after the abort or the message was acknowledged",
                        );
                        go("the once-only tool runs", i, n)
                    }
                    Started if s.r.tool[i] == 0 && !self.on(once_unknown) => {
                        n.r.tool[i] = 1;
                        go("child runs the started call again", i, n)
                    }
                    Yes | Started | No => {
                        n.r.tool[i] = 0;
                        n.c[i].ph = NeedRequest;
                        n.c[i].k += 1;
                        go("child: call_finished", i, n)
                    }
                    Replied => {
                        n.c[i].ph = End(Done);
                        go("child: run_ended(done)", i, n)
                    }
                    _ => {}
                }
            }
            if s.p.end.is_some() || !s.p.started[i] {
                continue;
            }
            // --- the parent follows a child that has no end yet
            if !ended && !knows {
                let resume = match c.ph {
                    End(_) | Await => false,
                    Empty | Opened => self.on(examine_empty),
                    _ => self.on(examine_interrupted),
                };
                if resume && !s.r.live[i] {
                    let mut n = *s;
                    n.r.live[i] = true;
                    n.r.to_prompt[i] = c.prompts == 0 || !self.on(look_first);
                    go("parent continues the child", i, n)
                }
                let k = c.k as usize;
                let known =
                    if self.on(surface_keyed) { s.p.shown[i][k.min(1)] > 0 } else { s.r.shown[i] };
                if c.ph == Await
                    && !known
                    && (s.r.live[i] || self.on(examine_waiting))
                    && s.p.dec[i][k] == 0
                {
                    let mut n = *s;
                    n.p.shown[i][k] += 1;
                    n.r.shown[i] = true;
                    if !self.on(cost_once) {
                        n.p.cost[i] += c.reqs
                    }
                    if !self.on(sup_only_shown) && s.p.msg {
                        n.p.sup[i] = true;
                        n.r.cancel[i] = true;
                        n.w.unseen[i] = true
                    }
                    go("parent: child_awaits", i, n)
                }
                let decided = (0..2).filter(|&k| s.p.dec[i][k] != 0).fold(0, |all, k| all | 1 << k);
                if c.ph == Await
                    && known
                    && s.r.live[i]
                    && decided != s.p.has[i]
                    && (decided & !c.ids == 0 || !self.on(idle_has_all))
                {
                    let mut n = *s;
                    n.p.has[i] = decided;
                    go("parent: child_awaits(idle)", i, n)
                }
                if c.ph == Replied && s.r.live[i] && !self.on(child_first_end) {
                    let mut n = *s;
                    n.p.ended[i] = Some(Done);
                    n.p.result[i] = Some(Done);
                    n.p.cost[i] = c.reqs;
                    go("parent: child_ended(done), before the child's own end", i, n)
                }
            }
            for k in 0..2 {
                if s.r.fwd[i][k] {
                    let mut n = *s;
                    n.r.fwd[i][k] = false;
                    if open && !ended && !knows {
                        n.r.live[i] = true;
                        let known = c.ids >> k & 1 == 1 && self.on(same_id);
                        if !known && c.ph == Await && (c.k as usize == k || !self.on(names_call)) {
                            n.apply(i, k, s.p.dec[i][k] == 1);
                            n.c[i].ids |= 1 << k;
                            n.r.shown[i] = false;
                        }
                    }
                    go("parent forwards the decision; child: decided (unless it has it)", i, n)
                }
            }
            if s.r.to_record[i] > 0 {
                let mut n = *s;
                let (k, d) = ((s.r.to_record[i] - 1) / 2, (s.r.to_record[i] - 1) % 2 + 1);
                n.r.to_record[i] = 0;
                n.p.dec[i][k as usize] = d;
                n.w.acks[i][k as usize] += 1;
                go("parent: decided, acknowledged", i, n)
            }
            // --- the parent records the end, or closes the child
            if let (End(o), false, 0) = (c.ph, ended, s.r.to_record[i]) {
                let mut n = *s;
                let sees = s.r.live[i] || self.on(examine_ended);
                let o = if knows && !self.on(abort_keeps_end) && s.r.token {
                    Aborted
                } else if sees {
                    o
                } else {
                    Failed
                };
                let cost = if !sees {
                    0
                } else if self.on(cost_from_log) {
                    c.reqs
                } else {
                    s.r.spent[i]
                };
                n.p.ended[i] = Some(o);
                if self.on(cost_in_end) {
                    n.p.cost[i] += cost
                } else {
                    n.r.cost_due[i] = true
                }
                if self.on(end_is_result) {
                    n.p.result[i] = Some(o)
                } else {
                    n.r.result_due[i] = true
                }
                go("parent: child_ended", i, n)
            }
            if s.r.cost_due[i] {
                let mut n = *s;
                n.r.cost_due[i] = false;
                n.p.cost[i] += c.reqs;
                go("parent: the child's cost", i, n)
            }
            if ended && s.p.result[i].is_none() {
                let mut n = *s;
                n.p.result[i] = if s.r.result_due[i] { s.p.ended[i] } else { Some(Unknown) };
                go("parent: call_finished of the call that made the child", i, n)
            }
            if knows && !ended && open {
                let mut n = *s;
                let why = if s.r.token { Aborted } else { Superseded };
                let reaches = if s.r.token { self.on(abort_reaches) } else { self.on(sup_reaches) };
                if c.ph == Empty || !reaches {
                    n.p.ended[i] = Some(why);
                    n.p.result[i] = Some(why);
                    n.p.cost[i] = c.reqs;
                    go("parent: child_ended(aborted)", i, n)
                } else if self.on(child_abort_entry) && !c.abort {
                    n.c[i].abort = true;
                    go("child: abort_requested", i, n)
                } else {
                    n.c[i].ph = End(why);
                    n.r.tool[i] = 0;
                    n.r.req[i] = false;
                    go("child: run_ended(aborted)", i, n)
                }
            }
        }
        for i in 0..2 {
            if s.p.abort && !self.knows(s, i) {
                let mut n = *s;
                n.r.cancel[i] = true;
                n.r.token |= n.r.cancel == [true; 2];
                go("the abort reaches the child", i, n)
            }
        }
        if s.p.end.is_none() {
            let all = (0..2).all(|i| {
                s.p.ended[i].is_some() && s.p.result[i].is_some() && !s.r.cost_due[i]
                    || s.r.token && !s.p.started[i]
            });
            let mut n = *s;
            if s.r.token && (all || !self.on(wait_ends)) {
                n.p.end = Some(Aborted);
                go("parent: run_ended(aborted)", 9, n)
            } else if all && s.r.own_req {
                n.p.end = Some(Done);
                go("parent: final reply, run_ended(done)", 9, n)
            } else if all && !s.r.token {
                if self.spent(s) + self.reserved(s, !self.on(return_share)) + 1 > self.budget {
                    n.p.end = Some(Limit);
                    go("parent: run_ended(limit)", 9, n)
                } else {
                    n.p.own += 1;
                    n.w.paid += 1;
                    n.r.own_req = true;
                    go("parent: request_started, and sends it", 9, n)
                }
            }
        }
    }
}
