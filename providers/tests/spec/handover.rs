//! A conversation that changes to another provider and back, for every ordered pair of APIs.
//!
//! Every request follows the rules of its API. Signatures are sent, byte for byte, only to the
//! provider that made them. Text is sent to all.

mod apis;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::BoxStream;
use loopwright_core::event::RunStatus;
use loopwright_core::model::{ChatRequest, ModelEvent, ModelInfo, ThinkingLevel};
use loopwright_core::tool::Effect;
use loopwright_core::{ChatModel, GenericAgent, ToolError, tool_fn};
use loopwright_patterns::PiPattern;

use self::apis::{APIS, Api};
use crate::server::Server;

/// Two models, one of which is active.
struct Either {
    models: [Box<dyn ChatModel>; 2],
    now: Arc<AtomicUsize>,
}

impl ChatModel for Either {
    fn info(&self) -> &ModelInfo {
        self.models[self.now.load(Ordering::Relaxed)].info()
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        self.models[self.now.load(Ordering::Relaxed)].stream(request)
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City {
    city: String,
}

/// Sends three prompts: to the first model, the second, and the first again. Each is answered with
/// calls and then with text. Returns the six requests.
async fn talk(first: &Api, second: &Api) -> Vec<String> {
    let server = Server::start().await;
    let now = Arc::new(AtomicUsize::new(0));
    let models = [(first.model)(&server.url()), (second.model)(&server.url())];
    let weather = tool_fn("weather", "The weather in a city.", async |args: City, _cx| {
        Ok::<_, ToolError>(format!("{}: dry", args.city))
    });
    let agent = GenericAgent::builder(Either { models, now: now.clone() }, PiPattern)
        .thinking(ThinkingLevel::Low)
        .tool(weather.effect(Effect::ReadOnly))
        .build()
        .unwrap();
    let handle = agent.session().await.unwrap();
    let mut requests = Vec::new();
    for (visit, api) in [first, second, first].into_iter().enumerate() {
        now.store(visit % 2, Ordering::Relaxed);
        let serve = async {
            let mut seen = Vec::new();
            for reply in [(api.calls)(visit), (api.words)(visit)] {
                let mut http = server.accept().await;
                seen.push(std::mem::take(&mut http.raw));
                let headers = "content-type: text/event-stream\r\nconnection: close\r\n";
                http.answer("200 OK", headers, &reply).await;
            }
            seen
        };
        let prompt = format!("question {visit}");
        let (outcome, seen) = tokio::join!(handle.prompt(prompt.as_str()), serve);
        let outcome = outcome.unwrap();
        assert_eq!(
            outcome.end,
            RunStatus::Done,
            "{} then {}: {:?}",
            first.name,
            second.name,
            outcome.error
        );
        requests.extend(seen);
    }
    requests
}

#[tokio::test]
async fn every_request_keeps_the_rules_of_its_api_whichever_model_replied_before() {
    let mut pairs = 0;
    for first in APIS {
        for second in APIS.iter().filter(|second| second.name != first.name) {
            let requests = talk(first, second).await;
            for (at, request) in requests.iter().enumerate() {
                let (visit, api) = (at / 2, [first, second, first][at / 2]);
                let what =
                    format!("request {at} of {} then {}:\n{request}\n", first.name, second.name);
                (api.check)(request.as_bytes()).unwrap_or_else(|why| panic!("{what}{why}"));
                for question in (0..=visit).map(|visit| format!("question {visit}")) {
                    assert!(request.contains(&question), "{what} does not ask {question}");
                }
                // The request contains the text of each earlier visit, and its results.
                for visit in 0..visit {
                    assert!(
                        request.contains(&format!("It is dry in town {visit}.")),
                        "{what} lost the words"
                    );
                    assert!(request.contains(&format!("Lima{visit}: dry")), "{what} lost a result");
                }
                let before = |visit: usize| visit * 2 < at;
                for (visit, speaker) in
                    [first, second, first].into_iter().enumerate().filter(|(v, _)| before(*v))
                {
                    for signature in (speaker.signatures)(visit) {
                        let own = speaker.name == api.name;
                        assert_eq!(
                            request.contains(&signature),
                            own,
                            "{what}{signature} of {}",
                            speaker.name
                        );
                    }
                    let thought = format!("I have to look, {visit}");
                    let foreign = speaker.name != api.name;
                    assert!(
                        !(foreign && request.contains(&thought)),
                        "{what} has the thought of {}",
                        speaker.name
                    );
                }
            }
            pairs += 1;
        }
    }
    assert_eq!(pairs, APIS.len() * (APIS.len() - 1));
}

#[tokio::test]
async fn ids_are_mapped_alike_each_time() {
    for second in APIS {
        let first = APIS.iter().find(|api| api.name != second.name).unwrap();
        let (once, repeated) = (talk(first, second).await, talk(first, second).await);
        let ids =
            |requests: &[String]| requests.iter().map(|r| without_session(r)).collect::<Vec<_>>();
        assert_eq!(ids(&once), ids(&repeated), "{} then {}", first.name, second.name);
    }
}

/// Returns the request without the session's id, which is random.
fn without_session(request: &str) -> serde_json::Value {
    let mut body: serde_json::Value = serde_json::from_str(request).unwrap();
    body.as_object_mut().unwrap().remove("prompt_cache_key");
    body
}
