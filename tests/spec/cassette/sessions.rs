//! Several sessions in a cassette: of one agent, of several agents, of sub-agents. Also sources of
//! tools.

use loopwright_core::testing::Cassette;

use super::*;

/// Builds an agent with two sub-agents that work at the same time and call a tool that needs an
/// approval. The second one is ready first.
fn with_sub_agents(models: [ScriptedModel; 3], pay: &TestTool) -> AgentBuilder {
    let [root, slow, fast] = models;
    let child = |model| {
        GenericAgent::builder(model, PiPattern)
            .system("You pay.")
            .tool(pay.clone())
            .build()
            .unwrap()
    };
    GenericAgent::builder(root, PiPattern).child("slow", "Takes its time.", child(slow)).child(
        "fast",
        "Is fast.",
        child(fast),
    )
}

fn replies() -> [ScriptedModel; 3] {
    let pay = |amount| Script::calls([("p", "pay", json!({"amount": amount}))]);
    let tasks = ["slow", "fast"].map(|name| (name, name, json!({"task": "Pay."})));
    [
        ScriptedModel::new([Script::calls(tasks), Script::text("Both have paid.")]),
        ScriptedModel::new([
            Script::new().wait(ms(500)).call("p", "pay", r#"{"amount": 1}"#),
            Script::text("Paid 1."),
        ]),
        ScriptedModel::new([pay(2), Script::text("Paid 2.")]),
    ]
}

/// C178: Sub-agents that work at the same time are replayed, each in its session, with their
/// approvals at the root.
#[tokio::test(start_paused = true)]
async fn sub_agents_are_replayed_each_in_its_session() {
    let folder = Folder::new();
    let drive = async |handle: &AgentHandle| {
        prompt(handle, "Pay.").await;
        decide_all(handle, Decision::Approve).await;
    };
    let (record, pay) = (Cassette::record(folder.path()).unwrap(), TestTool::new("pay"));
    let recorded = session(&record, with_sub_agents(replies(), &pay), drive).await;
    record.finish().unwrap();
    assert_eq!(pay.ran(), 2);
    let (replay, pay) = (Cassette::replay(folder.path()).unwrap(), TestTool::new("pay"));
    assert_eq!(replay.remaining(), 8);
    let none = [no_model(), no_model(), no_model()];
    let replayed = session(&replay, with_sub_agents(none, &pay), drive).await;
    replay.finish().unwrap();
    assert_eq!((pay.ran(), replayed.texts()), (0, recorded.texts()));
    assert_eq!(recorded.texts(), ["Pay.", "", "Paid 1.", "Paid 2.", "Both have paid."]);
}

/// C178: The error names the sub-agent and its session.
#[tokio::test(start_paused = true)]
async fn a_divergence_in_a_sub_agent_names_it() {
    let folder = Folder::new();
    let drive = async |handle: &AgentHandle| {
        prompt(handle, "Pay.").await;
        decide_all(handle, Decision::Approve).await;
    };
    let (record, pay) = (Cassette::record(folder.path()).unwrap(), TestTool::new("pay"));
    session(&record, with_sub_agents(replies(), &pay), drive).await;
    record.finish().unwrap();
    let replay = Cassette::replay(folder.path()).unwrap();
    let renamed = pay.clone().spec(|mut spec| {
        spec.description = "Pays.".into();
        spec
    });
    let none = [no_model(), no_model(), no_model()];
    session(&replay, with_sub_agents(none, &renamed), drive).await;
    let error = replay.finish().unwrap_err().to_string();
    let session = "the sub-agent `slow` in session `root/m2.1`";
    assert!(
        error.starts_with(&format!("request 1 of {session} differs from request 1")),
        "{error}"
    );
    assert!(error.contains("\n-   A tool of a test.\n+   Pays.\n"), "{error}");
}

/// C178: Sessions are found although their random ids and their order differ in the replay, and
/// also the sessions of two agents.
#[tokio::test(start_paused = true)]
async fn sessions_are_found_by_what_they_begin_with() {
    let folder = Folder::new();
    let run = async |cassette: &Cassette, models: [ScriptedModel; 2], prompts: [&str; 3]| {
        let agents = models
            .map(|model| cassette.agent(GenericAgent::builder(model, PiPattern).build().unwrap()));
        let mut texts = Vec::new();
        for (text, agent) in prompts.iter().zip([&agents[0], &agents[0], &agents[1]]) {
            let handle = agent.session().await.unwrap();
            texts.push(handle.prompt(*text).await.unwrap().text);
            texts.push(handle.prompt("And then?").await.unwrap().text);
        }
        cassette.finish().map(|()| texts)
    };
    let first = ["A.", "Then a.", "B.", "Then b."].map(Script::text);
    let models =
        [ScriptedModel::new(first), ScriptedModel::new(["C.", "Then c."].map(Script::text))];
    let record = Cassette::record(folder.path()).unwrap();
    run(&record, models, ["a", "b", "c"]).await.unwrap();
    let replay = Cassette::replay(folder.path()).unwrap();
    let texts = run(&replay, [no_model(), no_model()], ["b", "a", "c"]).await.unwrap();
    assert_eq!(texts, ["B.", "Then b.", "A.", "Then a.", "C.", "Then c."]);
    let text = folder.text();
    assert!(text.contains(r##""session":"#1""##) && text.contains(r##""session":"#3""##), "{text}");
}

/// A source with one tool, and another one from the second listing on.
struct Plugins(std::sync::atomic::AtomicUsize, TestTool);

#[async_trait::async_trait]
impl ToolSource for Plugins {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let more = (count > 0).then(|| Arc::new(TestTool::new("more")) as Arc<dyn Tool>);
        Ok(std::iter::once(Arc::new(self.1.clone()) as Arc<dyn Tool>).chain(more).collect())
    }
}

struct NoPlugins;

#[async_trait::async_trait]
impl ToolSource for NoPlugins {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        Err(ToolError::failed("a replay has no server"))
    }
}

/// C174: The tools that a source lists, and their calls, are replayed without the source.
#[tokio::test(start_paused = true)]
async fn sources_of_tools_are_not_asked_in_a_replay() {
    let folder = Folder::new();
    let drive = async |handle: &AgentHandle| {
        prompt(handle, "Look.").await;
        decide_all(handle, Decision::Approve).await;
        prompt(handle, "Once more.").await;
        prompt(handle, "And now?").await;
    };
    let replies = [calls(&["web_look"]), Script::text("1"), Script::text("2"), Script::text("3")];
    let agent = |model| GenericAgent::builder(model, PiPattern);
    let (record, look) = (Cassette::record(folder.path()).unwrap(), TestTool::new("look"));
    let source = Plugins(Default::default(), look.clone());
    let builder = agent(ScriptedModel::new(replies)).tool_source("web_", source);
    let recorded = session(&record, builder, drive).await;
    record.finish().unwrap();
    assert_eq!(look.ran(), 1);
    assert_eq!(folder.text().matches(r#""listing":"unchanged""#).count(), 1);
    let replay = Cassette::replay(folder.path()).unwrap();
    let replayed = session(&replay, agent(no_model()).tool_source("web_", NoPlugins), drive).await;
    replay.finish().unwrap();
    assert_eq!(replayed, recorded);
}

/// C174: A source whose tool has a predicate cannot be recorded. The error says so.
#[tokio::test(start_paused = true)]
async fn a_predicate_of_a_source_cannot_be_recorded() {
    let folder = Folder::new();
    let record = Cassette::record(folder.path()).unwrap();
    let look = TestTool::new("look").spec(|spec| spec.approval(Approval::when(|_, _| true)));
    let source = Plugins(Default::default(), look);
    let agent = GenericAgent::builder(no_model(), PiPattern).tool_source("web_", source);
    session(&record, agent, async |handle| {
        let error = handle.prompt("Look.").await.unwrap().error.unwrap();
        assert!(error.contains("cannot record the tool `look` of a source"), "{error}");
    })
    .await;
}
