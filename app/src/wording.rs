//! Phrases that the line chat, lists and the terminal interface share.

use loopwright_core::compaction::Compaction;
use loopwright_core::event::{ExternalAction, RunOutcome, RunStatus};
use loopwright_core::limits::{Limit, Resource};
use loopwright_core::log::{BranchCounts, SessionInfo, Stage};
use loopwright_core::model::RetryNotice;
use loopwright_core::tool::{TodoList, TodoStatus};
use loopwright_patterns::{GoalEnd, GoalProgress};
use serde::Deserialize;
use serde_json::Value;

use crate::terms;

/// Returns the text with a full stop, unless it ends with a punctuation mark.
pub(crate) fn ended(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{end}")
}

/// Returns the text with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let ended = ended(text);
    let mut letters = ended.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// Formats a duration in seconds as `7s`, `1m 05s` or `2h 03m`.
pub(crate) fn time(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h {minutes:02}m"),
    }
}

/// Returns the path of the sub-agent that needs a decision, as `outer/inner`. Empty for the agent
/// itself.
pub(crate) fn agent(action: &ExternalAction) -> String {
    action.path.join("/")
}

/// Describes an action of a sub-agent below the call that it works for: the tool, or the question.
/// The first name of the path is the call's.
pub(crate) fn of_agent(action: &ExternalAction) -> String {
    let what = match action.question() {
        Some(question) => question.question.split_whitespace().collect::<Vec<_>>().join(" "),
        None => format!("{} {}", action.name, action.arguments),
    };
    match action.path.get(1..).unwrap_or_default() {
        [] => what,
        inner => format!("{}: {what}", inner.join("/")),
    }
}

/// Returns the number of waiting calls and questions as a phrase, or `None` if it is zero.
pub(crate) fn waiting<'a>(actions: impl IntoIterator<Item = &'a ExternalAction>) -> Option<String> {
    let (questions, calls): (Vec<_>, Vec<_>) =
        actions.into_iter().partition(|action| action.question().is_some());
    let count = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let verb = if questions.len() + calls.len() == 1 { "waits" } else { "wait" };
    match (count(calls.len(), "call"), count(questions.len(), "question")) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(format!("{one} {verb}")),
        (Some(calls), Some(questions)) => Some(format!("{calls} and {questions} {verb}")),
    }
}

/// Describes the result of a compaction.
pub(crate) fn compaction(done: &Compaction) -> String {
    let Compaction { messages, tokens_before, tokens_after, .. } = done;
    let (s, are) = if *messages == 1 { ("", "is") } else { ("s", "are") };
    let how = match (&done.error, done.summarised) {
        (_, true) => format!("{are} summarised for the model"),
        (Some(why), false) => {
            format!("{are} no longer shown to the model, because no summary was written ({why})")
        }
        (None, false) => format!("{are} no longer shown to the model"),
    };
    format!(
        "{messages} older message{s} {how}: about {tokens_before} tokens before, {tokens_after} \
         now."
    )
}

/// Returns the stage that a pattern is at, if it is at one.
pub(crate) fn current(stages: &[Stage]) -> Option<&Stage> {
    stages.iter().find(|stage| stage.until.is_none())
}

/// Describes a stage of a pattern's work by its name, and its branches with their states, as
/// `read · 3 branches: 1 done, 1 running`.
pub(crate) fn stage(stage: &Stage) -> String {
    let Some(BranchCounts { of, done, failed, running, waiting, .. }) = stage.branches else {
        return stage.name.to_string();
    };
    let states = [(done, "done"), (failed, "failed"), (running, "running"), (waiting, "waiting")];
    let states = states.iter().filter(|(count, _)| *count > 0);
    let states: Vec<String> = states.map(|(count, word)| format!("{count} {word}")).collect();
    let branches = if of == 1 { "1 branch".into() } else { format!("{of} branches") };
    if states.is_empty() || done == of {
        return format!("{} · {branches}", stage.name);
    }
    format!("{} · {branches}: {}", stage.name, states.join(", "))
}

/// Returns a sentence about the end of the work toward a goal.
pub(crate) fn goal(end: &GoalEnd) -> String {
    let rounds = match end.rounds {
        1 => "1 round".into(),
        rounds => format!("{rounds} rounds"),
    };
    let not = if end.reached { "" } else { " not" };
    format!("The goal is{not} reached after {rounds}.")
}

/// Describes a round that did not reach the goal, on one line.
pub(crate) fn goal_progress(progress: &GoalProgress) -> String {
    let GoalProgress { round, rounds, why, .. } = progress;
    let why = if why.is_empty() { "the goal is not reached." } else { why };
    format!("Round {round} of {rounds}: {why}")
}

/// Describes the todo list in the arguments of a call by what is done and the work in progress.
/// Returns `None` if they have no such list.
pub(crate) fn todos(arguments: &Value) -> Option<String> {
    let list = TodoList::deserialize(arguments.get("todos")?).ok()?;
    let done = match list.items.len() {
        0 => "empty".into(),
        count => format!("{} of {count} done", list.completed()),
    };
    let working = list.items.iter().find(|item| item.status == TodoStatus::InProgress);
    Some(match working {
        Some(item) => format!("{done}: {}", item.content),
        None => done,
    })
}

/// Describes a request that will be sent again after this many seconds.
pub(crate) fn retry(notice: &RetryNotice, seconds: u64) -> String {
    let RetryNotice { attempt, max_attempts, reason, .. } = notice;
    let when = if seconds == 0 { "now".into() } else { format!("in {}", time(seconds)) };
    format!("{} Trying again {when} (attempt {attempt} of {max_attempts})", sentence(reason))
}

/// The mark of a reply or run that the user interrupted.
pub(crate) const INTERRUPTED: &str = "Interrupted.";

/// The reason why a run did not complete.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// An abort by the user.
    Aborted,
    /// The limit of turns, as a sentence without its capital letter.
    Turns(String),
    /// An answer at a limit, as a sentence without its capital letter.
    Answered(String),
    /// Another limit, as a sentence without its capital letter.
    Limit(String),
    /// An incomplete last reply, as a sentence without its capital letter.
    Incomplete(String),
    /// A failure of the run, as a sentence without its capital letter.
    Error(String),
}

/// Returns the reason why this run did not complete, or `None` if it did.
pub(crate) fn failure(outcome: &RunOutcome) -> Option<Failure> {
    let why = |otherwise: &str| ended(outcome.error.as_deref().unwrap_or(otherwise));
    Some(match outcome.end {
        RunStatus::Done | RunStatus::Incomplete if outcome.limit.is_some() => {
            Failure::Answered(format!("{} is reached.", outcome.limit?))
        }
        RunStatus::Done | RunStatus::AwaitingAction | RunStatus::Sleeping => return None,
        RunStatus::Aborted => Failure::Aborted,
        RunStatus::Limit if outcome.limit == Some(Limit::Run(Resource::Turns)) => {
            Failure::Turns(why("the limit of turns is reached"))
        }
        RunStatus::Limit => Failure::Limit(why("a limit was reached")),
        RunStatus::Incomplete => Failure::Incomplete(match outcome.incomplete {
            Some(incomplete) => ended(&incomplete.to_string()),
            None => why("the reply is incomplete"),
        }),
        _ => Failure::Error(why("the run failed")),
    })
}

/// Returns a few words about a stored session whose agent sleeps or waits for an event. `now` is in
/// milliseconds since 1970.
pub(crate) fn asleep_in_list(info: &SessionInfo, now: u64) -> Option<String> {
    let time = info.wakes_at().filter(|_| info.pending.is_empty());
    let asleep = time.map(|time| format!("sleeps, continues {}", terms::at_time(time, now)));
    asleep.or_else(|| info.awaited_signals().next().map(|_| "waits for an event".into()))
}

/// Returns a sentence about an agent that sleeps. `now` is in milliseconds since 1970.
pub(crate) fn asleep(outcome: &RunOutcome, now: u64) -> Option<String> {
    if outcome.end != RunStatus::Sleeping {
        return None;
    }
    Some(match outcome.wakes_at {
        Some(time) => format!("The agent sleeps. It continues {}.", terms::at_time(time, now)),
        None => "The agent waits for an event.".into(),
    })
}

/// Returns whether `NO_COLOR` asks for output without colours.
pub(crate) fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::log::LogEntry;
    use loopwright_core::tool::ActionRequest;
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_sentences_and_times_are_short() {
        assert_eq!(ended("the limit of turns is reached"), "the limit of turns is reached.");
        assert_eq!(
            (ended("Done!").as_str(), sentence("é is no key").as_str()),
            ("Done!", "É is no key.")
        );
        assert_eq!([7, 65, 7_380].map(time), ["7s", "1m 05s", "2h 03m"]);
    }

    #[test]
    fn calls_and_questions_are_counted() {
        let call = || ExternalAction::new("c", "write_file", Value::Null, "d");
        let data = json!({ "question": "Which?", "form": "text" });
        let question = || call().request(Arc::new(ActionRequest::new("question", data.clone())));
        for (actions, expected) in [
            (vec![], None),
            (vec![call()], Some("1 call waits")),
            (vec![call(), call()], Some("2 calls wait")),
            (vec![question()], Some("1 question waits")),
            (vec![question(), call(), question()], Some("1 call and 2 questions wait")),
        ] {
            assert_eq!(waiting(&actions).as_deref(), expected);
        }
    }

    #[test]
    fn a_todo_list_is_described_by_its_progress() {
        let item = |status: &str| json!({ "content": "Fix it", "status": status });
        for (todos, expected) in [
            (
                json!([item("completed"), item("in_progress"), item("pending")]),
                "1 of 3 done: Fix it",
            ),
            (json!([item("completed")]), "1 of 1 done"),
            (json!([]), "empty"),
        ] {
            assert_eq!(super::todos(&json!({ "todos": todos })).as_deref(), Some(expected));
        }
        assert_eq!(todos(&json!({ "todos": "all" })), None);
        assert_eq!(todos(&json!({})), None);
    }

    /// C509
    #[test]
    fn lists_say_until_when_an_agent_sleeps() {
        let waits = |until| LogEntry::WaitStarted { key: "k".into(), until, for_signal: true };
        let words = |log: &[LogEntry]| asleep_in_list(&SessionInfo::of("s", log), 0);
        assert_eq!(words(&[]), None);
        assert_eq!(words(&[waits(None)]).as_deref(), Some("waits for an event"));
        let until = words(&[waits(None), waits(Some(4_000_000_000_000))]).unwrap();
        assert!(until.starts_with("sleeps, continues on 2096-"), "{until}");
    }

    #[test]
    fn one_message_is_singular() {
        let done = |messages: u64| -> Compaction {
            let message = serde_json::json!({ "id": "m9", "role": "user", "content": [] });
            let done = serde_json::json!({
                "why": "threshold", "first": "m1", "last": "m8", "messages": messages,
                "message": message, "summarised": true, "tokens_before": 90, "tokens_after": 20,
            });
            serde_json::from_value(done).unwrap()
        };
        let text = compaction(&done(1));
        assert_eq!(
            text,
            "1 older message is summarised for the model: about 90 tokens before, 20 now."
        );
        assert!(compaction(&done(3)).starts_with("3 older messages are summarised"));
    }
}
