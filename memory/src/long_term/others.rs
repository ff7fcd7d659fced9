//! Removal of facts about other principals from requests: results of `recall_facts`.

use std::sync::Arc;

use loopwright_core::message::{Content, MessageKind};
use loopwright_core::{Message, Principal, hex};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The name of the tool that returns facts.
pub(super) const RECALL: &str = "recall_facts";

/// The field of a result's details with the digest of the principal that its facts are about.
const ABOUT: &str = "about";

/// The text that replaces a result.
const HIDDEN: &str = "Left out: these are facts about another user.";

/// Returns the details for a result with facts about a principal.
pub(super) fn mark(principal: &Principal) -> Value {
    json!({ ABOUT: digest(principal) })
}

/// Returns the messages without facts about other principals than this one, or `None` if they have
/// no such facts.
pub(super) fn without_facts_of_others(
    messages: &[Arc<Message>],
    principal: Option<&Principal>,
) -> Option<Vec<Arc<Message>>> {
    let own = principal.map(digest);
    let is_of_other = |message: &Message| {
        let details = message.as_tool_result().and_then(|result| result.details.as_deref());
        let about = details.and_then(|details| details[ABOUT].as_str());
        message.as_tool_result().is_some_and(|result| &*result.name == RECALL)
            && about.is_some_and(|about| Some(about) != own.as_deref())
    };
    if !messages.iter().any(|message| is_of_other(message)) {
        return None;
    }
    let hide = |message: &Arc<Message>| match &message.body {
        MessageKind::ToolResult(result) if is_of_other(message) => {
            let mut result = result.clone();
            result.content = vec![Content::text(HIDDEN)];
            Arc::new(Message::new(message.id, result))
        }
        _ => message.clone(),
    };
    Some(messages.iter().map(hide).collect())
}

fn digest(principal: &Principal) -> String {
    hex::encode(&Sha256::digest(principal.as_str()))
}
