//! Pending actions, and the commands that resolve them.

use std::path::Path;

use loopwright_core::event::ExternalAction;
use loopwright_core::tool::{AnswerForm, Question};
use loopwright_core::{Environment, SystemEnvironment};
use loopwright_tools::protected_file;

use super::format::{call, digest, of_agent, options, quoted};
use super::streams::{info, notice};
use crate::environment::started_as;
use crate::terms;

/// Writes the pending actions, and how to resolve them, to standard error. `session` is the name of
/// the session if it is stored.
pub(crate) fn report_pending(actions: &[ExternalAction], session: Option<&str>) {
    let mut is_protected = false;
    for action in actions {
        if let Some(question) = action.question() {
            write_question(&question, &of_agent(action), &format!(" (call {})", action.call));
            report_terms(action);
            continue;
        }
        notice(&format!("? {} (call {})", call(action), action.call));
        report_terms(action);
        if let Some(protected) = protected_file(&action.name, &action.arguments) {
            info(&protected);
            is_protected = true;
        }
    }
    let (suspended, unapproved): (Vec<_>, Vec<_>) =
        actions.iter().partition(|action| action.request.is_some());
    match session {
        Some(session) => {
            if let Some(action) = unapproved.first() {
                let (program, which) = (started_as(), which(session, action));
                info(&format!(
                    "Not run, because it needs your approval: `{program} approve {which}` runs it \
                     and continues, `{program} deny {which} --reason TEXT` refuses it."
                ));
            }
            if let Some(action) = suspended.first() {
                report_answer(session, action);
            }
        }
        None => {
            if !unapproved.is_empty() {
                report_flags(&unapproved, is_protected);
            }
            if !suspended.is_empty() {
                info(&format!(
                    "Not answered, and nobody can answer later, because the session is not \
                     stored. Leave out --no-session, or use `{} chat`.",
                    started_as()
                ));
            }
        }
    }
}

/// Writes the question of an action, and its options, to standard error.
pub(crate) fn report_question(action: &ExternalAction, question: &Question) {
    write_question(question, &of_agent(action), "");
    report_terms(action);
}

/// Writes further facts for the approver to standard error.
pub(crate) fn report_terms(action: &ExternalAction) {
    for line in terms::lines(action, SystemEnvironment.now()) {
        info(&format!("  {line}"));
    }
}

fn write_question(question: &Question, before: &str, after: &str) {
    notice(&format!("? {before}{}{after}", question.question.trim_end()));
    for (index, option) in options(question).iter().enumerate() {
        notice(&format!("  {}. {option}", index + 1));
    }
    if let AnswerForm::Json { schema } = &question.form {
        info(&format!("  JSON that fits {schema}"));
    }
}

/// Returns the form of an answer to the question, as a phrase.
pub(crate) fn how_to_answer(question: &Question) -> &'static str {
    match &question.form {
        AnswerForm::Choice { .. } => "an option or its number",
        AnswerForm::Several { .. } => "options or their numbers, separated by commas",
        AnswerForm::Json { .. } => "JSON",
        AnswerForm::Secret => "a text that is not shown",
        _ => "a text",
    }
}

/// Returns the commands that resolve an action of a session in this store, as a phrase.
pub(crate) fn how_to_resolve(
    session: &str,
    action: &ExternalAction,
    store: Option<&Path>,
) -> String {
    let program = started_as();
    let store = store.map(|path| format!(" --store {}", quoted(&path.to_string_lossy())));
    let which = format!("{}{}", which(session, action), store.unwrap_or_default());
    let resolve = match (action.question(), &action.request) {
        (Some(question), _) if question.is_secret() => {
            format!("`{program} answer {which}` reads the answer from standard input")
        }
        (Some(_), _) => format!("`{program} answer {which} ANSWER` answers"),
        (None, Some(_)) => format!("`{program} answer {which} INPUT` provides its input"),
        (None, None) => format!("`{program} approve {which}` runs it"),
    };
    format!("{resolve}, `{program} deny {which} --reason TEXT` declines")
}

/// Returns the command-line arguments that name an action.
fn which(session: &str, action: &ExternalAction) -> String {
    format!("{} {} --digest {}", quoted(session), action.call, digest(action))
}

/// Writes the commands that answer a question, or provide the input of a suspended call.
fn report_answer(session: &str, action: &ExternalAction) {
    let (program, which) = (started_as(), which(session, action));
    let question = action.question();
    let deny = format!("`{program} deny {which} --reason TEXT` declines");
    info(&match &question {
        Some(question) if question.is_secret() => format!(
            "Not answered: `{program} answer {which}` reads the answer from standard input and \
             continues, {deny}."
        ),
        Some(question) => format!(
            "Not answered: `{program} answer {which} ANSWER` answers with {} and continues, \
             {deny}.",
            how_to_answer(question)
        ),
        None => format!(
            "Not run, because it needs input: `{program} answer {which} INPUT` provides it, as \
             JSON or as a text, and continues; {deny}."
        ),
    });
}

/// Writes the flags that allow calls which nobody can approve later.
fn report_flags(actions: &[&ExternalAction], is_protected: bool) {
    let own = actions.iter().filter(|action| action.path.is_empty());
    let mut tools: Vec<&str> = own.map(|action| &*action.name).collect();
    tools.dedup();
    if tools.is_empty() {
        return info(&format!(
            "Not run, because it needs your approval: decide call by call in `{} chat`.",
            started_as()
        ));
    }
    let flags: Vec<String> = tools.iter().map(|tool| format!("--approve {tool}")).collect();
    let protected = if is_protected { " and --unprotected PATH" } else { "" };
    info(&format!(
        "Not run, because it needs your approval. Allow it with {}{protected}, or decide call by \
         call in `{} chat`.",
        flags.join(" "),
        started_as()
    ));
}
