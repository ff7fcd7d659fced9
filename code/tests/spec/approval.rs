//! An approval in the middle of a script, days later, in another process.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use loopwright_core::event::{Decision, RunStatus};
use loopwright_core::testing::{Script, ScriptedModel, TestClock};
use loopwright_core::tool::{Approval, Effect};
use loopwright_core::{GenericAgent, ToolError, tool_fn};
use loopwright_memory::Sqlite;

use crate::kit::{Order, code_mode, get_order, script};

const FOLDER: &str = "LOOPWRIGHT_CODE_TEST";

const CODE: &str = r#"
import json
paid = []
for n in range(1, 5):
    order = json.loads(await get_order(number=n))
    paid.append(await pay(number=order["total"]))
paid
"#;

/// C548: Each decision is given in a process of its own, the last one days later. Each process runs
/// the script from its start with the recorded results, and no call is made twice.
#[tokio::test]
async fn an_approval_in_a_script_is_given_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    for (part, end) in [
        ("start", "AwaitingAction"),
        ("approve", "AwaitingAction"),
        ("approve", "AwaitingAction"),
        ("approve", "AwaitingAction"),
        ("days later", "Done: [paid 10, paid 20, paid 30, paid 40]"),
    ] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "approval::a_process", "--ignored", "--nocapture"]);
        let output = child.env(FOLDER, folder.path()).env("PART", part).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{part}: {text}{output:?}");
        let ended = std::fs::read_to_string(folder.path().join("end")).unwrap();
        assert_eq!(ended, end, "{part}");
    }
    let effects = std::fs::read_to_string(folder.path().join("effects")).unwrap();
    assert_eq!(effects.lines().collect::<Vec<_>>(), ["10", "20", "30", "40"]);
}

/// A process of the test above.
#[tokio::test]
#[ignore = "is run by another test"]
async fn a_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let part = std::env::var("PART").unwrap();
    let end = run(&folder, &part).await;
    std::fs::write(folder.join("end"), end).unwrap();
}

async fn run(folder: &Path, part: &str) -> String {
    let effects = folder.join("effects");
    let pay = tool_fn("pay", "Pays.", move |order: Order, _cx| {
        let file = OpenOptions::new().create(true).append(true).open(&effects);
        writeln!(file.unwrap(), "{}", order.number).unwrap();
        async move { Ok::<_, ToolError>(format!("paid {}", order.number)) }
    });
    // The last reply quotes the output of the script.
    let model = ScriptedModel::new([]).reply_with(|request| {
        let last = request.messages.last().unwrap().text();
        match last.strip_prefix("Output of the script:\n") {
            Some(output) => Script::text(&output.replace('\'', "")),
            None => script(CODE),
        }
    });
    let store = Sqlite::open(folder.join("sessions.db")).unwrap();
    let clock = TestClock::default();
    if part == "days later" {
        clock.advance(std::time::Duration::from_secs(5 * 24 * 3600)).await;
    }
    let agent = GenericAgent::builder(model, code_mode())
        .tool(get_order())
        .tool(pay.effect(Effect::AtMostOnce).approval(Approval::Always))
        .environment(clock);
    let handle = agent.build().unwrap().open(&store, "s").await.unwrap();
    if part == "start" {
        let outcome = handle.prompt("Pay.").await.unwrap();
        assert_eq!(outcome.end, RunStatus::AwaitingAction);
        return format!("{:?}", outcome.end);
    }
    let pending = handle.pending().await.unwrap();
    handle.resolve(&pending[0], Decision::Approve).await.unwrap();
    handle.wait_for_idle().await;
    let state = handle.state().await.unwrap();
    if !handle.pending().await.unwrap().is_empty() {
        return "AwaitingAction".to_owned();
    }
    let last = state.messages.last().unwrap().text();
    handle.close().await;
    format!("Done: {last}")
}
