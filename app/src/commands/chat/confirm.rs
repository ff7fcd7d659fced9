//! Pending calls: each is shown to the user, and the decision is sent to the agent.

use loopwright_core::agent::InputError;
use loopwright_core::event::{Decision, ExternalAction};
use loopwright_tools::protected_file;
use serde_json::Value;

use super::state::{Chat, Done, State};
use crate::output;

const DECISIONS: &str = "\
y             run it
n [REASON]    do not run it, and send the reason to the agent
e [JSON]      run it with these arguments instead
a             run it, and this tool without approval from now on";

impl Chat {
    /// Asks for a decision on a call, unless the user has just allowed its tool. A call that
    /// changes a protected file is asked for all the same.
    pub(super) async fn ask(&mut self, action: ExternalAction) -> Done {
        let protected = protected_file(&action.name, &action.arguments);
        if action.request.is_none() && protected.is_none() && self.allowed.has(&action.name) {
            return self.decide(action, Decision::Approve).await;
        }
        output::notice(&format!("? {}", output::call(&action)));
        if let Some(protected) = protected {
            output::info(&protected);
        }
        self.state = State::Deciding(action);
        if self.input_ended {
            self.leave_pending();
        } else {
            self.repeat_question();
        }
        Ok(())
    }

    /// Handles a line that should be a decision.
    pub(super) async fn decision(
        &mut self,
        action: ExternalAction,
        word: &str,
        rest: &str,
    ) -> Done {
        match (word.to_lowercase().as_str(), rest) {
            ("y" | "yes", "") => self.decide(action, Decision::Approve).await,
            ("n" | "no", "") => {
                self.decide(action, Decision::Deny("the user said no".into())).await
            }
            ("n" | "no" | "n," | "no,", why) => {
                self.decide(action, Decision::Deny(why.to_owned())).await
            }
            ("a" | "always", "") => {
                self.allowed.add(&action.name);
                self.decide(action, Decision::Approve).await
            }
            ("e" | "edit", "") => {
                self.state = State::Editing(action);
                self.repeat_question();
                Ok(())
            }
            ("e" | "edit", json) => self.edit(action, json).await,
            _ => {
                output::info(DECISIONS);
                self.repeat_question();
                Ok(())
            }
        }
    }

    /// Handles a line that should be the new arguments.
    pub(super) async fn edit(&mut self, action: ExternalAction, line: &str) -> Done {
        match serde_json::from_str::<Value>(line) {
            Ok(arguments) => self.decide(action, Decision::ApproveWith(arguments)).await,
            Err(why) => {
                output::error(&format!("The new arguments are not JSON: {why}."));
                self.state = State::Deciding(action);
                self.repeat_question();
                Ok(())
            }
        }
    }

    /// Sends the decision, which starts a run. If it is refused, the question is repeated.
    async fn decide(&mut self, action: ExternalAction, decision: Decision) -> Done {
        let sent = self.handle.resolve(action.call.clone(), action.digest.clone(), decision).await;
        match sent {
            Ok(_) => self.state = State::Running,
            Err(why @ (InputError::BadArguments(_) | InputError::BadDecision(_))) => {
                output::error(&format!("This decision was refused: {why}."));
                self.state = State::Deciding(action);
                self.repeat_question();
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }
}
