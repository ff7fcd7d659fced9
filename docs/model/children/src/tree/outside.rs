//! Steps of users, deadlines and kills.
use super::Out::*;
use super::Ph::*;
use super::{Ram, Rule, S, Tree};
use crate::explore::Label;

impl Tree {
    pub(super) fn outside(&self, s: &S, out: &mut Vec<(Label, S)>) {
        use Rule::*;
        if s.w.kills < self.kills {
            let mut n = *s;
            n.r = Ram::default();
            n.w.kills += 1;
            out.push((("KILL", 9, 9), n))
        }
        for i in 0..2 {
            for k in 0..2 {
                for d in 1..3u8 {
                    if s.w.decs >= self.decs
                        || s.p.shown[i][k] == 0
                        || self.on(check_listed) && !self.listed(s, i, k)
                    {
                        continue;
                    }
                    if s.p.end.is_some() || !self.on(parent_first) && s.r.to_record[i] > 0 {
                        continue;
                    }
                    let mut n = *s;
                    n.w.decs += 1;
                    if self.on(parent_first) {
                        n.p.dec[i][k] = d;
                        n.w.acks[i][k] += 1;
                        n.r.fwd[i][k] = true;
                    } else {
                        n.r.live[i] = true;
                        if s.c[i].ph == Await && s.c[i].k as usize == k {
                            n.apply(i, k, d == 1)
                        }
                        n.r.to_record[i] = k as u8 * 2 + d;
                    }
                    out.push((
                        (if d == 1 { "user approves" } else { "user denies" }, i as u8, k as u8),
                        n,
                    ))
                }
            }
            if !self.on(refuse_at_child) && s.c[i].ph == Await && s.w.decs < self.decs {
                let mut n = *s;
                n.w.decs += 1;
                n.r.live[i] = true;
                n.c[i].ph = Yes;
                out.push((("user approves in the child's own session", i as u8, s.c[i].k), n))
            }
            if !self.on(only_via_root)
                && !s.r.live[i]
                && !matches!(s.c[i].ph, Empty | Opened | Await | End(_))
            {
                let mut n = *s;
                n.r.live[i] = true;
                n.r.direct[i] = true;
                out.push((("a worker opens the child by itself and continues it", i as u8, 9), n))
            }
        }
        for i in 0..2 {
            if !self.expires || s.c[i].ph != Await || s.p.end.is_some() {
                continue;
            }
            let mut n = *s;
            if self.on(expiry_at_root) {
                if !(0..2).any(|k| self.listed(s, i, k)) {
                    continue;
                }
                n.p.sup[i] = true;
                n.r.cancel[i] = true;
                n.w.sup[i] = true;
                out.push((("the action's deadline passes (parent: expired)", i as u8, 9), n))
            } else if s.r.live[i] {
                n.c[i].ph = End(Superseded);
                out.push((("the action's deadline passes; child: run_ended(limit)", i as u8, 9), n))
            }
        }
        if s.p.end.is_some() || s.w.aborted {
            return;
        }
        if self.msg && !s.p.msg {
            let mut n = *s;
            n.p.msg = true;
            for i in 0..2 {
                let listed = (0..2).any(|k| self.listed(s, i, k));
                let decided =
                    !self.on(sup_undecided) && s.p.dec[i] != [0; 2] && s.p.ended[i].is_none();
                if listed || decided {
                    n.r.cancel[i] = true;
                    n.w.sup[i] = true;
                    if self.on(sup_logged) {
                        n.p.sup[i] = true
                    }
                }
            }
            out.push((("user sends a message (parent: queued)", 9, 9), n))
        }
        if self.abort {
            let mut n = *s;
            n.w.aborted = true;
            if self.on(abort_logged) {
                n.p.abort = true
            }
            if self.on(abort_token) || !self.on(abort_logged) {
                n.r.token = true
            }
            out.push((("user aborts (parent: abort_requested), acknowledged", 9, 9), n))
        }
    }
}
