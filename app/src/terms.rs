//! The terms of a pending action in words, for its approver.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use loopwright_core::event::ExternalAction;
use loopwright_core::tool::{ActionTerms, DefaultDecision};

/// Returns one line each for the description, the deciders, the deadline and the approvals so far.
/// `now` is in milliseconds since 1970.
pub(crate) fn lines(action: &ExternalAction, now: u64) -> Vec<String> {
    let terms = &action.terms;
    let description = terms.description.iter().map(|text| text.to_string());
    let roles = (!terms.roles.is_empty()).then(|| format!("for {}", terms.roles.join(", ")));
    let deadline = deadline(terms, now);
    description.chain(roles).chain(deadline).chain(approvals(action)).collect()
}

/// Returns what happens at the deadline, such as `denied by default at 14:05 (in 9 min)`.
pub(crate) fn deadline(terms: &ActionTerms, now: u64) -> Option<String> {
    let deadline = terms.deadline?;
    let default = match terms.default_decision {
        DefaultDecision::Approve => "approved",
        _ => "denied",
    };
    let at = at_time(deadline, now);
    Some(match deadline.checked_sub(now).filter(|left| *left > 0) {
        Some(left) => format!("{default} by default {at} (in {})", span(left / 1000)),
        None => format!("{default} by default, since the deadline was {at}"),
    })
}

/// Returns a time as `at 14:05` if it is today, else with its date, in local time.
pub(crate) fn at_time(time: u64, now: u64) -> String {
    let zoned = |time: u64| {
        let time = i64::try_from(time).ok()?;
        Some(Timestamp::from_millisecond(time).ok()?.to_zoned_datetime(TimeZone::system()))
    };
    match (zoned(time), zoned(now)) {
        (Some(time), Some(now)) if time.date() == now.date() => {
            time.strftime("at %H:%M").to_string()
        }
        (Some(time), _) => time.strftime("on %Y-%m-%d at %H:%M").to_string(),
        (None, _) => "in the far future".into(),
    }
}

/// Returns a time in milliseconds since 1970 as local date and time, to the second.
pub(crate) fn date_and_time(time: u64) -> String {
    let zoned = i64::try_from(time).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
    match zoned.filter(|_| time > 0) {
        Some(at) => {
            at.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
        }
        None => "-".into(),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..5_400 => format!("{} min", seconds / 60),
        5_400..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Returns who has approved so far, if several must.
pub(crate) fn approvals(action: &ExternalAction) -> Option<String> {
    let (quorum, approvals) = (action.terms.quorum, &action.approvals);
    if quorum <= 1 {
        return None;
    }
    let by: Vec<&str> = approvals.iter().filter_map(|approval| approval.by.as_deref()).collect();
    Some(match by.is_empty() {
        true => format!("needs {quorum} approvals of different people"),
        false => format!("{} of {quorum} approvals so far: {}", by.len(), by.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn action(change: impl FnOnce(&mut ActionTerms)) -> ExternalAction {
        let mut terms = ActionTerms::default();
        change(&mut terms);
        ExternalAction::new("c", "pay", Arc::default(), "d").terms(terms)
    }

    #[test]
    fn the_terms_are_put_in_words() {
        let now = 1_700_000_000_000;
        assert_eq!(lines(&action(|_| {}), now), [""; 0]);
        let all = action(|terms| {
            terms.description = Some("Pays an invoice.".into());
            terms.roles = vec!["boss".into(), "treasurer".into()];
            terms.quorum = 2;
        });
        let expected =
            ["Pays an invoice.", "for boss, treasurer", "needs 2 approvals of different people"];
        assert_eq!(lines(&all, now), expected);
    }

    #[test]
    fn a_deadline_has_the_time_that_is_left() {
        let now = 1_700_000_000_000;
        let in_words = |seconds: u64| {
            let terms = action(|terms| terms.deadline = Some(now + seconds * 1000)).terms;
            let text = deadline(&terms, now).unwrap();
            let (start, rest) = text.split_once(' ').unwrap();
            assert_eq!(start, "denied");
            rest.split_once('(').map(|(_, left)| left.to_owned()).unwrap_or_else(|| rest.into())
        };
        for (seconds, expected) in [
            (40, "in 40 s)"),
            (9 * 60 + 30, "in 9 min)"),
            (5 * 3600, "in 5 h)"),
            (3 * 86_400, "in 3 days)"),
        ] {
            assert_eq!(in_words(seconds), expected);
        }
        assert!(in_words(0).starts_with("by default, since the deadline was at "));
        let far = action(|terms| terms.deadline = Some(now + 3 * 86_400_000)).terms;
        assert!(deadline(&far, now).unwrap().contains(" on 2023-11-1"));
        let never = action(|terms| terms.deadline = Some(u64::MAX)).terms;
        assert!(deadline(&never, now).unwrap().contains("in the far future"));
    }
}
