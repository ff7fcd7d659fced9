//! Detached replies that are shown: in the stream, the history and the log.

use std::collections::BTreeMap;

use loopwright_core::log::InMemoryStore;

use crate::kit::*;

/// Two speakers, who talk at the same time, then an answer.
fn debate() -> impl BehaviorPattern + Clone + 'static {
    #[derive(Clone)]
    struct Debate;
    #[async_trait::async_trait]
    impl BehaviorPattern for Debate {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            let asks = ["pro", "contra"].map(|name| {
                let speak = UserMessage::from(format!("Speak, {name}."));
                Ask::detached().model(name).shown(name).also(speak).once(name)
            });
            step.ask_all(asks).await?;
            step.take_messages().await?;
            step.ask().await?.finish()
        }
    }
    Debate
}

/// Returns the speakers' models: their words come one by one, and alternate.
fn speakers(agent: AgentBuilder) -> AgentBuilder {
    ["pro", "contra"].into_iter().fold(agent, |agent, name| {
        let words = (1..4).map(move |word| format!("{name}{word} "));
        let model = ScriptedModel::new([]).default_reply(Script::new().stream(words, ms(2)));
        agent.model_named(name, model)
    })
}

async fn harness() -> Harness {
    Harness::new(debate(), ["Both.", "Again."].map(Script::text), speakers).await
}

/// The detached replies on the screen of a front end.
#[derive(Debug, Default, Clone, PartialEq)]
struct Screen {
    streaming: BTreeMap<MessageId, String>,
    whole: Vec<String>,
}

impl Screen {
    fn see(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::DetachedUpdate { message_id, update: Update::Withdrawn, .. } => {
                drop(self.streaming.remove(message_id))
            }
            AgentEvent::DetachedUpdate { message_id, speaker, update, .. } => {
                let Update::Text { delta, .. } = update else { panic!("{update:?}") };
                let new = || format!("{speaker}: ");
                self.streaming.entry(*message_id).or_insert_with(new).push_str(delta);
            }
            AgentEvent::MessageEnd { message } => {
                let MessageKind::Detached(shown) = &message.body else { return };
                let text = format!("{}: {}", shown.speaker, shown.reply.text());
                let streamed = self.streaming.remove(&message.id);
                assert_eq!(streamed.unwrap_or(text.clone()), text);
                self.whole.push(text);
            }
            _ => {}
        }
    }

    fn of(events: &[Arc<Envelope>]) -> Self {
        let mut screen = Self::default();
        events.iter().for_each(|event| screen.see(&event.event));
        screen
    }
}

const SPOKEN: [&str; 2] = ["pro: pro1 pro2 pro3 ", "contra: contra1 contra2 contra3 "];

const TRANSCRIPT: [&str; 4] =
    ["U:Why?", "D:pro: pro1 pro2 pro3 ", "D:contra: contra1 contra2 contra3 ", "A:Both./Stop"];

fn is_update(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::DetachedUpdate { .. })
}

/// C522: Replies that are shown stream at the same time, each under the name of its speaker. They
/// stand in the history, and no request contains them.
#[tokio::test(start_paused = true)]
async fn shown_replies_stream_and_stand_in_the_history_but_in_no_request() {
    let mut harness = harness().await;
    send(&harness, "Why?").await;
    let events = harness.run_end().await;
    check_events(&events).unwrap();
    let speakers = events.iter().filter_map(|event| match &event.event {
        AgentEvent::DetachedUpdate { speaker, .. } => Some(&**speaker),
        _ => None,
    });
    assert_eq!(speakers.collect::<Vec<_>>(), ["pro", "contra", "pro", "contra", "pro", "contra"]);
    assert_eq!(Screen::of(&events).whole, SPOKEN);
    assert_eq!(harness.transcript().await, TRANSCRIPT);
    assert_eq!(sent(&harness, 0), ["Why?"]);
    harness.handle.prompt("And now?").await.unwrap();
    assert_eq!(sent(&harness, 1), ["Why?", "Both.", "And now?"]);
    harness.check().await;
    // A reader of the log, and a session that is opened again, show the same.
    let logged = SessionLog::events("s", &harness.memory.entries());
    let logged: Vec<_> = logged.into_iter().map(Arc::new).collect();
    assert_eq!(Screen::of(&logged).whole, [SPOKEN, SPOKEN].concat());
    let harness = harness.restart().await;
    assert_eq!(harness.transcript().await[..4], TRANSCRIPT);
}

/// C522: Hooks that change the conversation do not get them, not even after a rewind.
#[tokio::test(start_paused = true)]
async fn hooks_get_no_shown_replies() {
    let seen: Arc<std::sync::Mutex<Vec<Vec<String>>>> = Arc::default();
    let kept = seen.clone();
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let point = step.checkpoint();
            step.ask().await?.or_end()?;
            let ask = Ask::detached().model("pro").shown("pro").also(UserMessage::from("So?"));
            step.ask_with(ask).await?.or_end()?;
            step.rewind(point).await?;
            step.ask().await?.finish()
        })
    });
    let harness = Harness::new(pattern, ["One.", "Two."].map(Script::text), move |agent| {
        speakers(agent).convert_to_llm(move |_, messages: Vec<Arc<Message>>| {
            let texts = messages.iter().map(|message| message.text()).collect();
            kept.lock().unwrap().push(texts);
            messages
        })
    })
    .await;
    harness.handle.prompt("Why?").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [vec!["Why?"], vec!["Why?", "One."], vec!["Why?"]]);
    assert_eq!(
        harness.transcript().await,
        ["U:Why?", "A:One./Stop", "D:pro: pro1 pro2 pro3 ", "A:Two./Stop"]
    );
    harness.check().await;
}

/// C522: A request that is not detached cannot be shown, and one that is not shown stays silent.
#[tokio::test(start_paused = true)]
async fn only_detached_requests_are_shown() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let joined = step.ask_with(Ask::new().shown("me")).await;
            assert!(matches!(joined, Err(StepError::NotDetached)), "{joined:?}");
            step.ask_with(Ask::detached().model("pro")).await?.or_end()?;
            step.ask().await?.finish()
        })
    });
    let mut harness = Harness::new(pattern, [Script::text("Yes.")], speakers).await;
    send(&harness, "Why?").await;
    let events = harness.run_end().await;
    assert!(!events.iter().any(|event| is_update(&event.event)));
    assert_eq!(harness.transcript().await, ["U:Why?", "A:Yes./Stop"]);
}

/// C522: A profile shows the detached requests of a role, and changes no other.
#[tokio::test(start_paused = true)]
async fn a_profile_shows_detached_requests() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let role = Profile::new().model("pro").shown("critic");
            step.ask_with(Ask::detached().profile(&role)).await?.or_end()?;
            let mut part = step.with_profile(Profile::new().shown("inner"));
            part.ask_with(Ask::detached().model("contra")).await?.or_end()?;
            part.ask().await?.finish()
        })
    });
    let harness = Harness::new(pattern, [Script::text("Yes.")], speakers).await;
    harness.handle.prompt("Why?").await.unwrap();
    let (pro, contra) = ("D:critic: pro1 pro2 pro3 ", "D:inner: contra1 contra2 contra3 ");
    assert_eq!(harness.transcript().await, ["U:Why?", pro, contra, "A:Yes./Stop"]);
    harness.check().await;
}

/// C523: A late subscriber gets what has streamed. A reply that fails, or that an abort or a steer
/// cuts off, is withdrawn.
#[tokio::test(start_paused = true)]
async fn a_reply_that_does_not_complete_is_withdrawn() {
    for how in ["abort", "steer", "failure"] {
        let fails = |agent: AgentBuilder| {
            let broken = Script::new().say("half").wait(ms(5)).fail(ModelErrorKind::Auth, "no");
            speakers(agent).model_named("contra", ScriptedModel::new([broken]))
        };
        let options = if how == "failure" { fails } else { speakers };
        let mut harness = Harness::new(debate(), [Script::text("Both.")], options).await;
        send(&harness, "Why?").await;
        let mut events = harness.until(is_update).await;
        let more = harness.until(is_update).await;
        let (_, mut late) = harness.handle.join().await.unwrap();
        let mut joined = Screen::default();
        joined.see(&late.next().await.unwrap().event);
        joined.see(&late.next().await.unwrap().event);
        events.extend(more);
        assert_eq!(joined, Screen::of(&events), "{how}");
        match how {
            "abort" => harness.handle.abort().await.unwrap(),
            "steer" => {
                let steer = Prompt::from("Stop.").urgency(Urgency::Interrupt);
                drop(harness.handle.send(InputEvent::Steer(steer)).await.unwrap())
            }
            _ => {}
        }
        events.extend(harness.run_end().await);
        check_events(&events).unwrap();
        let screen = Screen::of(&events);
        assert!(screen.streaming.is_empty(), "{how}: {screen:?}");
        let whole = if how == "failure" { &SPOKEN[..1] } else { &[] };
        assert_eq!(screen.whole, whole, "{how}");
        harness.check().await;
    }
}

/// C523: A crash withdraws what has streamed for the subscribers that saw it, and only for them.
#[tokio::test(start_paused = true)]
async fn a_crash_withdraws_what_has_streamed() {
    let mut harness = harness().await;
    send(&harness, "Why?").await;
    let events = harness.until(is_update).await;
    let mut screen = Screen::of(&events);
    let seq = events.last().unwrap().seq;
    assert_eq!(screen.streaming.len(), 1);
    let harness = harness.restart().await;
    harness.handle.continue_run().await.unwrap();
    let missed = SessionLog::events_after("s", &harness.memory.entries(), seq);
    missed.iter().for_each(|event| screen.see(&event.event));
    assert!(screen.streaming.is_empty(), "{screen:?}");
    assert_eq!(screen.whole, SPOKEN);
    let end = SessionLog::of(&harness.memory.entries()).last_seq();
    assert!(SessionLog::events_after("s", &harness.memory.entries(), end).is_empty());
}

/// C524: Wherever a crash cuts the log, each reply with a key is shown once.
#[tokio::test(start_paused = true)]
async fn after_a_crash_each_reply_is_shown_once() {
    let first = harness().await;
    first.handle.prompt("Why?").await.unwrap();
    let log = first.memory.entries();
    let start = log.iter().position(|e| matches!(e, LogEntry::RunStarted { .. })).unwrap();
    for cut in start + 1..log.len() {
        let harness = harness().await.restart_from(log[..cut].to_vec()).await;
        harness.handle.continue_run().await.unwrap();
        let mut transcript = harness.transcript().await;
        transcript[1..3].sort_by_key(|line| line.starts_with("D:contra")); // the order of arrival
        assert_eq!(transcript, TRANSCRIPT, "after entry {cut}");
        harness.check().await;
    }
}

/// C524: A fork has them, and so has a session that is opened from a snapshot.
#[tokio::test(start_paused = true)]
async fn forks_and_snapshots_keep_shown_replies() {
    let store = InMemoryStore::new();
    let model = ScriptedModel::new([]).default_reply(Script::text("Both."));
    let agent = speakers(GenericAgent::builder(model, debate())).build().unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    handle.prompt("Why?").await.unwrap();
    let messages = handle.state().await.unwrap().messages;
    assert!(messages[1].is_detached() && messages[2].is_detached());
    for _ in 0..200 {
        handle.prompt("More.").await.unwrap();
    }
    handle.close().await;
    let memory = store.open("s").await.unwrap();
    assert!(memory.snapshots().unwrap().latest().await.unwrap().is_some());
    drop(memory);
    store.fork("s", Some(12), "f").await.unwrap();
    for session in ["s", "f"] {
        let handle = agent.open(&store, session).await.unwrap();
        let state = handle.state().await.unwrap();
        assert_eq!(state.messages[1..3], messages[1..3], "{session}");
        handle.close().await;
    }
}

/// C525: The agent's hooks see the text of a shown reply before its users.
#[tokio::test(start_paused = true)]
async fn text_hooks_see_shown_replies_first() {
    let mut harness = Harness::new(debate(), [Script::text("Both.")], |agent| {
        speakers(agent).on_text_part(|_, part| TextAction::Replace(part.text.replace("pro", "P")))
    })
    .await;
    send(&harness, "Why?").await;
    let events = harness.run_end().await;
    check_events(&events).unwrap();
    assert_eq!(Screen::of(&events).whole[0], "pro: P1 P2 P3 ");
    let log = harness.memory.entries();
    let is_logged = |entry: &LogEntry| match entry {
        LogEntry::Detached { message, speaker, .. } => {
            speaker.is_some() && message.text() == "P1 P2 P3 "
        }
        _ => false,
    };
    assert!(log.iter().any(is_logged));
}

/// C475: The outcome has the turns of the conversation, and all requests, after a restart too.
#[tokio::test(start_paused = true)]
async fn the_outcome_has_turns_and_requests() {
    let harness = harness().await;
    let outcome = harness.handle.prompt("Why?").await.unwrap();
    assert_eq!((outcome.turns, outcome.requests), (1, 3));
    let log = harness.memory.entries();
    let end = log.iter().rposition(|entry| matches!(entry, LogEntry::Replied { .. })).unwrap();
    let harness = harness.restart_from(log[..=end].to_vec()).await;
    let outcome = harness.handle.continue_run().await.unwrap();
    assert_eq!((&*outcome.text, outcome.turns, outcome.requests), ("Both.", 1, 3));
    let outcome = harness.handle.prompt("And now?").await.unwrap();
    assert_eq!((outcome.turns, outcome.requests), (1, 3), "since the last request of the user");
}
