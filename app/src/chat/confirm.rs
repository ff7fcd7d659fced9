//! Calls that wait: each is put to the user, and the answer handed in.

use loopwright_core::agent::InputError;
use loopwright_core::event::{Decision, ExternalAction};
use serde_json::Value;

use super::{Chat, Done, Stand};
use crate::print;

const ANSWERS: &str = "\
y             run it
n [REASON]    do not run it, and tell the agent why
e [JSON]      run it with these arguments instead
a             run it, and from now on this tool without asking";

impl Chat {
    /// Puts a call to the user, unless its tool was allowed a moment ago.
    pub(super) async fn put(&mut self, action: ExternalAction) -> Done {
        if action.request.is_none() && self.allowed.has(&action.name) {
            return self.decide(action, Decision::Approve).await;
        }
        print::show(&format!("? {}", print::call(&action)));
        self.stand = Stand::Asking(action);
        if self.input_ended {
            self.leave_open();
        } else {
            self.ask_again();
        }
        Ok(())
    }

    /// Asks what is asked, again.
    pub(super) fn ask_again(&self) {
        match &self.stand {
            Stand::Asking(_) => print::ask("Run it? [y]es [n]o [e]dit [a]lways:"),
            Stand::Editing(_) => print::ask("New arguments, as JSON on one line:"),
            Stand::Rest if self.keyboard => print::ask(">"),
            Stand::Rest | Stand::Working => {}
        }
    }

    pub(super) async fn answer(&mut self, action: ExternalAction, word: &str, rest: &str) -> Done {
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
                self.stand = Stand::Editing(action);
                self.ask_again();
                Ok(())
            }
            ("e" | "edit", json) => self.edit(action, json).await,
            _ => {
                print::tell(ANSWERS);
                self.ask_again();
                Ok(())
            }
        }
    }

    pub(super) async fn edit(&mut self, action: ExternalAction, line: &str) -> Done {
        match serde_json::from_str::<Value>(line) {
            Ok(arguments) => self.decide(action, Decision::ApproveWith(arguments)).await,
            Err(why) => {
                print::complain(&format!("The new arguments are not JSON: {why}."));
                self.stand = Stand::Asking(action);
                self.ask_again();
                Ok(())
            }
        }
    }

    /// Hands the decision in. A run goes on from it; one that is refused is asked for again.
    pub(super) async fn decide(&mut self, action: ExternalAction, decision: Decision) -> Done {
        let handed_in =
            self.handle.resolve(action.call.clone(), action.digest.clone(), decision).await;
        match handed_in {
            Ok(_) => self.stand = Stand::Working,
            Err(why @ (InputError::BadArguments(_) | InputError::BadDecision(_))) => {
                print::complain(&format!("This answer was refused: {why}."));
                self.stand = Stand::Asking(action);
                self.ask_again();
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }
}
