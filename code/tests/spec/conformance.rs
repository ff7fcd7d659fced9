//! The conformance suite of patterns: crashes and aborts at every append, messages, limits.

use loopwright_core::AgentBuilder;
use loopwright_core::event::{Decision, Prompt, Urgency};
use loopwright_core::log::LogEntry;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{Approval, Effect};
use loopwright_patterns::conformance::{self, Scenario};
use serde_json::json;

use crate::kit::{code_mode, script};

const DIRECT: [&str; 5] = ["look", "send", "pay", "login", "finish"];

const CALLS: &str = r#"
import asyncio
async def once(n):
    try:
        await send()
    except RuntimeError:
        pass # after a crash, nobody knows whether it was sent
first = await look()
await once(1)
await asyncio.gather(look(), look())
try:
    await pay()
except PermissionError:
    print("denied")
await once(2)
print(first)
"#;

fn with_tools(agent: AgentBuilder, _: &ScriptedModel) -> AgentBuilder {
    let send = TestTool::new("send")
        .effect(Effect::AtMostOnce)
        .spec(|spec| spec.approval(Approval::Never));
    agent
        .tool(TestTool::new("look"))
        .tool(send)
        .tool(TestTool::new("pay").effect(Effect::Idempotent))
        .tool(TestTool::new("login").suspends("login"))
}

fn scenario(name: &str, replies: impl IntoIterator<Item = Script>) -> Scenario {
    Scenario::new(name, replies).agent(with_tools)
}

/// C548: Wherever a crash or an abort cuts the log, scripts continue and no call is made twice.
#[tokio::test(start_paused = true)]
async fn scripts_keep_the_rules() {
    let two = Script::calls([
        ("1", "run_script", json!({ "code": "await look()" })),
        ("2", "run_script", json!({ "code": "await login()\nawait look()" })),
    ]);
    let scenarios = [
        scenario("a script", [script(CALLS), Script::text("Done.")]).request("Do it."),
        scenario("a denied call", [script(CALLS), Script::text("Done.")])
            .request("Do it.")
            .decisions(|_| Decision::Deny("no".into())),
        scenario("two scripts", [two, Script::text("Done.")]).request("Do it.").request("More."),
        scenario("a script that fails", [script("await look()\nx"), Script::text("Done.")])
            .request("Do it."),
        scenario("a steer", [script(CALLS), Script::text("Steered.")])
            .request("Do it.")
            .steer(Prompt::from("Only that.").urgency(Urgency::AfterTurn))
            .when(|entry| matches!(entry, LogEntry::CallStarted { .. })),
    ];
    if let Err(violation) = conformance::check(code_mode, scenarios).await {
        panic!("{violation}");
    }
}

/// C548: With direct tools, the pattern is a loop like `PiPattern`.
#[tokio::test(start_paused = true)]
async fn direct_calls_keep_the_rules() {
    let pattern = || code_mode().direct(DIRECT);
    if let Err(violation) = conformance::check(pattern, conformance::scenarios()).await {
        panic!("{violation}");
    }
}
