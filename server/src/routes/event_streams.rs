//! `/api/events`: the events of several sessions in one stream, with a choice of sessions that the
//! client can change.
//!
//! A browser opens six connections to an origin over HTTP/1.1, so the tabs of the page share one
//! stream. Each feed is like a stream of its own: the client chooses its start, and its end does
//! not end the others.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use futures::stream::{self, BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::access::{Caller, Read, check_session};
use crate::error::{ApiError, ErrorKind};
use crate::json::JsonBody;
use crate::server::Server;
use crate::streams::encoded_events::EncodedEvent;
use crate::streams::event_streams::{Change, ChangeableStream, Follow};
use crate::streams::feed::Feed;
use crate::streams::sse_frames::{DrainedFrames, SseFrame};

/// Maximum number of feeds of a stream.
const MAX_FEEDS: usize = 1_000;
/// Maximum number of feeds of a stream that are opened at a time.
const MAX_OPENING: usize = 8;
/// Maximum length of the name of a feed, in characters.
const MAX_FEED_CHARS: usize = 100;

/// The data of a frame.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum StreamFrame {
    /// The first frame: the id for changing the stream.
    Stream { stream: Arc<str> },
    /// The feed is open. Its events follow.
    Open { feed: Arc<str> },
    /// An event of the feed's session, or of a sub-agent.
    Event {
        feed: Arc<str>,
        /// The number of the event, to continue after it; missing if the event has no number of its
        /// own.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        event: EncodedEvent,
    },
    /// The feed could not be opened.
    Error { feed: Arc<str>, error: ApiError },
    /// The feed has ended, because the session was closed or the client reads too slowly. Follow
    /// the session again, after the last number.
    End { feed: Arc<str> },
    /// The server shuts down.
    Draining,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/events", post(open)).route("/api/events/{stream}", post(change))
}

async fn open(
    State(server): State<Server>,
    caller: Caller,
    JsonBody(first): JsonBody<Change>,
) -> Result<Response, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    check(&first)?;
    let mut feeds = Feeds {
        source: shared.event_streams.open(),
        server: server.clone(),
        caller,
        frames: SelectAll::new(),
        open: HashMap::new(),
        opening: Arc::new(Semaphore::new(MAX_OPENING)),
    };
    let start = StreamFrame::Stream { stream: feeds.source.id.clone() };
    feeds.apply(first);
    let next = async |mut feeds: Feeds| {
        let frame = feeds.next().await?;
        Some((frame.encoded(), feeds))
    };
    let start = stream::iter([start.encoded()]);
    let frames = Box::pin(start.chain(stream::unfold(feeds, next)));
    Ok(DrainedFrames::new(shared, frames, StreamFrame::Draining.encoded()).response())
}

async fn change(
    State(server): State<Server>,
    stream: Result<Path<String>, PathRejection>,
    JsonBody(change): JsonBody<Change>,
) -> Result<StatusCode, ApiError> {
    check(&change)?;
    let id = stream.map_or(String::new(), |Path(id)| id); // an invalid id matches nothing
    server.shared().event_streams.change(&id, change)?;
    Ok(StatusCode::NO_CONTENT)
}

fn check(change: &Change) -> Result<(), ApiError> {
    for (at, follow) in change.follow.iter().enumerate() {
        if follow.feed.is_empty() || follow.feed.chars().count() > MAX_FEED_CHARS {
            let why = format!("The name of a feed has between 1 and {MAX_FEED_CHARS} characters.");
            return Err(ApiError::at(format!("/follow/{at}/feed"), why));
        }
    }
    match change.follow.len() <= MAX_FEEDS {
        true => Ok(()),
        false => Err(ApiError::at("/follow", too_many())),
    }
}

fn too_many() -> String {
    format!("A stream has at most {MAX_FEEDS} feeds: open another stream.")
}

/// The feeds of a stream.
struct Feeds {
    source: ChangeableStream,
    server: Server,
    /// The caller, whose rights decide which sessions can be read.
    caller: Caller,
    frames: SelectAll<BoxStream<'static, StreamFrame>>,
    /// The feeds that have not ended. Dropping the guard ends one.
    open: HashMap<Arc<str>, DropGuard>,
    /// One permit for each feed that is being opened.
    opening: Arc<Semaphore>,
}

impl Feeds {
    /// Returns the next frame.
    async fn next(&mut self) -> Option<StreamFrame> {
        loop {
            tokio::select! {
                change = self.source.changes.recv() => self.apply(change?),
                Some(frame) = self.frames.next() => {
                    if let StreamFrame::Error { feed, .. } | StreamFrame::End { feed } = &frame {
                        self.open.remove(feed);
                    }
                    return Some(frame);
                }
            }
        }
    }

    fn apply(&mut self, change: Change) {
        for feed in change.unfollow {
            self.open.remove(&feed);
        }
        for follow in change.follow {
            let feed = follow.feed.clone();
            self.open.remove(&feed);
            if self.open.len() >= MAX_FEEDS {
                let error = ApiError::new(ErrorKind::TooMany, too_many());
                let frame = StreamFrame::Error { feed, error };
                self.frames.push(Box::pin(stream::iter([frame])));
                continue;
            }
            let end = CancellationToken::new();
            let frames =
                frames(self.server.clone(), self.caller.clone(), follow, self.opening.clone());
            self.frames.push(Box::pin(frames.take_until(end.clone().cancelled_owned())));
            self.open.insert(feed, end.drop_guard());
        }
    }
}

/// Returns all frames of a feed.
fn frames(
    server: Server,
    caller: Caller,
    follow: Follow,
    opening: Arc<Semaphore>,
) -> impl Stream<Item = StreamFrame> {
    let opened = async move {
        let start = follow.start();
        let Follow { feed, session, tree, .. } = follow;
        let _permit = opening.acquire().await;
        let opened = async {
            check_session::<Read>(&server, &caller, &session).await?;
            Feed::open(&server, &session, start, tree).await
        };
        match opened.await {
            Ok(events) => {
                let first = StreamFrame::Open { feed: feed.clone() };
                stream::iter([first]).chain(events_of(feed, events)).boxed()
            }
            Err(error) => stream::iter([StreamFrame::Error { feed, error }]).boxed(),
        }
    };
    stream::once(opened).flatten()
}

fn events_of(feed: Arc<str>, events: Feed) -> impl Stream<Item = StreamFrame> + Send {
    let last = stream::iter([StreamFrame::End { feed: feed.clone() }]);
    let next = move |mut events: Feed| {
        let feed = feed.clone();
        async move {
            let (id, event) = events.next().await?;
            Some((StreamFrame::Event { feed, id, event }, events))
        }
    };
    stream::unfold(events, next).chain(last)
}

impl StreamFrame {
    fn encoded(&self) -> SseFrame {
        let name = match self {
            StreamFrame::Stream { .. } => "stream",
            StreamFrame::Open { .. } => "open",
            StreamFrame::Event { feed, id, event } => return event_frame(feed, *id, event),
            StreamFrame::Error { .. } => "error",
            StreamFrame::End { .. } => "end",
            StreamFrame::Draining => "draining",
        };
        SseFrame::new(Some(name), self)
    }
}

/// Returns the frame of an event. It shares the JSON of the event.
fn event_frame(feed: &str, id: Option<u64>, event: &EncodedEvent) -> SseFrame {
    let id = id.map(|id| format!("\"id\":{id},")).unwrap_or_default();
    let before = format!("{{\"type\":\"event\",\"feed\":{},{id}\"event\":", json!(feed));
    SseFrame::around("event", event.json.clone(), (&before, "}"), None)
}

#[cfg(test)]
mod tests {
    use loopwright_core::AgentEvent;
    use loopwright_core::event::Envelope;
    use loopwright_core::message::{MessageId, RunId};
    use loopwright_core::model::Update;

    use super::*;
    use crate::streams::encoded_events::EncodedEvents;

    /// C278: The frame conforms to its schema.
    #[test]
    fn a_frame_around_the_json_of_an_event_is_the_whole_frame() {
        let update = Update::Text { block: 0, delta: "\"x\"".into() };
        let event = AgentEvent::MessageUpdate { message_id: MessageId(1), update };
        let event = Arc::new(Envelope::new(3, "s", RunId(1), 1, event));
        let event = EncodedEvents::default().encode(event).unwrap();
        for id in [Some(3), None] {
            let frame = StreamFrame::Event { feed: "a \"feed\"".into(), id, event: event.clone() };
            let whole = SseFrame::new(Some("event"), &frame);
            assert_eq!(format!("{:?}", frame.encoded()), format!("{whole:?}"));
        }
    }
}
