//! Typed answers of models: detached requests with a schema, whose replies are parsed.

use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::error::StepError;
use crate::message::{AssistantMessage, UserMessage};
use crate::session::lent::Lent;
use crate::session::request::ask::Ask;
use crate::session::request::ask_all::ask_all;
use crate::session::request::detached::Terms;
use crate::session::request::reply::Reply;

/// Sends detached requests at the same time and parses their replies. A request whose reply does
/// not fit the type is sent again with the error, as often as the limits allow.
pub(crate) async fn ask_for_all<T>(
    session: &mut Lent<'_>,
    asks: Vec<Ask>,
) -> Result<Vec<T>, StepError>
where
    T: DeserializeOwned + JsonSchema + Send,
{
    let keys: Vec<_> = asks.iter().map(|ask| ask.key.clone()).collect();
    let mut values: Vec<Option<T>> = asks.iter().map(|_| None).collect();
    let mut open: Vec<(usize, Ask)> =
        asks.into_iter().map(|ask| ask.output::<T>()).enumerate().collect();
    let retries = session.config.limits.output_retries;
    for attempt in 1.. {
        if open.is_empty() {
            break;
        }
        let asks = open.iter().map(|(_, ask)| ask.clone()).collect();
        let replies = ask_all(session, asks, Terms::default()).boxed().await?;
        let mut rejected = Vec::new();
        for ((at, ask), reply) in open.into_iter().zip(replies) {
            let reply = reply.or_end()?;
            match reply.output::<T>() {
                Ok(value) => values[at] = Some(value),
                Err(StepError::Output(why)) if attempt <= retries => {
                    let retry = corrected(ask, &reply, &why);
                    // Each attempt has its own key, so that the log keeps all replies.
                    let retry = match &keys[at] {
                        Some(key) => {
                            let decides = retry.key_decides;
                            let retry = retry.key(format!("{key}/{}", attempt + 1));
                            Ask { key_decides: decides, ..retry }
                        }
                        None => retry,
                    };
                    rejected.push((at, retry));
                }
                Err(error) => return Err(error),
            }
        }
        open = rejected;
    }
    Ok(values.into_iter().flatten().collect())
}

/// Returns the request, extended by its reply and the error.
fn corrected(mut ask: Ask, reply: &Reply, why: &str) -> Ask {
    let text = reply.text();
    if !text.trim().is_empty() {
        ask = ask.also(AssistantMessage::from(text));
    }
    ask.also(UserMessage::from(format!(
        "{why}\nAnswer again with nothing but JSON that fits the schema."
    )))
}
