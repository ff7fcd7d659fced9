//! Questions to the user of an editor: decisions on pending actions.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use loopwright_core::event::{Decision, ExternalAction, change_digest};
use loopwright_core::{Environment, SystemEnvironment};
use loopwright_protocols::acp::{Answer, Permission, diffs, form, read_form, text_content};
use serde_json::{Value, json};

use super::client::Client;
use super::open::Opened;
use crate::terms;

/// The reason given to the model for a question that the editor cannot show.
const CANNOT_ASK: &str = "the user's editor cannot show this question: ask it in your answer";

/// A question to the user about an action, which resolves to the answer. The text is the digest of
/// the change that was shown, if one was.
pub(super) type Asking = BoxFuture<'static, (ExternalAction, Answer, Option<Arc<str>>)>;

/// Asks for a decision on a pending action. `protected` says why the file that it changes is
/// protected; `can_always` offers to allow all later calls of the tool.
pub(super) async fn ask(
    opened: &mut Opened,
    client: &Arc<Client>,
    action: ExternalAction,
    protected: Option<String>,
    can_always: bool,
) -> Asking {
    let (client, session) = (client.clone(), opened.session.name.clone());
    let question = action.question();
    if client.has_forms() && question.as_ref().is_some_and(|question| !question.is_secret()) {
        let fill_in = async move {
            let answer = fill_in(&client, &session, &action).await;
            (action, answer, None)
        };
        return fill_in.boxed();
    }
    let preview = opened.built.previews.of(&action).await;
    let change = preview.as_ref().ok().and_then(|shown| shown.as_deref()).map(change_digest);
    let content = content(opened, &action, preview, protected);
    let root = &opened.built.root;
    let Some(permission) = Permission::new(&action, root, content, can_always) else {
        let answer = match question {
            Some(_) => Answer::Decision(Decision::Deny(CANNOT_ASK.into())),
            None => Answer::Dismissed, // it waits for another system
        };
        return async move { (action, answer, None) }.boxed();
    };
    let ask = async move {
        let response =
            client.request("session/request_permission", permission.params(&session)).await;
        let answer = match response {
            Ok(response) => permission.answer(&response),
            Err(why) => Answer::Invalid(why.message),
        };
        (action, answer, change)
    };
    ask.boxed()
}

/// Returns the content shown with a call: the change that it would make, and further facts for the
/// approver.
fn content(
    opened: &mut Opened,
    action: &ExternalAction,
    preview: Result<Option<String>, String>,
    protected: Option<String>,
) -> Vec<Value> {
    let (diffs, why) = match preview {
        Ok(unified) => (diffs(&opened.built.root, &unified.unwrap_or_default()), None),
        Err(why) => (Vec::new(), Some(why)),
    };
    opened.updates.shown(&action.call, &diffs);
    let lines = terms::lines(action, SystemEnvironment.now());
    let lines = lines.into_iter().chain(protected).chain(why);
    diffs.iter().map(|diff| json!(diff)).chain(lines.map(|line| text_content(&line))).collect()
}

/// Shows the question of an action as a form until the answer is valid.
async fn fill_in(client: &Client, session: &str, action: &ExternalAction) -> Answer {
    let mut why = None;
    while let Some(question) = action.question()
        && let Some(form) = form(session, action, &question, why.as_deref())
        && let Ok(response) = client.request("elicitation/create", form).await
    {
        match read_form(&question, &response) {
            Answer::Invalid(wrong) => why = Some(wrong),
            answer => return answer,
        }
    }
    Answer::Dismissed
}
