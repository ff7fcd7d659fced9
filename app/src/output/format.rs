//! Values as text: ages, calls, digests, shell words.

use std::borrow::Cow;

use loopwright_core::event::ExternalAction;
use loopwright_core::tool::{AnswerForm, Question};
use loopwright_core::{Environment, SystemEnvironment, excerpt};

use crate::wording;

/// Maximum number of characters of a call's arguments, or of a result, in a line.
const MAX_LINE_CHARS: usize = 160;
/// The number of characters of a digest that are shown.
const DIGEST_CHARS: usize = 12;

/// Returns how long ago a time in milliseconds since 1970 was, such as `5m`.
pub(crate) fn age(time: u64) -> String {
    let seconds = SystemEnvironment.now().saturating_sub(time) / 1000;
    match seconds {
        _ if time == 0 => "-".into(),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a pending call as one line with all of its arguments, so that nobody approves what they
/// did not see. For a question, returns its text and options. The name of a sub-agent precedes its
/// actions.
pub(crate) fn call(action: &ExternalAction) -> String {
    format!("{}{}", of_agent(action), own_call(action))
}

/// Returns the prefix of a line about a sub-agent's action, such as `alice: `.
pub(super) fn of_agent(action: &ExternalAction) -> String {
    match action.path.is_empty() {
        true => String::new(),
        false => format!("{}: ", one_line(&wording::agent(action))),
    }
}

fn own_call(action: &ExternalAction) -> String {
    let Some(question) = action.question() else {
        return format!("{} {}", action.name, action.arguments);
    };
    let line = one_line(&question.question);
    let options = options(&question).iter().enumerate();
    let options = options.map(|(index, option)| format!("{} {}", index + 1, one_line(option)));
    match options.collect::<Vec<_>>() {
        none if none.is_empty() => line,
        options => format!("{line} ({})", options.join(", ")),
    }
}

/// Returns the options of a question; empty if it has another form.
pub(crate) fn options(question: &Question) -> &[String] {
    match &question.form {
        AnswerForm::Choice { options } | AnswerForm::Several { options } => options,
        _ => &[],
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of an action's digest, which is enough to identify it.
pub(crate) fn digest(action: &ExternalAction) -> &str {
    action.digest.get(..DIGEST_CHARS).unwrap_or(&action.digest)
}

/// Returns a word quoted for a shell.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''")).into()
    }
}

/// Returns a text, cut with an ellipsis if it is longer than a line shows.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    excerpt::chars(text, MAX_LINE_CHARS)
}
