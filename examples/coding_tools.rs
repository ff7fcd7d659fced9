//! The coding tools: an agent that reads and edits files, in one directory only.
//!
//! `cargo run --example coding_tools`
//!
//! Reading needs no approval. For a write, the approver sees the change that the call would make.

use std::error::Error;
use std::fs;

use loopwright::GenericAgent;
use loopwright::event::{ActionResult, Decision, change_digest};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tools::{Workspace, coding_tools};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("greeting.txt"), "Hello, wrold!\n")?;
    let edit = json!({"path": "greeting.txt", "old_string": "wrold", "new_string": "world"});
    let model = ScriptedModel::new([
        Script::calls([
            ("r", "read_file", json!({"path": "greeting.txt"})),
            ("x", "read_file", json!({"path": "../../etc/passwd"})),
        ]),
        Script::calls([("e", "edit_file", edit)]),
        Script::text("The greeting is corrected."),
    ]);
    let tools = coding_tools(Workspace::open(folder.path())?);
    let agent = GenericAgent::builder(model, PiPattern).tools(tools).build()?;
    let handle = agent.session().await?;
    handle.prompt("Correct the greeting.").await?;

    for action in handle.pending().await? {
        let preview = agent.preview(&action).await?;
        println!("{} waits:\n{}", action.name, preview.as_deref().unwrap_or_default());
        // If the file changes before the call starts, the edit does not run.
        let approval = ActionResult::new(action.call, action.digest, Decision::Approve);
        handle.send(approval.change(preview.as_deref().map(change_digest))).await?;
    }
    handle.wait_for_idle().await;
    let messages = handle.state().await?.messages;
    for result in messages.iter().filter_map(|message| message.as_tool_result()) {
        println!("{}: {:?}", result.call, result.status);
    }
    println!("{}", messages.last().map(|message| message.text()).unwrap_or_default());
    print!("{}", fs::read_to_string(folder.path().join("greeting.txt"))?);
    Ok(())
}
