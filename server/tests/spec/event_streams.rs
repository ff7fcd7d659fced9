//! One stream with the events of several sessions, whose client changes the choice of sessions.
//! Each feed has the frames that a stream of its own would have.

use std::collections::BTreeMap;
use std::time::Duration;

use loopwright_core::testing::{Gate, Script};
use serde_json::{Value, json};

use crate::api::{Api, Reader};

/// A client of one stream: its id, and the frames received, by feed.
struct Stream {
    id: String,
    reader: Reader,
    frames: BTreeMap<String, Vec<Value>>,
}

impl Stream {
    async fn open(api: &Api, follow: Value) -> Stream {
        let mut reader = api.stream("/api/events", json!({ "follow": follow })).await;
        let first = reader.next().await.unwrap();
        assert_eq!((first.event.as_str(), &first.data["type"]), ("stream", &json!("stream")));
        let id = first.data["stream"].as_str().unwrap().to_owned();
        Stream { id, reader, frames: BTreeMap::new() }
    }

    async fn change(&self, api: &Api, change: Value) -> (u16, Value) {
        api.post(&format!("/api/events/{}", self.id), change).await
    }

    /// Reads until `feed` has received a frame of this type, and returns it.
    async fn until(&mut self, feed: &str, kind: &str) -> Value {
        loop {
            let frame = self.reader.next().await.unwrap_or_else(|| panic!("{:#?}", self.frames));
            assert_eq!(frame.event, frame.data["type"]);
            let to = frame.data["feed"].as_str().unwrap_or_default();
            self.frames.entry(to.to_owned()).or_default().push(frame.data.clone());
            let event = &frame.data["event"]["type"];
            if to == feed && (frame.data["type"] == kind || event == kind) {
                return frame.data;
            }
        }
    }

    /// Returns the events of a feed, with their numbers.
    fn events(&self, feed: &str) -> Vec<(Option<u64>, Value)> {
        let events = self.frames[feed].iter().filter(|frame| frame["type"] == "event");
        events.map(|frame| (frame["id"].as_u64(), frame["event"].clone())).collect()
    }
}

async fn own_stream(api: &Api, session: &str, after: Option<u64>) -> Vec<(Option<u64>, Value)> {
    let frames = api.events(session, after).await.until("agent_end").await;
    frames.into_iter().map(|frame| (frame.id, frame.data)).collect()
}

/// C205: They are equal, from any number on, even during a reply.
#[tokio::test(start_paused = true)]
async fn each_feed_has_what_a_stream_of_its_own_has() {
    let gate = Gate::new();
    let streaming = Script::new().say("Th").gate(&gate);
    let texts = ["One.", "Two."].map(Script::text);
    let api = Api::new(texts.into_iter().chain([streaming, Script::text("Four.")]));
    let [a, b] = [api.session(json!({})).await, api.session(json!({})).await];
    for session in [&a, &b] {
        api.say(session, "Count.").await;
        api.run(session, None).await;
    }
    let follow = json!([{ "feed": "first", "session": a }, { "feed": "second", "session": b }]);
    let mut stream = Stream::open(&api, follow).await;
    stream.until("first", "agent_end").await;
    if !stream
        .frames
        .get("second")
        .is_some_and(|frames| frames.iter().any(|frame| frame["event"]["type"] == "agent_end"))
    {
        stream.until("second", "agent_end").await;
    }
    assert_eq!(stream.events("first"), own_stream(&api, &a, None).await);
    assert_eq!(stream.events("second"), own_stream(&api, &b, None).await);
    assert_eq!(stream.frames["first"][0]["type"], "open");

    // A streaming reply is followed from its start, even by a feed that is added meanwhile.
    api.say(&a, "Go on.").await;
    stream.until("first", "message_update").await;
    let last = stream.events("first").iter().filter_map(|(id, _)| *id).max().unwrap();
    let third = json!({ "feed": "third", "session": a, "after": last });
    let change = json!({ "follow": [third], "unfollow": ["second"] });
    assert_eq!(stream.change(&api, change).await.0, 204);
    // The first event withdraws the part of the reply that the client may have seen.
    assert_eq!(stream.until("third", "message_update").await["event"]["kind"], "withdrawn");
    assert_eq!(stream.until("third", "message_update").await["event"]["delta"], "Th");
    gate.open();
    stream.until("third", "agent_end").await;
    let third = stream.events("third");
    assert_eq!(third[0].0, None, "the start of a reply that is in progress");
    assert_eq!(third.iter().filter_map(|(id, _)| *id).next(), Some(last + 1));
    let numbered = |events: Vec<(Option<u64>, Value)>| {
        let numbered = events.into_iter().filter(|(id, _)| id.is_some());
        // The log does not have the time of each event.
        let timeless = |(id, mut event): (Option<u64>, Value)| {
            event["time"].take();
            (id, event)
        };
        numbered.map(timeless).collect::<Vec<_>>()
    };
    assert_eq!(numbered(third), numbered(own_stream(&api, &a, Some(last)).await));
    // No frames came for the ended feed, and nobody follows its session.
    let second = stream.frames["second"].len();
    api.say(&b, "Go on.").await;
    assert!(
        tokio::time::timeout(Duration::from_secs(5), stream.until("second", "event"))
            .await
            .is_err()
    );
    assert_eq!(stream.frames["second"].len(), second);
}

/// C205: A feed that fails is answered with an error, and can be followed again.
#[tokio::test(start_paused = true)]
async fn a_feed_that_fails_does_not_end_the_others() {
    let api = Api::new([Script::text("One.")]);
    let id = api.session(json!({})).await;
    let follow = json!([
        { "feed": "missing", "session": "nobody" },
        { "feed": "late", "session": id, "after": 99 },
        { "feed": "good", "session": id },
    ]);
    let mut stream = Stream::open(&api, follow).await;
    assert_eq!(stream.until("missing", "error").await["error"]["kind"], "not_found");
    assert_eq!(stream.until("late", "error").await["error"]["kind"], "after_the_end");
    api.say(&id, "Count.").await;
    stream.until("good", "agent_end").await;
    // The name is free once more.
    let earlier = json!({ "follow": [{ "feed": "late", "session": id, "after": 1 }] });
    assert_eq!(stream.change(&api, earlier).await.0, 204);
    stream.until("late", "agent_end").await;
    assert_eq!(stream.events("late")[0].0, Some(2));

    let many: Vec<Value> =
        (0..1_000).map(|n| json!({ "feed": format!("f{n}"), "session": id })).collect();
    assert_eq!(stream.change(&api, json!({ "follow": many })).await.0, 204);
    assert_eq!(stream.until("f998", "error").await["error"]["kind"], "too_many");

    let id = stream.id.clone();
    drop(stream);
    let (status, body) = api.post(&format!("/api/events/{id}"), json!({})).await;
    assert_eq!((status, &body["error"]["kind"]), (404, &json!("not_found")), "{body}");
}

#[tokio::test(start_paused = true)]
async fn wrong_changes_are_refused() {
    let api = Api::new([]);
    for (follow, path) in [
        (json!([{ "feed": "", "session": "a" }]), "/follow/0/feed"),
        (json!([{ "feed": "x".repeat(101), "session": "a" }]), "/follow/0/feed"),
        (json!([{ "feed": "f" }]), "/follow/0/session"),
        (json!(vec![json!({ "feed": "f", "session": "a" }); 1_001]), "/follow"),
    ] {
        let (status, body) = api.post("/api/events", json!({ "follow": follow })).await;
        assert_eq!(status, 400, "{body}");
        assert!(body["error"]["path"].as_str().unwrap().starts_with("/follow"), "{path}: {body}");
    }
}

/// C111: The readers of such a stream are informed of a shutdown.
#[tokio::test(start_paused = true)]
async fn a_shutdown_is_announced_once_and_ends_the_stream() {
    let api = Api::new([]);
    let [a, b] = [api.session(json!({})).await, api.session(json!({})).await];
    let follow = json!([{ "feed": "a", "session": a }, { "feed": "b", "session": b }]);
    let mut stream = Stream::open(&api, follow).await;
    for _ in 0..2 {
        assert_eq!(stream.reader.next().await.unwrap().event, "open");
    }
    api.drain(Duration::from_secs(1)).await;
    assert_eq!(stream.reader.next().await.unwrap().event, "draining");
    assert!(stream.reader.next().await.is_none());
    let (status, _) = api.post("/api/events", json!({})).await;
    assert_eq!(status, 503);
}
