//! `Goal` around `PiPattern`: the agent writes code until its tests pass.
//!
//! The tests are a tool that the pattern calls itself after each answer. With `execute_command`,
//! `Goal::command("cargo test", PiPattern)` does the same. The first attempt fails, and the model
//! reads why.

use std::error::Error;
use std::sync::{Arc, Mutex};

use loopwright::limits::Budget;
use loopwright::patterns::{Goal, PiPattern};
use loopwright::session::Call;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, ToolError, Tools as _, tools};
use serde_json::json;

#[derive(Default)]
struct Project(Mutex<String>);

#[tools]
impl Project {
    /// Replaces the code.
    #[tool(idempotent, approval = never)]
    fn write_code(&self, code: String) -> Result<String, ToolError> {
        *self.0.lock().map_err(|_| ToolError::failed("the project is broken"))? = code;
        Ok("written".into())
    }

    /// Runs the tests.
    #[tool(read_only)]
    fn run_tests(&self) -> Result<String, ToolError> {
        let code = self.0.lock().map_err(|_| ToolError::failed("the project is broken"))?;
        match code.contains("a + b") {
            true => Ok("3 tests passed".into()),
            false => Err(ToolError::failed(format!("add(1, 2) is not 3: {code}"))),
        }
    }
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let write = |id, code: &str| Script::calls([(id, "write_code", json!({ "code": code }))]);
    let model = ScriptedModel::new([
        write("1", "a - b"),
        Script::text("Done."),
        write("2", "a + b"),
        Script::text("It added the wrong way round; now it adds."),
    ]);
    let tests = Call::new("run_tests", json!({}));
    let pattern = Goal::call(tests, PiPattern).rounds(5).budget(Budget::default().turns(20));
    let project = Arc::new(Project::default());
    let agent = GenericAgent::builder(model, pattern).tools(project.tools()).build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("Write `add`.").await?;

    for message in handle.state().await?.messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    assert!(outcome.text.ends_with("now it adds."));
    Ok(())
}
