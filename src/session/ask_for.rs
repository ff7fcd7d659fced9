//! Values that models answer with: detached requests with a schema, whose replies are read.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::error::StepError;
use crate::message::{AssistantMessage, UserMessage};
use crate::session::Session;
use crate::session::ask::Ask;
use crate::session::ask_all::ask_all;
use crate::session::reply::Reply;

/// A value, or the request that asks for it.
enum Slot<T> {
    Value(T),
    Open(Ask),
}

/// Sends detached requests at the same time and reads their replies. Requests whose replies do not
/// fit the type are sent again with what does not fit, as often as the limits allow.
pub(crate) async fn ask_for_all<T>(
    session: &mut Session,
    asks: Vec<Ask>,
) -> Result<Vec<T>, StepError>
where
    T: DeserializeOwned + JsonSchema + Send,
{
    let keys: Vec<_> = asks.iter().map(|ask| ask.key.clone()).collect();
    let mut slots: Vec<Slot<T>> =
        asks.into_iter().map(|ask| Slot::Open(ask.output::<T>())).collect();
    let retries = session.config.limits.output_retries;
    for attempt in 1.. {
        let open = slots.iter().filter_map(|slot| match slot {
            Slot::Open(ask) => Some(ask.clone()),
            Slot::Value(_) => None,
        });
        let open: Vec<Ask> = open.collect();
        if open.is_empty() {
            break;
        }
        let mut replies = ask_all(session, open).await?.into_iter();
        for (slot, key) in slots.iter_mut().zip(&keys) {
            let Slot::Open(ask) = slot else { continue };
            let reply = replies.next().unwrap_or(Reply::empty(None)).or_end()?;
            *slot = match reply.output::<T>() {
                Ok(value) => Slot::Value(value),
                Err(StepError::Output(why)) if attempt <= retries => {
                    let retry = corrected(ask.clone(), &reply, &why);
                    // Each attempt has its own key, so that the log keeps the reply to each.
                    Slot::Open(match key {
                        Some(key) => retry.key(format!("{key}/{}", attempt + 1)),
                        None => retry,
                    })
                }
                Err(error) => return Err(error),
            };
        }
    }
    let value = |slot| match slot {
        Slot::Value(value) => Some(value),
        Slot::Open(_) => None,
    };
    Ok(slots.into_iter().filter_map(value).collect())
}

/// Returns the request with the reply to it and what does not fit.
fn corrected(mut ask: Ask, reply: &Reply, why: &str) -> Ask {
    let text = reply.text();
    if !text.trim().is_empty() {
        ask = ask.also(AssistantMessage::from(text));
    }
    ask.also(UserMessage::from(format!(
        "{why}\nAnswer again with nothing but JSON that fits the schema."
    )))
}
