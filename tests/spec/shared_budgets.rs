//! Budgets that sessions share, parallel requests near the end of a budget, and requests of tools.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kit::*;
use async_trait::async_trait;
use loopwright_core::{ChatModel, GenericAgent, RunContext};

/// A shared budget of a number of requests, one at a time. It records the session and the tokens of
/// each.
#[derive(Default)]
struct Purse {
    left: AtomicUsize,
    asked: Mutex<Vec<(String, u64)>>,
    in_use: Arc<tokio::sync::Mutex<()>>,
}

impl Purse {
    fn of(requests: usize) -> Arc<Purse> {
        Arc::new(Purse { left: requests.into(), ..Purse::default() })
    }

    fn pay(&self, session: &str, estimate: Estimate) -> Result<(), StepError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        left.map_err(|_| StepError::Limit(LimitReached::shared("the purse is empty")))?;
        self.asked.lock().unwrap().push((session.to_owned(), estimate.tokens));
        Ok(())
    }

    fn sessions(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(session, _)| session.clone()).collect()
    }
}

#[async_trait]
impl SharedBudget for Purse {
    async fn reserve(&self, session: &str, estimate: Estimate) -> Result<BudgetPermit, StepError> {
        let permit = self.in_use.clone().lock_owned().await;
        self.pay(session, estimate)?;
        Ok(Box::new(permit))
    }

    async fn try_reserve(
        &self,
        session: &str,
        estimate: Estimate,
    ) -> Result<Option<BudgetPermit>, StepError> {
        let Ok(permit) = self.in_use.clone().try_lock_owned() else { return Ok(None) };
        self.pay(session, estimate)?;
        Ok(Some(Box::new(permit)))
    }
}

async fn open(
    builder: AgentBuilder,
    purse: &Arc<Purse>,
    store: &InMemoryStore,
) -> (AgentHandle, EventStream) {
    let cx = RunContext::new().stored(store, "s").await.unwrap();
    builder.build().unwrap().run(cx.shared_budget(purse.clone())).await.unwrap()
}

/// C404: A session asks its shared budget before each request, also after an approval and for
/// several at once. When the budget is used up, the run ends with that limit, and nothing is sent.
#[tokio::test(start_paused = true)]
async fn a_shared_budget_is_asked_before_each_request() {
    let (purse, store) = (Purse::of(1), InMemoryStore::new());
    let model = ScriptedModel::new([calls(&["pay"]), Script::text("Paid.")]);
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    let builder = GenericAgent::builder(model.clone(), PiPattern).tool(pay.clone());
    let (handle, _events) = open(builder, &purse, &store).await;
    assert_eq!(handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    let action = handle.state().await.unwrap().pending_actions[0].clone();
    handle.approve(&action).await.unwrap();
    handle.wait_for_idle().await;
    assert_eq!((pay.ran(), model.requests().len()), (1, 1));
    let outcome = handle.prompt("more").await.unwrap();
    assert_eq!((outcome.end, outcome.limit), (RunStatus::Limit, Some(Limit::Shared)));
    assert_eq!(outcome.error.as_deref(), Some("the purse is empty"));
    purse.left.store(1, Ordering::SeqCst); // the next day
    assert_eq!(handle.prompt("again").await.unwrap().text, "Paid.");

    let (purse, store) = (Purse::of(2), InMemoryStore::new());
    let asking = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let asks = (0..3).map(|n| Ask::detached().key(n.to_string()));
            for reply in step.ask_all(asks).await? {
                reply.or_end()?;
            }
            Ok(StepEnd::Done)
        })
    });
    let model = ScriptedModel::new((0..3).map(|_| slow(2, ms(10))));
    let (handle, _events) =
        open(GenericAgent::builder(model.clone(), asking), &purse, &store).await;
    let outcome = handle.prompt("go").await.unwrap();
    assert_eq!((outcome.limit, model.requests().len()), (Some(Limit::Shared), 2));
    check_log(&store.read("s", 0).await.unwrap()).unwrap();
}

/// C404: Sub-agents and summaries use their root's shared budget.
#[tokio::test(start_paused = true)]
async fn sub_agents_use_the_budget_of_their_root() {
    let (purse, store) = (Purse::of(3), InMemoryStore::new());
    let helper = ScriptedModel::new([Script::text("one"), Script::text("two")]);
    let child = GenericAgent::builder(helper.clone(), PiPattern).build().unwrap();
    let task = json!({ "task": "Help." });
    let both = Script::calls([("a", "helper", task.clone()), ("b", "helper", task)]);
    let model = ScriptedModel::new([both, Script::text("Done.")]);
    let builder = GenericAgent::builder(model.clone(), PiPattern);
    let (handle, _events) = open(builder.child("helper", "Helps.", child), &purse, &store).await;
    let outcome = handle.prompt("go").await.unwrap();
    assert_eq!(outcome.limit, Some(Limit::Shared), "{outcome:?}");
    let mut sessions = purse.sessions();
    sessions.sort();
    assert_eq!(sessions, ["s", "s/m2.1", "s/m2.2"]);
    assert_eq!((helper.requests().len(), model.requests().len()), (2, 1));
}

/// C405: While a request waits for requests of other sessions, the session takes inputs. An abort
/// and an interrupting steer end the wait.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_can_be_stopped() {
    let (purse, store) = (Purse::of(2), InMemoryStore::new());
    let other = purse.in_use.clone().lock_owned().await;
    let model = ScriptedModel::new([Script::text("Hi.")]);
    let builder = GenericAgent::builder(model.clone(), PiPattern);
    let (handle, _events) = open(builder, &purse, &store).await;
    handle.send(InputEvent::UserRequest("go".into())).await.unwrap();
    sleep(ms(50)).await;
    handle.abort().await.unwrap();
    handle.wait_for_idle().await;
    handle.send(InputEvent::UserRequest("again".into())).await.unwrap();
    sleep(ms(50)).await;
    let steer = Prompt::from("now").urgency(Urgency::Interrupt);
    handle.send(InputEvent::Steer(steer)).await.unwrap();
    sleep(ms(50)).await;
    assert_eq!(model.requests().len(), 0);
    drop(other);
    handle.wait_for_idle().await;
    assert_eq!(model.requests().len(), 1);
    let texts: Vec<_> = model.requests()[0].messages.iter().map(|m| m.text()).collect();
    assert!(texts.last().unwrap().contains("now"), "{texts:?}");
}

/// C406: The expected output of requests in progress is reserved: `max_tokens`, or the mean of the
/// replies so far. Near the end of a budget fewer requests are sent at the same time, and the
/// budget is exceeded by at most the output of one.
#[tokio::test(start_paused = true)]
async fn parallel_requests_exceed_a_budget_by_one_output() {
    let asking = |max_tokens: Option<u32>| {
        does(move |step| {
            Box::pin(async move {
                step.take_input().await?;
                step.ask().await?;
                let ask = |n: usize| {
                    let ask = Ask::detached().key(n.to_string());
                    let ask = ask.messages([UserMessage::from("?").into()]);
                    max_tokens.map_or(ask.clone(), |max| ask.max_tokens(max))
                };
                for reply in step.ask_all((0..8).map(ask)).await? {
                    reply.or_end()?;
                }
                Ok(StepEnd::Done)
            })
        })
    };
    let reply = || Script::new().wait(ms(10)).say("x").usage(Usage::new(10, 100));
    for max_tokens in [None, Some(100)] {
        for limit in [250, 330, 500, 700] {
            let limits = Budget::default().tokens(limit);
            let replies = (0..9).map(|_| reply());
            let harness =
                Harness::new(asking(max_tokens), replies, |agent| agent.limits(limits)).await;
            let outcome = harness.handle.prompt("go").await.unwrap();
            let spent = SessionLog::of(&harness.memory.entries()).spent().tokens;
            assert_eq!(outcome.limit, Some(Limit::Run(Resource::Tokens)), "{limit}: {spent}");
            assert!(spent >= limit.min(220) && spent <= limit + 110, "{limit}: {spent}");
            harness.check().await;
        }
    }
    // Far from the limit, all are sent at once.
    let harness = Harness::new(asking(None), (0..9).map(|_| reply()), |agent| agent).await;
    let began = Instant::now();
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(began.elapsed(), ms(20));
}

/// A tool that asks a model.
struct Asks(Arc<ToolSpec>, ScriptedModel);

#[async_trait]
impl Tool for Asks {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &serde_json::Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let mut request = ChatRequest::default();
        let question = Message::new(MessageId(1), UserMessage::from("2 + 2?"));
        request.messages = vec![Arc::new(question)].into();
        let model: &dyn ChatModel = &self.1;
        Ok(ToolOutput::text(cx.generate(model, request).await?.text()))
    }
}

fn asks(model: &ScriptedModel) -> Asks {
    let schema = json!({ "type": "object" });
    let spec = ToolSpec::with_schema("asks", "Asks.", schema).effect(Effect::ReadOnly);
    Asks(Arc::new(spec), model.clone())
}

/// C407: The request of a tool is in the log before it is sent, counts like a detached one, and is
/// not sent beyond a budget, the session's or a shared one.
#[tokio::test(start_paused = true)]
async fn the_session_is_charged_for_requests_of_tools() {
    let used = Usage::new(40, 2);
    let budgets = [
        (Budget::default(), 9, true),
        (Budget::default().turns(1), 9, false),
        (Budget::default().tokens(5), 9, false),
        (Budget::default(), 1, false),
    ];
    for (budget, requests, is_sent) in budgets {
        let (purse, store) = (Purse::of(requests), InMemoryStore::new());
        let asked = ScriptedModel::new([Script::text("Four.").usage(used)]);
        let model = ScriptedModel::new([calls(&["asks"]), Script::text("Done.")]);
        let builder = GenericAgent::builder(model, PiPattern).tool(asks(&asked));
        let (handle, _events) =
            open(builder.limits(Limits::default().session(budget)), &purse, &store).await;
        let outcome = handle.prompt("go").await.unwrap();
        let entries = store.read("s", 0).await.unwrap();
        check_log(&entries).unwrap();
        let position = |is: fn(&LogEntry) -> bool| entries.iter().position(is);
        let started = position(|entry| matches!(entry, LogEntry::DetachedStarted { .. }));
        let ended = position(|entry| matches!(entry, LogEntry::Detached { .. }));
        let result = entries.iter().find_map(|entry| match entry {
            LogEntry::CallFinished { result } => Some(result.text()),
            _ => None,
        });
        assert_eq!(asked.requests().len(), usize::from(is_sent), "{budget:?}");
        if is_sent {
            assert_eq!((outcome.usage, result.as_deref()), (used, Some("Four.")));
            assert!(started.unwrap() < ended.unwrap());
            assert_eq!(SessionLog::of(&entries).spent().turns, 3);
            assert_eq!(&*asked.requests()[0].session, "s");
        } else if budget.tokens.is_none() {
            assert_eq!(started, None);
            assert!(result.as_ref().unwrap().contains("was not sent"), "{result:?}");
        }
    }
}

/// C407: If a tool is aborted, its request is charged with the usage reported by then.
#[tokio::test(start_paused = true)]
async fn an_aborted_request_of_a_tool_is_charged() {
    let (purse, store) = (Purse::of(9), InMemoryStore::new());
    let asked = ScriptedModel::new([Script::new().used(Usage::new(40, 2)).hang()]);
    let model = ScriptedModel::new([calls(&["asks"]), Script::text("Done.")]);
    let builder = GenericAgent::builder(model, PiPattern).tool(asks(&asked));
    let (handle, _events) = open(builder, &purse, &store).await;
    handle.send(InputEvent::UserRequest("go".into())).await.unwrap();
    sleep(ms(10)).await;
    assert!(purse.in_use.try_lock().is_err());
    handle.abort().await.unwrap();
    handle.wait_for_idle().await;
    let entries = store.read("s", 0).await.unwrap();
    check_log(&entries).unwrap();
    assert_eq!(SessionLog::of(&entries).spent().turns, 2);
    assert!(purse.in_use.try_lock().is_ok(), "the permit is returned");
}
