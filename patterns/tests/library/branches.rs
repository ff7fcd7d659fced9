//! Parallel branches of graphs, and drawings of graphs.

use std::time::Duration;

use loopwright_core::event::{Prompt, RunStatus, Urgency};
use loopwright_core::limits::{Budget, Limit, Resource};
use loopwright_core::log::{LogEntry, SessionLog, Stage, StateScope};
use loopwright_core::message::{AssistantMessage, MessageKind, Usage, UserMessage};
use loopwright_core::model::{ChatRequest, ModelErrorKind, ModelInfo, Prices};
use loopwright_core::session::Call;
use loopwright_core::testing::{self, Harness, Script, ScriptedModel, TestTool};
use loopwright_core::{AgentBuilder, Ask, GenericAgent, Reply, StepError};
use loopwright_patterns::{Branches, Graph, Next, PiPattern};
use serde_json::json;
use tokio::time::Instant;

use crate::family::{self, Family, NAMES, Offer, TASK};
use crate::kit::{assert_conforms, assert_survives_crashes, scenarios};
use crate::values::value;

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Reading {
    round: u32,
    notes: Vec<String>,
    missing: Vec<String>,
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the request for a document, which does not depend on the conversation.
fn document(at: usize) -> Ask {
    let text = UserMessage::from(format!("Document {at}."));
    Ask::detached().messages([text.into()]).max_tokens(100)
}

fn documents(count: usize) -> Branches<Reading, Ask> {
    Branches::new(move |_, _: &Reading| (0..count).map(document).collect())
}

type Join =
    fn(&mut Reading, Vec<Result<Reply, StepError>>) -> Result<Option<MessageKind>, StepError>;

/// A join that keeps the results, and reports what is missing.
const KEEP: Join = |reading, results| {
    for result in results {
        match result {
            Ok(reply) => reading.notes.push(reply.text()),
            Err(why) => reading.missing.push(why.to_string()),
        }
    }
    let Reading { notes, missing, .. } = reading;
    let text = format!("{} notes, {} missing.", notes.len(), missing.len());
    Ok(Some(UserMessage::from(text).into()))
};

/// A join that needs all results.
const ALL: Join = |reading, results| {
    let replies = results.into_iter().collect::<Result<Vec<Reply>, _>>()?;
    reading.notes.extend(replies.iter().map(Reply::text));
    Ok(Some(UserMessage::from(format!("Notes: {}", reading.notes.join(" | "))).into()))
};

fn reads(branches: Branches<Reading, Ask>, join: Join) -> Graph<Reading> {
    Graph::<Reading>::new("read")
        .branches("read", branches, join)
        .leads_to("read", [Next::To("answer")])
        .pattern("answer", PiPattern)
}

/// Returns the texts of the last request.
fn last_request(model: &ScriptedModel) -> Vec<String> {
    model.requests().pop().unwrap().messages.iter().map(|message| message.text()).collect()
}

/// A model that takes 50 ms for a document, and $0.006 for each reply.
fn reader() -> ScriptedModel {
    let model = ScriptedModel::new([]).reply_with(|request: &ChatRequest| {
        let text = request.messages.last().unwrap().text();
        Script::text(&format!("Note: {text}")).wait(ms(50)).usage(Usage::new(20, 100))
    });
    model.info(ModelInfo::new("test/reader").with_prices(Prices::new(50.0, 50.0)))
}

async fn run(
    model: &ScriptedModel,
    graph: Graph<Reading>,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> loopwright_core::event::RunOutcome {
    let agent = options(GenericAgent::builder(model.clone(), graph)).build().unwrap();
    agent.session().await.unwrap().prompt("Read all.").await.unwrap()
}

/// C494: Twenty documents, at most four at once.
#[tokio::test(start_paused = true)]
async fn branches_work_at_the_same_time_but_not_too_many() {
    let (model, start) = (reader(), Instant::now());
    run(&model, reads(documents(20).at_most(4), KEEP), |agent| agent).await;
    assert_eq!(last_request(&model), ["Read all.", "20 notes, 0 missing."]);
    assert_eq!(start.elapsed(), ms(6 * 50)); // the answer takes as long as a document
}

/// C494: When the budget of the branches is used up, the results are kept, and the join sees which
/// are missing. The graph goes on within the run's own budget.
#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_loses_no_result() {
    let limited = |budget| reads(documents(20).at_most(4).budget(budget), KEEP);
    let budget = Budget::default;
    // (budget, notes)
    for (budget, notes) in
        [(budget().cost(0.05), 8), (budget().turns(7), 7), (budget().turns(0), 0)]
    {
        let model = reader();
        let outcome = run(&model, limited(budget), |agent| agent).await;
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Done, None), "{outcome:?}");
        let text = format!("{notes} notes, {} missing.", 20 - notes);
        assert_eq!(last_request(&model), ["Read all.".to_owned(), text], "{budget:?}");
        assert_eq!(model.requests().len(), notes + 1);
    }
    let (model, start) = (reader(), Instant::now());
    run(&model, limited(budget().time(ms(120))), |agent| agent).await;
    assert_eq!(last_request(&model)[1], "8 notes, 12 missing.");
    assert_eq!(start.elapsed(), ms(120 + 50));
}

/// C494: The branches can leave room for what follows in the budget of the run.
#[tokio::test(start_paused = true)]
async fn branches_leave_room_for_the_answer() {
    let graph = reads(documents(20).budget(Budget::default().keep(1)), KEEP);
    let model = reader();
    let outcome = run(&model, graph, |agent| agent.limits(Budget::default().turns(5))).await;
    assert_eq!((outcome.end, outcome.requests), (RunStatus::Done, 5), "{outcome:?}");
    assert_eq!(last_request(&model)[1], "4 notes, 16 missing.");
}

/// C494: Room in the budget of the run is not taken from the branches' own budget.
#[tokio::test(start_paused = true)]
async fn room_for_the_answer_is_not_taken_from_the_branches() {
    let graph = reads(documents(20).budget(Budget::default().turns(4).keep(1)), KEEP);
    let model = reader();
    let outcome = run(&model, graph, |agent| agent.limits(Budget::default().turns(100))).await;
    assert_eq!((outcome.end, outcome.requests), (RunStatus::Done, 5), "{outcome:?}");
    assert_eq!(last_request(&model)[1], "4 notes, 16 missing.");
}

/// C494: A branch that fails is a value; the others are kept. A join that needs all of them ends
/// the run with its error.
#[tokio::test(start_paused = true)]
async fn a_branch_that_fails_is_a_value() {
    let replies = || {
        let failed = Script::error(ModelErrorKind::InvalidRequest, "too long");
        [Script::text("a"), failed, Script::text("c"), Script::text("Two.")]
    };
    let harness = Harness::new(reads(documents(3), KEEP), replies(), |agent| agent).await;
    assert_eq!(harness.handle.prompt("Read.").await.unwrap().text, "Two.");
    assert_eq!(last_request(&harness.model)[1], "2 notes, 1 missing.");
    harness.check().await;
    let harness = Harness::new(reads(documents(3), ALL), replies(), |agent| agent).await;
    let outcome = harness.handle.prompt("Read.").await.unwrap();
    assert!(outcome.error.unwrap().contains("too long"));
}

/// C494: The first branch that succeeds ends the others, and no other is sent after a crash.
#[tokio::test(start_paused = true)]
async fn the_first_branch_wins() {
    let replies = || {
        let slow = |text, wait| Script::text(text).wait(ms(wait));
        [slow("a", 90), slow("No.", 10), slow("c", 30), slow("Done.", 0)]
    };
    let first = || documents(3).first_that(|reply| reply.text() != "No.");
    let start = Instant::now();
    let harness = Harness::new(reads(first(), KEEP), replies(), |agent| agent).await;
    harness.handle.prompt("Read.").await.unwrap();
    assert_eq!(last_request(&harness.model)[1], "1 notes, 2 missing.");
    assert_eq!(start.elapsed(), ms(30));
    harness.check().await;
    let log = harness.memory.entries();
    let won = log.iter().position(|entry| match entry {
        LogEntry::Detached { message, .. } => message.text() == "c",
        _ => false,
    });
    let harness = Harness::new(reads(first(), KEEP), [Script::text("Done.")], |agent| agent).await;
    let harness = harness.restart_from(log[..=won.unwrap()].to_vec()).await;
    assert_eq!(harness.handle.continue_run().await.unwrap().text, "Done.");
    assert_eq!(last_request(&harness.model)[1], "1 notes, 2 missing.");
    harness.check().await;
}

/// A cycle that visits its branches twice.
fn twice(turns: u32) -> Graph<Reading> {
    let list = |_: &loopwright_core::StepContext<'_>, reading: &Reading| {
        let round = reading.round as usize;
        (0..2).map(|at| document(10 * round + at)).collect()
    };
    let join = |reading: &mut Reading, results: Vec<Result<Reply, StepError>>| {
        reading.round += 1;
        KEEP(reading, results)
    };
    let budget = Budget::default().turns(turns);
    Graph::<Reading>::new("read")
        .branches("read", Branches::new(list).budget(budget), join)
        .leads_to("read", [Next::To("read"), Next::To("answer")])
        .edge("read", |_, reading| Next::To(if reading.round < 2 { "read" } else { "answer" }))
        .pattern("answer", PiPattern)
}

/// C494: Each visit has branches of its own; the budget is for all visits. Wherever a crash cuts
/// the log, nothing is paid for twice.
#[tokio::test(start_paused = true)]
async fn a_second_visit_has_branches_of_its_own() {
    let model = reader();
    run(&model, twice(3), |agent| agent).await;
    let texts = last_request(&model);
    assert_eq!(texts[1..], ["2 notes, 0 missing.", "3 notes, 1 missing."]);
    let asked = model.requests();
    let asked: Vec<String> = asked.iter().map(|request| request.messages[0].text()).collect();
    assert_eq!(asked, ["Document 0.", "Document 1.", "Document 10.", "Read all."]);
    let scenario = testing::ScriptedSession::new([])
        .reply_with(|request| Script::text(&request.messages[0].text()))
        .request("Read.")
        .request("Again.");
    assert_survives_crashes(|| twice(20), scenario).await;
}

/// C494: A steer that interrupts is delivered, and only the missing documents are read.
#[tokio::test(start_paused = true)]
async fn a_steer_interrupts_the_branches() {
    let slow = Script::text("late").wait(ms(1_000));
    let replies = [Script::text("a"), slow, Script::text("b"), Script::text("Done.")];
    let harness = Harness::new(reads(documents(2), KEEP), replies, |agent| agent).await;
    let handle = harness.handle.clone();
    let running = tokio::spawn(async move { handle.prompt("Read.").await.unwrap() });
    tokio::time::sleep(ms(100)).await;
    let steer = Prompt::from("Hurry.").urgency(Urgency::Interrupt);
    harness.handle.steer(steer).await.unwrap();
    assert_eq!(running.await.unwrap().text, "Done.");
    assert_eq!(last_request(&harness.model), ["Read.", "Hurry.", "2 notes, 0 missing."]);
    assert_eq!(harness.model.requests().len(), 4);
    harness.check().await;
}

fn call(tool: &str) -> Call {
    Call::new(tool, json!({}))
}

/// A graph whose branches are calls, which need all their results.
fn calls(tools: &'static [&'static str]) -> Graph<Vec<String>> {
    let list = |_: &loopwright_core::StepContext<'_>, _: &Vec<String>| {
        tools.iter().map(|tool| call(tool)).collect()
    };
    Graph::<Vec<String>>::new("call")
        .branches("call", Branches::new(list).at_most(1), |texts, results| {
            let text = |result: Result<loopwright_core::message::ToolResult, _>| match result {
                Ok(result) => result.text(),
                Err(why) => format!("{why}"),
            };
            texts.extend(results.into_iter().map(text));
            Ok(Some(UserMessage::from(format!("Found: {}", texts.join(" | "))).into()))
        })
        .leads_to("call", [Next::To("answer")])
        .pattern("answer", PiPattern)
}

/// C494: Calls are branches too. The model sees what the join returns; a steer loses no call.
#[tokio::test(start_paused = true)]
async fn calls_are_branches() {
    let tools = || ["a", "b", "c"].map(|name| TestTool::new(name).takes(ms(20)));
    let [a, b, c] = tools();
    let c = c.fails("It is broken.");
    let options = |agent: AgentBuilder| agent.tool(a.clone()).tool(b.clone()).tool(c.clone());
    let graph = calls(&["a", "b", "c"]);
    let harness = Harness::new(graph, [Script::text("Done.")], options).await;
    let handle = harness.handle.clone();
    let running = tokio::spawn(async move { handle.prompt("Go.").await.unwrap() });
    tokio::time::sleep(ms(10)).await;
    harness.handle.steer("Faster.").await.unwrap(); // skips the calls that have not started
    assert_eq!(running.await.unwrap().text, "Done.");
    let texts = last_request(&harness.model);
    assert_eq!(texts[1], "Faster.");
    assert_eq!(texts[2], "Found: a done | b done | It is broken.");
    assert_eq!([&a, &b, &c].map(TestTool::ran), [1, 1, 1]);
    harness.check().await;
}

/// C494: Of calls, the first that succeeds wins, and the end of the time of a budget leaves the
/// results.
#[tokio::test(start_paused = true)]
async fn the_first_call_wins_and_time_ends_calls() {
    let graph = |budget: Option<Budget>| {
        let list = |_: &loopwright_core::StepContext<'_>, _: &u32| {
            ["broken", "slow", "fast"].map(call).into()
        };
        let branches = Branches::new(list);
        let branches = match budget {
            Some(budget) => branches.budget(budget),
            None => branches.first(),
        };
        Graph::<u32>::new("call").branches("call", branches, |_, results| {
            let texts = results.into_iter().map(|result| match result {
                Ok(result) => result.text(),
                Err(why) => why.to_string(),
            });
            let texts: Vec<String> = texts.collect();
            Ok(Some(AssistantMessage::from(texts.join(" | ")).into()))
        })
    };
    let options = |agent: AgentBuilder| {
        agent
            .tool(TestTool::new("broken").fails("It is broken."))
            .tool(TestTool::new("slow").takes(ms(90)))
            .tool(TestTool::new("fast").takes(ms(20)))
    };
    let start = Instant::now();
    let harness = Harness::new(graph(None), [], options).await;
    let text = harness.handle.prompt("Go.").await.unwrap().text;
    assert!(text.starts_with("It is broken. | ") && text.ends_with(" | fast done"), "{text}");
    assert!(text.contains("another of these calls has succeeded"), "{text}");
    assert_eq!(start.elapsed(), ms(20));
    harness.check().await;
    let in_time = Budget::default().time(ms(50));
    let harness = Harness::new(graph(Some(in_time)), [], options).await;
    let text = harness.handle.prompt("Go.").await.unwrap().text;
    assert!(text.contains("the time for this part of the work is up"), "{text}");
    assert!(text.ends_with("fast done"), "{text}");
    assert_eq!(start.elapsed(), ms(20 + 50));
    harness.check().await;
}

/// A graph whose branches are sub-agents, and which takes the best offer.
fn with_family(family: &Family) -> AgentBuilder {
    let branches = Branches::new(|_, _: &Option<Offer>| NAMES.map(|n| Call::child(n, TASK)).into());
    let graph = Graph::<Option<Offer>>::new("ask")
        .branches("ask", branches, |best, results| {
            let offers = results.into_iter().flatten().filter_map(|r| r.output::<Offer>().ok());
            *best = offers.min_by_key(|offer| offer.price);
            Ok(Some(UserMessage::from(format!("The best offer is {best:?}.")).into()))
        })
        .leads_to("ask", [Next::To("take")])
        .pattern("take", PiPattern);
    let reply = |_: &_| Script::text("I take it.").usage(Usage::new(100, 10));
    let agent = GenericAgent::builder(ScriptedModel::new([]).reply_with(reply), graph);
    NAMES.iter().fold(agent, |agent, name| agent.child(*name, "Offers lamps.", family.child(name)))
}

/// C494: Branches can be sub-agents, each with its own approvals, which are decided at the root.
#[tokio::test(start_paused = true)]
async fn branches_can_be_sub_agents() {
    let texts = family::run_with_approvals(with_family, 1).await;
    let best = Offer { agent: "bob".into(), price: 20 };
    let last = [format!("The best offer is {:?}.", Some(best)), "I take it.".into()];
    assert!(texts.ends_with(&last), "{texts:?}");
    family::assert_is_recorded(with_family).await;
}

/// C494: After a crash at every pair of cuts of the logs of the root and of a branch, the result is
/// the same.
#[tokio::test(start_paused = true)]
async fn branches_of_sub_agents_survive_a_crash_at_every_pair_of_cuts() {
    family::assert_survives_crashes(with_family).await;
}

/// C494: A crash or an abort at every append leads to the same result.
#[tokio::test(start_paused = true)]
async fn graphs_with_branches_conform() {
    assert_conforms(|| reads(documents(3).at_most(2), ALL), scenarios(value)).await;
    let first = || documents(3).first_that(|reply| reply.text().contains("Document 0"));
    assert_conforms(|| reads(first(), KEEP_FIRST), scenarios(value)).await;
}

/// C494: So it does with calls that need approvals or suspend.
#[tokio::test(start_paused = true)]
async fn graphs_with_calls_conform() {
    assert_conforms(|| calls(&["look", "login", "pay"]), scenarios(value)).await;
}

/// A join that needs one result.
const KEEP_FIRST: Join = |reading, results| {
    let mut failed = None;
    for result in results {
        match result {
            Ok(reply) => reading.notes.push(reply.text()),
            Err(why @ (StepError::Model(_) | StepError::Limit(_))) => failed = Some(why),
            Err(_) => {}
        }
    }
    if let (true, Some(why)) = (reading.notes.is_empty(), failed) {
        return Err(why);
    }
    Ok(Some(UserMessage::from(format!("Notes: {}", reading.notes.join(" | "))).into()))
};

/// C495: The replies of branches have keys that name them, and the log has the current node.
/// C542: Each node is a stage, whose branches are counted.
#[tokio::test(start_paused = true)]
async fn the_log_shows_where_a_graph_is() {
    let replies = ["a", "b", "c", "Done."].map(Script::text);
    let harness = Harness::new(reads(documents(3), ALL), replies, |agent| agent).await;
    harness.handle.prompt("Read.").await.unwrap();
    let log = harness.memory.entries();
    let stages = |log: &[LogEntry]| {
        let stage = |stage: &Stage| {
            let branches = stage.branches.as_ref().map(|branches| (branches.of, branches.done));
            (stage.name.to_string(), stage.until.is_some(), branches)
        };
        SessionLog::of(log).stages().iter().map(stage).collect::<Vec<_>>()
    };
    let done = |name: &str, branches| (name.to_owned(), true, branches);
    assert_eq!(stages(&log), [done("read", Some((3, 3))), done("answer", None)]);
    let node = |log: &[LogEntry]| {
        let at: serde_json::Value = SessionLog::of(log).state(StateScope::Request, "graph")?;
        at["node"].as_str().map(str::to_owned)
    };
    let is_sent = |entry: &LogEntry| matches!(entry, LogEntry::DetachedStarted { .. });
    let sent = log.iter().position(is_sent).unwrap();
    assert_eq!((node(&log[..sent]).as_deref(), node(&log)), (Some("read"), None));
    assert_eq!(stages(&log[..=sent]), [("read".to_owned(), false, Some((3, 0)))]);
    let keys = log.iter().filter_map(|entry| match entry {
        LogEntry::Detached { key, .. } => key.as_deref(),
        _ => None,
    });
    let expected = ["graph/read/1/0", "graph/read/1/1", "graph/read/1/2"];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
}

/// C495: A drawing has all nodes and all edges that were declared, and says which were not.
#[test]
fn a_graph_is_drawn() {
    let none = |_: &loopwright_core::StepContext<'_>, _: &mut Reading| Next::End;
    let graph = reads(documents(2).at_most(4).first(), ALL)
        .checkpoint("answer")
        .leads_to("answer", [Next::Back("answer"), Next::To("\"end\" [x] #1"), Next::End])
        .pattern("\"end\" [x] #1", PiPattern)
        .edge("\"end\" [x] #1", none);
    let drawing = r##"flowchart TD
    start((" ")) --> n2
    n0["#34;end#34; #91;x#93; #35;1"]
    n1(["answer"])
    n2[["read<br/>branches, at most 4 at once, the first wins"]]
    n0 -.-> any["chosen at run time"]
    n1 -.->|back| n1
    n1 --> n0
    n1 --> stop((("end")))
    n2 --> n1
"##;
    assert_eq!(graph.to_mermaid(), drawing);
}

/// C495: An edge chooses one of the declared nodes. With one, it is not needed.
#[tokio::test(start_paused = true)]
async fn an_edge_chooses_one_of_the_declared_nodes() {
    let graph = || {
        Graph::<()>::new("a")
            .node("a", |_, ()| Box::pin(async { Ok(None) }))
            .node("b", |_, ()| Box::pin(async { Ok(None) }))
    };
    let wrong = graph().leads_to("a", [Next::To("b")]).edge("a", |_, ()| Next::End);
    let unclear = graph().leads_to("a", [Next::To("b"), Next::End]);
    let nowhere = graph().leads_to("a", []);
    let cases = [
        (nowhere, "`a` leads to 0 nodes, and no edge chooses one"),
        (wrong, "the edge after `a` chose End, which is not declared"),
        (unclear, "`a` leads to 2 nodes, and no edge chooses one"),
    ];
    for (graph, why) in cases {
        let harness = Harness::new(graph, [], |agent| agent).await;
        let outcome = harness.handle.prompt("Go.").await.unwrap();
        assert!(outcome.error.unwrap().contains(why));
    }
    let sole = graph().leads_to("a", [Next::To("b")]).leads_to("b", [Next::End]);
    let harness = Harness::new(sole, [], |agent| agent).await;
    assert_eq!(harness.handle.prompt("Go.").await.unwrap().end, RunStatus::Done);
}

/// C494: The limit of a part is the one that the join sees.
#[tokio::test(start_paused = true)]
async fn the_join_sees_the_limit() {
    let join: Join = |_, results| {
        let limits = results.iter().map(|result| match result {
            Err(StepError::Limit(reached)) => Some(reached.limit),
            _ => None,
        });
        let limits: Vec<Option<Limit>> = limits.collect();
        assert_eq!(limits, [None, Some(Limit::Part(Resource::Turns))]);
        Ok(None)
    };
    let graph = reads(documents(2).budget(Budget::default().turns(1)), join);
    run(&reader(), graph, |agent| agent).await;
}
