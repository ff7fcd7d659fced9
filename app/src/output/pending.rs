//! Pending actions, and the commands that resolve them.

use loopwright_core::event::ExternalAction;
use loopwright_tools::protected_file;

use super::format::{call, digest, quoted};
use super::streams::{info, notice};

/// Writes the pending actions, and how to resolve them, to standard error. `session` is the name of
/// the session if it is stored.
pub(crate) fn report_pending(actions: &[ExternalAction], session: Option<&str>) {
    let mut is_protected = false;
    for action in actions {
        notice(&format!("? {} (call {})", call(action), action.call));
        if let Some(protected) = protected_file(&action.name, &action.arguments) {
            info(&protected);
            is_protected = true;
        }
    }
    let Some(session) = session else {
        let mut tools: Vec<&str> = actions.iter().map(|action| &*action.name).collect();
        tools.dedup();
        let flags: Vec<String> = tools.iter().map(|tool| format!("--approve {tool}")).collect();
        let protected = if is_protected { " and --unprotected PATH" } else { "" };
        return info(&format!(
            "Not run, because it needs your approval. Allow it with {}{protected}, or decide call \
             by call in `loopwright chat`.",
            flags.join(" ")
        ));
    };
    let Some(action) = actions.first() else {
        return;
    };
    let which = format!("{} {} --digest {}", quoted(session), action.call, digest(action));
    info(&format!(
        "Not run, because it needs your approval: `loopwright approve {which}` runs it and \
         continues, `loopwright deny {which} --reason TEXT` refuses it."
    ));
}
