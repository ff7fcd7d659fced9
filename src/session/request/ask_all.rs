//! Detached requests of a pattern, sent at the same time.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::error::StepError;
use crate::limits::LimitReached;
use crate::log::state::Tail;
use crate::message::MessageKind;
use crate::model::ChatRequest;
use crate::session::Session;
use crate::session::request::ask::Ask;
use crate::session::request::detached::{DetachedRequest, RequestKey, Terms, send_all};
use crate::session::request::estimate::{Needed, estimate};
use crate::session::request::reply::{Reply, ReplyHooks};
use crate::session::request::shown::Speaker;
use crate::session::request::{self, budget};
use crate::tool::toolbox::hex_digest;

/// Several detached requests, which are sent when this is awaited. Built by
/// [`StepContext::ask_all`](crate::StepContext::ask_all).
#[must_use = "the requests are sent when it is awaited"]
pub struct AskAll<'a> {
    session: &'a mut Session,
    asks: Vec<Ask>,
    terms: Terms<'a>,
}

impl<'a> AskAll<'a> {
    pub(crate) fn new(session: &'a mut Session, asks: Vec<Ask>) -> Self {
        AskAll { session, asks, terms: Terms::default() }
    }

    /// Sets the maximum number of requests in progress at once: at least 1, and at most
    /// [`Limits::parallel_requests`](crate::limits::Limits::parallel_requests), the default.
    pub fn at_most(mut self, requests: usize) -> Self {
        self.terms.at_most = requests;
        self
    }

    /// Uses a budget that is too small for all requests for as many as fit, in their order. Without
    /// it, such a budget is an error, and nothing is sent. The replies of the others have the limit
    /// ([`Reply::limit`]), even if none fits.
    pub fn as_many_as_fit(mut self) -> Self {
        self.terms.as_many_as_fit = true;
        self
    }

    /// Ends with the first reply for which `accepts` returns `true`: requests in progress are cut
    /// off, and no others are sent. Their replies are empty, as after a steer. Failed requests are
    /// not passed to `accepts`. With keys, the same reply ends it after a crash.
    ///
    /// ```
    /// use loopwright_core::message::AssistantMessage;
    /// use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Answers with the first reply that is sure.
    /// struct Fastest;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Fastest {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         while !step.all_answered().await? {
    ///             let asks = ["a", "b"].map(|model| Ask::detached().model(model).once(model));
    ///             let is_sure = |reply: &loopwright_core::Reply| !reply.text().contains('?');
    ///             let replies = step.ask_all(asks).until(is_sure).await?;
    ///             let Some(reply) = replies.into_iter().find(is_sure) else {
    ///                 return Err(StepError::Pattern("nobody is sure".into()));
    ///             };
    ///             step.remember(AssistantMessage::from(reply.or_end()?.text())).await?;
    ///         }
    ///         Ok(StepEnd::Done)
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::testing::{Harness, Script, ScriptedModel};
    /// # let slow = ScriptedModel::new([Script::text("Four?"), Script::new().hang()]);
    /// # let fast = ScriptedModel::new([Script::text("Four.")]);
    /// # let harness = Harness::new(Fastest, [], |agent| {
    /// #     agent.model_named("a", slow).model_named("b", fast)
    /// # });
    /// # assert_eq!(harness.await.handle.prompt("2 + 2?").await.unwrap().text, "Four.");
    /// # }
    /// ```
    pub fn until(mut self, accepts: impl Fn(&Reply) -> bool + Send + Sync + 'a) -> Self {
        self.terms.until = Some(Box::new(accepts));
        self
    }
}

impl<'a> IntoFuture for AskAll<'a> {
    type Output = Result<Vec<Reply>, StepError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ask_all(self.session, self.asks, self.terms).boxed()
    }
}

/// Sends detached requests at the same time, and returns their replies in the same order. A request
/// is not sent if the log has its reply under its key.
pub(crate) async fn ask_all(
    session: &mut Session,
    asks: Vec<Ask>,
    terms: Terms<'_>,
) -> Result<Vec<Reply>, StepError> {
    let before = session.journal.state.info.entries;
    session.receive_all().await?;
    session.check_batch_closed()?;
    check_keys(&asks)?;
    let mut replies: Vec<Option<Reply>> = Vec::with_capacity(asks.len());
    let mut requests = Vec::new();
    for ask in asks {
        let recorded =
            ask.key.as_ref().and_then(|key| session.journal.state.keyed_replies.get(key));
        if ask.key_decides
            && let Some((_, message)) = recorded
        {
            replies.push(Some(Reply::of(message.clone())));
            continue;
        }
        let answers_conversation = ask.messages.is_none() && ask.also.is_empty();
        if answers_conversation && session.tail() != Tail::Answerable {
            return Err(StepError::NothingToAnswer);
        }
        let model = session.config.model(ask.profile.model.as_deref())?.clone();
        let request = request::build(session, &ask).await?;
        if answers_conversation && session.may_convert_last() && !request::is_answerable(&request) {
            return Err(StepError::NothingToAnswer);
        }
        let name = ask.shown.as_ref().or(ask.profile.shown.as_ref());
        let speaker = name.cloned().map(|name| {
            let layers = session.config.hooks.and(&ask.profile.hooks);
            Speaker { name, hooks: ReplyHooks { layers, cx: session.hook_context() } }
        });
        let key = ask.key.map(|key| RequestKey { key, digest: digest(&model.info().id, &request) });
        let recorded = key.as_ref().and_then(|RequestKey { key, digest }| {
            let (then, message) = session.journal.state.keyed_replies.get(key)?;
            (then == digest).then(|| message.clone())
        });
        if recorded.is_none() {
            let needed = estimate(session, model.info(), &request);
            requests.push(DetachedRequest { model, request, needed, key, speaker });
        }
        replies.push(recorded.map(Reply::of));
    }
    let is_met = replies.iter().flatten().any(|reply| terms.are_met_by(reply));
    if is_met || session.is_interrupted(before) {
        return Ok(replies.into_iter().map(|r| r.unwrap_or(Reply::empty(None))).collect());
    }
    let unsent = requests.len();
    let sent = match fit(session, &mut requests, terms.as_many_as_fit) {
        Err(why) => Err(why),
        Ok(limit) => send_all(session, requests, &terms).await.map(|mut sent| {
            sent.resize(unsent, limit.map_or(Reply::empty(None), Reply::not_sent));
            sent
        }),
    };
    let sent = match sent {
        // The replies of an earlier attempt are paid for.
        Err(StepError::Limit(limit)) if replies.iter().any(Option::is_some) => {
            vec![Reply::not_sent(limit); unsent]
        }
        sent => sent?,
    };
    let mut sent = sent.into_iter();
    let mut or_sent = |reply: Option<Reply>| reply.or_else(|| sent.next());
    Ok(replies.into_iter().map(|reply| or_sent(reply).unwrap_or(Reply::empty(None))).collect())
}

/// Checks that the budget is large enough for all requests, which are reserved before the first is
/// sent. If only the first ones need to fit, removes the others, and returns the limit.
fn fit(
    session: &Session,
    requests: &mut Vec<DetachedRequest>,
    as_many_as_fit: bool,
) -> Result<Option<LimitReached>, StepError> {
    let (mut needed, mut turns, mut fitting) = (Needed::default(), 0, requests.len());
    for (at, request) in requests.iter().enumerate() {
        budget::check_prices(session, request.model.info())?;
        needed.input.add(request.needed.input);
        needed.output = request.needed.output; // they can be sent one after the other
        turns += 1;
        if as_many_as_fit && budget::check(session, turns, needed).is_err() {
            fitting = at;
            break;
        }
    }
    let checked = (turns > 0).then(|| budget::check(session, turns, needed));
    match checked {
        Some(Err(StepError::Limit(limit))) if as_many_as_fit => {
            requests.truncate(fitting);
            Ok(Some(limit))
        }
        Some(Err(why)) => Err(why),
        _ => Ok(None),
    }
}

/// Fails unless all requests are detached and no two have the same key.
fn check_keys(asks: &[Ask]) -> Result<(), StepError> {
    for (at, ask) in asks.iter().enumerate() {
        if !ask.detached {
            return Err(StepError::NotDetached);
        }
        if let Some(key) = ask.key.as_ref()
            && asks[..at].iter().any(|other| other.key.as_ref() == Some(key))
        {
            return Err(StepError::KeyTaken { key: key.clone(), by: "another request".into() });
        }
    }
    Ok(())
}

/// Returns a digest of the request, including the model.
fn digest(model: &str, request: &ChatRequest) -> Arc<str> {
    let ChatRequest { system, messages, tools, output, max_tokens, temperature, stop, .. } =
        request;
    let bodies: Vec<&MessageKind> = messages.iter().map(|message| &message.body).collect();
    let tools: Vec<&Arc<str>> = tools.iter().map(|spec| &spec.name).collect();
    let options = (&request.tool_choice, request.thinking, output, max_tokens, temperature, stop);
    let text = serde_json::to_string(&(model, system, bodies, tools, options));
    hex_digest(&text.unwrap_or_default())
}
