//! Detached requests that are sent at the same time, and their keys.

use crate::kit::*;

/// Returns a keyed request to the model of this name.
fn vote(name: &str) -> Ask {
    Ask::detached().model(name).key(name)
}

/// Collects votes, then replies with their texts.
async fn collect(step: &mut StepContext<'_>, names: &[&str]) -> Result<StepEnd, StepError> {
    step.take_input().await?;
    let votes = step.ask_all(names.iter().map(|name| vote(name))).await?;
    let texts: Vec<String> = votes.iter().map(|vote| vote.text()).collect();
    step.set_state("votes", texts.join(" "))?;
    step.take_messages().await?;
    step.ask().await?.finish()
}

fn collecting(names: &'static [&'static str]) -> impl BehaviorPattern + Clone + 'static {
    #[derive(Clone)]
    struct Collecting(&'static [&'static str]);
    #[async_trait::async_trait]
    impl BehaviorPattern for Collecting {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            collect(step, self.0).await
        }
    }
    Collecting(names)
}

/// The models of three voters, the first of which takes longest.
struct Voters([ScriptedModel; 3]);

impl Voters {
    fn new() -> Self {
        Voters([("a", 30), ("b", 10), ("c", 20)].map(|(name, time)| {
            ScriptedModel::new([]).default_reply(Script::new().wait(ms(time)).say(name))
        }))
    }

    fn of(scripts: [Script; 3]) -> Self {
        Voters(scripts.map(|script| ScriptedModel::new([script])))
    }

    fn add(&self, agent: AgentBuilder) -> AgentBuilder {
        let named = ["a", "b", "c"].into_iter().zip(&self.0);
        named.fold(agent, |agent, (name, model)| agent.model_named(name, model.clone()))
    }

    /// Returns the number of requests that each model received.
    fn asked(&self) -> [usize; 3] {
        self.0.each_ref().map(|model| model.requests().len())
    }
}

async fn harness(voters: &Voters, options: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Harness {
    let replies = ["ok", "ok"].map(Script::text);
    Harness::new(collecting(&["a", "b", "c"]), replies, |agent| voters.add(options(agent))).await
}

fn votes(harness: &Harness) -> Option<String> {
    SessionLog::of(&harness.memory.entries()).state(StateScope::Request, "votes")
}

/// Returns the texts of the detached replies, in the order of the log.
fn logged(entries: &[LogEntry]) -> Vec<String> {
    let detached = entries.iter().filter_map(|entry| match entry {
        LogEntry::Detached { message, .. } => Some(message.text()),
        _ => None,
    });
    detached.collect()
}

/// C144: Requests that are sent together take as long as the slowest. Their replies are in the
/// order of the requests, and in the log in the order of arrival.
#[tokio::test(start_paused = true)]
async fn several_requests_take_as_long_as_the_slowest() {
    let voters = Voters::new();
    let harness = harness(&voters, |agent| agent).await;
    let start = Instant::now();
    assert_eq!(harness.handle.prompt("Vote.").await.unwrap().end, RunStatus::Done);
    assert_eq!((votes(&harness).as_deref(), start.elapsed()), (Some("a b c"), ms(30)));
    assert_eq!(logged(&harness.memory.entries()), ["b", "c", "a"]);
    harness.check().await;
}

/// C144: At most as many requests are in progress as the limits allow, and as many as are there.
#[tokio::test(start_paused = true)]
async fn the_number_of_requests_in_progress_is_bounded() {
    for (requests, time) in [(1, ms(60)), (2, ms(30))] {
        let voters = Voters::new();
        let limits = Limits::default().parallel_requests(requests);
        let harness = harness(&voters, |agent| agent.limits(limits)).await;
        let start = Instant::now();
        harness.handle.prompt("Vote.").await.unwrap();
        assert_eq!((votes(&harness).as_deref(), start.elapsed()), (Some("a b c"), time));
    }
}

/// C145: Wherever a crash cuts the log, only the requests without a reply are sent again. Each
/// reply belongs to its key, whichever came first.
#[tokio::test(start_paused = true)]
async fn after_a_crash_only_the_missing_requests_are_sent() {
    let first = harness(&Voters::new(), |agent| agent).await;
    first.handle.prompt("Vote.").await.unwrap();
    let (expected, log) = (first.transcript().await, first.memory.entries());
    let start = log.iter().position(|e| matches!(e, LogEntry::RunStarted { .. })).unwrap();
    for cut in start + 1..log.len() {
        let voters = Voters::new();
        let harness = harness(&voters, |agent| agent).await.restart_from(log[..cut].to_vec()).await;
        harness.handle.continue_run().await.unwrap();
        assert_eq!(votes(&harness).as_deref(), Some("a b c"), "after entry {cut}");
        assert_eq!(harness.transcript().await, expected, "after entry {cut}");
        let known = logged(&log[..cut]);
        let missing = ["a", "b", "c"].map(|name| usize::from(!known.contains(&name.to_owned())));
        assert_eq!(voters.asked(), missing, "after entry {cut}");
        harness.check().await;
    }
}

/// C145: A recorded reply is returned only for the same request. A steer that was delivered since
/// makes it a different one. The next request of the user asks again.
#[tokio::test(start_paused = true)]
async fn a_recorded_reply_belongs_to_its_request() {
    let voters = Voters::new();
    let asking = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.ask_with(vote("a")).await?;
            step.ask_with(vote("a")).await?;
            step.take_steering().await?;
            step.ask_with(vote("a")).await?;
            step.ask_with(vote("a").temperature(0.5)).await?.finish()
        })
    });
    let harness = Harness::new(asking, [], |agent| voters.add(agent)).await;
    harness.handle.send(InputEvent::Steer("And quickly.".into())).await.unwrap();
    harness.handle.prompt("Vote.").await.unwrap();
    assert_eq!(voters.asked(), [3, 0, 0], "once, after the steer, with another temperature");
    harness.handle.prompt("Vote again.").await.unwrap();
    assert_eq!(voters.asked(), [5, 0, 0]);
}

/// C476: The key alone decides, even if the pattern has answered since, so that there is nothing to
/// ask.
#[tokio::test(start_paused = true)]
async fn a_key_that_decides_needs_no_question() {
    let pattern = does(move |step| {
        Box::pin(async move {
            step.take_input().await?;
            for _ in 0..2 {
                let vote = step.ask_with(Ask::detached().model("a").once("k")).await?.or_end()?;
                step.remember(AssistantMessage::new(vec![ContentPart::Text {
                    text: vote.text(),
                    signature: None,
                }]))
                .await?;
            }
            Ok(StepEnd::Done)
        })
    });
    let voters = Voters::new();
    let harness = Harness::new(pattern, [], |agent| voters.add(agent)).await;
    harness.handle.prompt("Vote.").await.unwrap();
    assert_eq!(voters.asked(), [1, 0, 0]);
    harness.check().await;
}

/// C476: With `once` the key alone decides.
#[tokio::test(start_paused = true)]
async fn a_reply_under_a_key_that_decides_is_returned_whatever_was_said_since() {
    for decides in [true, false] {
        let pattern = does(move |step| {
            Box::pin(async move {
                step.take_input().await?;
                for word in ["one", "two"] {
                    let also = UserMessage::from(word);
                    let ask = Ask::detached().model("a").also(also);
                    let ask = if decides { ask.once("k") } else { ask.key("k") };
                    step.ask_with(ask).await?.or_end()?;
                }
                Ok(StepEnd::Done)
            })
        });
        let voters = Voters::new();
        let harness = Harness::new(pattern, [], |agent| voters.add(agent)).await;
        harness.handle.prompt("Vote.").await.unwrap();
        assert_eq!(voters.asked(), [if decides { 1 } else { 2 }, 0, 0]);
        harness.check().await;
    }
}

/// C145: A request that failed is sent again. Its error is part of its reply, and the other
/// requests have their replies.
#[tokio::test(start_paused = true)]
async fn an_error_is_part_of_its_reply() {
    let error = Script::error(ModelErrorKind::Network, "gone");
    let voters = Voters::of([Script::text("a"), error, Script::text("c")]);
    let asking = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let votes = ["a", "b", "c"].map(vote);
            let replies = step.ask_all(votes.clone()).await?;
            let errors = replies.iter().map(|reply| reply.error().is_some());
            assert_eq!(errors.collect::<Vec<_>>(), [false, true, false]);
            step.emit("text", replies[2].text()).await?;
            let second = step.ask_all(votes).await?;
            second.into_iter().nth(1).unwrap().finish()
        })
    });
    let harness = Harness::new(asking, [], |agent| voters.add(agent)).await;
    voters.0[1].push(Script::text("b"));
    let outcome = harness.handle.prompt("Vote.").await.unwrap();
    assert_eq!((outcome.end, voters.asked()), (RunStatus::Done, [1, 2, 1]));
}

/// C146: An interrupt ends the wait. Complete replies stay, the others are interrupted.
#[tokio::test(start_paused = true)]
async fn an_interrupt_keeps_what_is_complete() {
    let voters = Voters::new();
    let harness = harness(&voters, |agent| agent).await;
    let start = Instant::now();
    send(&harness, "Vote.").await;
    sleep(ms(15)).await;
    let steer = Prompt::from("Enough.").urgency(Urgency::Interrupt);
    harness.handle.send(InputEvent::Steer(steer)).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((votes(&harness).as_deref(), start.elapsed()), (Some(" b "), ms(15)));
    assert_eq!(sent(&harness, 0), ["Vote.", "Enough."]);
    assert_eq!(logged(&harness.memory.entries()).len(), 3, "each request counts");
    harness.check().await;
}

/// C146: An abort drops all requests.
#[tokio::test(start_paused = true)]
async fn an_abort_drops_the_requests() {
    let voters = Voters::new();
    let harness = harness(&voters, |agent| agent).await;
    let start = Instant::now();
    send(&harness, "Vote.").await;
    sleep(ms(15)).await;
    harness.handle.abort().await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((logged(&harness.memory.entries()), start.elapsed()), (vec!["b".into()], ms(15)));
    harness.check().await;
}

/// C146: The turns and estimated tokens of all requests are reserved before the first is sent. The
/// spending in the meantime is checked before each.
#[tokio::test(start_paused = true)]
async fn budgets_are_checked_before_each_request() {
    let voters = Voters::new();
    let harness = harness(&voters, |agent| agent.limits(Budget::default().turns(2))).await;
    let outcome = harness.handle.prompt("Vote.").await.unwrap();
    assert_eq!((outcome.limit, voters.asked()), (Some(Limit::Run(Resource::Turns)), [0, 0, 0]));

    let error = outcome.error.unwrap();
    assert_eq!(&*error, "the limit of turns is reached: 3 turns are needed, and 2 of 2 are left");

    let costly = |name| Script::text(name).usage(Usage::new(5, 15));
    let voters = Voters::of(["a", "b", "c"].map(costly));
    let limits = || Limits::from(Budget::default().tokens(45)).parallel_requests(1);
    let harness =
        Harness::new(collecting(&["a", "b", "c"]), [], |a| voters.add(a.limits(limits()))).await;
    let outcome = harness.handle.prompt("Vote.").await.unwrap();
    assert_eq!((outcome.limit, voters.asked()), (Some(Limit::Run(Resource::Tokens)), [1, 1, 0]));
    assert_eq!(logged(&harness.memory.entries()), ["a", "b"]);
    harness.check().await;
}

/// C474: A budget that is used up in the middle loses nothing that was paid for.
#[tokio::test(start_paused = true)]
async fn a_limit_in_the_middle_is_part_of_the_replies() {
    let costly = |name| Script::text(name).usage(Usage::new(5, 15));
    let voters = Voters::of(["a", "b", "c"].map(costly));
    let pattern = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let votes = step.ask_all(["a", "b", "c"].map(vote)).at_most(1).await?;
            let [a, b, c] = &votes[..] else { panic!("{votes:?}") };
            assert_eq!([a, b, c].map(Reply::text), ["a", "b", ""]);
            assert_eq!((a.limit(), b.limit()), (None, None));
            let limit = c.limit().unwrap();
            assert_eq!(limit.limit, Limit::Run(Resource::Tokens));
            assert!(c.should_stop() && !c.interrupted());
            let end = c.clone().or_end().unwrap_err();
            assert_eq!(end.to_string(), StepError::Limit(limit.clone()).to_string());
            step.remember(AssistantMessage::from("Two of three.")).await?;
            Ok(StepEnd::Done)
        })
    });
    let limits = Limits::from(Budget::default().tokens(45));
    let harness = Harness::new(pattern, [], |agent| voters.add(agent.limits(limits))).await;
    let outcome = harness.handle.prompt("Vote.").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "Two of three."));
    assert_eq!((voters.asked(), outcome.requests), ([1, 1, 0], 2));
    harness.check().await;
}

/// C474: A pattern may send fewer at once than the limits allow.
#[tokio::test(start_paused = true)]
async fn a_pattern_sends_fewer_requests_at_once() {
    let voters = Voters::new();
    let pattern = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.ask_all(["a", "b", "c"].map(vote)).at_most(1).await?;
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(pattern, [], |agent| voters.add(agent)).await;
    let start = Instant::now();
    harness.handle.prompt("Vote.").await.unwrap();
    assert_eq!(start.elapsed(), ms(60));
}

/// C147: A request uses its own options, then its profile's, then the agent's.
#[tokio::test(start_paused = true)]
async fn a_request_has_its_own_options() {
    let profile =
        Profile::new().model("a").system("You judge.").tools(["x"]).thinking(ThinkingLevel::High);
    let asking = does(move |step| {
        let ask = Ask::detached().profile(&profile).temperature(0.9).max_tokens(7).stop(["END"]);
        Box::pin(async {
            step.take_input().await?;
            step.ask_with(ask).await?;
            step.ask().await?.finish()
        })
    });
    let voters = Voters::new();
    let harness = Harness::new(asking, [Script::text("ok")], |agent| {
        voters.add(agent).system("You answer.").temperature(0.1).tool(TestTool::new("x"))
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    let (judge, own) = (voters.0[0].requests().remove(0), harness.model.requests().remove(0));
    assert_eq!((&*judge.system, judge.tools.len()), ("You judge.", 1));
    assert_eq!((judge.temperature, judge.max_tokens), (Some(0.9), Some(7)));
    assert_eq!((judge.stop, judge.thinking), (vec!["END".to_owned()], ThinkingLevel::High));
    assert_eq!((&*own.system, own.temperature, own.stop.len()), ("You answer.", Some(0.1), 0));
}

/// C147: Requests that join the conversation are neither sent together nor have keys. Two requests
/// that are sent together cannot share a key.
#[tokio::test(start_paused = true)]
async fn only_detached_requests_have_keys() {
    let asking = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let joined = step.ask_all([Ask::new()]).await;
            assert!(matches!(joined, Err(StepError::NotDetached)), "{joined:?}");
            let keyed = step.ask_with(Ask::new().key("a")).await;
            assert!(matches!(keyed, Err(StepError::NotDetached)), "{keyed:?}");
            let shared = step.ask_all([vote("a"), vote("a")]).await;
            let why = shared.unwrap_err().to_string();
            assert!(why.contains("the key `a` is taken by another request"), "{why}");
            assert_eq!(step.ask_all([]).await?.len(), 0);
            Ok(StepEnd::Done)
        })
    });
    let voters = Voters::new();
    let harness = Harness::new(asking, [], |agent| voters.add(agent)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    assert_eq!(voters.asked(), [0, 0, 0]);
}

/// C89: Requests that were sent together are followed, whichever reply came first.
#[tokio::test(start_paused = true)]
async fn requests_that_were_sent_together_are_replayed() {
    let harness = harness(&Voters::new(), |agent| agent).await;
    harness.handle.prompt("Vote.").await.unwrap();
    harness.handle.prompt("Vote again.").await.unwrap();
    let replay = loopwright_core::testing::Replay::from_entries(harness.memory.entries());
    let names = ["a", "b", "c"].into_iter();
    let agent = GenericAgent::builder(replay.model(), collecting(&["a", "b", "c"]));
    let agent = names.fold(agent, |agent, name| agent.model_named(name, replay.model()));
    replay.run(&agent.build().unwrap()).await.unwrap();
}

/// C492: A budget that is too small for all requests is used for as many as fit, in their order.
/// Those whose turn does not come have the limit, and what was reserved for them is free again. The
/// room that is reserved for them does not delay those before.
#[tokio::test(start_paused = true)]
async fn as_many_requests_as_fit_are_sent() {
    // (budget, number of replies, rounds of four at once)
    let cases = [
        (Budget::default().turns(2), 2, 1),
        (Budget::default().tokens(4_000), 5, 2),
        (Budget::default().tokens(600), 0, 0),
    ];
    for (budget, expected, rounds) in cases {
        let pattern = does(move |step| {
            Box::pin(async move {
                step.take_input().await?;
                let ask = |n: u32| {
                    let long = UserMessage::from("word ".repeat(400) + &n.to_string());
                    Ask::detached().messages([long.into()]).key(format!("{n}")).max_tokens(200)
                };
                let mut part = step.with_budget(budget);
                let all = part.ask_all((0..20).map(ask)).at_most(4).await;
                assert!(matches!(all, Err(StepError::Limit(_))), "{all:?}");
                for _ in 0..2 {
                    let asked = part.ask_all((0..20).map(ask)).at_most(4).as_many_as_fit();
                    let replies = asked.await?;
                    let whole = replies.iter().take_while(|reply| reply.limit().is_none());
                    assert_eq!((whole.count(), replies.len()), (expected, 20));
                    let limits = replies[expected..].iter().map(|r| r.limit().map(|l| l.limit));
                    assert!(limits.into_iter().all(|l| matches!(l, Some(Limit::Part(_)))));
                }
                let turns = step.spent().turns;
                assert_eq!(turns, expected as u32, "only requests that were sent count");
                step.ask().await?.finish()
            })
        });
        let reply = |_: &ChatRequest| Script::text("yes").wait(ms(10)).usage(Usage::new(600, 150));
        let harness = Harness::new(pattern, [], |agent| agent).await;
        drop(harness.model.clone().reply_with(reply)); // of all clones
        let start = Instant::now();
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
        assert_eq!(start.elapsed(), ms(10) * (rounds + 1), "{budget:?}");
        harness.check().await;
    }
}

/// C492: The first reply that is accepted ends the others. After a crash it is found, and nothing
/// more is sent.
#[tokio::test(start_paused = true)]
async fn the_first_accepted_reply_ends_the_others() {
    let pattern = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                let accepts = |reply: &Reply| reply.text() != "b";
                let votes = step.ask_all(["a", "b", "c"].map(vote)).until(accepts).await?;
                assert_eq!([0, 1, 2].map(|at| votes[at].text()), ["", "b", "c"]);
                assert!(votes[0].interrupted() && votes[0].limit().is_none());
                step.remember(AssistantMessage::from(votes[2].text())).await?;
                Ok(StepEnd::Done)
            })
        })
    };
    let (voters, start) = (Voters::new(), Instant::now());
    let harness = Harness::new(pattern(), [], |agent| voters.add(agent)).await;
    assert_eq!(harness.handle.prompt("Vote.").await.unwrap().text, "c");
    assert_eq!((start.elapsed(), voters.asked()), (ms(20), [1, 1, 1]));
    harness.check().await;
    let log = harness.memory.entries();
    assert_eq!(logged(&log), ["b", "c", ""]);
    let is_won = |entry: &LogEntry| logged(std::slice::from_ref(entry)) == ["c"];
    let won = log.iter().position(is_won).unwrap();
    let voters = Voters::new();
    let harness = Harness::new(pattern(), [], |agent| voters.add(agent)).await;
    let harness = harness.restart_from(log[..=won].to_vec()).await;
    assert_eq!(harness.handle.continue_run().await.unwrap().text, "c");
    assert_eq!(voters.asked(), [0, 0, 0]);
    harness.check().await;
}
